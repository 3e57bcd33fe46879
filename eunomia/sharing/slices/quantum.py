"""The slice: small enough to be fair, large enough that changes of hands cost little."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eunomia.core.errors import ConfigError

Curve = Mapping[float, float]  # quantum in seconds -> overhead, a share of the time without slices


def choose_quantum(curves: Mapping[str, Curve], tolerance: float) -> float:
    """The smallest quantum whose overhead is within ``tolerance`` for every model, and for all larger ones measured.

    Raises ConfigError where none is.
    """
    if not curves or not all(curves.values()):
        raise ConfigError("no overhead was measured; give at least one quantum per model")
    common = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    if not common:
        raise ConfigError("the models have no quantum in common; measure all at the same ones")
    worst = [max(curve[quantum_s] for curve in curves.values()) for quantum_s in common]
    good = [all(found <= tolerance for found in worst[n:]) for n in range(len(common))]
    if not any(good):
        raise ConfigError(
            f"overhead is {worst[-1]:.1%} at the largest quantum, {common[-1] * 1e3:g} ms; "
            f"measure larger ones, or tolerate more than {tolerance:.1%}"
        )
    return common[good.index(True)]


def floor_and_cost(curve: Curve) -> tuple[float, float]:
    """(floor, seconds s) of least squares in overhead = floor + s / Q.

    The floor is what taking turns costs at any quantum, s what a change of hands costs. Without the floor, s / Q alone
    misses measured curves by several points. Raises ConfigError for fewer than two quanta.
    """
    if len(curve) < 2:
        raise ConfigError(f"overhead at {len(curve)} quanta; a floor and a cost need at least two")
    design = np.stack([np.ones(len(curve)), 1.0 / np.array(list(curve))], axis=1)
    floor, cost_s = np.linalg.lstsq(design, np.array(list(curve.values())), rcond=None)[0].tolist()
    return floor, cost_s
