"""Loss over steps: l(k) = 1 / (a k + b) + c, as Optimus (EuroSys 2018) fits it; and speed over workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.contract.allocation import ClusterView
from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError


@dataclass(frozen=True)
class LossCurve:
    """l(k) = 1 / (a k + b) + c with a, b > 0, c >= 0; arrays or numbers."""

    a: Floats
    b: Floats
    c: Floats

    def at(self, steps: Floats) -> Floats:
        """Loss after ``steps``."""
        return np.asarray(1.0 / (self.a * steps + self.b) + self.c)


def fit_loss(steps: Floats, loss: Floats) -> LossCurve:
    """Least squares of 1 / (l - c) = a k + b over a, b >= 0, for the best of 100 values of c in [0, min loss).

    Raises ConfigError for fewer than three points. Does badly on curves with plateaus or warm-up.
    """
    from scipy.optimize import nnls

    if len(steps) < 3 or len(steps) != len(loss):
        raise ConfigError(f"a loss curve has three parameters; {len(steps)} points cannot fix them")
    best, chosen = np.inf, (1.0, 1.0, 0.0)
    scale = max(float(np.max(steps)), 1.0)
    basis = np.stack([steps / scale, np.ones(len(steps))], axis=1)
    for c in np.linspace(0.0, 0.99 * float(loss.min()), 100):
        (a, b), _ = nnls(basis, 1.0 / (loss - c))
        error = float(((1.0 / np.maximum(basis @ [a, b], 1e-12) + c - loss) ** 2).sum())
        if error < best:
            best, chosen = error, (a / scale, b, float(c))
    return LossCurve(*(np.asarray(value) for value in chosen))


def fit_speed(workers: Floats, steps_s: Floats) -> Floats:
    """(3,) theta >= 0 of step time = theta0 / w + theta1 + theta2 w: compute, fixed part, communication.

    Optimus' form for synchronous training without parameter servers as a variable. Non-negative least squares.
    """
    from scipy.optimize import nnls

    basis = np.stack([1.0 / workers, np.ones(len(workers)), workers], axis=1)
    theta, _ = nnls(basis, 1.0 / steps_s)
    return np.asarray(theta)


def curve_of(view: ClusterView) -> LossCurve:
    """Curves of the jobs, from the traits ``loss_a``, ``loss_b``, ``loss_c``.

    A job that says nothing gets a curve that has lost nine tenths of its excess at its last step:
    1 / (9 k / total + 1).
    """
    count = len(view)
    a, b, c = (view.traits.get(f"loss_{name}", np.full(count, np.nan)) for name in "abc")
    unsaid = np.isnan(a) | np.isnan(b)
    return LossCurve(
        np.where(unsaid, 9.0 / view.total_steps, a),
        np.where(unsaid, 1.0, b),
        np.where(unsaid | np.isnan(c), 0.0, c),
    )
