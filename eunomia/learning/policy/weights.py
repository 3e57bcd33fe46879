"""The weights of a policy as named tensors, and as the one block of numbers that compiled code reads.

score(j)      = base . x_j + job . x_j + out . h_j                 which sub-job next
place(j, s)   = -(finish / least finish) + pair . y_js             where
start(j, s)   = gate - D / B + start . w_js + share . v_js + out_start . h_j      now, if >= 0; otherwise hold

x_j job features, y_js pair features, w_js start features, v_js share features (observation/table.py).
``base``, ``gate`` and the placement are the heuristic that the policy begins with; all other weights 0 is
exactly that heuristic.

h_j depends on the kind of network:
    linear   none
    hidden   h_j = g(u_j W1 + b1), u_j = (normalised x_j, globals), g(a) = a / (1 + |a|)
    pointer  h_j = g(e_j A + mean_k e_k M + max_k e_k Q + b2), e_j = g(u_j W1 + b1): a Deep Sets pointer; the
             pooled terms are what all waiting sub-jobs have in common
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from eunomia.core.arrays import Flags, Floats
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.learning.card import check_tensors
from eunomia.learning.observation.table import (
    GLOBAL,
    JOB,
    LOGARITHMS,
    PAIR,
    PROMISED,
    SHARE,
    START,
    START_JOB,
)

KINDS = ("linear", "hidden", "pointer")
TREES = len(KINDS)  # the kind of a block that holds distilled rules (policy/trees.py)
PLACES = ("any_idle", "eft", "eft_ca")
INPUTS = len(JOB) + len(GLOBAL)

# Head of the block.
(KIND, UNITS, PLACE, GATE, RESIDUAL, STARVE, COLLECT, ALARM, WAY, APART, JUDGED, LOGS, PROMISES) = range(13)
HEAD = 13
ORDER_ALONE = 2.0  # RESIDUAL where the order alone is learned: place and gate are those of the heuristic
MARGIN = 0.25  # by which training ranges are widened for the alarm, of their width
# What the compiled policy counts, from COUNTERS on.
_COUNTED = "decisions starts holds forced invalid strange alarms promoted unshared fallback"
COUNTED = tuple(_COUNTED.split())
(DECISIONS, STARTS, HOLDS, FORCED, INVALID, STRANGE, ALARMS, PROMOTED, UNSHARED, FALLBACK) = range(10)
COUNTERS = HEAD
BASE = COUNTERS + len(COUNTED)
JOB_AT = BASE + len(JOB)
PAIR_AT = JOB_AT + len(JOB)
START_AT = PAIR_AT + len(PAIR)
SHARE_AT = START_AT + len(START)
LOW = SHARE_AT + len(SHARE)
HIGH = LOW + len(JOB)
SEEN_LOW = HIGH + len(JOB)
SEEN_HIGH = SEEN_LOW + len(JOB)
CENTRE = SEEN_HIGH + len(JOB)
INVERSE = CENTRE + len(JOB)
NETWORK = INVERSE + len(JOB)


def network_shapes(kind: str, units: int) -> dict[str, tuple[int, ...]]:
    """Tensors of a network, in the order in which they stand in the block."""
    if kind == "linear":
        return {}
    inner: dict[str, tuple[int, ...]] = {"W1": (INPUTS, units), "b1": (units,)}
    if kind == "pointer":
        inner |= {"A": (units, units), "M": (units, units), "Q": (units, units), "b2": (units,)}
    return {**inner, "out": (units,), "out_start": (units,)}


@dataclass(frozen=True, eq=False)
class Weights:
    """A policy's numbers. ``low`` and ``high``: ranges of job features in training, for the alarm."""

    kind: str = "linear"
    units: int = 0
    place: str = "eft"
    gate: float = 1.0  # share of B; inf = no gate
    base: Floats = field(default_factory=lambda: np.zeros(len(JOB)))
    job: Floats = field(default_factory=lambda: np.zeros(len(JOB)))
    pair: Floats = field(default_factory=lambda: np.zeros(len(PAIR)))
    start: Floats = field(default_factory=lambda: np.zeros(len(START)))
    share: Floats = field(default_factory=lambda: np.zeros(len(SHARE)))
    low: Floats = field(default_factory=lambda: np.full(len(JOB), -np.inf))
    high: Floats = field(default_factory=lambda: np.full(len(JOB), np.inf))
    centre: Floats = field(default_factory=lambda: np.zeros(len(JOB)))
    spread: Floats = field(default_factory=lambda: np.ones(len(JOB)))
    network: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownNameError("kind of network", self.kind, KINDS)
        if self.place not in PLACES:
            raise UnknownNameError("placement of a learned policy", self.place, PLACES)
        if not self.gate > 0.0:
            raise ConfigError(f"bandwidth gate is {self.gate}; it must be positive (0.8 to 1.1 is usual)")
        if self.kind != "linear" and not 1 <= self.units <= 256:
            raise ConfigError(f"a {self.kind} network has {self.units} units; give 1 to 256")
        check_tensors(f"{self.kind} policy's", self.tensors(), self.shapes())

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all tensors."""
        wide = dict.fromkeys(("base", "job", "low", "high", "centre", "spread"), (len(JOB),))
        own = {"pair": (len(PAIR),), "start": (len(START),), "share": (len(SHARE),)}
        return {**wide, **own, **network_shapes(self.kind, self.units)}

    def tensors(self) -> dict[str, Floats]:
        """All tensors by name, as they are kept in a checkpoint."""
        own = {name: getattr(self, name) for name in
               ("base", "job", "low", "high", "centre", "spread", "pair", "start", "share")}  # fmt: skip
        return {**own, **self.network}

    @property
    def learned(self) -> bool:
        """Whether anything was added to the heuristic."""
        tensors = self.tensors()
        return any(np.any(tensors.get(n, 0.0)) for n in ("job", "pair", "start", "share", "out", "out_start"))

    @property
    def judged(self) -> Flags:
        """(JOB,) job features that the policy reads, all of them in a network: the alarm judges these (guards.py)."""
        if self.kind != "linear":
            return np.ones(len(JOB), np.bool_)
        reads = (self.base != 0.0) | (self.job != 0.0)
        reads[list(START_JOB)] |= self.start[len(PAIR) + len(GLOBAL) :] != 0.0
        return np.asarray(reads, np.bool_)

    def pack(self, starve: float = np.inf, alarm: float = 1.0, also: Sequence[int] = ()) -> Floats:
        """The block. ``starve``: age, in isolated times, beyond which a request goes first; ``alarm``: see guards.

        ``also``: further job features that the alarm judges, as trees behind the weights read them.
        """
        parts = [self.network[name].ravel() for name in network_shapes(self.kind, self.units)]
        block = np.zeros(NETWORK + sum(map(len, parts)))
        block[KIND], block[UNITS], block[PLACE] = KINDS.index(self.kind), self.units, PLACES.index(self.place)
        block[GATE], block[RESIDUAL], block[STARVE] = self.gate, float(self.learned), starve
        block[ALARM] = alarm
        judged = self.judged
        judged[list(also)] = True
        block[JUDGED] = float(np.sum(judged & np.isfinite(self.high)))
        block[LOGS], block[PROMISES] = judged[list(LOGARITHMS)].any(), judged[list(PROMISED)].any()
        low, high = np.where(judged, self.low, -np.inf), np.where(judged, self.high, np.inf)
        room = MARGIN * (high - low)
        places = ((BASE, self.base), (JOB_AT, self.job), (PAIR_AT, self.pair), (START_AT, self.start),
                  (SHARE_AT, self.share), (LOW, low - room), (HIGH, high + room), (CENTRE, self.centre),
                  (INVERSE, 1.0 / self.spread))  # fmt: skip
        for at, values in places:
            block[at : at + len(values)] = values
        block[SEEN_LOW:SEEN_HIGH], block[SEEN_HIGH:CENTRE] = np.inf, -np.inf
        if parts:
            block[NETWORK:] = np.concatenate(parts)
        return block

    def with_network(self, kind: str, units: int, seed: int) -> Weights:
        """The same policy with a network whose output is 0, inner weights drawn from ``seed``."""
        rng = np.random.default_rng(np.random.SeedSequence([seed, 0x0E7]))
        network = {}
        for name, shape in network_shapes(kind, units).items():
            inner = name not in ("out", "out_start")
            network[name] = rng.standard_normal(shape) / np.sqrt(shape[0]) if inner else np.zeros(shape)
        return replace(self, kind=kind, units=units, network=network)
