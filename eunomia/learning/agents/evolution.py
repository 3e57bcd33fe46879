"""CMA-ES with all of its state in plain arrays, so that a run can be stopped and resumed to the last bit.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772: weighted recombination, cumulative
step-size adaptation, rank-one and rank-mu update of the covariance, default constants for n parameters and
population lambda. ``diagonal`` keeps the covariance diagonal with the faster learning rate (n + 2) / 3 of Ros and
Hansen, PPSN 2008, for hundreds of parameters. Maximises. Samples of a generation come from
(seed, generation) alone.

Deviations: (1) no restarts and no active (negative) update; (2) a candidate whose value is not a number ranks last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from eunomia.core.arrays import Floats


@dataclass(frozen=True, eq=False)
class Evolution:
    """Mean, step size, covariance and paths after ``generation`` generations."""

    mean: Floats  # (n,)
    sigma: float
    covariance: Floats  # (n, n); (n,) where diagonal
    path_sigma: Floats  # (n,)
    path_c: Floats  # (n,)
    population: int
    seed: int
    generation: int = 0

    @property
    def diagonal(self) -> bool:
        """Whether only variances are learned."""
        return self.covariance.ndim == 1

    def ask(self) -> Floats:
        """(population, n) candidates of this generation; the same at every call."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, self.generation, 0xC3A]))
        steps = rng.standard_normal((self.population, len(self.mean)))
        scale, axes = self._axes()
        spread = steps * scale if axes is None else (steps * scale) @ axes.T
        return np.asarray(self.mean + self.sigma * spread)

    def tell(self, candidates: Floats, values: Floats) -> Evolution:
        """The state after the candidates of this generation were valued; greater values are better."""
        n, c = len(self.mean), _Constants(len(self.mean), self.population, self.diagonal)
        ranked = np.where(np.isnan(values), -np.inf, values)
        best = candidates[np.argsort(-ranked, kind="stable")[: len(c.weights)]]
        steps = (best - self.mean) / self.sigma
        move = c.weights @ steps
        scale, axes = self._axes()
        white = move / scale if axes is None else axes @ ((axes.T @ move) / scale)
        turn_sigma = math.sqrt(c.c_sigma * (2.0 - c.c_sigma) * c.mu_eff)
        path_sigma = (1.0 - c.c_sigma) * self.path_sigma + turn_sigma * white
        length = float(np.linalg.norm(path_sigma))
        settled = 1.0 - (1.0 - c.c_sigma) ** (2 * (self.generation + 1))
        rising = length / math.sqrt(settled) < (1.4 + 2.0 / (n + 1.0)) * c.chi
        turn_c = float(rising) * math.sqrt(c.c_c * (2.0 - c.c_c) * c.mu_eff)
        path_c = (1.0 - c.c_c) * self.path_c + turn_c * move
        if axes is None:
            one, many = path_c**2, c.weights @ steps**2
        else:
            one, many = np.outer(path_c, path_c), (steps.T * c.weights) @ steps
        lost = 0.0 if rising else c.c_1 * c.c_c * (2.0 - c.c_c)
        covariance = (1.0 - c.c_1 - c.c_mu + lost) * self.covariance + c.c_1 * one + c.c_mu * many
        sigma = self.sigma * math.exp(min(1.0, (c.c_sigma / c.d_sigma) * (length / c.chi - 1.0)))
        return replace(
            self, mean=self.mean + self.sigma * move, sigma=sigma, covariance=covariance, path_sigma=path_sigma,
            path_c=path_c, generation=self.generation + 1,
        )  # fmt: skip

    def _axes(self) -> tuple[Floats, Floats | None]:
        """Standard deviations and principal axes of the covariance; no axes where diagonal."""
        if self.diagonal:
            return np.sqrt(np.maximum(self.covariance, 1e-20)), None
        values, axes = np.linalg.eigh((self.covariance + self.covariance.T) / 2.0)
        return np.sqrt(np.maximum(values, 1e-20)), axes

    def arrays(self) -> dict[str, Floats]:
        """The state as arrays, for ``from_arrays``."""
        numbers = np.array([self.sigma, self.population, self.seed, self.generation], np.float64)
        return {"mean": self.mean, "covariance": self.covariance, "path_sigma": self.path_sigma,
                "path_c": self.path_c, "numbers": numbers}  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: dict[str, Floats]) -> Evolution:
        """The state that ``arrays`` described."""
        sigma, population, seed, generation = arrays["numbers"].tolist()
        return cls(
            arrays["mean"], sigma, arrays["covariance"], arrays["path_sigma"], arrays["path_c"], int(population),
            int(seed), int(generation),
        )  # fmt: skip


def new_evolution(
    mean: Floats, sigma: float, population: int, seed: int, diagonal: bool = False
) -> Evolution:
    """The start: step ``sigma`` in every direction. ``population`` 0 = 4 + 3 ln n."""
    n = len(mean)
    size = population or 4 + int(3.0 * math.log(n))
    covariance = np.ones(n) if diagonal else np.eye(n)
    return Evolution(np.array(mean, np.float64), sigma, covariance, np.zeros(n), np.zeros(n), size, seed)


class _Constants:
    """Default constants of the tutorial, table 1."""

    def __init__(self, n: int, population: int, diagonal: bool) -> None:
        raw = math.log((population + 1) / 2.0) - np.log(np.arange(1, population // 2 + 1))
        self.weights: Floats = raw / raw.sum()
        self.mu_eff = mu_eff = float(1.0 / (self.weights**2).sum())
        self.c_sigma = (mu_eff + 2.0) / (n + mu_eff + 5.0)
        self.d_sigma = 1.0 + 2.0 * max(0.0, math.sqrt((mu_eff - 1.0) / (n + 1.0)) - 1.0) + self.c_sigma
        self.c_c = (4.0 + mu_eff / n) / (n + 4.0 + 2.0 * mu_eff / n)
        self.c_1 = 2.0 / ((n + 1.3) ** 2 + mu_eff)
        self.c_mu = min(1.0 - self.c_1, 2.0 * (mu_eff - 2.0 + 1.0 / mu_eff) / ((n + 2.0) ** 2 + mu_eff))
        if diagonal:
            faster = (n + 2.0) / 3.0
            self.c_1 = min(1.0, self.c_1 * faster)
            self.c_mu = min(1.0 - self.c_1, self.c_mu * faster)
        # Expected length of a standard normal vector.
        self.chi = math.sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n))
