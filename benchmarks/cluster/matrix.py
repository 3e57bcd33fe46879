"""Parity as a matrix: every policy of Gavel's command line on twelve traces, with Gavel's own code as the judge.

Traces: Gavel's trace A with both throughput tables, and ten by the settings of Gavel's generators (single and multi
GPU, priorities, whole hours, all at once; all with deadlines, which only the policies of deadlines look at). Compatible
mode with Gavel's rule that drops jobs. ``--set gavel=FOLDER``: ``scheduler`` in a clone of stanford-futuredata/gavel;
``--set python=FILE``: an interpreter that can run it (:mod:`benchmarks.cluster.gavel_driver`). Needs the shared data;
what Gavel answered is kept in runs/.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from benchmarks.cluster import gavel_driver
from benchmarks.cluster.scenes import KINDS, drawn, trace_a
from benchmarks.kept import FOLDER, kept
from benchmarks.page import shared
from benchmarks.table import Cell, Options, Table, table
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.core.atomic import write_text
from eunomia.metrics.statistics import interval, paired_ratio

MOST_BEHIND, NEAR = 0.01, 0.005
DEADLINES = "max_sum_throughput_normalized_by_cost_packed_SLOs"
DRAWN = (  # policies whose default is more than 1 % behind in one draw: of the order of types, or (anew) of the jobs
    ("min_total_duration", "A", False),
    ("min_total_duration", "A, physical", False),
    ("max_min_fairness_water_filling", "M4", False),
    (DEADLINES, "S2", True),
    (DEADLINES, "S3", True),
)
SECONDS = 900  # for one simulation of Gavel's
GAVEL: Mapping[str, object] = {"solver": "as_gavel"}
CODED: Mapping[str, object] = {"as_gavel": True}
V100 = {"reference_type": "v100"}
Times = list[float]
single = partial(drawn, multi_gpu=False, slos=True)
multi = partial(drawn, slos=True)
TRACES: dict[str, Callable[[], ClusterProblem]] = {
    "A": trace_a,
    "A, physical": partial(trace_a, "physical_cluster"),
    "S1": partial(single, 30, 1800.0, (4, 4, 4), 11),
    "S2": partial(single, 30, 900.0, (2, 4, 6), 12),
    "S3": partial(single, 30, 600.0, (4, 4, 4), 13, priorities=True),
    "S4": partial(single, 24, 1.0, (4, 4, 4), 19, kind="static"),
    "S5": partial(single, 30, 600.0, (4, 4, 4), 17, kind="hours"),
    "M1": partial(multi, 30, 1800.0, (8, 8, 8), 14),
    "M2": partial(multi, 30, 900.0, (8, 8, 8), 15, priorities=True),
    "M3": partial(multi, 30, 3600.0, (8, 8, 8), 16),
    "M4": partial(multi, 30, 600.0, (4, 4, 4), 18, kind="hours"),
    "M5": partial(multi, 24, 1.0, (8, 8, 8), 20, kind="static"),
}
ANEW = {  # other jobs by the settings of S2 and S3
    "S2": lambda seed: single(30, 900.0, (2, 4, 6), 101 + seed),
    "S3": lambda seed: single(30, 600.0, (4, 4, 4), 101 + seed, priorities=True),
}


@dataclass(frozen=True)
class Row:
    """A policy, Gavel's name of it if it is another, settings; ``gavel``: what makes it Gavel's, if anything."""

    name: str
    theirs: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    gavel: Mapping[str, object] = field(default_factory=lambda: GAVEL)


ROWS = (
    Row("isolated", gavel={}),
    Row("fifo", gavel=CODED),
    Row("fifo_perf", gavel={}),
    Row("fifo_packed", gavel={}),
    Row("allox", settings={"alpha": 1.0}, gavel=CODED),
    Row("gandiva_packed", "gandiva", gavel=CODED),
    *(Row(f"max_min_fairness{end}") for end in ("", "_perf", "_packed")),
    *(Row(f"max_min_fairness_water_filling{end}") for end in ("", "_perf", "_packed")),
    Row("finish_time_fairness", settings=V100),
    *(Row(f"finish_time_fairness{end}") for end in ("_perf", "_packed")),
    Row("min_total_duration", settings=V100),
    *(Row(f"min_total_duration{end}") for end in ("_perf", "_packed")),
    Row("max_sum_throughput_perf"),
    *(Row(f"max_sum_throughput_normalized_by_cost_{end}") for end in ("perf", "perf_SLOs", "packed_SLOs")),
)


def by_gavel(name: str, row: Row, options: Options) -> Times | str:
    """Completion times by Gavel's own code, nan = dropped; or how it ended."""
    problem, table_of = TRACES[name](), "physical_cluster" if "physical" in name else "simulation"
    duration = problem.total_steps / np.maximum(problem.speed[:, 0], 1e-9)
    slo = (problem.deadline_s - problem.arrival_s) / duration
    jobs = [
        [job.job_type, job.total_steps, float(d), job.scale_factor, job.weight, s if np.isfinite(s) else None]
        for job, d, s in zip(problem.jobs, duration, slo, strict=True)
    ]
    types = problem.cluster.types
    asked = {
        "policy": row.theirs or row.name,
        "seed": 0,
        "throughputs": str(shared() / "gavel" / f"{table_of}_throughputs.json"),
        "jobs": jobs,
        "arrivals": problem.arrival_s.tolist(),
        "counts": dict(zip(KINDS, problem.cluster.counts.tolist(), strict=True)),
        "per_server": 4,
        "prices": {kind.name: kind.cost_per_hour for kind in types},
    }
    text = json.dumps(asked, sort_keys=True)
    path = FOLDER / "gavel" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    if not path.exists():
        if "gavel" not in options.given:
            return "not asked"
        command = [options.given.get("python", "python"), gavel_driver.__file__, options.given["gavel"]]
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, timeout=SECONDS, check=True
            )
            answer = done.stdout
        except subprocess.TimeoutExpired:
            answer = json.dumps({"crash": f"not done after {SECONDS} s"})
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, answer)
    found = json.loads(path.read_text(encoding="utf-8"))
    if "crash" in found:
        return str(found["crash"])
    return [float("nan") if value is None else float(value) for value in found["times_s"]]


