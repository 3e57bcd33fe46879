"""Memory for one run of a linear policy, and its machine code put where the event loop finds it."""

from __future__ import annotations

from functools import cache
from typing import Protocol

import numpy as np
from numba import types

from eunomia.contract import traits
from eunomia.core.addresses import address_of
from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import compile_cached
from eunomia.inference.kernel.layout import INDEX, NUMBER
from eunomia.inference.kernel.memory import KERNEL_TYPE
from eunomia.inference.kernel.setup import DECIDE
from eunomia.inference.kernel.signatures import SYSTEM_TYPE
from eunomia.inference.kernel.state import State
from eunomia.inference.linear.columns import (
    COLUMNS,
    LANE_ROWS,
    LANES,
    N_PAIR,
    ORDERS,
    PAIR_BOUND,
    WANTED,
    WEIGHTS,
)
from eunomia.inference.linear.decision import decide_in_place
from eunomia.inference.options import EngineOptions
from eunomia.learning.observation.table import JOB
from eunomia.learning.policy.weights import COLLECT, KIND, KINDS, NETWORK, Weights

# Where the functions stand that the decision calls; then least and greatest value of each pair feature but ``slower``.
FOLDERS = (
    "inference/kernel",
    "inference/linear",
    "inference/policies",
    "learning/observation",
    "learning/policy",
)
RANGES = ((0.0, 4.0), (0.0, 4.0), (0.0, 4.0), (-1.0, 1.5), (0.0, 1.0), (0.0, 1.0))


class Linear(Protocol):
    """A learned policy; ``block``: its numbers, packed."""

    weights: Weights
    block: Floats


class Begun(Protocol):
    """An engine (inference/simulate.py) that has not begun to run."""

    state: State
    options: EngineOptions


def fits(policy: Linear, options: EngineOptions) -> bool:
    """Whether this policy decides in place in such runs: no network, no period, and no ranges that are recorded."""
    plain = policy.block[KIND] == KINDS.index("linear") and not policy.block[COLLECT]
    return bool(plain) and options.period_s is None


def take_seat(engine: Begun, policy: Linear) -> None:
    """Let compiled code decide as this policy does, in this run, if it fits."""
    asked, state = traits.IN_PLACE.of(policy), engine.state
    if state.k["mode"] == DECIDE and asked is not None and asked(engine.options):
        _seat(state, policy.weights, policy.block)
        state.kernel["linear_at"] = _address()


def _seat(state: State, weights: Weights, block: Floats) -> None:
    """Memory for this run."""
    nodes, costs = len(state["nodes"]), state["costs"]
    width = len(state["lanes"]) + costs.shape[1]
    numbers = np.zeros(LANES + LANE_ROWS * width + costs.size, NUMBER)
    values, slowest = numbers["value"], _slowest(costs["estimate_s"], bool(state.k["learn"] > 0.0))
    values[LANES + LANE_ROWS * width :] = np.nan
    values[WANTED : WANTED + len(JOB)] = weights.judged  # what it reads
    values[WEIGHTS : WEIGHTS + NETWORK] = block[:NETWORK]
    values[PAIR_BOUND] = _bound(weights.start[:N_PAIR], slowest)
    terms = np.zeros(COLUMNS * nodes, NUMBER)
    state.give({"terms": terms, "orders": np.zeros(len(ORDERS) * nodes, INDEX), "numbers": numbers})


def _slowest(estimate_s: Floats, learned: bool) -> float:
    """No more than this is ``slower``."""
    if learned:
        return np.inf
    able = np.where(np.isfinite(estimate_s), estimate_s, 0.0)
    return float(np.log(np.max(able.max(axis=1) / estimate_s.min(axis=1)))) + 1.0


def _bound(weights: Floats, slowest: float) -> float:
    """The most that pair features add up to with these weights."""
    ranges = ((0.0, slowest), *RANGES)
    return float(
        sum(max(w * low, w * high) for w, (low, high) in zip(weights, ranges, strict=True) if w != 0.0)
    )


@cache
def _address() -> int:
    return address_of(
        compile_cached(decide_in_place, types.int64(KERNEL_TYPE, SYSTEM_TYPE), "linear", *FOLDERS)
    )
