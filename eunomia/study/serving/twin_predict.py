"""What a policy would have done with recorded traffic, and what the server did."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eunomia.inference.outcome import Outcome
from eunomia.inference.simulate import simulate_problem
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.serving.replay import Replay
from eunomia.study.serving.twin import Twin


@dataclass(frozen=True)
class Prediction:
    """Per pair: hit rate and 95th percentile of the response, in the order of the agreements; and over all.

    ``failed``: decisions that the fallback took, as the policy raised or answered illegally.
    """

    name: str
    hit_rate: npt.NDArray[np.float64]
    p95_s: npt.NDArray[np.float64]
    overall: float
    failed: int = 0


def measured(twin: Twin) -> Prediction:
    """What the server did."""
    return _summary("measured", twin, twin.hit, twin.response_s)


def predict(twin: Twin, policy: PolicyLike) -> Prediction:
    """What the server would do under a policy."""
    if twin.server is None:
        return _summary(policy_name(policy), twin, *simulated(twin, policy))
    replay = Replay(twin, policy)
    return replace(_summary(policy_name(policy), twin, *replay.play()), failed=replay.failed)


def replayed(twin: Twin, policy: PolicyLike) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """The same request by request, in their order: whether in time, and the response (nan = none) [s].

    By the server's own dispatcher where the recording says enough of it, else by the simulator's engine.
    """
    if twin.server is not None:
        return Replay(twin, policy).play()
    return simulated(twin, policy)


def simulated(twin: Twin, policy: PolicyLike) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """By the simulator's engine: fast, and blind to what the dispatcher does beside asking its policy."""
    outcome: Outcome = simulate_problem(twin.problem(), resolve_policy(policy), twin.options)
    results = outcome.results
    answered = results["outcome"] <= 1
    reached_s = results["finish_s"] - results["arrival_s"] + twin.answer_s
    hit = answered & (reached_s <= twin.requests.relative_deadline_s + 1e-9)
    response_s = np.where(answered, reached_s + twin.reach_s, np.nan)
    return hit, response_s


def _summary(
    name: str, twin: Twin, hit: npt.NDArray[np.bool_], response_s: npt.NDArray[np.float64]
) -> Prediction:
    pairs = range(len(twin.requests.agreements))
    mine = [twin.requests.pair == n for n in pairs]
    rate = np.array([hit[m].mean() if m.any() else math.nan for m in mine])
    p95 = np.array([_p95(response_s[m]) for m in mine])
    return Prediction(name, rate, p95, float(hit.mean()))


def _p95(values: npt.NDArray[np.float64]) -> float:
    answered = values[~np.isnan(values)]
    return float(np.percentile(answered, 95.0)) if len(answered) else math.nan
