"""The hyperparameter search of an app: successive halving ends trials that cannot win."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from eunomia.cluster.job import TrainingJob
from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError


@dataclass(frozen=True)
class SuccessiveHalving:
    """At rungs of growing budget keep the best 1/eta of the trials; the last one trains to its end.

    Source: Jamieson and Talwalkar, AISTATS 2016. Rung r of R = ceil(log_eta trials) ends at steps * eta^(r -
    R). A trial's fate at a rung depends on the losses at that rung alone, not on time. So the search can
    compute each trial's steps in advance. Does badly when early losses mislead: a slow starter that would win
    is ended at the first rung.
    """

    eta: int = 2

    def __post_init__(self) -> None:
        if self.eta < 2:
            raise ConfigError(f"eta is {self.eta}; successive halving keeps 1/eta of the trials: 2 or more")

    def rungs(self, trials: int) -> Floats:
        """Fractions of the full budget at which trials are ended, ascending, without the end itself."""
        number = math.ceil(math.log(trials, self.eta) - 1e-9) if trials > 1 else 0
        return np.asarray(float(self.eta) ** (np.arange(number) - number))

    def fractions(self, quality: Floats, noise: Floats) -> Floats:
        """(trials,) fraction of the full budget each trial runs.

        ``quality`` (trials,) is the loss each would end with; at rung r a trial shows
        quality + noise[trial, r]. Ties go to the earlier trial.
        """
        trials = len(quality)
        kept = np.arange(trials)
        ran = np.ones(trials)
        for r, budget in enumerate(self.rungs(trials)):
            survivors = math.ceil(len(kept) / self.eta)
            order = kept[np.argsort(quality[kept] + noise[kept, r], kind="stable")]
            ran[order[survivors:]] = budget
            kept = np.sort(order[:survivors])
        return ran


def tuned(
    trials: list[TrainingJob], search: SuccessiveHalving, seed: int, noise: float = 0.1
) -> list[TrainingJob]:
    """The trials of one app with ``total_steps`` cut to what the search lets them run.

    Final losses are uniform in [0, 1]. A rung shows them with a normal error of ``noise``, halved at each
    later rung; all from ``seed``.
    """
    rng = np.random.default_rng(seed)
    number = len(trials)
    quality = rng.random(number)
    rungs = len(search.rungs(number))
    errors = rng.normal(0.0, noise, (number, rungs)) * 0.5 ** np.arange(rungs)
    ran = search.fractions(quality, errors)
    return [
        replace(job, total_steps=max(1.0, round(job.total_steps * fraction)))
        for job, fraction in zip(trials, ran.tolist(), strict=True)
    ]
