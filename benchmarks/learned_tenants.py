"""Promises kept: ``python -m benchmarks.learned_tenants [--write]``.

A hit rate between 0.5 and 0.95 is promised to every (tenant, network) pair, drawn anew for every trace; places and
traces are those of ``benchmarks.learned`` at 18 GB/s: networks that no policy here was trained on. For each objective
the rival is the best of all published tenant rules (triage, gap first, shift, on deadlines and on sizes, with gates)
chosen on validation traces of the same place. Beside it stand the learned policy with the terms for the objective
(strength 2, set on the training networks), the rule with the same terms, and the best rule that knows no promises.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learned import LOADS, SETS, Place
from eunomia.experiment.learning import TENANT_BASES
from eunomia.experiment.tuning import FIRST_VALIDATION_SEED
from eunomia.inference.learning.policy.bases import base_weights
from eunomia.inference.learning.policy.learned import LearnedPolicy
from eunomia.inference.learning.serving import eunomia
from eunomia.inference.learning.training.episodes import Episode
from eunomia.inference.learning.training.objectives import OBJECTIVES
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.statistics import interval

Table = np.ndarray[Any, Any]
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "learned.md"
BEGIN, END = "<!-- begin: python -m benchmarks.learned_tenants --write -->", "<!-- end of tenants -->"
PLACES = tuple(Place(mix, 18.0, load) for mix in SETS for load in LOADS)
TESTS, VALIDATIONS = 3, 2
NAMES = ("attainment", "shortfall", "max_min", "hit_rate")
SIGNS = (1.0, -1.0, -1.0)  # attainment is better when greater, what is missing when smaller
OWN = {"attainment": "keep", "shortfall": "mend", "max_min": "level"}


def promised(place: Place, seed: int) -> Episode:
    """A trace with targets of its own."""
    return place.episode(seed).with_targets(0.5, 0.95, np.random.default_rng([seed, 77]))


def judged(policy: Any, episode: Episode) -> list[float]:
    """All objectives of one run."""
    results = simulate_problem(episode.problem, policy, episode.options).results
    return [OBJECTIVES[name](results, episode) for name in NAMES]


def rule(name: str) -> LearnedPolicy:
    """A rule as a policy that learned nothing."""
    return LearnedPolicy(base_weights(name), name, alarm=np.inf)


def contestants() -> dict[str, LearnedPolicy]:
    """The learned policy without and with promises, and the rules of our own."""
    learned = {f"eunomia, {name}": eunomia(promise=name) for name in OWN.values()}
    rules = {f"promise_{name}": rule(f"promise_{name}+f+eft+g1") for name in OWN.values()}
    return {"eunomia": eunomia(), **learned, **rules}


def rivals(place: Place) -> dict[str, LearnedPolicy]:
    """The best rule on validation for each objective, and for attainment without promises."""
    rules = {name: rule(name) for name in TENANT_BASES}
    seeds = range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + VALIDATIONS)
    validation = [promised(place, seed) for seed in seeds]
    names = list(rules)
    values = np.array([np.mean([judged(rules[n], e) for e in validation], axis=0) for n in names])
    best = {f"best rule for {o}": names[int(values[:, i].argmax())] for i, o in enumerate(OWN)}
    agnostic = np.array([name.startswith(("edf", "sjf")) for name in names])
    best["best rule without promises"] = names[int(np.where(agnostic, values[:, 0], -np.inf).argmax())]
    return {label: rules[name] for label, name in best.items()}


def contest(place: Place) -> dict[str, list[list[float]]]:
    """(tests, objectives) of all rivals and contestants."""
    tests = [promised(place, seed) for seed in range(TESTS)]
    return {
        name: [judged(policy, episode) for episode in tests]
        for name, policy in {**rivals(place), **contestants()}.items()
    }


def study(workers: int) -> dict[str, Table]:
    """(places, tests, objectives) by name."""
    with mp.get_context("spawn").Pool(workers) as pool:
        rows = pool.map(contest, PLACES, chunksize=1)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def difference(ours: Table, rival: Table, index: int, sign: float = 1.0) -> str:
    """Paired, in points, mean over places with a 95 % interval."""
    gain = interval((100.0 * sign * (ours - rival)[:, :, index].mean(axis=1)).tolist())
    return f"{gain.mean:+.2f} +-{gain.half_width:.2f}"


def report(workers: int) -> str:
    """Means, and paired differences to the rivals."""
    found = study(workers)
    lines = ["| policy | attainment % | mean shortfall % | worst shortfall % | hits % |",
             "|---|---:|---:|---:|---:|"]  # fmt: skip
    for name, table in found.items():
        mean = 100.0 * table.mean(axis=(0, 1))
        lines.append(f"| {name} | {mean[0]:.1f} | {-mean[1]:.2f} | {-mean[2]:.1f} | {mean[3]:.1f} |")
    lines.append(f"\nMeans over {len(PLACES)} places x {TESTS} traces, each with targets of its own. Differences in "
                 "points, paired by trace, 95 % over places:\n")  # fmt: skip
    lines += ["| objective | policy | against | objective | hits |", "|---|---|---|---:|---:|"]
    for index, (objective, own) in enumerate(OWN.items()):
        rival, learned = f"best rule for {objective}", f"eunomia, {own}"
        for one, other in ((learned, rival), (f"promise_{own}", rival), (learned, "eunomia")):
            gain = difference(found[one], found[other], index, SIGNS[index])
            sign = "" if SIGNS[index] > 0 else " (less is better)"
            hits = difference(found[one], found[other], 3)
            lines.append(f"| {objective}{sign} | {one} | {other} | {gain} | {hits} |")
    over = [i for i, place in enumerate(PLACES) if place.load > 1.0]
    plain = found["best rule without promises"][over]
    for name in ("eunomia, keep", "promise_keep"):
        gain, hits = difference(found[name][over], plain, 0), difference(found[name][over], plain, 3)
        lines.append(f"| attainment, loads above 1 | {name} | best rule without promises | {gain} | {hits} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    text = report(asked.workers)
    print(text)
    if asked.write:
        page = RESULTS.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        RESULTS.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
