"""Until when: rules that turn (model, its isolated time) into a deadline relative to the arrival.

A published base deadline belongs to the table it was published in. MoCA's and AuRORA's differ for the
same models, so a rule names its table and never looks into the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.workload.quantity import positive

Level = Literal["h", "m", "l"]


@dataclass(frozen=True, slots=True)
class BaseDeadlines:
    """Base deadlines of one paper, milliseconds per model, and its QoS multipliers."""

    name: str
    base_ms: Mapping[str, float]
    multiplier: Mapping[Level, float]
    source: str


MOCA = BaseDeadlines(
    "moca",
    MappingProxyType(
        {
            "resnet50": 50.0,
            "alexnet": 33.3,
            "googlenet": 33.3,
            "kws-res8": 33.3,
            "yolov2": 16.7,
            "squeezenet": 10.0,
            "yolo-lite": 10.0,
        }
    ),
    MappingProxyType({"h": 0.8, "m": 1.0, "l": 1.2}),
    "MoCA (HPCA 2023), artifact: MOCA branch of ucb-bar/gemmini-rocc-tests",
)

AURORA = BaseDeadlines(
    "aurora",
    MappingProxyType(
        {
            "alexnet": 25.0,
            "resnet50": 25.0,
            "yolov2": 12.5,
            "googlenet": 12.5,
            "kws-res8": 12.5,
            "resnet18": 12.5,
            "bert-small": 12.5,
            "squeezenet": 10.0,
            "yolo-lite": 10.0,
            "bert-base": 40.0,
        }
    ),
    MappingProxyType({"h": 0.83, "m": 1.0, "l": 1.2}),
    "AuRORA (MICRO 2023), artifact: aurora-rocc-tests-ae",
)

TABLES: Mapping[str, BaseDeadlines] = MappingProxyType({"moca": MOCA, "aurora": AURORA})


class DeadlineRule(Protocol):
    """Anything that can say how long after its arrival a request is due."""

    def relative_s(self, model: str, iso_best_s: float | None) -> float:
        """Seconds from arrival to deadline; inf = none. ``iso_best_s`` is None when not known."""


@dataclass(frozen=True, slots=True)
class NoDeadline:
    """Never late."""

    def relative_s(self, model: str, iso_best_s: float | None) -> float:
        """Infinity."""
        return math.inf


@dataclass(frozen=True, slots=True)
class Within:
    """A fixed time after the arrival, in milliseconds."""

    deadline_ms: float

    def __post_init__(self) -> None:
        positive("deadline_ms", self.deadline_ms)

    def relative_s(self, model: str, iso_best_s: float | None) -> float:
        """``deadline_ms / 1000``."""
        return self.deadline_ms / 1e3


@dataclass(frozen=True, slots=True)
class Qos:
    """q * D_m: the published base deadline of the model times the level's multiplier.

    The tables are tuned to Gemmini; on other hardware use ``QosIsolated``.
    """

    level: Level
    table: str = "moca"

    def __post_init__(self) -> None:
        _multiplier(self.table, self.level)

    def relative_s(self, model: str, iso_best_s: float | None) -> float:
        """Raises ConfigError when the table does not hold the model."""
        table = TABLES[self.table]
        if model not in table.base_ms:
            raise ConfigError(
                f"model '{model}' has no base deadline in the {self.table} table "
                f"(it holds: {', '.join(sorted(table.base_ms))}); "
                "give deadline_ms or a factor of its isolated time"
            )
        return table.multiplier[self.level] * table.base_ms[model] / 1e3


@dataclass(frozen=True, slots=True)
class QosIsolated:
    """q * alpha * iso_m(best): QoS levels on hardware for which no base deadlines were published.

    Report alpha with every result; ``calibrate_alpha`` finds it.
    """

    level: Level
    alpha: float
    table: str = "moca"  # which paper's multipliers

    def __post_init__(self) -> None:
        _multiplier(self.table, self.level)
        positive("alpha", self.alpha)

    def relative_s(self, model: str, iso_best_s: float | None) -> float:
        """Raises ConfigError when the isolated time is not known."""
        return _multiplier(self.table, self.level) * self.alpha * _known(model, iso_best_s)


@dataclass(frozen=True, slots=True)
class IsolatedFactor:
    """f_u * iso_m(best): a tenant's factor times the model's isolated time on the best accelerator type."""

    factor: float

    def __post_init__(self) -> None:
        positive("deadline factor", self.factor)

    def relative_s(self, model: str, iso_best_s: float | None) -> float:
        """Raises ConfigError when the isolated time is not known."""
        return self.factor * _known(model, iso_best_s)


@dataclass(frozen=True, slots=True)
class Window:
    """Deferrable work: may run at any time within a window after its arrival.

    The window is uniform in [shortest_s, longest_s]; it is the relative deadline, and the request is
    marked deferrable.
    """

    shortest_s: float
    longest_s: float

    def __post_init__(self) -> None:
        positive("window shortest_s", self.shortest_s)
        positive("window longest_s", self.longest_s)
        if self.longest_s < self.shortest_s:
            raise ConfigError(f"window longest_s is {self.longest_s}, below shortest_s {self.shortest_s}")

    @classmethod
    def fixed(cls, window_s: float) -> Window:
        """The same window for all."""
        return cls(window_s, window_s)

    def draw_s(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.float64]:
        """Windows of ``count`` requests, seconds."""
        return rng.uniform(self.shortest_s, self.longest_s, count)


def named_deadline(name: str, table: str = "moca", alpha: float | None = None) -> DeadlineRule:
    """The rule that a scenario calls ``qos_h``, ``qos_m``, ``qos_l`` or ``none``.

    With ``alpha`` the QoS levels multiply isolated times instead of the table's base deadlines.
    """
    if name == "none":
        return NoDeadline()
    if name not in ("qos_h", "qos_m", "qos_l"):
        raise UnknownNameError("deadline", name, ("none", "qos_h", "qos_m", "qos_l"))
    level: Level = name[-1]  # type: ignore[assignment]
    return Qos(level, table) if alpha is None else QosIsolated(level, alpha, table)


def calibrate_alpha(
    hit_rate: Callable[[float], float],
    target: float = 0.7,
    low: float = 1.0,
    high: float = 1000.0,
    steps: int = 30,
) -> float:
    """Smallest alpha in [low, high] at which ``hit_rate(alpha)`` reaches ``target``.

    Bisection on the logarithm; the answer is within 2^-steps of its range.

    ``hit_rate`` runs the reference policy (EDF + EFT at QoS-M, target 0.6-0.8) and must not fall as
    alpha grows; deadlines grow with alpha, so noise aside it does. Raises ConfigError when even
    ``high`` is not enough: the system is overloaded.
    """
    if hit_rate(low) >= target:
        return low
    if hit_rate(high) < target:
        raise ConfigError(f"no alpha up to {high} reaches a hit rate of {target}; lower the load")
    for _ in range(steps):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if hit_rate(middle) >= target else (middle, high)
    return high


def _multiplier(table: str, level: str) -> float:
    if table not in TABLES:
        raise UnknownNameError("deadline table", table, TABLES)
    if level not in TABLES[table].multiplier:
        raise UnknownNameError("QoS level", level, TABLES[table].multiplier)
    return TABLES[table].multiplier[level]  # type: ignore[index]


def _known(model: str, iso_best_s: float | None) -> float:
    if iso_best_s is None:
        raise ConfigError(f"the deadline of model '{model}' needs its isolated time, which was not given")
    return positive(f"isolated time of model '{model}'", iso_best_s)