def by_us(
    name: str, row: Row, more: Mapping[str, object], seed: int = 0, anew: bool = False
) -> dict[str, Times]:
    """Completion times in compatible mode, nan = dropped. ``seed``: of the run; if ``anew``, of the jobs, too."""
    problem = ANEW[name](seed) if anew else TRACES[name]()
    options = SimulationOptions.gavel(seed, record="jobs", drop_rule=True)
    run = simulate_cluster(problem, allocator(row.name, **{**row.settings, **more}), options, row.name)
    return {"times_s": (run.ledger.finish_s - problem.arrival_s).tolist()}


@dataclass
class Cellwise:
    """What is known of one policy on one trace: completion times by solver, and Gavel's."""

    gavel: Times | str
    as_gavel: Times | str
    default: Times | str

    def over(self, one: str, other: str) -> float:
        """Mean completion of the jobs that both finished, one over the other, less 1; nan = not known."""
        ours, theirs = getattr(self, one), getattr(self, other)
        if isinstance(ours, str) or isinstance(theirs, str):
            return float("nan")
        a, b = np.array(ours), np.array(theirs)
        known = ~np.isnan(a) & ~np.isnan(b)
        return float(a[known].mean() / b[known].mean() - 1.0)

    def near(self) -> float:
        """Part of the jobs within 0.5 % of Gavel's times."""
        if isinstance(self.gavel, str) or isinstance(self.as_gavel, str):
            return float("nan")
        ratio = np.array(self.as_gavel) / np.array(self.gavel)
        return float((np.abs(ratio[~np.isnan(ratio)] - 1.0) <= NEAR).mean())


