"""What was promised: tenants, their agreements and the service-level objectives in them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal, get_args

from eunomia.core.errors import ConfigError

SliKind = Literal["hit_rate", "drop_rate", "latency_mean", "latency_percentile", "throughput"]
SLI_KINDS: tuple[SliKind, ...] = get_args(SliKind)  # in the order of the codes of kernel/indicators.py
MAX_NAME = 200  # letters
HIGHER_IS_BETTER: frozenset[str] = frozenset({"hit_rate", "throughput"})


@dataclass(frozen=True, slots=True)
class Slo:
    """A service-level objective: which indicator (SLI), its target, and the window it is read over.

    ``hit_rate`` and ``drop_rate`` are shares in [0, 1]; latencies are seconds; ``throughput`` is
    completions per second over ``window_s``. The window of the others is the last
    ``window_requests`` finished or dropped requests (deviation D20).
    """

    target: float
    kind: SliKind = "hit_rate"
    percentile: float = 95.0  # used by latency_percentile alone
    window_requests: int = 100
    window_s: float = 10.0  # used by throughput alone

    def __post_init__(self) -> None:
        if self.kind not in SLI_KINDS:
            kinds = ", ".join(SLI_KINDS)
            raise ConfigError(f"unknown SLI kind '{self.kind}'; choose one of: {kinds}")
        if self.kind in ("hit_rate", "drop_rate") and not 0.0 <= self.target <= 1.0:
            raise ConfigError(f"SLO {self.kind} target is {self.target}; it must lie in 0..1")
        if not self.target >= 0.0:
            raise ConfigError(f"SLO {self.kind} target is {self.target}; it must not be negative")
        if not 0.0 < self.percentile <= 100.0:
            raise ConfigError(f"SLO percentile is {self.percentile}; it must lie in 0..100")
        if not 1 <= self.window_requests <= 10_000:
            raise ConfigError(f"SLO window is {self.window_requests} requests; it must lie in 1..10000")
        if not self.window_s > 0.0:
            raise ConfigError(f"SLO window is {self.window_s} s; it must be positive")

    def shortfall(self, sli: float) -> float:
        """How far an indicator misses the target, 0 when it is met (formulas: docs/metrics.md)."""
        return max(0.0, self.gap(sli))

    def gap(self, sli: float) -> float:
        """Signed distance to the target: positive when it is missed.

        slo - sli for hit_rate, sli - slo for drop_rate, sli/slo - 1 for latencies,
        1 - sli/slo for throughput.
        """
        if self.kind == "hit_rate":
            return self.target - sli
        if self.kind == "drop_rate":
            return sli - self.target
        if self.target == 0.0:
            return 0.0 if self.kind == "throughput" else (1.0 if sli > 0.0 else 0.0)
        if self.kind == "throughput":
            return 1.0 - sli / self.target
        return sli / self.target - 1.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """One (tenant, model) pair: the unit in which service is promised and measured.

    ``slo`` is None when nothing was promised. ``priority`` is higher for more urgent work, in the
    units of the policy that reads it (PREMA: 1, 3, 9). ``weight`` is the tenant's share. Names hold no
    control characters and at most 200 letters, or ConfigError is raised.
    """

    tenant: str
    model: str
    slo: Slo | None = None
    priority: float = 1.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        for what, name in (("tenant", self.tenant), ("model", self.model)):
            if len(name) > MAX_NAME:
                raise ConfigError(
                    f"{what} '{name[:20]}...' has {len(name)} letters; at most {MAX_NAME} are allowed"
                )
            if any(unicodedata.category(letter) == "Cc" for letter in name):
                raise ConfigError(f"{what} {ascii(name)} holds a control character; leave it out")
