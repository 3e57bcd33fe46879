"""How high a series may stand at its next sample: a forecast, and the margin that forecasts needed of late."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.sharing.harvest.series import FEWEST, Series

WINDOW, RISK = 60, 0.05  # samples of the moving window; violations that the margin of a forecast is set for
FORECASTS: dict[str, Callable[[Floats], float]] = {
    "persistence": lambda past: float(past[-1]),
    "ar1": lambda past: Series(past).forecast(),
}


@dataclass
class Peak:
    """One series, sample by sample. Errors of the last 60 forecasts give the margin that 5 % of them exceeded.

    Does badly at a jump that the window has not seen, and for as long as fewer than 20 samples are known.
    """

    forecast: str = "persistence"
    past: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    errors: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    violations: int = 0  # samples above what was foreseen

    def __post_init__(self) -> None:
        if self.forecast not in FORECASTS:
            raise UnknownNameError("forecast", self.forecast, FORECASTS)

    def add(self, value: float) -> None:
        """A sample: not negative, not missing. Raises ConfigError."""
        if not (math.isfinite(value) and value >= 0.0):
            raise ConfigError(f"a sample of a series is {value}; none is negative or missing")
        self.violations += value > self.next
        if self.past:
            self.errors.append(value - self._guess)
        self.past.append(value)

    @property
    def next(self) -> float:
        """The most that the next sample is expected to be; inf while too few are known."""
        if len(self.past) < FEWEST:
            return math.inf
        return max(0.0, self._guess + float(np.quantile(list(self.errors), 1.0 - RISK)))

    @property
    def _guess(self) -> float:
        return FORECASTS[self.forecast](np.array(self.past))
