"""The page of ``benchmarks.relmas``: figures in, Markdown out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.metrics.statistics import Estimate, paired_difference

ABOUT = {
    "relmas-pure": "`relmas-pure` has no imitation term.",
    "relmas-td3": "`relmas-td3` is TD3 in place of DDPG.",
    "relmas-periodic": "`relmas-periodic` was trained and runs at T_s = 0.1 mean layers.",
}
Table = npt.NDArray[np.float64]
LANES, BANDWIDTH_GB_S, ALPHA, REQUESTS = 6, 32.0, 3.0, 200
LOADS = (0.7, 1.0, 1.3)
VALIDATIONS = 2  # traces per load
PAPER_RATIO = 2.73
TRAINERS_BEGIN = (
    "<!-- begin: python -m benchmarks.relmas_trainers --write -->"  # a section of its own in the page
)
TRAINERS_END = "<!-- end of trainers -->"
RIVALS = ("fcfs", "prema", "herald", "magma")
RULES = ("edf", "edf+f+eft", "sjf+f+eft", "llf+f+eft", "pressure", "dream", "ca_eft")
TARGETS = (0.5, 0.95)
TENANT_RULES = ("triage+g0.9", "gap_first+g0.9", "triage", "gap_first", "edf+f+eft")
KINDS = ("hit_rate", "attainment", "shortfall", "fairness")
SIZE = {
    "clone_episodes": 6,
    "clone_steps": 1200,
    "iterations": 15,
    "updates": 24,
    "critic_first": 4,
    "validate_every": 5,
}


@dataclass(frozen=True)
class Measured:
    """Figures (policy -> (traces, KINDS + processor seconds)) of each question, traces in the order of loads."""

    plain: dict[str, Table]  # test traces
    sweep: dict[str, Table]  # the first test traces of each load, other periods
    promises: dict[str, Table]
    chosen: str  # the gated rule that was best on validation traces


def mean_of(cards: list[str], table: dict[str, Table]) -> Table:
    """Mean over replications, trace by trace."""
    return np.asarray(np.mean([table[card] for card in cards], axis=0), np.float64)


def points(estimate: Estimate) -> str:
    """A difference in points."""
    half = f" +-{100 * estimate.half_width:.1f}" if estimate.has_interval else ""
    return f"{100 * estimate.mean:+.1f}{half}"


def hits_table(cards: dict[str, list[str]], found: Measured) -> tuple[list[str], list[tuple[str, Estimate]]]:
    """Lines of the main table, and the paired difference to every rival."""
    ours = mean_of(cards["relmas"], found.plain)[:, 0]
    step = len(ours) // len(LOADS)
    rows = [("**relmas**", ours)]
    rows += [
        (name, mean_of(each, found.plain)[:, 0])
        for name, each in cards.items()
        if name not in ("relmas", "relmas-slo")
    ]
    rows += [(name, found.plain[name][:, 0]) for name in dict.fromkeys((*RIVALS, *RULES, found.chosen))]
    lines, gaps = (
        [
            "| policy | load 0.7 | load 1.0 | load 1.3 | mean | relmas less it | relmas / it |",
            "|" + "---|" * 7,
        ],
        [],
    )
    for name, values in rows:
        each = " | ".join(f"{100 * values[n * step : (n + 1) * step].mean():.1f}" for n in range(len(LOADS)))
        gap = paired_difference(ours.tolist(), values.tolist())
        tail = "| | |" if name == "**relmas**" else f"| {points(gap)} | {ours.mean() / values.mean():.2f} |"
        lines.append(f"| {name} | {each} | {100 * values.mean():.1f} {tail}")
        if name in (*RIVALS, *RULES, found.chosen):
            gaps.append((name, gap))
    return lines, gaps


def promise_table(cards: dict[str, list[str]], found: Measured) -> list[str]:
    """Lines of the comparison with promises."""
    head = ["policy", "pairs at target", "mean shortfall", "hit rate", "std over tenants"]
    rows = [("relmas, first replication", found.promises[cards["relmas"][0]])]
    rows += [(name, found.promises[name]) for name in (*TENANT_RULES, found.chosen)]
    ours = None
    if "relmas-slo" in cards:
        ours = mean_of(cards["relmas-slo"], found.promises)
        head.append("relmas-slo less it, pairs")
        rows.insert(0, ("**relmas-slo**", ours))
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, values in rows:
        hit, met, short, fair = 100 * values[:, :4].mean(axis=0)
        gap = "" if ours is None else " |" if values is ours else f" {_less(ours, values)} |"
        lines.append(f"| {name} | {met:.1f} | {-short:.1f} | {hit:.1f} | {-fair:.1f} |{gap}")
    return lines


def _less(ours: Table, values: Table) -> str:
    return points(paired_difference(ours[:, 1].tolist(), values[:, 1].tolist()))


def training_table(trained: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Lines of what each training came to."""
    lines = ["| training | seed | clone | best | last | processor seconds |", "|" + "---|" * 6]
    for name, each in trained.items():
        for seed, r in enumerate(each):
            last = [entry["validation"] for entry in r["curve"] if "validation" in entry][-1]
            values = " | ".join(f"{100 * value:.1f}" for value in (r["clone"], r["best"], last))
            lines.append(f"| {name} | {seed} | {values} | {r['cpu_s']:.0f} |")
    return lines


