"""A real private Slurm beside the simulator: start decisions of slurmctld, and 200 jobs under five schedulers.

Parts: decisions, jobs. What was recorded in ``runs/benchmarks/slurm`` is used again, so a stopped command goes on where
it was; ``--workers``: how many private Slurms at once. Needs Slurm (Debian: slurmctld slurmd slurm-client) and root.
``--set schedulers=NAME,NAME --set kills=no``: these only; the rows of others stay, each with the commit of its run.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.kept import FOLDER
from benchmarks.page import stored
from benchmarks.slurm.decisions import MODELS, Event, as_lines, judge, record
from benchmarks.slurm.jobs import WEIGHTS, Asked, made_up
from benchmarks.slurm.live import Facts, Live, kept
from benchmarks.slurm.twin import ends_of, leases_of, parts, simulated, switches, times
from benchmarks.table import Cell, Options, Table, table

KEPT = FOLDER / "slurm"
SEEDS, STARTS = 4, 130
ALONE = "slurm"  # no daemon
POLICIES = ("max_min_fairness_perf", "finish_time_fairness_perf", "themis", "least_attained_service", ALONE)
JOBS, SEED = 200, 1
CALIBRATION = (40, 99)  # jobs, seed
KILLS_S, CONTROLLER_S = (100.0, 200.0, 300.0), 250.0


def measure(options: Options) -> Iterator[Table]:
    """The tables."""
    if options.wants("decisions"):
        yield decisions(options)
    if options.wants("jobs"):
        yield from jobs(options)


def decisions(options: Options) -> Table:
    """Agreement of each model with slurmctld."""
    folder = KEPT if not options.quick else Path(tempfile.mkdtemp())
    seeds, starts = list(options.seeds_or(SEEDS)), 10 if options.quick else STARTS

    def recorded(seed: int) -> list[Event]:
        path = (folder / f"decisions-{seed}.jsonl").resolve()
        if not path.exists():
            record(path, Path(tempfile.mkdtemp(prefix="slurm")), seed, starts)
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    with ThreadPoolExecutor(options.workers) as pool:
        found = list(pool.map(recorded, seeds))
    rows = []
    for name, settings in MODELS.items():
        verdicts = [judge(events, settings) for events in found]
        agreed, missed, extra = (
            sum(getattr(v, what) for v in verdicts) for what in ("agreed", "missed", "extra")
        )
        rows.append(
            (name, agreed, missed, extra, agreed / (agreed + missed + extra), min(v.part for v in verdicts))
        )
    made = table(
        "decisions",
        "model; both start; only Slurm starts; only the model starts; agreement|.1%; worst seed|.1%",
        rows,
        [f"{len(found)} seeds, {rows[0][1] + rows[0][2]} starts of slurmctld."],
    )
    lines = "".join(as_lines(events, seed) for seed, events in zip(seeds, found, strict=True))
    return replace(made, files={"results/data/slurm-decisions.jsonl": lines})


def jobs(options: Options) -> Iterator[Table]:
    """Shares and completion of live runs without and with kills beside the simulator's; is each step done once?"""
    names, kills = chosen(options)
    count = 12 if options.quick else JOBS
    folder = KEPT if not options.quick else Path(tempfile.mkdtemp())
    tried, asked = made_up(*CALIBRATION)[:count], made_up(count, SEED)

    def live(policy: str, given: list[Asked], name: str, killed: bool = False) -> Facts:
        kills_s, controller_s = (KILLS_S, CONTROLLER_S) if killed else ((), math.inf)
        place = Path(tempfile.mkdtemp(prefix="slurm"))
        path = (folder / f"{name}-{policy}.json").resolve()
        return kept(path, Live(policy, given, place, kills_s, controller_s))

    with ThreadPoolExecutor(options.workers) as pool:
        beside = dict.fromkeys(ALONE if name == ALONE else POLICIES[0] for name in names)
        first = {name: pool.submit(live, name, tried, "calib") for name in beside}
        quiet = [pool.submit(live, policy, asked, "quiet") for policy in names]
        killed = [
            pool.submit(live, policy, asked, "killed", True) for policy in names if policy != ALONE and kills
        ]
        other_s = {name: float(np.mean(switches(run.result(), tried))) for name, run in first.items()}
        late_s = {policy: other_s[ALONE if policy == ALONE else POLICIES[0]] for policy in names}
        calm, hit = [run.result() for run in quiet], [run.result() for run in killed]
    keep = not options.quick
    yield joined(compared("completion", calm, asked, late_s), keep)
    if hit:
        yield joined(compared("killed", hit, asked, late_s), keep)
    yield joined(shared(calm, asked, late_s), keep)
    yield joined(once(calm + hit, asked), keep)


