"""One series of use over time: percentiles, autocorrelation, forecasts; and files of several."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError

FEWEST = 20  # samples before a series is trusted


@dataclass(frozen=True)
class Series:
    """Samples at equal distances, the last one now."""

    values: Floats

    def __post_init__(self) -> None:
        if len(self.values) == 0 or not np.isfinite(self.values).all() or (self.values < 0.0).any():
            raise ConfigError("a series holds at least one sample, none of them negative or missing")

    def percentile(self, percent: float) -> float:
        """The sample below which ``percent`` of them lie."""
        return float(np.percentile(self.values, percent))

    @property
    def autocorrelation(self) -> float:
        """Of neighbouring samples; 0 for a constant series and for too few samples."""
        centred = self.values - self.values.mean()
        power = float(centred @ centred)
        if len(centred) < FEWEST or power <= 1e-12 * max(1.0, float(self.values @ self.values)):
            return 0.0
        return float(centred[:-1] @ centred[1:]) / power

    def forecast(self, steps: int = 1) -> float:
        """``mu + phi ** steps * (y - mu)``: AR(1) over the window, phi no less than 0. The mean if phi is 0.

        Does badly where the level jumps: it returns to a mean that is gone.
        """
        mean, phi = float(self.values.mean()), max(0.0, self.autocorrelation)
        return mean + phi**steps * (float(self.values[-1]) - mean)


def read_series(path: Path) -> dict[str, Floats]:
    """A CSV file with a column per series and a row per sample; a first column ``time`` is left out. ConfigError."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            head, *rows = list(csv.reader(file)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: the file cannot be read: {error}; give the path of a CSV file") from None
    names = [name for name in head if name != "time"]
    if len(names) < 1 or len(rows) < 2 * FEWEST:
        raise ConfigError(
            f"{path}: {len(names)} series of {len(rows)} samples; at least one, of {2 * FEWEST} samples"
        )
    table = [_numbers(path, line, row, head) for line, row in enumerate(rows, 2)]
    return {name: np.array([row[head.index(name)] for row in table]) for name in names}


def _numbers(path: Path, line: int, row: Sequence[str], head: Sequence[str]) -> list[float]:
    if len(row) != len(head):
        raise ConfigError(f"{path}:{line}: {len(row)} cells under {len(head)} headings")
    try:
        found = [0.0 if name == "time" else float(text) for name, text in zip(head, row, strict=True)]
    except ValueError as error:
        raise ConfigError(f"{path}:{line}: {error}") from None
    if not np.isfinite(found).all() or min(found) < 0.0:
        raise ConfigError(f"{path}:{line}: a sample is negative or not finite")
    return found
