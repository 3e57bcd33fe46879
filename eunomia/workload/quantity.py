"""Numbers checked at the door: each helper returns its value or raises ConfigError with the rule."""

from __future__ import annotations

import math

from eunomia.core.errors import ConfigError


def positive(what: str, value: float) -> float:
    """``value`` if it is finite and above 0."""
    if not (math.isfinite(value) and value > 0.0):
        raise ConfigError(f"{what} is {value}; it must be positive and finite")
    return value


def not_negative(what: str, value: float) -> float:
    """``value`` if it is finite and at least 0."""
    if not (math.isfinite(value) and value >= 0.0):
        raise ConfigError(f"{what} is {value}; it must be at least 0 and finite")
    return value


def share(what: str, value: float) -> float:
    """``value`` if it lies in 0..1."""
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"{what} is {value}; it must lie in 0..1")
    return value
