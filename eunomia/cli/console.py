"""Where output goes: results to stdout, progress and hints to stderr, nothing fancy off-tty."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console

WIDE = 160  # columns when there is no terminal to ask


def stdout() -> Console:
    """The console of results; honours NO_COLOR and COLUMNS."""
    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDE)
    return console


def stderr() -> Console:
    """The console of progress, hints and errors."""
    return Console(stderr=True, highlight=False)


def say(text: str = "") -> None:
    """One line of plain text to stdout, never wrapped."""
    sys.stdout.write(text + "\n")


def print_json(value: Any) -> None:
    """One JSON document; undefined numbers become null."""
    say(json.dumps(_finite(value), indent=2, default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Advance(Protocol):
    """Told about each finished cell."""

    def __call__(self, name: str, failed: bool = False) -> None:
        """``name`` has finished."""


@contextmanager
def progress(title: str, total: int, quiet: bool) -> Iterator[Advance]:
    """A progress bar on stderr; silent with ``quiet``, off-tty and for a single step."""
    console = stderr()
    if quiet or not console.is_terminal or total <= 1:
        yield lambda name, failed=False: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(name: str, failed: bool = False) -> None:
            bar.update(task, advance=1, description=f"{title}: {name}" + (" failed" if failed else ""))

        yield advance
