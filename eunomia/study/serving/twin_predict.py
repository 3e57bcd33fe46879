"""What a policy would have done with recorded traffic, and what the server did."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from eunomia.core.arrays import Flags, Floats, Ints
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
    hit_rate: Floats
    p95_s: Floats
    overall: float
    failed: int = 0


def measured(twin: Twin) -> Prediction:
    """What the server did."""
    return _summary("measured", twin.requests.pair, twin, twin.hit, twin.response_s)


def predict(twin: Twin, policy: PolicyLike) -> Prediction:
    """What the server would do under a policy."""
    if twin.server is None:
        return _summary(policy_name(policy), twin.requests.pair, twin, *simulated(twin, policy))
    replay = Replay(twin, policy)
    told = replay.play()
    found = _summary(policy_name(policy), twin.requests.pair[told.number], twin, told.hit, told.response_s)
    return replace(found, failed=replay.failed)


def replayed(twin: Twin, policy: PolicyLike) -> tuple[Flags, Floats]:
    """The same request by request, in their order: whether in time, and the response (nan = none) [s].

    By the server's own dispatcher where the recording says enough of it, else by the simulator's engine. A pair whose
    clients wait for their answers may send more or less under another policy: rates and percentiles are of ``sent``.
    """
    if twin.server is None:
        return simulated(twin, policy)
    replay = Replay(twin, policy)
    told = replay.play()
    place = replay.places(told)
    return told.hit[place], told.response_s[place]


def sent(twin: Twin, policy: PolicyLike) -> tuple[Ints, Flags, Floats]:
    """The same of all that was sent in the replay: the pair of each, too."""
    if twin.server is None:
        return twin.requests.pair, *simulated(twin, policy)
    told = Replay(twin, policy).play()
    return twin.requests.pair[told.number], told.hit, told.response_s


def simulated(twin: Twin, policy: PolicyLike) -> tuple[Flags, Floats]:
    """By the simulator's engine: fast, and blind to what the dispatcher does beside asking its policy."""
    outcome: Outcome = simulate_problem(twin.problem(), resolve_policy(policy), twin.options)
    results = outcome.results
    answered = results["outcome"] <= 1
    reached_s = results["finish_s"] - results["arrival_s"] + twin.answer_s
    hit = answered & (reached_s <= twin.requests.relative_deadline_s + 1e-9)
    response_s = np.where(answered, reached_s + twin.reach_s, np.nan)
    return hit, response_s


def _summary(name: str, pair: Ints, twin: Twin, hit: Flags, response_s: Floats) -> Prediction:
    mine = [pair == n for n in range(len(twin.requests.agreements))]
    rate = np.array([hit[m].mean() if m.any() else math.nan for m in mine])
    p95 = np.array([_p95(response_s[m]) for m in mine])
    return Prediction(name, rate, p95, float(hit.mean()))


def _p95(values: Floats) -> float:
    answered = values[~np.isnan(values)]
    return float(np.percentile(answered, 95.0)) if len(answered) else math.nan
