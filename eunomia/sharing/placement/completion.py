"""Scores of an application from a few probes, by the main directions of applications profiled in full."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError


def complete(
    profiled: Floats, places: Sequence[int], values: Floats, rank: int = 4, ridge: float = 0.02
) -> Floats:
    """All scores (D,) of an application with ``values`` at ``places``; ``profiled`` (N, D) is known in full.

    SVD of the centred profiles; the new application's factors by ridge regression on its probes, each factor weighed by
    its variance; scores stay within [0, 1]. Does badly for an application unlike all profiled ones.
    """
    if not len(profiled):
        raise ConfigError("completion needs applications that were profiled in full")
    mean = profiled.mean(axis=0)
    _, strength, directions = np.linalg.svd(profiled - mean, full_matrices=False)
    scale = strength[:rank] / np.sqrt(len(profiled))
    basis = directions[:rank] * scale[:, None]  # (rank, D): one standard deviation of each factor
    seen = basis[:, list(places)].T  # (probes, rank)
    penalty = ridge * max(float(scale.max(initial=0.0)) ** 2, 1e-12) * np.eye(len(scale))
    factors = np.linalg.solve(seen.T @ seen + penalty, seen.T @ (values - mean[list(places)]))
    return np.asarray(np.clip(mean + factors @ basis, 0.0, 1.0))
