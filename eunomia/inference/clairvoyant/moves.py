"""Neighbours of a candidate: single requests and rules at random, and windows of time around a missed request."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from eunomia.core.arrays import Flags, Floats
from eunomia.inference.clairvoyant.candidates import PLACES, Bench, Candidate
from eunomia.inference.policies.greedy import Greedy


def moved(current: Candidate, bench: Bench, rng: np.random.Generator) -> Candidate:
    """A random neighbour: one move of the rule, or one to three moves around a request, mostly a missed one."""
    if rng.random() < 0.05:
        assert isinstance(current.policy, Greedy), "only rules are moved"
        return replace(current, policy=_another_rule(current.policy, bench, rng))
    admitted, credit_s = current.admitted.copy(), current.credit_s.copy()
    missed = np.flatnonzero(~current.hit)
    anywhere = not len(missed) or rng.random() < 0.3
    anchor = int(rng.integers(len(admitted)) if anywhere else rng.choice(missed))
    for _ in range(int(rng.integers(1, 4))):
        _one_move(current.hit, admitted, credit_s, anchor, bench, rng)
    credit_s -= min(float(credit_s.min()), 0.0)  # priorities are not negative; only differences count
    return replace(current, admitted=admitted, credit_s=credit_s)


def window_moved(current: Candidate, bench: Bench, rng: np.random.Generator) -> Candidate:
    """Tear up what runs in the window of a missed request, and let the engine put it together again.

    The missed request is admitted and goes before the others. Some of those that ran in its window are given up, in
    proportion to their work, or trade places at random.
    """
    missed = np.flatnonzero(~current.hit)
    if not len(missed):
        return moved(current, bench, rng)
    admitted, credit_s = current.admitted.copy(), current.credit_s.copy()
    anchor = int(rng.choice(missed))
    from_s, to_s = bench.requests.arrival_s[anchor], bench.requests.deadline_s[anchor]
    rivals = np.flatnonzero(current.hit & (current.start_s < to_s) & (current.finish_s > from_s))
    step_s = bench.scale_s * 10.0 ** rng.uniform(-1.5, 0.3)
    admitted[anchor] = True
    credit_s[anchor] += step_s
    kind = int(rng.integers(3))
    if kind and len(rivals):  # 1: give one up; 2: give one up, and let another missed one in
        work_s = bench.work_s[rivals]
        admitted[rng.choice(rivals, p=work_s / work_s.sum() if work_s.sum() > 0.0 else None)] = False
    if kind == 2:
        other = int(rng.choice(missed))
        admitted[other] = True
        credit_s[other] += step_s * rng.random()
    if kind == 0 and len(rivals):  # all of them, or a few, in another order
        some = rng.choice(rivals, min(len(rivals), int(rng.integers(2, 9))), replace=False)
        credit_s[some] += 0.3 * step_s * rng.standard_normal(len(some))
    credit_s -= min(float(credit_s.min()), 0.0)
    return replace(current, admitted=admitted, credit_s=credit_s)


def _one_move(
    hit: Flags, admitted: Flags, credit_s: Floats, anchor: int, bench: Bench, rng: np.random.Generator
) -> None:
    """Change admission or credit of the anchor, or of a request that arrives near it."""
    near = int(np.clip(anchor + rng.integers(-20, 21), 0, len(admitted) - 1))
    step_s = bench.scale_s * 10.0 ** rng.uniform(-2.0, 0.3)
    move = int(rng.integers(5))
    if move == 0:  # give the anchor a chance, or give it up
        admitted[anchor] = not admitted[anchor] or bool(hit[anchor])
    elif move == 1:
        credit_s[anchor] += step_s * rng.standard_normal()
    elif move == 2:  # the two trade places
        credit_s[anchor], credit_s[near] = credit_s[near], credit_s[anchor]
    elif move == 3:  # the anchor goes before what is near, or the other way round
        credit_s[anchor] += step_s
        credit_s[near] -= step_s
    else:
        admitted[near] = not admitted[near]


def _another_rule(policy: Greedy, bench: Bench, rng: np.random.Generator) -> Greedy:
    """Another gate, placement, order, or treatment of hopeless requests."""
    what = int(rng.integers(4))
    if what == 0 and bench.limited:
        base = policy.gate if math.isfinite(policy.gate) else 1.0
        return replace(policy, gate=float(base * rng.uniform(0.85, 1.15)))
    if what == 1:
        return replace(policy, place=PLACES[int(rng.integers(len(PLACES)))])
    if what == 2:
        orders = list(bench.orders.values())
        return replace(policy, order=orders[int(rng.integers(len(orders)))])
    return replace(policy, feasible=not policy.feasible)
