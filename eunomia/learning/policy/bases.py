"""The heuristics that a policy can begin with, as weights: an order, a placement and a gate.

With nothing learned, a policy with the base ``edf`` decides as ``edf+f+PLACE+gX`` does, and so on. Tenant rules put
a step of ``STEP`` between their classes: within reach of learned weights, yet more than deadlines differ by.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.learning.observation.table import JOB
from eunomia.learning.policy.weights import PLACES, Weights

STEP = 1000.0

# What promises add to a score: those with hits to spare later, and then, for what is missing from a broken one,
PROMISES: dict[str, dict[str, float]] = {
    "keep": {"spare": -1.0, "sinks": 1.0, "shortfall": -6.0},  # later the more it lacks: attainment
    "mend": {"spare": -1.0, "sinks": 1.0, "shortfall": 6.0},  # sooner the more it lacks: mean shortfall
    "level": {"spare": -1.0, "shortfall": 20.0},  # almost by what it lacks alone: the worst one
}
TERMS = {"attainment": "keep", "shortfall": "mend", "max_min": "level"}  # by what the operator wants

ORDERS: dict[str, dict[str, float]] = {
    "edf": {"time_left": -1.0},
    "sjf": {"work": -1.0},
    "llf": {"laxity": -1.0},
    "edf_bytes": {"time_left": -1.0, "bytes": -3.0},
    "pressure": {"near": -0.96, "laxity_ratio": -1.34, "sjf_pressure": -2.31},
    "triage_edf": {"time_left": -1.0, "below": STEP, "lost": -2.0 * STEP},
    "triage_sjf": {"work": -1.0, "below": STEP, "lost": -2.0 * STEP},
    "gap_first_edf": {"time_left": -1.0, "below": STEP},
    "gap_first_sjf": {"work": -1.0, "below": STEP},
    "shift_edf": {"time_left": -1.0, "gap_deadline": 1.0},
    # Our own, without classes: small first, and what the promises ask for.
    **{f"promise_{name}": {"size": -1.0, **terms} for name, terms in PROMISES.items()},
}


def base_order(name: str) -> Floats:
    """Weights of job features for an order. Raises UnknownNameError."""
    if name not in ORDERS:
        raise UnknownNameError("base order", name, ORDERS)
    return np.array([ORDERS[name].get(feature, 0.0) for feature in JOB])


def with_promise(weights: Weights, promise: str, strength: float) -> Weights:
    """A policy that asks for promises, too: ``strength`` times the terms of ``promise`` join its base score.

    Does badly where scores are of another size than a few units (classes of triage): the terms then decide nothing.
    Raises UnknownNameError or ConfigError.
    """
    if promise not in PROMISES:
        raise UnknownNameError("promise", promise, PROMISES)
    if not math.isfinite(strength):
        raise ConfigError(f"strength of promises is {strength}; it must be a number (2 is usual)")
    terms = np.array([PROMISES[promise].get(feature, 0.0) for feature in JOB])
    return replace(weights, base=weights.base + strength * terms)


def base_weights(text: str) -> Weights:
    """Weights that decide as the heuristic ``order[+f][+placement][+gX]`` does; +f is always on.

    Raises ConfigError or UnknownNameError for what cannot be a base.
    """
    order, *suffixes = text.strip().lower().split("+")
    place, gate = "any_idle", math.inf
    for suffix in suffixes:
        number = re.fullmatch(r"g(\d*\.?\d+)", suffix)
        if number:
            gate = float(number[1])
        elif suffix in PLACES:
            place = suffix
        elif suffix != "f":
            raise ConfigError(
                f"base '{text}': '{suffix}' is not f, a placement ({', '.join(PLACES)}) or a gate g0.9"
            )
    return Weights(place=place, gate=gate, base=base_order(order))
