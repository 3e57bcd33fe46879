"""Measured co-runs and features of jobs, from CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.sharing.interference.co_run import CoRun

COLUMNS = ("target", "neighbours", "kind", "slowdown")


def read_co_runs(path: Path, column: str = "slowdown") -> list[CoRun]:
    """``target,neighbours,kind,slowdown``; several neighbours are joined by ``+``. ConfigError names the line.

    ``column``: another one to take slowdowns from. ``low,high``, where there are such, are intervals of ``slowdown``.
    """
    rows = []
    for line, cells in _lines(path, tuple(dict.fromkeys((*COLUMNS, column)))):
        try:
            names = tuple(name.strip() for name in cells["neighbours"].split("+") if name.strip())
            slow = float(cells[column])
            interval = [
                float(cells[name]) for name in ("low", "high") if column == "slowdown" and cells.get(name)
            ]
            width = (interval[1] - interval[0]) / slow if len(interval) == 2 and slow > 0.0 else 0.0
            rows.append(CoRun(cells["target"], names, cells["kind"], slow, width))
        except (ValueError, ConfigError) as error:
            raise ConfigError(f"{path}:{line}: {error}") from None
    if not rows:
        raise ConfigError(f"{path}: no co-runs below the header")
    return rows


def read_features(path: Path) -> dict[str, dict[str, float]]:
    """``job`` and one column per feature: the features of each job by name."""
    found: dict[str, dict[str, float]] = {}
    for line, cells in _lines(path, ("job",)):
        try:
            found[cells["job"]] = {name: float(text) for name, text in cells.items() if name != "job"}
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{path}:{line}: a feature is not a number ({error})") from None
        if not all(np.isfinite(value) for value in found[cells["job"]].values()):
            raise ConfigError(f"{path}:{line}: a feature of '{cells['job']}' is not finite")
    if not found or not all(found.values()):
        raise ConfigError(f"{path}: no features; it needs a column job and one column per feature")
    return found


def noise_floor(rows: Sequence[CoRun]) -> float | None:
    """Mean relative difference of two measurements of one co-run; None if every co-run was measured once."""
    groups: dict[tuple[str, tuple[str, ...], str], list[float]] = {}
    for row in rows:
        groups.setdefault((row.target, tuple(sorted(row.neighbours)), row.kind), []).append(row.slowdown)
    apart: Floats = np.array(
        [abs(b / a - 1.0) for g in groups.values() for a, b in zip(g, g[1:], strict=False)]
    )
    return float(apart.mean()) if len(apart) else None


def _lines(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in needed if name not in (reader.fieldnames or ())]
            if missing:
                raise ConfigError(f"{path}: no column '{missing[0]}'; it needs {', '.join(needed)}")
            for cells in reader:
                if None in cells or None in cells.values():
                    raise ConfigError(f"{path}:{reader.line_num}: not as many cells as the header")
                yield reader.line_num, cells
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: the file cannot be read: {why}; give the path of a CSV file") from None
