"""Where does the bandwidth gate help, where does it hurt, and what of MoCA's split? ``python -m benchmarks.gate``.

Every rule runs with and without the gate under every way of sharing bandwidth, on the same requests. The gate of
each rule is chosen on validation traces, for each point and way of sharing by itself, "no gate" among the choices.
Writes results/gate.md; ``--quick`` takes one point and short traces and writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from eunomia.inference.options import Contention
from eunomia.inference.problem import build_problem
from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.study.inference.bench import Bench, prepare
from eunomia.study.inference.tuning import GATES, ValidationProblem, choose, grid, score, validation_seeds
from eunomia.study.run import as_scenario, engine_options

RESULTS = Path(__file__).parent.parent / "results" / "gate.md"
MODES: tuple[Contention, ...] = ("proportional", "max_min", "weighted", "roofline", "roofline_static")
RULES = ("fcfs", "edf", "edf+pref", "edf+eft", "sjf+eft", "edf_bytes+pref", "edf_bytes+eft", "moca")
POINTS = ((16.0, 0.7), (16.0, 1.0), (16.0, 1.3), (8.0, 1.0), (32.0, 1.0))  # GB/s, load
SHOWN = "edf+eft"  # the rule of the comparison with MoCA's split
FIXED = 0.9  # a gate that is not chosen, to see what a wrong one costs
ALPHA = 3.0


@dataclass(frozen=True)
class Scale:
    """How much work."""

    points: tuple[tuple[float, float], ...] = POINTS
    validation: int = 2  # traces
    test: int = 10
    requests: int = 1_500


@dataclass(frozen=True)
class Line:
    """One rule at one point under one way of sharing: hit rates on the test traces."""

    point: tuple[float, float]
    mode: str
    rule: str
    gate: str  # as chosen
    plain: tuple[float, ...]
    gated: tuple[float, ...]
    fixed: tuple[float, ...]  # with the gate at FIXED, chosen or not

    @property
    def gain(self) -> Estimate:
        """Gated less plain, paired by trace."""
        return paired_difference(self.gated, self.plain)

    @property
    def blind_gain(self) -> Estimate:
        """The same with the gate that nobody chose."""
        return paired_difference(self.fixed, self.plain)


def bench_at(bandwidth_gb_s: float, load: float, requests: int) -> Bench:
    """MoCA's mixed set, open arrivals, at a load of the platform with this bandwidth."""
    scenario = {
        "name": "gate", "duration_s": 1.0, "load": load,
        "platform": {"preset": "simba3-eyeriss3", "dram_bandwidth_gb_s": bandwidth_gb_s},
        "tenant": [{
            "name": "all", "model_set": "moca-mixed", "deadline": "qos_m", "deadline_alpha": ALPHA,
            "arrivals": {"process": "poisson", "rate_per_s": 1000.0},
        }],
        "engine": {"late": "drop"},
    }  # fmt: skip
    bench = prepare(as_scenario(scenario))
    assert bench.capacity is not None, "a load was asked for"
    seconds = requests / (load * bench.capacity.per_s.mean)
    return prepare(as_scenario({**scenario, "duration_s": seconds, "warmup_s": 0.1 * seconds}))


def traces(bench: Bench, mode: Contention, seeds: Sequence[int]) -> list[ValidationProblem]:
    """The requests of these seeds under one way of sharing; the load does not depend on it."""
    made = []
    for seed in seeds:
        options = replace(engine_options(bench.scenario, seed, "requests"), contention=mode)
        problem = build_problem(bench.requests(seed), bench.machine.table, bench.machine, options)
        made.append(ValidationProblem(problem, options, bench.scenario.warmup_s, bench.scenario.duration_s))
    return made


def measure(scale: Scale) -> list[Line]:
    """All rules at all points under all ways of sharing."""
    lines = []
    for point in scale.points:
        bench = bench_at(*point, scale.requests)
        for mode in MODES:
            validation = traces(bench, mode, validation_seeds(scale.validation))
            test = traces(bench, mode, range(scale.test))
            for rule in RULES:
                chosen = choose(grid(rule, gate=GATES), validation).name
                plain = tuple(score(rule, trace) for trace in test)
                gated = plain if chosen == rule else tuple(score(chosen, trace) for trace in test)
                gate = chosen.removeprefix(rule).removeprefix("+g") or "none"
                fixed = tuple(score(f"{rule}+g{FIXED:g}", trace) for trace in test)
                lines.append(Line(point, mode, rule, gate, plain, gated, fixed))
                print(f"{point} {mode:12} {rule:14} gate {gate:5} {lines[-1].gain:+.1%}", flush=True)
    return lines


def _name(point: tuple[float, float]) -> str:
    return f"{point[0]:g} GB/s, load {point[1]:g}"


def _points(value: float) -> str:
    return f"{100.0 * value:+.1f}"


def _gain(estimate: Estimate) -> str:
    if estimate.mean == 0.0 == estimate.half_width:
        return "0"
    return f"{_points(estimate.mean)} +- {100.0 * estimate.half_width:.1f}"


