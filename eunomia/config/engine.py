"""The ``[engine]`` section: lateness, periods, switching, estimates."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from eunomia.config.section import NotNegative, Positive, Section, wrong

Late = Literal["last", "run", "drop"]
DropWhen = Literal["hopeless", "expired"]
PeriodMode = Literal["wait", "patch"]


MOST_DRAWS = 1000
Draw = float | tuple[float, ...]


def _by_type(value: object) -> Draw | dict[str, Draw]:
    """For all accelerator types, or a table of them; what is wrong in one sentence."""
    if isinstance(value, dict):
        return {kind: _draw(draw, f" of type '{kind}'") for kind, draw in value.items()}
    return _draw(value, "")


def _draw(value: object, of: str) -> Draw:
    """One number, or several of equal chance."""
    if not isinstance(value, list | tuple):
        return _number(value, of)
    if not 1 <= len(value) <= MOST_DRAWS:
        raise wrong(
            f"a list{of} has {len(value)} numbers; give 1 to {MOST_DRAWS} of equal chance, or one number"
        )
    return tuple(_number(each, of) for each in value)


def _number(value: object, of: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise wrong(
            f"{value!r}{of} is no number from 0 on; give one, several of equal chance, or a table of them by type"
        )
    return float(value)


ByType = Annotated[Draw | dict[str, Draw], BeforeValidator(_by_type)]
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
    move_s: ByType = 0.0  # on top, where a request leaves this type for another accelerator
    refill: bool = False
    decision_s: NotNegative = 0.0  # charged per decision round
    charge_measured: bool = False  # charge a policy's measured time instead
    estimator: EstimatorConfig = Field(default_factory=EstimatorConfig)
    sli_ewma: Unit | None = None  # None = sliding windows
    drain: bool = True  # run on after the last arrival until every request has left
