"""What a rehearsal tries: rules with gates, points between them (``blend``), published schedulers, lookahead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.policies.blend import WEIGHTS
from eunomia.inference.policies.pledge import WEIGHTS as PLEDGED
from eunomia.inference.policies.settings import call_name

# What an event costs in events of a rule: of a learned policy, of lookahead, of that over a learned policy, of a
# published scheduler.
OWN, AHEAD, OVER, OTHER = 15, 8, 25, 3
ALONE = {"portfolio": "none"}  # lookahead over a learned policy: no rule beside it
GATES = (math.inf, 1.0, 0.8, 0.6, 0.4)
PLACES = ("any_idle", "eft", "eft_ca")
STARTS = {
    "edf": (1.0, 0.0, 0.0, 0.0, 0.0),
    "sjf": (0.0, 1.0, 0.0, 0.0, 0.0),
    "llf": (1.0, 0.0, 0.0, -1.0, 0.0),
    "edf_bytes": (1.0, 0.0, 3.0, 0.0, 0.0),
}
PUBLISHED = ("pressure", "layerweaver", "veltair", "dysta", "dream", "moca", "planaria")
PUBLISHED_GATES = (1.0, 0.75)
# What is tried of lookahead; hopeless requests wait (refuse) where late ones stay in the queue.
SETTINGS = ({"refuse": "true"}, {"price": "0.4"}, {"price": "1.6"}, {"margin": "0.05"}, {"price": "3"})
SPREAD = np.array([0.3, 0.7, 1.5, 0.5, 0.7, 0.12])  # of a step: five weights, the gate
PLEDGE_SPREAD = np.array([0.3, 0.6, 0.4, 6.0, 0.35, 0.12])
OPEN = 1.6  # a gate above it is none


class Point(Protocol):
    """A rule of a family whose numbers are searched."""

    @property
    def name(self) -> str:
        """As policies are called."""

    def moved(self: At, rng: np.random.Generator, step: float) -> At:
        """A neighbour."""


At = TypeVar("At", bound=Point)


@dataclass(frozen=True)
class Rule:
    """A point of the search: weights of ``blend``, gate, placement."""

    weights: tuple[float, ...]
    gate: float
    place: str

    @property
    def name(self) -> str:
        """As policies are called: a rule's own name where it is one."""
        for order, start in STARTS.items():
            if start == self.weights:
                place = "" if self.place == "any_idle" else f"+{self.place}"
                return f"{order}+f{place}" + (f"+g{self.gate:g}" if self.gate < math.inf else "")
        settings = {name: w for name, w in zip(WEIGHTS, self.weights, strict=True) if w or name == "deadline"}
        return call_name("blend", {**settings, "place": self.place, "gate": self.gate})

    def moved(self, rng: np.random.Generator, step: float) -> Rule:
        """A neighbour: two or three numbers change, sometimes the placement."""
        return Rule(*_moved(self, rng, step, SPREAD))


@dataclass(frozen=True)
class Pledge:
    """Weights of ``pledge``, gate, placement."""

    weights: tuple[float, ...]
    gate: float
    place: str

    @property
    def name(self) -> str:
        """As policies are called."""
        settings = dict(zip(PLEDGED, self.weights, strict=True))
        return call_name("pledge", {**settings, "place": self.place, "gate": self.gate})

    def moved(self, rng: np.random.Generator, step: float) -> Pledge:
        """A neighbour: two or three numbers change, sometimes the placement."""
        (left, toll, *rest), gate, place = _moved(self, rng, step, PLEDGE_SPREAD)
        return Pledge((min(max(left, -0.5), 1.5), max(toll, 0.0), *rest), gate, place)


def _moved(
    point: Rule | Pledge, rng: np.random.Generator, step: float, spread: Floats
) -> tuple[tuple[float, ...], float, str]:
    mask = rng.random(len(spread)) < 0.4
    mask[rng.integers(len(spread))] = True
    move = mask * rng.standard_normal(len(spread)) * spread * step
    gate = point.gate
    if gate < OPEN:
        gate += float(move[-1])
    elif mask[-1]:
        gate = float(rng.uniform(0.6, OPEN))
    place = PLACES[rng.integers(len(PLACES))] if rng.random() < 0.2 else point.place
    weights = tuple(round(w + m, 3) for w, m in zip(point.weights, move[:-1].tolist(), strict=True))
    return weights, round(max(gate, 0.05), 3) if gate < OPEN else math.inf, place


def ahead(base: str, **settings: str) -> str:
    """The name of lookahead over a rule."""
    return call_name("lookahead", {"base": base, "charge": "true", **settings})


def cost_of(name: str) -> int:
    """Of an event, in events of a rule."""
    if name.startswith("lookahead("):
        return OVER if "portfolio=none" in name else AHEAD
    return OTHER if name.split("+")[0] in PUBLISHED else OWN
