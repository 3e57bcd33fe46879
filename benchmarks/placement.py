"""Learned placement under preferences against rules: ``python -m benchmarks.placement [--write]``.

Every variant is trained ``SEEDS`` times on traces of its own and measured on the same unseen traces, greedily. Rules
run on the same traces. Small cases are compared with the exhaustive optimum. Finished trainings are kept under
``runs/benchmark-placement`` and found again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.inference.environments.edge_cloud.case import Case, draw
from eunomia.inference.environments.edge_cloud.optimum import optimum
from eunomia.inference.environments.edge_cloud.rules import RULES, Rule, find_rule, run
from eunomia.inference.environments.edge_cloud.world import Metrics
from eunomia.learning.agents.a3c.agent import Cases, PlacementAgent
from eunomia.learning.agents.a3c.learner import Settings
from eunomia.learning.agents.a3c.policy import PreferencePlacement
from eunomia.learning.loop import Plan, train
from eunomia.metrics.statistics import Estimate, interval, paired_difference

RESULTS = Path(__file__).parent.parent / "results" / "placement.md"
STORE = Path("runs/benchmark-placement")
SEEDS, TESTS, SMALL_TESTS = 5, 60, 40
ITERATIONS = 40
CASES = Cases(tasks=30, devices=6, tenants=4, load=1.0, bars=0.15, traces=3, validation=16)
KINDS = ("reward", "requester", "provider", "utilisation", "met", "worst_tenant")


@dataclass(frozen=True)
class Variant:
    """One way to train; ``about`` for the page."""

    name: str
    settings: Settings
    about: str


A2C = Settings(workers=2, together=True, traces=3)
VARIANTS = (
    Variant("A3C", replace(A2C, together=False), "two processes, gradients as they come"),
    Variant("A2C", A2C, "the same in step"),
    Variant("A2C, likes hidden", replace(A2C, hidden=True), "does not see preferences"),
    Variant(
        "A2C, penalty",
        replace(A2C, penalty=1.0),
        "nothing masked in training; an illegal pair costs 1 / tasks",
    ),
    Variant(
        "A2C, periodic", replace(A2C, period=0.5), "decides every half mean run time, in training and test"
    ),
)


def learn(variant: Variant, seed: int) -> dict[str, Any]:
    """One training; kept on disk."""
    path = STORE / f"{variant.name.replace(' ', '-').replace(',', '')}-{seed}.json"
    settings, cases = replace(variant.settings, seed=seed), replace(CASES, seed=seed)
    asked = json.loads(json.dumps([asdict(settings), asdict(cases), ITERATIONS]))
    if path.is_file() and (found := json.loads(path.read_text()))["asked"] == asked:
        return dict(found)
    with PlacementAgent(settings, cases) as agent:
        done = train(agent, Plan(ITERATIONS, 5, identity="benchmark"))
    cpu_s = done.cpu_s + sum(entry["workers_cpu_s"] for entry in done.curve)
    result = {"asked": asked, "cpu_s": cpu_s, "tensors": {n: v.tolist() for n, v in done.tensors.items()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    print(
        f"{variant.name} {seed}: {done.start_values.mean():.4f} -> {done.values.mean():.4f}, {cpu_s:.0f} s",
        flush=True,
    )
    return result


def numbers(found: Metrics) -> list[float]:
    """In the order of KINDS."""
    return [float(getattr(found, kind)) for kind in KINDS]


def play(rule: Rule, cases: list[Case], period: float = 0.0) -> np.ndarray[Any, Any]:
    """(traces, KINDS)."""
    return np.array([numbers(run(case, rule, period_s=period * case.mean_run_s).metrics()) for case in cases])


def tests() -> list[Case]:
    """Traces that nothing was trained or chosen on."""
    return [
        draw(seed, CASES.tasks, CASES.devices, CASES.tenants, CASES.load, CASES.bars) for seed in range(TESTS)
    ]


def policies(variant: Variant, trained: list[dict[str, Any]]) -> list[PreferencePlacement]:
    """The replications, ready to decide."""
    return [
        PreferencePlacement(
            {n: np.array(v) for n, v in one["tensors"].items()}, hidden=variant.settings.hidden
        )
        for one in trained
    ]


def page(rows: list[tuple[str, np.ndarray[Any, Any]]], gaps: list[tuple[str, Estimate]], small: list[str],
         trained: dict[str, list[dict[str, Any]]]) -> str:  # fmt: skip
    """Figures in, Markdown out."""
    missing = [v.name for v in VARIANTS if v.name not in trained]
    only = " --only " + " ".join(f'"{name}"' for name in trained) if missing else ""
    lines = [
        "# Placement under preferences and rules",
        "",
        f"`python -m benchmarks.placement --write{only}`; what it is: [placement.md](../placement.md).",
        f"{CASES.tasks} tasks of {CASES.tenants} tenants on {CASES.devices} devices of three kinds with windows, load "
        f"{CASES.load}, each rule with probability {CASES.bars}; {TESTS} unseen traces; {SEEDS} trainings of",
        f"{ITERATIONS} iterations per variant, each with its own seed and traces. Simulated; drawn traces, no testbed.",
        "Means over traces, of learned policies over replications too; satisfactions in %. Variants that are not",
        f"listed were not run: {'; '.join(missing) or 'none'}.",
        "",
        "| policy | reward | requester | provider | utilisation | in time | worst tenant |",
        "|" + "---|" * 7,
    ]
    for name, table in rows:
        mean = table.mean(axis=0)
        lines.append(
            f"| {name} | {mean[0]:.4f} | " + " | ".join(f"{100 * value:.1f}" for value in mean[1:]) + " |"
        )
    lines += ["", f"## A3C less the others, reward x 100, paired by trace, 95 % interval over {TESTS} traces", "",
              "| less | difference |", "|---|---|"]  # fmt: skip
    lines += [f"| {name} | {100 * gap.mean:+.2f} +-{100 * gap.half_width:.2f} |" for name, gap in gaps]
    tables = dict(rows)
    matching = tables["matching"][:, 0].tolist()
    over = {name: paired_difference(tables[name][:, 0].tolist(), matching) for name in trained}
    better = [name for name, gap in over.items() if gap.mean > gap.half_width]
    lines += ["", "Better than maximum-weight matching at each event by more than the interval over traces: "
              f"{', '.join(better) or 'none'}.", "", "## Replications", "",
              "| variant | reward of each, x 100 | mean, 95 % | less matching, by trace | processor seconds each |",
              "|" + "---|" * 5]  # fmt: skip
    for variant in (v for v in VARIANTS if v.name in trained):
        each = [one["mean"] for one in trained[variant.name]]
        spread = interval(each)
        cpu_s = np.mean([one["cpu_s"] for one in trained[variant.name]])
        lines.append(
            f"| {variant.name}: {variant.about} | {', '.join(f'{100 * value:.2f}' for value in each)} | "
            f"{100 * spread.mean:.2f} +-{100 * spread.half_width:.2f} | "
            f"{100 * over[variant.name].mean:+.2f} +-{100 * over[variant.name].half_width:.2f} | {cpu_s:.0f} |"
        )
    return "\n".join([*lines, "", *small, ""])


def against_optimum(first: PreferencePlacement) -> list[str]:
    """Lines on small cases: how much of the optimum is earned."""
    cases = [draw(seed, 6, 3, 2, 1.0, 0.1) for seed in range(SMALL_TESTS)]
    best = np.array([optimum(case) for case in cases])
    lines = [f"## The optimum: {SMALL_TESTS} traces of 6 tasks on 3 devices, exhaustive", "",
             "| policy | reward | lost against the optimum | traces at the optimum |", "|" + "---|" * 4,
             f"| optimum | {best.mean():.4f} | | |"]  # fmt: skip
    rivals: dict[str, Rule] = {"A3C, seed 0": first, **{name: find_rule(name) for name in RULES}}
    for name, rule in rivals.items():
        found = play(rule, cases)[:, 0]
        at = int((found > best - 1e-9).sum())
        lines.append(f"| {name} | {found.mean():.4f} | {(best - found).mean():.4f} | {at} |")
    return lines


def main() -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--only", nargs="+", metavar="VARIANT", help="these variants alone; A3C must be one")
    given = parser.parse_args()
    cases, rows, ours = tests(), [], {}
    variants = [v for v in VARIANTS if not given.only or v.name in given.only]
    trained = {variant.name: [learn(variant, seed) for seed in range(SEEDS)] for variant in variants}
    for variant in variants:
        tables = [play(p, cases, variant.settings.period) for p in policies(variant, trained[variant.name])]
        for one, table in zip(trained[variant.name], tables, strict=True):
            one["mean"] = float(table[:, 0].mean())
        ours[variant.name] = np.mean(tables, axis=0)
        rows.append((variant.name, ours[variant.name]))
    rules = {name: play(find_rule(name), cases) for name in RULES}
    rows += list(rules.items())
    a3c = ours["A3C"][:, 0].tolist()
    order = ("matching", "greedy_gain", *(name for name in RULES if name not in ("matching", "greedy_gain")))
    gaps = [(name, paired_difference(a3c, rules[name][:, 0].tolist())) for name in order]
    gaps += [(v.name, paired_difference(a3c, ours[v.name][:, 0].tolist())) for v in variants[1:]]
    text = page(rows, gaps, against_optimum(policies(VARIANTS[0], trained["A3C"])[0]), trained)
    if given.write:
        RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
