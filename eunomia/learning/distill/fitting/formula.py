"""Short formulas: the few features whose weighted sum comes nearest to what the teacher says.

Forward selection with all weights solved anew at each step: of the order on differences within decisions, of the
decision to start near the teacher's threshold, where a row's weight is greatest (samples.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import reduce

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.learning.distill.fitting.grow import centred
from eunomia.learning.distill.fitting.samples import Samples
from eunomia.learning.distill.fitting.teacher import three_digits
from eunomia.learning.distill.inputs import NAMES
from eunomia.learning.evolve.expression import Formula, Node, number
from eunomia.learning.observation.table import JOB

ENOUGH = 1e-6  # share of the spread below which nothing is left to explain


def short_formula(samples: Samples, most: int, without: Collection[str] = ()) -> dict[str, float]:
    """At most ``most`` weights by feature, three digits each; ``samples`` of the order."""
    root = np.sqrt(samples.weight)
    columns = np.column_stack([root * centred(samples.inputs[:, f], samples) for f in range(len(JOB))])
    columns[:, [JOB.index(name) for name in without]] = 0.0
    score = root * centred(samples.base + samples.target, samples)
    return {JOB[f]: value for f, value in _chosen(columns, score, most) if value != 0.0}


def slope(samples: Samples, most: int, without: Collection[str] = ()) -> Formula:
    """The margin of a start less the gate, as a constant and at most ``most`` terms; ``samples`` of starts."""
    constant, found = slope_terms(samples, most, without)
    terms = [Node("*", (number(value), Node(name))) for name, value in found.items()]
    return Formula(reduce(lambda a, b: Node("+", (a, b)), terms, number(constant)))


def slope_terms(samples: Samples, most: int, without: Collection[str] = ()) -> tuple[float, dict[str, float]]:
    """The same as numbers: the constant, and weights by feature."""
    if not len(samples.target):
        return 0.0, {}
    root = np.sqrt(samples.weight)
    columns = root[:, None] * np.column_stack([samples.inputs, np.ones(len(root))])
    columns[:, [NAMES.index(name) for name in without]] = 0.0
    found = dict(_chosen(columns, root * samples.target, most, len(NAMES)))
    constant = found.pop(len(NAMES))
    return constant, {NAMES[f]: value for f, value in found.items()}


def _chosen(columns: Floats, goal: Floats, most: int, *given: int) -> list[tuple[int, float]]:
    """Columns and their weights: those ``given``, and at most ``most`` more, one after the other."""
    chosen, weights, rest = list(given), np.zeros(0), goal
    size = np.sqrt((columns**2).sum(axis=0))
    while True:
        if chosen:
            weights = np.asarray(np.linalg.lstsq(columns[:, chosen], goal, rcond=None)[0], np.float64)
            rest = goal - columns[:, chosen] @ weights
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(size > 1e-12, np.abs(columns.T @ rest) / size, 0.0)
        pull[chosen] = 0.0
        if len(chosen) == most + len(given) or rest @ rest <= ENOUGH * (goal @ goal) or not pull.any():
            return [(f, three_digits(v)) for f, v in sorted(zip(chosen, weights.tolist(), strict=True))]
        chosen.append(int(np.argmax(pull)))


def with_formula(samples: Samples, terms: dict[str, float]) -> Samples:
    """The same rows with another formula: what it does not give is the target."""
    weights = np.array([terms.get(name, 0.0) for name in JOB])
    base: Floats = samples.inputs[:, : len(JOB)] @ weights
    return replace(samples, base=base, target=samples.base + samples.target - base)