def cell(name: str, row: Row, options: Options) -> Cellwise:
    """One cell of the matrix; where Gavel's code gives no answer, ours is not asked."""
    theirs = by_gavel(name, row, options)
    if isinstance(theirs, str):
        return Cellwise(theirs, theirs, theirs)
    found = []
    for more in ({}, row.gavel) if row.gavel else ({},):
        what = {"trace": name, "policy": row.name, **row.settings, **more}
        told = kept("matrix", what, partial(by_us, name, row, more))
        found.append(told["times_s"])
    return Cellwise(theirs, found[-1], found[0])


def draws(name: str, row: Row, seeds: range, anew: bool) -> list[Cell]:
    """Both solvers over several draws, paired: of the order in which an agnostic policy serves types, or of jobs."""
    means: dict[bool, list[float]] = {True: [], False: []}
    for seed in seeds:
        for as_gavel, found in means.items():
            what = {"trace": name, "policy": row.name, "seed": seed, "as_gavel": as_gavel, "anew": anew}
            more = row.gavel if as_gavel else {}
            told = kept("matrix-draws", what, partial(by_us, name, row, more, seed, anew))
            found.append(float(np.nanmean(np.array(told["times_s"], float))) / 3600.0)
    trace, ours, theirs = f"{name}, other jobs" if anew else name, means[False], means[True]
    return [row.name, trace, interval(ours), interval(theirs), paired_ratio(ours, theirs)]


def line(row: Row, cells: Sequence[Cellwise]) -> list[Cell]:
    """A policy over all traces."""
    off = [one.over("as_gavel", "gavel") for one in cells]
    known = [value for value in off if value == value]
    own = [one.over("default", "gavel") for one in cells]
    behind = [one.over("default", "as_gavel") for one in cells]
    judged: list[Cell] = [float("nan")] * 4
    if known:
        near = float(np.nanmean([one.near() for one in cells]))
        judged = [float(np.mean(known)), max(known, key=abs), near, float(np.nanmax(own))]
    last: list[Cell] = [float("nan"), float("nan"), None]
    if row.gavel:
        last = [float(np.nanmean(behind)), float(np.nanmax(behind)), bool(np.nanmax(behind) <= MOST_BEHIND)]
    return [row.name, len(known), *judged, *last]


def text(one: Cellwise) -> str:
    """A cell as it is printed."""
    if isinstance(one.gavel, str):
        return "no answer"
    return f"{one.over('as_gavel', 'gavel'):+.2%}".replace("%", " %")


COLUMNS = (
    "policy; judged; as_gavel over Gavel|+.2%; furthest|+.2%; jobs within 0.5 %|.0%; default, furthest behind|+.2%; "
    "default over as_gavel|+.2%; furthest behind|+.2%; at most 1 % behind"
)


def measure(options: Options) -> Iterator[Table]:
    """By policy, by trace, by draw of the order of types; ``--only`` POLICY or ``draws``; the quick run is a part."""
    traces = list(TRACES)[2:3] if options.quick else list(TRACES)
    rows = [row for row in ROWS if options.wants(row.name)][: 3 if options.quick else None]
    cells = {row.name: [cell(name, row, options) for name in traces] for row in rows}
    failed = {one.gavel for ones in cells.values() for one in ones if isinstance(one.gavel, str)}
    said = "; ".join(sorted({re.sub(r" \(\d+, \d+\)|, or solve.*|:? *$", "", error) for error in failed}))
    notes = [f"Gavel's code gives no answer: {said}."] if said else []
    if rows:
        yield table("all", COLUMNS, [line(row, cells[row.name]) for row in rows])
        shown = [[row.name, *map(text, cells[row.name])] for row in rows]
        yield table("traces", "; ".join(["policy", *traces]), shown, notes)
    if options.wants("draws"):
        by_name = {row.name: row for row in ROWS}
        columns = "policy; trace; mean completion, h|.3f; as_gavel, h|.3f; one over the other|.4f"
        yield table(
            "draws",
            columns,
            [draws(at, by_name[name], options.seeds_or(8), anew) for name, at, anew in DRAWN],
        )