def fixed_table(lines: list[Line]) -> str:
    """What a gate at FIXED gives, mean over points and traces, and its worst point."""
    rows = ["| rule | " + " | ".join(MODES) + " |", "| --- |" + " --- |" * len(MODES)]
    for rule in RULES:
        cells = []
        for mode in MODES:
            mine = [line for line in lines if (line.mode, line.rule) == (mode, rule)]
            least = min(mine, key=lambda line: line.blind_gain.mean)
            mean = float(np.mean([line.blind_gain.mean for line in mine]))
            cells.append(f"{_points(mean)}; least {_gain(least.blind_gain)} at {_name(least.point)}")
        rows.append(f"| `{rule}` | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def gains_table(lines: list[Line], mode: str, scale: Scale) -> str:
    """Rules by points: hit rate without the gate, gain with it, and the gate."""
    rows = [f"### {mode}", "| rule | " + " | ".join(map(_name, scale.points)) + " |"]
    rows.append("| --- |" + " --- |" * len(scale.points))
    for rule in RULES:
        cells = []
        for point in scale.points:
            line = next(x for x in lines if (x.point, x.mode, x.rule) == (point, mode, rule))
            cells.append(f"{100.0 * interval(line.plain).mean:.1f}, {_gain(line.gain)} (g {line.gate})")
        rows.append(f"| `{rule}` | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def split_table(lines: list[Line], scale: Scale) -> str:
    """MoCA's split and the gate, one without the other and together, for one rule."""
    rows = ["| point | neither | MoCA's split alone | gate alone | both | gate less split |",
            "| --- | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for point in scale.points:
        shared, split = (
            next(x for x in lines if (x.point, x.mode, x.rule) == (point, mode, SHOWN))
            for mode in ("proportional", "weighted")
        )
        cells = [
            100.0 * float(np.mean(values))
            for values in (shared.plain, split.plain, shared.gated, split.gated)
        ]
        gain = paired_difference(shared.gated, split.plain)
        rows.append(
            f"| {_name(point)} | " + " | ".join(f"{cell:.1f}" for cell in cells) + f" | {_gain(gain)} |"
        )
    return "\n".join(rows) + "\n"


def verdict(lines: list[Line]) -> str:
    """Counts of significant gains and losses for each way of sharing."""
    words = []
    for mode in MODES:
        mine = [line for line in lines if line.mode == mode]
        helps = [line for line in mine if line.gain.excludes_zero and line.gain.mean > 0]
        hurts = [line for line in mine if line.gain.excludes_zero and line.gain.mean < 0]
        most = max(mine, key=lambda line: line.gain.mean)
        words.append(
            f"* **{mode}**: of {len(mine)} pairs of rule and point the gate helps {len(helps)} significantly and hurts "
            f"{len(hurts)}; most for `{most.rule}` at {_name(most.point)} ({_gain(most.gain)} points)."
        )
        if hurts:
            named = ", ".join(f"`{line.rule}` at {_name(line.point)} ({_gain(line.gain)})" for line in hurts)
            words.append(f"  It hurts {named}: chosen on validation, and wrong on the test.")
    return "\n".join(words) + "\n"


def report(lines: list[Line], scale: Scale) -> str:
    """The page."""
    gates = ", ".join("none" if gate == float("inf") else f"{gate:g}" for gate in GATES)
    head = f"""# The bandwidth gate under every way of sharing

Written by `python -m benchmarks.gate`. MoCA's mixed set, Poisson arrivals, deadlines of QoS-M with alpha
{ALPHA:g}, platform `simba3-eyeriss3`, hopeless requests dropped, about {scale.requests:,} requests a trace, the
first tenth not counted.
Load 1.0 is the saturated throughput of FCFS under *proportional* sharing at the same bandwidth, so that all ways of
sharing meet the same requests. The gate is the best of {gates}
on {scale.validation} validation traces, for each rule, point and way of sharing; figures are hit rates in % on
{scale.test} other traces (seeds 0 to {scale.test - 1}), gains in points with 95 % intervals, paired by trace.

`roofline` (water filling, compute-bound layers slowed only below V / k) gives the figures of `max_min`: with b = V / c
and c = max(k, V / link), every grant below b lies below V / k as well, and the two are one rule, computed in two
ways that agree but for rounding. Here both meet the same requests, as load 1.0 comes from proportional sharing. A study
measures load 1.0 anew under each way of sharing, in saturated runs that a last digit can turn to another course (in two
samples of 4,000 requests at 32 GB/s: 1047.9 and 1046.9 requests per second). Its two rows differ by some tenths of a
point. That this comes from the slightly different arrivals is inferred from those two rates and not measured: the
study was not repeated with one load 1.0 for both.

`roofline_static`, a fixed B / S for each accelerator, is the one that differs: there is nothing left to share, so a
gate can only idle. That it "hurts 0" there follows from "none" being among the choices; where a gate that was not
chosen hurts is in the last column of the table of a gate of {FIXED:g} for everybody.

"""
    words = (
        f'\n`{SHOWN}`; the split is `weighted` sharing, MoCA\'s cut by urgency; in the columns "neither" and '
        '"gate alone" sharing is proportional.\n\n'
    )
    parts = [head, verdict(lines), "\n## Beside MoCA's split\n", words, split_table(lines, scale)]
    parts.append(
        f"\n## A gate of {FIXED:g} for everybody: gain in points, mean over the points, and the least one\n\n"
    )
    parts.append(fixed_table(lines))
    parts.append("\n## Hit rate without the gate, gain with it, gate chosen\n")
    parts += ["\n" + gains_table(lines, mode, scale) for mode in MODES]
    return "".join(parts)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one point, short traces; writes nothing")
    quick = parser.parse_args().quick
    scale = Scale(points=((16.0, 1.0),), test=3, requests=300) if quick else Scale()
    page = report(measure(scale), scale)
    print(page)
    if not quick:
        RESULTS.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
