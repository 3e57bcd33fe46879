"""A real private Slurm beside the simulator: start decisions of slurmctld, and 200 jobs under five schedulers.

Parts: decisions, jobs. What was recorded in ``runs/benchmarks/slurm`` is used again, so a stopped command goes on where
it was; ``--workers``: how many private Slurms at once. Needs Slurm (Debian: slurmctld slurmd slurm-client) and root.
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
    count = 12 if options.quick else JOBS
    folder = KEPT if not options.quick else Path(tempfile.mkdtemp())
    tried, asked = made_up(*CALIBRATION)[:count], made_up(count, SEED)

    def live(policy: str, given: list[Asked], name: str, killed: bool = False) -> Facts:
        kills_s, controller_s = (KILLS_S, CONTROLLER_S) if killed else ((), math.inf)
        place = Path(tempfile.mkdtemp(prefix="slurm"))
        return kept(
            (folder / f"{name}-{policy}.json").resolve(), Live(policy, given, place, kills_s, controller_s)
        )

    with ThreadPoolExecutor(options.workers) as pool:
        first = [pool.submit(live, policy, tried, "calib") for policy in (POLICIES[0], ALONE)]
        quiet = [pool.submit(live, policy, asked, "quiet") for policy in POLICIES]
        killed = [pool.submit(live, policy, asked, "killed", True) for policy in POLICIES if policy != ALONE]
        gaps_s = [switches(run.result(), tried) for run in first]
        kept_by_daemon, kept_by_slurm = (float(np.mean(each)) for each in gaps_s)
        late_s = {policy: kept_by_slurm if policy == ALONE else kept_by_daemon for policy in POLICIES}
        calm, hit = [run.result() for run in quiet], [run.result() for run in killed]
    note = (
        f"Latency declared to the simulator at each start: {kept_by_daemon:.2f} s (mean of {len(gaps_s[0])} starts of "
        f"another run), without a daemon {kept_by_slurm:.2f} s (of {len(gaps_s[1])})."
    )
    yield compared("completion", calm, asked, late_s, note)
    yield compared(
        "killed", hit, asked, late_s, "Daemons killed three times, slurmctld once; the simulator is not."
    )
    yield shared(calm, asked, late_s)
    yield once(calm + hit, asked)


def compared(name: str, found: list[Facts], asked: list[Asked], late_s: dict[str, float], note: str) -> Table:
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
        rows.append((policy, took_s, would_s, without, own_s, later_s, within, last_s, would_last_s, apart))
    return table(
        name,
        "scheduler; mean completion, s|.1f; simulated, s|.1f; difference|+.1%; latency in this run, s|.2f; "
        "simulated with it, s|.1f; difference from that|+.1%; all done after, s|.0f; simulated|.0f; "
        "largest difference of an account's share, points|.1f",
        rows,
        [note],
    )


def shared(found: list[Facts], asked: list[Asked], late_s: dict[str, float]) -> Table:
    """Each account's part, live and simulated, by policy."""
    window_s = asked[-1].at_s
    rows: list[tuple[Cell, ...]] = []
    for facts in found:
        policy = str(facts["policy"])
        pair = parts(facts, asked, window_s), parts(simulated(policy, asked, late_s[policy]), asked, window_s)
        rows.append((policy, *(one[account] for account in WEIGHTS for one in pair)))
    return table(
        "shares",
        "scheduler; " + "; ".join(f"{account}|.1%; simulated|.1%" for account in WEIGHTS),
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
        rows.append((str(facts["policy"]), len(asked), ended, whole, back, *killed))
    return table(
        "once",
        "scheduler; jobs; ended once, with 0; every step once; leases that were taken back; daemon killed; "
        "slurmctld killed",
        rows,
    )
