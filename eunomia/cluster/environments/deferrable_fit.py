"""Fitting the scored policy for deferrable jobs by CMA-ES, and keeping the heuristic where it does not win."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.cluster.environments.deferrable import (
    DeferrableCase,
    DeferrablePolicy,
    Scored,
    first_fit,
    run_deferrable,
)
from eunomia.core.arrays import Floats

START = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 2.0, 0.0)  # all start at once, shortest window first


@dataclass(frozen=True)
class Fit:
    """What was learned, how it did on validation traces beside the heuristic, and what should be used."""

    learned: Scored
    ours: float
    heuristic: float
    kept: bool  # True: the learned policy passed the gate

    @property
    def policy(self) -> DeferrablePolicy:
        """The learned policy, or first fit where it did not win."""
        return self.learned if self.kept else first_fit


def reward(case: DeferrableCase, policy: DeferrablePolicy, overload_cost: float = 2.0) -> float:
    """served - ``overload_cost`` * overload - 0.01 * mean wait in slots / 24."""
    result = run_deferrable(case.jobs, case.left_over, case.forecast, policy)
    wait = 0.0 if np.isnan(result.wait_slots) else result.wait_slots
    return result.served * (1.0 - overload_cost * result.overload) - 0.01 * wait / 24.0


def mean_reward(cases: Sequence[DeferrableCase], policy: DeferrablePolicy) -> float:
    """Mean over traces."""
    return float(np.mean([reward(case, policy) for case in cases]))


def fit(
    train: Sequence[DeferrableCase], validate: Sequence[DeferrableCase], seed: int = 0, evaluations: int = 400
) -> Fit:
    """CMA-ES on the mean reward of ``train``; kept if better than first fit on ``validate`` by two standard errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says at import that plotting is not there
        import cma

    search = cma.CMAEvolutionStrategy(
        list(START), 1.0, {"seed": seed + 1, "verbose": -9, "maxfevals": evaluations, "bounds": [-8.0, 8.0]}
    )
    while not search.stop():
        asked = search.ask()
        search.tell(asked, [-mean_reward(train, Scored(tuple(map(float, w)))) for w in asked])
    learned = Scored(tuple(round(float(w), 6) for w in search.result.xbest))
    ours: Floats = np.array([reward(case, learned) for case in validate])
    theirs: Floats = np.array([reward(case, first_fit) for case in validate])
    gain = ours - theirs
    sure = gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(len(gain))
    return Fit(learned, float(ours.mean()), float(theirs.mean()), bool(sure))