def chosen(options: Options) -> tuple[list[str], bool]:
    """Schedulers, and whether runs with kills are wanted. Ends with a sentence for a wrong word."""
    names = options.given.get("schedulers", ",".join(POLICIES)).split(",")
    if wrong := [name for name in names if name not in POLICIES]:
        raise SystemExit(f"--set schedulers={wrong[0]}: known are {', '.join(POLICIES)}")
    return [name for name in POLICIES if name in names], options.says_yes("kills", "yes")


def joined(made: Table, keep: bool = True) -> Table:
    """With the rows of other schedulers that were measured before; each row ends with the commit of its run."""
    before = stored("slurm").get(made.key) if keep else None
    if before is None:
        return made

    def key(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
        return row[0], made.key == "once" and row[5]

    mine = {key(row) for row in made.rows}
    kept_rows = [row for row in before.rows if key(row) not in mine and len(row) == len(made.columns)]
    rows = sorted([*made.rows, *kept_rows], key=lambda row: (key(row)[1], POLICIES.index(str(row[0]))))
    return replace(made, rows=tuple(rows))


def compared(name: str, found: list[Facts], asked: list[Asked], late_s: dict[str, float]) -> Table:
    """Completion and shares, live and simulated, by policy; simulated with the latency of the run itself, too."""
    rows: list[tuple[Cell, ...]] = []
    window_s = asked[-1].at_s
    for facts in found:
        policy = str(facts["policy"])
        twin = simulated(policy, asked, late_s[policy])
        real, made = parts(facts, asked, window_s), parts(twin, asked, window_s)
        took_s, would_s = float(times(facts).mean()), float(times(twin).mean())
        last_s, would_last_s = (float(ends_of(one).max()) for one in (facts, twin))
        apart = 100.0 * max(abs(real[account] - made[account]) for account in real)
        own_s = float(np.mean(switches(facts, asked)))
        later_s = float(times(simulated(policy, asked, own_s)).mean())
        without, within = (took_s / one - 1.0 for one in (would_s, later_s))
        latency = late_s[policy], would_s, without, own_s, later_s, within
        rows.append((policy, took_s, *latency, last_s, would_last_s, apart, str(facts["commit"])))
    return table(
        name,
        "scheduler; mean completion, s|.1f; latency of another run, s|.2f; simulated with it, s|.1f; difference|+.1%; "
        "latency of this run, s|.2f; simulated with that, s|.1f; difference from that|+.1%; all done after, s|.0f; "
        "simulated|.0f; largest difference of an account's share, points|.1f; commit",
        rows,
        ["Daemons killed three times, slurmctld once; the simulator is not."] * (name == "killed"),
    )


def shared(found: list[Facts], asked: list[Asked], late_s: dict[str, float]) -> Table:
    """Each account's part, live and simulated, by policy."""
    window_s = asked[-1].at_s
    rows: list[tuple[Cell, ...]] = []
    for facts in found:
        policy = str(facts["policy"])
        pair = parts(facts, asked, window_s), parts(simulated(policy, asked, late_s[policy]), asked, window_s)
        rows.append((policy, *(one[account] for account in WEIGHTS for one in pair), str(facts["commit"])))
    return table(
        "shares",
        "scheduler; " + "; ".join(f"{account}|.1%; simulated|.1%" for account in WEIGHTS) + "; commit",
        rows,
        [f"Parts of all device-seconds of the first {window_s:.0f} s, no kills."],
    )


def once(found: list[Facts], asked: list[Asked]) -> Table:
    """Whether every job ended once and wrote each step once."""
    rows: list[tuple[Cell, ...]] = []
    for facts in found:
        kills: dict[str, list[float]] = facts["kills"]  # type: ignore[assignment]
        ended, whole = (int(str(facts[what])) for what in ("ended with 0", "steps once"))
        killed = [len(kills[name]) for name in ("daemon", "controller")]
        back = len(leases_of(facts)) - len(asked)
        rows.append((str(facts["policy"]), len(asked), ended, whole, back, *killed, str(facts["commit"])))
    return table(
        "once",
        "scheduler; jobs; ended once, with 0; every step once; leases that were taken back; daemon killed; "
        "slurmctld killed; commit",
        rows,
    )
