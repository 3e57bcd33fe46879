"""Cells' functions, importable by worker processes; run as a program, a resumable sweep that never ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.engines.processes import Cell, Interrupted, map_cells
from tests.patience import until


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


def divides(value: int) -> int:
    return 1 // value


def dies_at_one(value: int) -> dict[str, Any]:
    if value == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": value}


def dies_once_at_one(told: tuple[str, int]) -> dict[str, Any]:
    """The first worker that comes to one is killed."""
    folder, value = told
    if value == 1 and not (mark := Path(folder) / "died").exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"value": value}


def waits_at_one(told: tuple[str, int]) -> dict[str, Any]:
    """One does not end before there is a file "go"."""
    folder, value = told
    if value == 1:
        (Path(folder) / "started").touch()
        until((Path(folder) / "go").exists)
    return {"value": value}


def refuses(value: int) -> int:
    """From two on: an error whose class takes more than its text, and one that cannot be sent at all."""
    if value == 2:
        raise UnknownNameError("rule", "edff", ["edf"])
    if value == 3:
        error = ValueError("three")
        error.args = (lambda: None,)
        raise error
    return value


def swallows_ctrl_c(value: int) -> int:
    """What foreign code does that runs a callback of its own."""
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    return value


if __name__ == "__main__":
    try:
        map_cells(
            [Cell(f"key{n}", f"cell {n}", n) for n in range(40)], square_or_never, 2, store=Path(sys.argv[1])
        )
    except Interrupted as stopped:
        sys.stderr.write(f"{stopped}\n")
        sys.exit(stopped.exit_code)
