"""A learned policy as the source of corrections that rules are to imitate, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.learning.observation.table import JOB, START_JOB
from eunomia.learning.policy.formula import GLOBAL_AT, PAIR_AT, SHARE_AT
from eunomia.learning.policy.network import REACH
from eunomia.learning.policy.weights import Weights


def three_digits(value: float) -> float:
    """Rounded to three significant digits: what is printed is what is computed."""
    return float(f"{value:.3g}")


@dataclass(frozen=True, eq=False)
class ByTeacher:
    """A learned policy as a formula of job features (``terms``), a placement and a gate, and corrections of them."""

    weights: Weights
    terms: dict[str, float]

    @cached_property
    def heuristic(self) -> Weights:
        """The formula with the teacher's placement and gate (three digits)."""
        base = np.array([self.terms.get(name, 0.0) for name in JOB])
        return Weights(place=self.weights.place, gate=three_digits(self.weights.gate), base=base,
                       low=self.weights.low, high=self.weights.high)  # fmt: skip

    def correct(self, part: str, inputs: Floats, everyone: Floats, index: int = 0) -> Floats:
        """(n,) what it adds to the formula, to the worth of an accelerator, or to the gate (of one row)."""
        w = self.weights
        if part == "order":
            rest = inputs[:, : len(JOB)] @ (w.base + w.job - self.heuristic.base)
            return rest if w.kind == "linear" else rest + self._hidden(everyone) @ w.network["out"]
        if part == "place":
            return inputs[:, PAIR_AT:GLOBAL_AT] @ w.pair
        row = inputs[0]
        asked = np.concatenate([row[PAIR_AT:SHARE_AT], row[list(START_JOB)]])
        value = float(asked @ w.start) + float(row[SHARE_AT:] @ w.share)
        value += w.gate - self.heuristic.gate if np.isfinite(w.gate) else 0.0
        value += 0.0 if w.kind == "linear" else float(self._hidden(everyone)[index] @ w.network["out_start"])
        return np.array([value])

    def _hidden(self, everyone: Floats) -> Floats:
        """(n, units) last hidden layer for all waiting sub-jobs; formulas in policy/weights.py."""
        w, n = self.weights, self.weights.network
        own = np.clip((everyone[:, : len(JOB)] - w.centre) / w.spread, -REACH, REACH)
        hidden = _squash(np.hstack([own, everyone[:, GLOBAL_AT:SHARE_AT]]) @ n["W1"] + n["b1"])
        if w.kind == "hidden":
            return hidden
        return _squash(hidden @ n["A"] + hidden.mean(axis=0) @ n["M"] + hidden.max(axis=0) @ n["Q"] + n["b2"])


def _squash(values: Floats) -> Floats:
    return np.asarray(values / (1.0 + np.abs(values)), np.float64)


def base_terms(weights: Weights) -> dict[str, float]:
    """The order that the policy began with, as a formula."""
    return {name: three_digits(value) for name, value in zip(JOB, weights.base, strict=True) if value != 0.0}
