"""A short formula for the order: the few features whose weighted sum comes nearest to the teacher's score.

Forward selection with all weights solved anew at each step, on differences within decisions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.learning.distill.fitting.grow import centred
from eunomia.learning.distill.fitting.samples import Samples
from eunomia.learning.distill.fitting.teacher import three_digits
from eunomia.learning.observation.table import JOB

ENOUGH = 1e-6  # share of the spread below which nothing is left to explain


def short_formula(samples: Samples, most: int) -> dict[str, float]:
    """At most ``most`` weights by feature, three digits each; ``samples`` of the order."""
    root = np.sqrt(samples.weight)
    columns = np.column_stack([root * centred(samples.inputs[:, f], samples) for f in range(len(JOB))])
    score = root * centred(samples.base + samples.target, samples)
    chosen: list[int] = []
    weights: Floats = np.zeros(0)
    rest = score
    size = np.sqrt((columns**2).sum(axis=0))
    while len(chosen) < most and rest @ rest > ENOUGH * (score @ score):
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(size > 1e-12, np.abs(columns.T @ rest) / size, 0.0)
        pull[chosen] = 0.0
        if not pull.any():
            break
        chosen.append(int(np.argmax(pull)))
        weights = np.asarray(np.linalg.lstsq(columns[:, chosen], score, rcond=None)[0], np.float64)
        rest = score - columns[:, chosen] @ weights
    found = sorted(zip(chosen, weights.tolist(), strict=True))
    return {JOB[f]: three_digits(value) for f, value in found if three_digits(value) != 0.0}


def with_formula(samples: Samples, terms: dict[str, float]) -> Samples:
    """The same rows with another formula: what it does not give is the target."""
    weights = np.array([terms.get(name, 0.0) for name in JOB])
    base: Floats = samples.inputs[:, : len(JOB)] @ weights
    return replace(samples, base=base, target=samples.base + samples.target - base)
