"""Promises kept: ``python -m benchmarks.learned_tenants [--policy CARD]`` prints the comparison.

A hit rate between 0.5 and 0.95 is promised to every (tenant, network) pair, drawn anew for every trace; places and
traces are those of ``benchmarks.learned`` at 18 GB/s. For each objective the rival is the best of all tenant rules
(triage, gap first, shift, on deadlines and on sizes, with gates) chosen on validation traces of the same place.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.learned import LOADS, SETS, Place
from eunomia.experiment.learning import TENANT_BASES
from eunomia.experiment.tuning import FIRST_VALIDATION_SEED
from eunomia.inference.learning.policy.bases import base_weights
from eunomia.inference.learning.policy.learned import LearnedPolicy
from eunomia.inference.learning.serving import load_policy
from eunomia.inference.learning.training.episodes import Episode
from eunomia.inference.learning.training.objectives import OBJECTIVES
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.statistics import interval

PLACES = tuple(Place(mix, 18.0, load) for mix in SETS for load in LOADS)
TESTS, VALIDATIONS = 3, 2
NAMES = ("attainment", "shortfall", "max_min", "hit_rate")


def promised(place: Place, seed: int) -> Episode:
    """A trace with targets of its own."""
    return place.episode(seed).with_targets(0.5, 0.95, np.random.default_rng([seed, 77]))


def judged(policy: Any, episode: Episode) -> list[float]:
    """All objectives of one run."""
    results = simulate_problem(episode.problem, policy, episode.options).results
    return [OBJECTIVES[name](results, episode) for name in NAMES]


def study(card: str) -> dict[str, np.ndarray[Any, Any]]:
    """(places, tests, objectives) of the learned policies and of the rival of each objective."""
    rules = {name: LearnedPolicy(base_weights(name), name, alarm=np.inf) for name in TENANT_BASES}
    agnostic = tuple(name for name in TENANT_BASES if name.startswith(("edf", "sjf")))
    learned = {name: load_policy(name) for name in dict.fromkeys(("eunomia", card))}
    rows: dict[str, list[Any]] = {}
    for place in PLACES:
        seeds = range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + VALIDATIONS)
        validation = [promised(place, seed) for seed in seeds]
        values = {
            name: np.mean([judged(rule, e) for e in validation], axis=0) for name, rule in rules.items()
        }
        chosen = {
            f"best rule for {o}": max(values, key=lambda n, i=i: values[n][i])
            for i, o in enumerate(NAMES[:3])
        }
        chosen["best SLO-agnostic rule"] = max(agnostic, key=lambda n: values[n][0])
        tests = [promised(place, seed) for seed in range(TESTS)]
        for name, policy in {**learned, **{label: rules[rule] for label, rule in chosen.items()}}.items():
            rows.setdefault(name, []).append([judged(policy, episode) for episode in tests])
    return {name: np.array(table) for name, table in rows.items()}


def report(card: str) -> str:
    """Means, and paired differences of the tenant policy to the rivals."""
    found = study(card)
    lines = [
        "| policy | attainment % | mean shortfall % | worst shortfall % | hits % |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, table in found.items():
        mean = 100 * table.mean(axis=(0, 1))
        lines.append(f"| {name} | {mean[0]:.1f} | {-mean[1]:.2f} | {-mean[2]:.1f} | {mean[3]:.1f} |")
    lines.append(
        f"\nMeans over {len(PLACES)} places x {TESTS} traces, each with targets of its own. `{card}` minus "
        "the rule, paired, 95 % over places:"
    )
    ours = found[card]
    for index, (objective, sign) in enumerate((("attainment", 1), ("shortfall", -1), ("max_min", -1))):
        rival = found[f"best rule for {objective}"]
        gain = interval(100 * sign * (ours - rival)[:, :, index].mean(axis=1))
        hits = interval(100 * (ours - rival)[:, :, 3].mean(axis=1))
        better = "more" if sign > 0 else "less"
        lines.append(
            f"* {objective}: {gain.mean:+.2f} +-{gain.half_width:.2f} points ({better} is better), "
            f"hits {hits.mean:+.2f} +-{hits.half_width:.2f}."
        )
    plain = interval(100 * (ours - found["best SLO-agnostic rule"])[:, :, 0].mean(axis=1))
    lines.append(
        f"* attainment against the best SLO-agnostic rule: {plain.mean:+.2f} +-{plain.half_width:.2f} points."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="eunomia", help="a shipped policy or the card of one")
    print(report(parser.parse_args().policy))


if __name__ == "__main__":
    main()
