"""Where does the bandwidth gate help, where does it hurt, and what of MoCA's split?

Every rule runs with and without the gate under every way of sharing bandwidth, on the same requests. The gate of
each rule is chosen on validation traces, for each point and way of sharing by itself, "no gate" among the choices.
The quick run takes one point, two rules and short traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.inference.contest import best, contest, sized, validation
from benchmarks.table import Cell, Options, Table, table, text
from eunomia.inference.options import Contention
from eunomia.inference.problem import build_problem
from eunomia.learning.episodes import Episode
from eunomia.metrics.statistics import Estimate, Floats, paired_difference
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.run import engine_options
from eunomia.study.inference.tuning import GATES, grid

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


@dataclass(frozen=True)
class Place:
    """A point under one way of sharing; the load does not depend on it, so that all meet the same requests."""

    point: Point
    mode: Contention
    requests: int

    def episode(self, seed: int) -> Episode:
        """One trace, measured after its warm-up."""
        gb_s, load = self.point
        bench = prepare(sized("moca-mixed", load, gb_s, self.requests))
        options = replace(engine_options(bench.scenario, seed, "requests"), contention=self.mode)
        problem = build_problem(bench.requests(seed), bench.machine.table, bench.machine, options)
        return Episode(problem, options, warmup_s=bench.scenario.warmup_s)


def lines_of(places: Sequence[Place], rules: Sequence[str], tests: range, workers: int) -> Iterator[Line]:
    """The gate of all rules at all places is chosen on validation traces; then the test traces."""
    grids = {rule: grid(rule, gate=GATES) for rule in rules}
    tried, _ = contest("gate", places, validation(2), sum(grids.values(), ()), workers=workers)
    names = {
        (place, rule): (rule, best([tried[place]], grids[rule]), f"{rule}+g{FIXED:g}")
        for place in places
        for rule in rules
    }
    all_of = {place: [name for rule in rules for name in names[place, rule]] for place in places}
    played, _ = contest("gate", places, tests, all_of, workers=workers)
    for (place, rule), mine in names.items():
        gate = mine[1].removeprefix(rule).removeprefix("+g") or "none"
        yield Line(place.point, place.mode, rule, gate, *(played[place][name][:, 0] for name in mine))


def _name(point: Point) -> str:
    return f"{point[0]:g} GB/s, load {point[1]:g}"


def _gain(estimate: Estimate) -> str:
    return "0" if estimate.mean == 0.0 == estimate.half_width else text(estimate, "+.1p")


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
    return table("fixed", "; ".join(["rule", *MODES]), rows)


def by_point(lines: Sequence[Line], mode: str, rules: Sequence[str], points: Sequence[Point]) -> Table:
    """Rules by points: hit rate without the gate, gain with it, and the gate."""
    found = {(line.rule, line.point): line for line in lines if line.mode == mode}
    rows: list[list[Cell]] = []
    for rule in rules:
        mine = [found[rule, point] for point in points]
        cells = (f"{100 * x.plain.mean():.1f}, {_gain(x.gain)} (g {x.gate})" for x in mine)
        rows.append([f"`{rule}`", *cells])
    return table(mode, "; ".join(["rule", *map(_name, points)]), rows)


def measure(options: Options) -> Iterator[Table]:
    """MoCA's split, a gate for everybody, and a table for each way of sharing."""
    points, rules = (POINTS[1:2], (SHOWN, "moca")) if options.quick else (POINTS, RULES)
    tests = options.seeds_or(10, 3)
    requests = 300 if options.quick else 1_500
    places = [Place(point, mode, requests) for point in points for mode in MODES]
    lines = list(lines_of(places, rules, tests, options.workers))
    yield split(lines, points)
    yield fixed(lines, rules)
    for mode in MODES:
        yield by_point(lines, mode, rules, points)
