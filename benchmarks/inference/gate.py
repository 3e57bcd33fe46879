"""Where does the bandwidth gate help, where does it hurt, and what of MoCA's split?

Every rule runs with and without the gate under every way of sharing bandwidth, on the same requests. The gate of
each rule is chosen on validation traces, for each point and way of sharing by itself, "no gate" among the choices.
The quick run takes one point, two rules and short traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.inference.contest import sized
from benchmarks.table import Cell, Options, Table, table, text
from eunomia.inference.options import Contention
from eunomia.inference.problem import build_problem
from eunomia.metrics.statistics import Estimate, Floats, interval, paired_difference
from eunomia.study.inference.bench import Bench, prepare
from eunomia.study.inference.run import engine_options
from eunomia.study.inference.tuning import GATES, ValidationProblem, choose, grid, score, validation_seeds

MODES: tuple[Contention, ...] = ("proportional", "max_min", "weighted", "roofline", "roofline_static")
RULES = ("fcfs", "edf", "edf+pref", "edf+eft", "sjf+eft", "edf_bytes+pref", "edf_bytes+eft", "moca")
Point = tuple[float, float]  # GB/s, load
POINTS: tuple[Point, ...] = ((16.0, 0.7), (16.0, 1.0), (16.0, 1.3), (8.0, 1.0), (32.0, 1.0))
SHOWN = "edf+eft"  # the rule of the comparison with MoCA's split
FIXED = 0.9  # a gate that is not chosen, to see what a wrong one costs


@dataclass(frozen=True, eq=False)
class Line:
    """One rule at one point under one way of sharing: hit rates on the test traces."""

    point: Point
    mode: str
    rule: str
    gate: str  # as chosen
    plain: Floats
    gated: Floats
    fixed: Floats  # with the gate at FIXED, chosen or not

    @property
    def gain(self) -> Estimate:
        """Gated less plain, paired by trace."""
        return paired_difference(self.gated, self.plain)

    @property
    def blind_gain(self) -> Estimate:
        """The same with the gate that nobody chose."""
        return paired_difference(self.fixed, self.plain)


def traces(bench: Bench, mode: Contention, seeds: Sequence[int]) -> list[ValidationProblem]:
    """The requests of these seeds under one way of sharing; the load does not depend on it."""
    made = []
    for seed in seeds:
        options = replace(engine_options(bench.scenario, seed, "requests"), contention=mode)
        problem = build_problem(bench.requests(seed), bench.machine.table, bench.machine, options)
        made.append(ValidationProblem(problem, options, bench.scenario.warmup_s, bench.scenario.duration_s))
    return made


def lines_of(points: Sequence[Point], rules: Sequence[str], tests: range, requests: int) -> Iterator[Line]:
    """All rules at all points under all ways of sharing."""
    for gb_s, load in points:
        bench = prepare(sized("moca-mixed", load, gb_s, requests))
        for mode in MODES:
            validation, test = traces(bench, mode, validation_seeds(2)), traces(bench, mode, tests)
            for rule in rules:
                chosen = choose(grid(rule, gate=GATES), validation).name
                names = (rule, chosen, f"{rule}+g{FIXED:g}")
                rates = {
                    name: np.array([score(name, trace) for trace in test]) for name in dict.fromkeys(names)
                }
                gate = chosen.removeprefix(rule).removeprefix("+g") or "none"
                yield Line((gb_s, load), mode, rule, gate, *(rates[name] for name in names))
                print(f"{gb_s:g} GB/s, load {load:g}, {mode}, {rule}: gate {gate}", flush=True)


def _name(point: Point) -> str:
    return f"{point[0]:g} GB/s, load {point[1]:g}"


def _gain(estimate: Estimate) -> str:
    return "0" if estimate.mean == 0.0 == estimate.half_width else text(estimate, "+.1p")


def verdict(lines: Sequence[Line]) -> str:
    """Counts of significant gains and losses for each way of sharing."""
    words = []
    for mode in MODES:
        mine = [line for line in lines if line.mode == mode]
        helps = sum(line.gain.excludes_zero and line.gain.mean > 0 for line in mine)
        hurts = [line for line in mine if line.gain.excludes_zero and line.gain.mean < 0]
        most = max(mine, key=lambda line: line.gain.mean)
        words.append(
            f"* **{mode}**: of {len(mine)} pairs of rule and point the gate helps {helps} significantly and hurts "
            f"{len(hurts)}; most for `{most.rule}` at {_name(most.point)} ({_gain(most.gain)} points)."
        )
        if hurts:
            named = ", ".join(f"`{line.rule}` at {_name(line.point)} ({_gain(line.gain)})" for line in hurts)
            words.append(f"  It hurts {named}: chosen on validation, and wrong on the test.")
    return "\n".join(words)


def split(lines: Sequence[Line], points: Sequence[Point]) -> Table:
    """MoCA's split and the gate, one without the other and together, for one rule."""
    rows: list[list[Cell]] = []
    for point in points:
        by_mode = {line.mode: line for line in lines if (line.point, line.rule) == (point, SHOWN)}
        if by_mode:
            shared, weighted = by_mode["proportional"], by_mode["weighted"]
            means = [float(v.mean()) for v in (shared.plain, weighted.plain, shared.gated, weighted.gated)]
            rows.append([_name(point), *means, paired_difference(shared.gated, weighted.plain)])
    columns = "point; neither|.1p; MoCA's split alone|.1p; gate alone|.1p; both|.1p; gate less split|+.1p"
    return table("split", columns, rows)


def fixed(lines: Sequence[Line], rules: Sequence[str]) -> Table:
    """What a gate at FIXED gives, mean over points and traces, and its worst point."""
    rows: list[list[Cell]] = []
    for rule in rules:
        rows.append([f"`{rule}`"])
        for mode in MODES:
            mine = [line for line in lines if (line.mode, line.rule) == (mode, rule)]
            least = min(mine, key=lambda line: line.blind_gain.mean)
            mean = 100 * float(np.mean([line.blind_gain.mean for line in mine]))
            rows[-1].append(f"{mean:+.1f}; least {_gain(least.blind_gain)} at {_name(least.point)}")
    return Table("fixed", (("rule", ""), *((mode, "") for mode in MODES)), tuple(map(tuple, rows)))


def by_point(lines: Sequence[Line], mode: str, rules: Sequence[str], points: Sequence[Point]) -> Table:
    """Rules by points: hit rate without the gate, gain with it, and the gate."""
    found = {(line.rule, line.point): line for line in lines if line.mode == mode}
    rows: list[list[Cell]] = []
    for rule in rules:
        mine = [found[rule, point] for point in points]
        rows.append(
            [
                f"`{rule}`",
                *(f"{100 * interval(x.plain).mean:.1f}, {_gain(x.gain)} (g {x.gate})" for x in mine),
            ]
        )
    return Table(mode, (("rule", ""), *((_name(point), "") for point in points)), tuple(map(tuple, rows)))


def measure(options: Options) -> Iterator[Table]:
    """Verdict, MoCA's split, a gate for everybody, and a table for each way of sharing."""
    points, rules = (POINTS[1:2], (SHOWN, "moca")) if options.quick else (POINTS, RULES)
    tests = options.seeds_or(10, 3)
    lines = list(lines_of(points, rules, tests, 300 if options.quick else 1_500))
    yield Table("verdict", notes=(verdict(lines),))
    yield split(lines, points)
    yield fixed(lines, rules)
    for mode in MODES:
        yield by_point(lines, mode, rules, points)