def sweep_table(found: Measured) -> list[str]:
    """Lines of the sweep over T_s."""
    lines = ["| weights | T_s / mean layer | hit rate |", "|---|---|---|"]
    for key, values in found.sweep.items():
        card, _, period = key.partition("@")
        lines.append(f"| {Path(card).stem} | {float(period):g} | {100 * values[:, 0].mean():.1f} |")
    return lines


def page(cards: dict[str, list[str]], trained: dict[str, list[dict[str, Any]]], found: Measured) -> str:
    """The page of results."""
    table, gaps = hits_table(cards, found)
    better = [name for name, gap in gaps if gap.low > 0.0]
    worse = [name for name, gap in gaps if gap.high < 0.0]
    level = [name for name, _ in gaps if name not in (*better, *worse)]
    ours = mean_of(cards["relmas"], found.plain)[:, 0]
    means = [100 * float(found.plain[card][:, 0].mean()) for card in cards["relmas"]]
    spread = float(np.std(means, ddof=1)) if len(means) > 1 else float("nan")
    traces, swept = len(ours) // len(LOADS), len(next(iter(found.sweep.values()))) // len(LOADS)
    ratio, rival = greatest_ratio(ours, found)
    most, crushed = greatest_ratio(ours, found, traces)
    lines = {"table": table, "training": training_table(trained), "sweep": sweep_table(found),
             "promises": promise_table(cards, found)}  # fmt: skip
    variants = "".join(f"\n{sentence}" for name, sentence in ABOUT.items() if name in cards)
    crowded = paired_difference(ours[-traces:].tolist(), found.plain[found.chosen][-traces:, 0].tolist())
    text = {name: "\n".join(each) for name, each in lines.items()}
    return f"""# RELMAS, re-implemented

Written by `python -m benchmarks.relmas --only {" ".join(cards)} --write`. A re-implementation from the abstract
([deviations](../deviations.d/relmas.md)), not a reproduction. Scenario: MoCA's mixed set, three tenants with QoS-H, M
and L deadlines (alpha {ALPHA:g}), 3 Simba-like and 3 Eyeriss-like accelerators, {BANDWIDTH_GB_S:g} GB/s, proportional
contention, Poisson, hopeless requests dropped, {REQUESTS} requests a trace; {traces} test traces per load, the same for
all; networks and platform are those of training, traces are not. {len(means)} training replications of `relmas`, of
{SIZE["iterations"]} iterations each. Intervals: 95 %, paired over the {len(ours)} test traces, after the mean over
replications; standard deviation over replications of the mean hit rate: {spread:.1f} points.

## Deadlines met, %
`relmas` decides at every event with reward R2. `{found.chosen}` is the gated rule that was best on validation traces.
MAGMA is charged for its search.{variants}

{text["table"]}

* **Significantly better than**: {listed(better)}. **Significantly worse than**: {listed(worse)}. Undecided:
  {listed(level)}.
* The paper states up to {PAPER_RATIO}x the SLA satisfaction rate of its rivals, for a scenario, a QoS level and a rival
  that we do not know. Here the greatest ratio of means to a likely rival (FCFS, PREMA, Herald, MAGMA) is
  {ratio:.2f}x, to `{rival}`, over loads 0.7 to 1.3 together, and {most:.2f}x, to `{crushed}`, at load
  {LOADS[-1]:g} alone.
* `relmas` starts as a clone of `edf+f+eft`: its distance to that rule, not to FCFS, is what learning added:
  {points(dict(gaps)["edf+f+eft"])} points, {verdict(dict(gaps)["edf+f+eft"])}.
  At load {LOADS[-1]:g} the gated rule reaches
  {100 * found.plain[found.chosen][-traces:, 0].mean():.1f} % and `relmas` {100 * ours[-traces:].mean():.1f} %:
  {points(crowded)} points.

## Training
Validation on {len(LOADS) * VALIDATIONS} traces: hit rate, %; for `relmas-slo`, attainment minus mean shortfall. "Clone"
is before reinforcement learning, "last" at its end; "best" is kept.

{text["training"]}

## T_s
Weights asked at ticks of T_s instead of at every event (0); test traces per load: {swept}. Layers that become ready
between ticks are placed at once (`patch`).

{text["sweep"]}

## Tenants with targets
Every (tenant, network) pair is promised a hit rate drawn from {TARGETS[0]} to {TARGETS[1]}, anew for each trace.
`relmas-slo` sees targets and indicators and is trained with R5 on other targets ({len(cards.get("relmas-slo", []))}
replications); means over {len(found.promises[found.chosen])} test traces, all loads, %.

{text["promises"]}
"""


def other_trainers(old: str) -> str:
    """The section of ``benchmarks.relmas_trainers`` of the page as it is; empty if it was never written."""
    found = old.split(TRAINERS_BEGIN, 1)[1].split(TRAINERS_END, 1)[0] if TRAINERS_BEGIN in old else "\n"
    return f"\n{TRAINERS_BEGIN}{found}{TRAINERS_END}\n"


def greatest_ratio(ours: Table, found: Measured, last: int = 0) -> tuple[float, str]:
    """Our mean over that of the likely rival that does worst, on the ``last`` traces (0 = all)."""
    return max((float(ours[-last:].mean() / found.plain[name][-last:, 0].mean()), name) for name in RIVALS)


def verdict(gap: Estimate) -> str:
    """Whether a difference is more than its interval."""
    return "a gain" if gap.low > 0.0 else "a loss" if gap.high < 0.0 else "within the error"


def listed(names: list[str]) -> str:
    """Names in a sentence."""
    return ", ".join(f"`{name}`" for name in names) or "none"
