"""The ``[engine]`` section: lateness, periods, switching, estimates."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from eunomia.config.section import NotNegative, Positive, Section, wrong

Late = Literal["last", "run", "drop"]
DropWhen = Literal["hopeless", "expired"]
PeriodMode = Literal["wait", "patch"]


def _by_type(value: object) -> float | dict[str, float]:
    """One number for all accelerator types, or a table of them; what is wrong in one sentence."""
    if isinstance(value, dict):
        return {kind: _number(number, f" of type '{kind}'") for kind, number in value.items()}
    return _number(value, "")


def _number(value: object, of: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise wrong(f"{value!r}{of} is no number from 0 on; give one, or a table with one for each type")
    return float(value)


ByType = Annotated[float | dict[str, float], BeforeValidator(_by_type)]
Unit = Annotated[float, Field(gt=0.0, le=1.0)]


class EstimatorConfig(Section):
    """What the scheduler believes of layer times; the engine always applies the truth."""

    mode: Literal["exact", "lognormal", "bias", "ewma", "none"] = "exact"
    sigma: NotNegative = 0.25
    bias: dict[str, Positive] = Field(default_factory=dict)
    alpha: Unit = 0.1
    jitter: ByType = 0.0


class EngineConfig(Section):
    """How requests run; docs/engine.md has the exact semantics."""

    late: Late = "last"
    drop_when: DropWhen = "hopeless"  # read when late = "drop"
    period_s: Positive | None = None  # None = event-driven
    period_mode: PeriodMode = "patch"
    period_cap: Annotated[int, Field(ge=1)] = 64
    switch_s: ByType = 0.0
    refill: bool = False
    decision_s: NotNegative = 0.0  # charged per decision round
    charge_measured: bool = False  # charge a policy's measured time instead
    estimator: EstimatorConfig = Field(default_factory=EstimatorConfig)
    sli_ewma: Unit | None = None  # None = sliding windows
    drain: bool = True  # run on after the last arrival until every request has left
