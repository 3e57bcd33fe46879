"""Settings of the engine: contention, lateness, periods, switching, estimates, recording."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from eunomia.contract.contention import Contention
from eunomia.core.errors import ConfigError
from eunomia.inference.by_type import ByType, check_by_type, is_any, is_drawn

Late = Literal["last", "run", "drop"]
DropWhen = Literal["hopeless", "expired"]
PeriodMode = Literal["wait", "patch"]
EstimatorMode = Literal["exact", "lognormal", "bias", "ewma", "none"]
Record = Literal["all", "requests"]


def _check_choice(name: str, value: str, allowed: object) -> None:
    choices = get_args(allowed)
    if value not in choices:
        raise ConfigError(f"{name} is '{value}'; choose one of: {', '.join(choices)}")


def _check_number(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise ConfigError(f"{name} is {value}; it must be at least {least:g}")


@dataclass(frozen=True, slots=True)
class Estimator:
    """What the scheduler believes of layer times; the engine always applies the truth.

    ``exact``: the true table. ``lognormal``: every (layer, type) entry times exp(sigma z).
    ``bias``: every model's entries times ``bias[model]``. ``ewma``: starts from the prior of
    ``none`` and learns from completed layers with weight ``alpha``. ``none``: one number per model,
    the mean over its layers and types. ``jitter``: besides, every execution's true time is
    multiplied by a log-normal factor of mean 1 with this sigma, whatever the mode (section 2.5). Several numbers
    instead of a sigma: factors of equal chance, scaled to mean 1.
    """

    mode: EstimatorMode = "exact"
    sigma: float = 0.25
    bias: dict[str, float] = field(default_factory=dict)
    alpha: float = 0.1
    jitter: ByType = 0.0

    def __post_init__(self) -> None:
        _check_choice("estimator mode", self.mode, EstimatorMode)
        _check_number("estimator sigma", self.sigma, 0.0)
        check_by_type("estimator jitter", self.jitter)
        if not 0.0 < self.alpha <= 1.0:
            raise ConfigError(f"estimator alpha is {self.alpha}; it must lie in (0, 1]")
        for model, factor in self.bias.items():
            if not factor > 0.0:
                raise ConfigError(f"estimator bias of model '{model}' is {factor}; it must be positive")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine runs; see docs/engine.md for the exact semantics."""

    contention: Contention | None = None  # None = the platform's
    bandwidth_bytes_s: float | None = None  # None = the platform's
    late: Late = "last"
    drop_when: DropWhen = "hopeless"  # read when late = "drop"
    period_s: float | None = None  # None = event-driven
    period_mode: PeriodMode = "patch"
    period_cap: int = 64
    switch_s: ByType = 0.0  # where a request starts
    move_s: ByType = 0.0  # on top, by the type that it leaves
    refill: bool = False
    decision_s: float = 0.0  # charged per decision round
    charge_measured: bool = False  # charge measured wall time of a stepped policy instead
    estimator: Estimator = field(default_factory=Estimator)
    sli_ewma: float | None = None  # None = windows
    seed: int = 0
    record: Record = "all"
    horizon_s: float | None = None  # None = until every request has left

    def __post_init__(self) -> None:
        if self.contention is not None:
            _check_choice("contention", self.contention, Contention)
        _check_choice("late", self.late, Late)
        _check_choice("drop_when", self.drop_when, DropWhen)
        _check_choice("period_mode", self.period_mode, PeriodMode)
        _check_choice("record", self.record, Record)
        check_by_type("switch_s", self.switch_s)
        check_by_type("move_s", self.move_s)
        _check_number("decision_s", self.decision_s, 0.0)
        _check_number("period_cap", self.period_cap, 1)
        if self.bandwidth_bytes_s is not None and not self.bandwidth_bytes_s > 0.0:
            raise ConfigError(f"bandwidth_bytes_s is {self.bandwidth_bytes_s}; it must be positive")
        if self.period_s is not None and not self.period_s >= 1e-9:
            raise ConfigError(
                f"period_s is {self.period_s}; it must be at least 1e-9, or absent for event-driven"
            )
        if self.horizon_s is not None and not self.horizon_s > 0.0:
            raise ConfigError(
                f"horizon_s is {self.horizon_s}; it must be positive, or absent to run to the end"
            )
        if self.sli_ewma is not None and not 0.0 < self.sli_ewma <= 1.0:
            raise ConfigError(f"sli_ewma is {self.sli_ewma}; it must lie in (0, 1]")

    @property
    def drawn(self) -> bool:
        """Whether some times are drawn by lot, so that nobody can know them beforehand."""
        return is_any(self.estimator.jitter) or is_drawn(self.switch_s) or is_drawn(self.move_s)

    @property
    def switches(self) -> bool:
        """Whether a change of request or of accelerator costs anything anywhere."""
        return self.refill or is_any(self.switch_s) or is_any(self.move_s)
