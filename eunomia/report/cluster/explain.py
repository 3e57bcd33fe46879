"""The story of one job, from what was recorded at its choices: why it waited, who was ahead, by which numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, RecordError, UnknownNameError
from eunomia.core.records import RunRecords
from eunomia.report.table import Table
from eunomia.report.units import duration, three_digits

SHOWN_WAITS, SHOWN_RIVALS = 12, 8


@dataclass(frozen=True)
class Turn:
    """One point at which the job was passed over, on the type where its priority was highest."""

    time_s: float
    wait_s: float  # until the next point
    type: str
    priority: float
    share: float
    deficit_s: float
    lowest_served: float  # priority of the last unit that got devices there; nan = none did
    free: int  # devices of that type left when everybody was served
    reason: str


@dataclass(frozen=True)
class Rival:
    """Somebody who held devices that the job could have used while it waited."""

    job: str
    held_s: float  # device-seconds during its waits
    higher: int  # points at which their priority was higher
    points: int
    priority: float  # theirs, at the first of these points
    arrival_s: float


@dataclass(frozen=True)
class JobStory:
    """What is known of one job of one run."""

    policy: str
    facts: Data
    turns: tuple[Turn, ...]
    rivals: tuple[Rival, ...]
    reasons: dict[str, float]  # reason -> seconds
    outright: bool  # the policy hands out devices itself, there is no queue of priorities

    def as_table(self) -> Data:
        """For JSON."""
        return asdict(self)

    def text(self) -> str:
        """For people."""
        f = self.facts
        lines = [
            f"job {f['job']} under {self.policy}: {f['job_type']}, {f['scale_factor']} "
            f"worker{'s' if f['scale_factor'] > 1 else ''}, tenant '{f['tenant']}', weight {f['weight']:g}",
            f"arrived at {duration(f['arrival_s'])}, first ran after {duration(f['waited_first_s'])}, {f['ending']}",
            f"alone on its fastest type it takes {duration(f['alone_s'])}; with its isolated share at each moment "
            f"{duration(f['isolated_s'])}; rho {three_digits(f['rho'])}" if f["rho"] == f["rho"] else
            f"alone on its fastest type it takes {duration(f['alone_s'])}",
            f"preempted {f['preemptions']} times, moved {f['moves']} times, met {f['failures']} failures; "
            f"{duration(f['overhead_s'])} device-time of restarts, {duration(f['lost_s'])} lost",
        ]  # fmt: skip
        if not self.turns:
            lines.append("it never waited at a point where devices were handed out")
            return "\n".join(lines) + "\n"
        total = sum(self.reasons.values())
        lines.append("")
        lines.append(f"it waited {duration(total)} in {len(self.turns)} rounds:")
        lines += [
            f"  {duration(s):>9}  {reason}" for reason, s in sorted(self.reasons.items(), key=lambda r: -r[1])
        ]
        lines += self.would_have_run()
        lines += ["", self._turns_table().text().rstrip("\n")]
        if len(self.turns) > SHOWN_WAITS:
            lines.append(f"... and {len(self.turns) - SHOWN_WAITS} more rounds")
        if self.rivals:
            lines += ["", "who held what it could have used:", self._rivals_table().text().rstrip("\n")]
        return "\n".join(lines) + "\n"

    def would_have_run(self) -> list[str]:
        """The numbers nearest to what happened with which it would have run: devices, and its priority."""
        short = [self.facts["scale_factor"] - turn.free for turn in self.turns]
        missing = [count for count in short if count > 0]
        said = []
        if missing:
            least, at = min(missing), missing.count(min(missing))
            kind = self.turns[short.index(least)].type
            said.append(
                f"with {least} more {kind!r} device{'s' if least > 1 else ''} left over it would have run at {at} of "
                f"these {len(short)} points"
                + (f", with {max(missing)} at every one" if max(missing) > least else "")
            )
        behind = [t for t in self.turns if not self.outright and t.lowest_served >= t.priority]
        if behind:
            near = min(behind, key=lambda turn: turn.lowest_served - turn.priority)
            said.append(
                f"at {duration(near.time_s)} it lacked least: its priority was {near.priority:.3g}, the last that ran "
                f"had {near.lowest_served:.3g}"
            )
        return ["what would have changed that:", *(f"  {text}" for text in said)] if said else []

    def _turns_table(self) -> Table:
        rows = [
            (duration(t.time_s), t.type, *self._numbers(t), str(t.free), t.reason)
            for t in self.turns[:SHOWN_WAITS]
        ]
        numbers = () if self.outright else ("share", "priority", "last served")
        return Table(("at", "type", *numbers, "left over", "why"), tuple(rows))

    def _numbers(self, turn: Turn) -> tuple[str, ...]:
        if self.outright:
            return ()
        return f"{turn.share:.3f}", f"{turn.priority:.3g}", f"{turn.lowest_served:.3g}"

    def _rivals_table(self) -> Table:
        rows = tuple(
            (r.job, duration(r.held_s), duration(r.arrival_s))
            + (() if self.outright else (f"{r.priority:.3g}", f"{r.higher} of {r.points}"))
            for r in self.rivals
        )
        numbers = () if self.outright else ("its priority", "higher at")
        return Table(("job", "device-time", "arrived at", *numbers), rows)


def explain_job(run: RunRecords, job: str) -> JobStory:
    """The story of ``job`` in ``run``. Raises ConfigError for a job that is not there, RecordError without choices."""
    jobs, choices = run["jobs"], run["choices"]
    ids = jobs["job"].to_pylist()
    if job not in ids:
        if len(ids) <= 60:
            raise UnknownNameError("job", job, ids)
        raise ConfigError(f"unknown job '{job}'; the run has {len(ids)} jobs, from '{ids[0]}' to '{ids[-1]}'")
    row = jobs.slice(ids.index(job), 1).to_pylist()[0]
    if not choices.num_rows:
        raise RecordError(f"run of policy '{run.policy}' has no recorded choices, so nothing explains a wait")
    points = _points(choices)
    turns, held = _turns(run, choices, points, job, row)
    rivals = _rivals(jobs, choices, job, turns, held)
    reasons: dict[str, float] = {}
    for turn in turns:
        kind = turn.reason.partition(":")[0]
        reasons[kind] = reasons.get(kind, 0.0) + turn.wait_s
    outright = bool(pc.max(pc.abs(pc.fill_null(choices["priority"], 0.0))).as_py() == 0.0)
    return JobStory(run.policy, _facts(run, row), tuple(turns), tuple(rivals), reasons, outright)


def _facts(run: RunRecords, row: Data) -> Data:
    jct = None if row["finish_s"] is None else row["finish_s"] - row["arrival_s"]
    rho = jct / row["isolated_s"] if jct is not None and row["isolated_s"] else float("nan")
    ending = {
        "finished": f"finished after {duration(jct)}",
        "unfinished": f"not finished at the end ({duration(run.manifest['end_s'])})",
        "dropped": "dropped by Gavel's rule for last micro-tasks",
    }[row["outcome"]]
    waited = None if row["start_s"] is None else row["start_s"] - row["arrival_s"]
    return {**row, "rho": rho, "jct_s": jct, "waited_first_s": waited, "ending": ending}


def _points(choices: pa.Table) -> dict[int, float]:
    """Time of every point, in order."""
    numbers, first = np.unique(choices["point"].to_numpy(), return_index=True)
    times = choices["time_s"].to_numpy()[first]
    return dict(zip(numbers.tolist(), times.tolist(), strict=True))


def _turns(
    run: RunRecords, choices: pa.Table, points: dict[int, float], job: str, row: Data
) -> tuple[list[Turn], list[pa.Table]]:
    """Points at which the job was there and got nothing, and who got devices of the type it wanted most."""
    capacity = {d["type"]: d["count"] for d in run["devices"].to_pylist()}
    own = choices.filter(_member(choices, job))
    ran_at = set(own.filter(own["ran"])["point"].to_pylist())
    times = list(points.values())
    place = {number: index for index, number in enumerate(points)}
    end_s = row["finish_s"] if row["finish_s"] is not None else run.manifest["end_s"]
    alone = own.filter(pc.and_(pc.is_null(own["partner"]), pc.is_valid(own["priority"])))
    wanted: dict[int, Data] = {}
    for entry in alone.to_pylist():
        best = wanted.get(entry["point"])
        if entry["point"] not in ran_at and (best is None or entry["priority"] > best["priority"]):
            wanted[entry["point"]] = entry
    starts = np.searchsorted(choices["point"].to_numpy(), list(wanted) or [0], "left")
    ends = np.searchsorted(choices["point"].to_numpy(), list(wanted) or [0], "right")
    turns, served_by = [], []
    for (number, entry), a, b in zip(wanted.items(), starts, ends, strict=False):
        here = choices.slice(a, b - a)
        mask = pc.and_(here["ran"], pc.equal(here["type"].cast(pa.string()), entry["type"]))
        served = here.filter(mask)
        priorities = served["priority"].to_numpy(zero_copy_only=False)
        lowest = float(np.nanmin(priorities)) if len(priorities) else float("nan")
        used = int(sum(served["scale_factor"].to_pylist()))
        free = capacity[entry["type"]] - used
        after = times[place[number] + 1] if place[number] + 1 < len(times) else end_s
        turns.append(
            Turn(
                entry["time_s"], max(min(after, end_s) - entry["time_s"], 0.0), entry["type"], entry["priority"],
                entry["share"], entry["deficit_s"], lowest, free,
                entry.get("reason") or _reason(entry, priorities, free),
            )
        )  # fmt: skip
        served_by.append(served)
    return turns, served_by


def _reason(entry: Data, served: np.ndarray, free: int) -> str:
    need = entry["scale_factor"]
    if free >= need:
        return "the policy left devices free"
    if not np.any(served != 0.0) and entry["priority"] == 0.0:
        return "others came first by the policy's own order"
    if len(served) and entry["priority"] < np.nanmin(served):
        return "everybody who ran had a higher priority"
    if entry["share"] == 0.0:
        return "it has no share of this type (yet)"
    if need > 1:
        return f"fewer than its {need} devices were left when its turn came"
    return "its turn came after the devices were gone"


def _rivals(
    jobs: pa.Table, choices: pa.Table, job: str, turns: list[Turn], served_by: list[pa.Table]
) -> list[Rival]:
    found: dict[str, list[float]] = {}
    for turn, served in zip(turns, served_by, strict=True):
        for entry in served.to_pylist():
            name = entry["job"] if entry["partner"] is None else f"{entry['job']}+{entry['partner']}"
            item = found.setdefault(name, [0.0, 0.0, 0.0, entry["priority"]])
            item[0] += turn.wait_s * entry["scale_factor"]
            item[1] += entry["priority"] > turn.priority
            item[2] += 1
    arrival = dict(zip(jobs["job"].to_pylist(), jobs["arrival_s"].to_pylist(), strict=True))
    ranked = sorted(found.items(), key=lambda item: -item[1][0])[:SHOWN_RIVALS]
    return [
        Rival(name, v[0], int(v[1]), int(v[2]), v[3], arrival[name.split("+")[0]] if name.split("+")[0] in arrival
              else float("nan"))
        for name, v in ranked
    ]  # fmt: skip


def _member(choices: pa.Table, job: str) -> pa.ChunkedArray:
    """Rows whose unit has the job in it."""
    first = pc.equal(choices["job"].cast(pa.string()), job)
    second = pc.fill_null(pc.equal(choices["partner"].cast(pa.string()), job), False)
    return pc.or_(first, second)
