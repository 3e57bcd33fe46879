"""Thresholds that a tree may ask for, and where every row lies between them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats
from eunomia.learning.distill.fitting.teacher import three_digits

BINS = 32  # thresholds per feature: quantiles, rounded to three digits


def edges_of(values: Floats) -> Floats:
    """Thresholds: quantiles between which something lies, three digits."""
    quantiles = np.quantile(values, np.linspace(0.0, 1.0, BINS + 1)[1:-1]) if len(values) else np.zeros(0)
    edges = np.unique([three_digits(float(v)) for v in quantiles])
    return edges[(edges < values.max()) & (edges >= values.min())] if len(values) else edges


def codes_of(values: Floats, edges: Floats) -> npt.NDArray[np.int64]:
    """How many thresholds lie below each value."""
    return np.searchsorted(edges, values).astype(np.int64)
