"""Cells' functions, importable by worker processes; run as a program, a resumable sweep that never ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from eunomia.core.errors import ConfigError
from eunomia.engines.processes import Cell, Interrupted, map_cells


def square(value: int) -> dict[str, Any]:
    return {"square": value**2}


def square_or_never(value: int) -> dict[str, Any]:
    """Cells from the fourth on never end, so that a signal finds them at work."""
    if value >= 4:
        time.sleep(3600.0)
    return square(value)


def thirds(value: int) -> dict[str, Any]:
    return {"third": 1 / 3, "nothing": None}


def fails_at_two(value: int) -> dict[str, Any]:
    if value == 2:
        raise ConfigError("two is refused")
    return {"value": value}


def divides_by_zero(value: int) -> dict[str, Any]:
    return {"value": 1 // value}


def dies_at_one(value: int) -> dict[str, Any]:
    if value == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": value}


if __name__ == "__main__":
    try:
        map_cells(
            [Cell(f"key{n}", f"cell {n}", n) for n in range(40)], square_or_never, 2, store=Path(sys.argv[1])
        )
    except Interrupted as stopped:
        sys.stderr.write(f"{stopped}\n")
        sys.exit(stopped.exit_code)
