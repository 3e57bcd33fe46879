"""Tables and figure of the tenants' page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learned_tenants import HAND, PROMISES, QUICK_LOADS, STRENGTHS, Floats, Values
from benchmarks.tenant_mixes import EQUAL_PLACES, LOADS, MIXES, PLACES
from eunomia.metrics.statistics import Estimate, interval
from eunomia.report.study.front import Axis, Point, front_chart

DOCS = Path(__file__).parent.parent / "results"
PAGE, FIGURE = DOCS / "learned_tenants.md", DOCS / "learned_tenants.svg"
BEGIN, END = "<!-- begin: python -m benchmarks.learned_tenants --write -->", "<!-- end -->"
QUICK_FIGURE = DOCS / "learned_tenants_quick.svg"
HITS, FAIRNESS = 3, 4
PANELS = (
    Axis(0, "promises kept, %"),
    Axis(1, "mean shortfall, points", False),
    Axis(2, "worst shortfall, points", False),
)
SIGNS = (1.0, -1.0, -1.0, 1.0, -1.0)  # of the objectives, so that the page shows positive percentages
OVERLOAD = tuple(load > 1.0 for load in LOADS)


def by_mix(table: Floats, measure: int, loads: tuple[bool, ...] = (True,) * len(LOADS)) -> Floats:
    """(mixes,) in points, averaged over traces and the chosen loads; shortfalls and deviations are positive."""
    of_place = 100.0 * SIGNS[measure] * table[:, :, measure].mean(axis=1)
    return np.asarray(of_place.reshape(-1, len(LOADS))[:, list(loads)].mean(axis=1))


def trained(values: Values, promise: str) -> list[str]:
    """Labels of the replications for a promise."""
    return [label for label in values if label.startswith(f"{promise} ")]


def with_means(values: Values) -> Values:
    """Beside all policies, the mean over the replications of each promise."""
    means = {f"trained for {p}": np.mean([values[n] for n in trained(values, p)], axis=0)
             for p in PROMISES if trained(values, p)}  # fmt: skip
    return {**values, **means}


def gain(
    values: Values, one: str, other: str, measure: int, loads: tuple[bool, ...] = (True,) * 4
) -> Estimate:
    """Paired difference in points over mixes."""
    return interval((by_mix(values[one], measure, loads) - by_mix(values[other], measure, loads)).tolist())


def text(estimate: Estimate, digits: int = 2) -> str:
    """``+1.23 +-0.45``."""
    return f"{estimate.mean:+.{digits}f} +-{estimate.half_width:.{digits}f}"


def means(values: Values) -> list[str]:
    """One row per policy."""
    lines = ["| policy | attainment % | mean shortfall % | worst shortfall % | hits % | std over tenants | price |",
             "|---|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
    each = {label for promise in PROMISES for label in trained(values, promise)}
    for name, table in values.items():
        if name in each:
            continue
        cells = [f"{by_mix(table, m).mean():.2f}" for m in range(5)]
        price = gain(values, "eunomia", name, HITS)
        lines.append(f"| {name} | {' | '.join(cells)} | {'' if name == 'eunomia' else text(price)} |")
    return lines


def comparisons(values: Values) -> list[str]:
    """Each objective: trained and hand-set against the rival, against each other, against no promises."""
    lines = ["| objective | policy | against | difference | share of the rival's | hits |",
             "|---|---|---|---:|---:|---:|"]  # fmt: skip
    for m, promise in enumerate(PROMISES):
        ours, hand, rival = f"trained for {promise}", f"{HAND[promise]} 2", f"best rule for {promise}"
        pairs = (
            (ours, rival),
            (hand, rival),
            (ours, hand),
            (ours, "eunomia"),
            (ours, "best rule without promises"),
        )
        for one, other in pairs:
            if one not in values:
                continue
            share = by_mix(values[one], m).mean() / max(by_mix(values[other], m).mean(), 1e-9) - 1.0
            less = "" if m == 0 else " (less is better)"
            lines.append(f"| {promise}{less} | {one} | {other} | {text(gain(values, one, other, m))} | "
                         f"{100 * share:+.0f} % | {text(gain(values, one, other, HITS))} |")  # fmt: skip
    return lines


def loads(values: Values) -> list[str]:
    """The objective by load: trained, hand-set, rival; and overload against policies without promises."""
    head = " | ".join(f"load {load:g}" for load in LOADS)
    lines = [f"| objective | policy | {head} |", "|---|---|" + "---:|" * len(LOADS)]
    for m, promise in enumerate(PROMISES):
        names = (f"trained for {promise}", f"{HAND[promise]} 2", f"best rule for {promise}", "eunomia",
                 "best rule without promises")  # fmt: skip
        for name in names:
            if name in values:
                cells = [by_mix(values[name], m, tuple(x == load for x in LOADS)).mean() for load in LOADS]
                lines.append(f"| {promise} | {name} | {' | '.join(f'{c:.1f}' for c in cells)} |")
    lines += ["", "Loads above 1, attainment against what knows no promises:", "",
              "| policy | against | attainment | hits |", "|---|---|---:|---:|"]  # fmt: skip
    for one in ("trained for attainment", "keep 2"):
        for other in ("best rule without promises", "best rule for hits", "eunomia"):
            if one in values:
                both = (text(gain(values, one, other, m, OVERLOAD)) for m in (0, HITS))
                lines.append(f"| {one} | {other} | {' | '.join(both)} |")
    return lines


def replications(values: Values) -> list[str]:
    """Each replication against the rival of its objective."""
    lines = ["| objective | replication | value % | against the best rule | hits against it |",
             "|---|---:|---:|---:|---:|"]  # fmt: skip
    for m, promise in enumerate(PROMISES):
        for label in trained(values, promise):
            rival = f"best rule for {promise}"
            better, hits = gain(values, label, rival, m), gain(values, label, rival, HITS)
            mean, seed = by_mix(values[label], m).mean(), label.split(" ")[-1]
            lines.append(f"| {promise} | {seed} | {mean:.2f} | {text(better)} | {text(hits)} |")
    return lines


def feasibility(values: Values, bounds: Floats) -> list[str]:
    """The bracket of attainment: the best of all policies on each trace, and the bound, on the bounded traces."""
    traces = bounds.shape[1]
    shown = {name: 100.0 * table[:, :traces, 0].mean(axis=1) for name, table in values.items()}
    best = np.max(list(shown.values()), axis=0)
    rows = {
        "nobody keeps more than (bound)": 100.0 * bounds.mean(axis=1),
        "best of all policies here, trace by trace": best,
    }
    rows |= {
        name: shown[name]
        for name in ("trained for attainment", "keep 2", "best rule for attainment")
        if name in shown
    }
    head = " | ".join(f"load {load:g}" for load in LOADS)
    lines = [f"| share of promises kept, % | {head} | all |", "|---|" + "---:|" * (len(LOADS) + 1)]
    for name, row in rows.items():
        cells = [*row.reshape(-1, len(LOADS)).mean(axis=0), row.mean()]
        lines.append(f"| {name} | {' | '.join(f'{c:.1f}' for c in cells)} |")
    return lines


def equality(values: Values) -> list[str]:
    """The same target for all: spread over tenants."""
    lines = ["| policy | std over tenants | of relmas' | worst shortfall % | hits % | std - relmas' |",
             "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    base = by_mix(values["relmas"], FAIRNESS)
    for name, table in values.items():
        spread = by_mix(table, FAIRNESS)
        lines.append(f"| {name} | {spread.mean():.2f} | {100 * spread.mean() / base.mean():.0f} % | "
                     f"{by_mix(table, 2).mean():.1f} | {by_mix(table, HITS).mean():.1f} | "
                     f"{text(interval((spread - base).tolist()))} |")  # fmt: skip
    return lines


def verdicts(values: Values, equal: Values) -> list[str]:
    """What was asked, what was measured: of the trained policies, or of the terms by hand where none is trained."""
    best = {p: f"trained for {p}" if f"trained for {p}" in values else f"{HAND[p]} 2" for p in PROMISES}
    lines = ["| asked | measured | |", "|---|---|---|"]
    for m, promise in enumerate(PROMISES):
        name, rival = best[promise], f"best rule for {promise}"
        better, hits = gain(values, name, rival, m), gain(values, name, rival, HITS)
        sure = better.low > 0.0 if m == 0 else better.high < 0.0
        share = 100.0 * (by_mix(values[name], m).mean() / max(by_mix(values[rival], m).mean(), 1e-9) - 1.0)
        lines.append(
            f"| {promise}: significantly better than the best tenant rule | {text(better)} ({name}) | {_met(sure)} |"
        )
        if m == 0:
            lines.append(f"| by 5 points | {better.mean:+.2f} | {_met(better.mean >= 5.0)} |")
        if m == 1:
            lines.append(f"| a third less | {share:+.0f} % | {_met(share <= -100.0 / 3.0)} |")
        lines.append(f"| at a loss of at most 2 hit points | {text(hits)} | {_met(hits.mean >= -2.0)} |")
    for rival in ("best rule without promises", "eunomia"):
        over = gain(values, best["attainment"], rival, 0, OVERLOAD)
        lines.append(
            f"| overload: 10 points of attainment above {rival} | {text(over)} | {_met(over.mean >= 10.0)} |"
        )
    name = "trained for max_min" if "trained for max_min" in equal else "level 2"
    share = by_mix(equal[name], FAIRNESS).mean() / by_mix(equal["relmas"], FAIRNESS).mean()
    lines.append(f"| equal targets: at most half of relmas' deviation over tenants | {100 * share:.0f} % ({name}) | "
                 f"{_met(share <= 0.5)} |")  # fmt: skip
    return lines


def _met(met: bool) -> str:
    return "met" if met else "**not met**"


def figure(values: Values) -> str:
    """Hits against attainment and against mean shortfall, the families of policies as lines."""
    points = []
    for promise in PROMISES:
        terms = HAND[promise]
        ends = (STRENGTHS[0], STRENGTHS[-1])
        points += [
            Point(f"{terms} {x:g}", "terms set by hand", terms, None if x in ends else "") for x in STRENGTHS
        ]
        if f"trained for {promise}" in values:
            points.append(Point(f"trained for {promise}", "trained", label=promise))
        points.append(Point(f"best rule for {promise}", "tenant rules", label=promise))
    points += [Point("eunomia", "no promises"), Point("best rule without promises", "no promises", label="attainment"),
               Point("best rule for hits", "no promises", label="hits")]  # fmt: skip
    measures = {name: [float(by_mix(table, m).mean()) for m in range(5)] for name, table in values.items()}
    return front_chart(points, measures, Axis(HITS, "hits, %"), PANELS)


def quick_page(values: Values) -> str:
    """Means over mixes and the quick loads, and paired differences of the trained policies to all others."""
    ours = {promise: trained(values, promise) for promise in PROMISES}
    others = [name for name in values if name not in {label for labels in ours.values() for label in labels}]
    lines = [
        "| policy | attainment % | mean shortfall % | worst shortfall % | hits % |",
        "|---|---:|---:|---:|---:|",
    ]
    points = {}  # (mixes, measures)
    for name, table in values.items():
        points[name] = (
            100.0 * np.array(SIGNS) * table.mean(axis=1).reshape(-1, len(QUICK_LOADS), 5).mean(axis=1)
        )
    for name, mean in points.items():
        lines.append(f"| {name} | " + " | ".join(f"{value:.2f}" for value in mean.mean(axis=0)[:4]) + " |")
    lines += ["", "| objective | policy | against | difference | hits |", "|---|---|---|---:|---:|"]
    for m, promise in enumerate(PROMISES):
        for one in ours[promise]:
            for other in others:
                found = [interval((points[one] - points[other])[:, x].tolist()) for x in (m, HITS)]
                lines.append(f"| {promise} | {one} | {other} | {text(found[0])} | {text(found[1])} |")
    return "\n".join(lines)


def quick_figure(values: Values) -> str:
    """Hits against promises in overload, of the quick look."""
    terms = {f"{name} 2" for name in HAND.values()}
    points = []
    for name in values:
        family = "tenant rules" if name.startswith(("triage", "gap", "worst", "shift")) else "no promises"
        family = (
            "terms set by hand" if name in terms else "trained" if name.split(" ")[0] in PROMISES else family
        )
        points.append(Point(name, family, label=name.split("+")[0].removesuffix(" 2").removesuffix(" 0")))
    points.sort(key=lambda point: ("terms", "trained", "tenant", "no").index(point.family.split(" ")[0]))
    measures = {name: [100.0 * s * float(x) for s, x in zip(SIGNS, table.mean(axis=(0, 1)), strict=True)]
                for name, table in values.items()}  # fmt: skip
    return front_chart(points, measures, Axis(HITS, "hits, %"), PANELS)


def write_page(
    values: Values, chosen: Mapping[Any, dict[str, str]], bounds: Floats, equal: Values, write: bool
) -> str:
    """The generated part of the page; with ``write`` it takes its place there, and the figure beside it."""
    values, equal = with_means(values), with_means(equal)
    used = {label: sorted({rules[label] for rules in chosen.values()}) for label in chosen[PLACES[0]]}
    traces = next(iter(values.values())).shape[1]
    parts = [
        "### Asked and measured\n", *verdicts(values, equal), "",
        f"### Against the rivals\nPaired by trace, 95 % over {MIXES} mixes ({len(PLACES)} places x {traces} traces); "
        "points. `trained for`: mean of the replications; `keep 2` and so on: the terms set by hand, strength 2.\n",
        *comparisons(values), "\n### By load\n", *loads(values), "\n### Replications\n", *replications(values),
        "\n### All policies, means; price of fairness\nPrice: hits given up "
        "against `eunomia` without promises, points.\n",
        *means(values), "\n![Hits against promises](learned_tenants.svg)\n",
        "\n### Could the targets have been met\nThe first trace of each place. The bound is that of a linear "
        "program with a binary for each promise (docs/bounds.md); no schedule keeps more, clairvoyant or not.\n",
        *feasibility(values, bounds),
        f"\n### The same target for all\n0.8 for all pairs; {len(EQUAL_PLACES) // len(LOADS)} mixes of MoCA's networks "
        "on the six accelerators and 32 GB/s of the shipped `relmas`, loads as above.\n",
        *equality(equal), "\n### Rules chosen on validation\n",
        *(f"* {label}: {', '.join(f'`{name}`' for name in names)}" for label, names in used.items()),
    ]  # fmt: skip
    page = "\n".join(parts)
    if write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{page}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")
        FIGURE.write_text(figure(values), encoding="utf-8")
    return page
