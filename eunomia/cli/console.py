"""Where output goes: results to stdout, progress and hints to stderr, nothing fancy off-tty."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from eunomia.engines.processes import Outcome

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


def counted(count: int, one: str, many: str = "") -> str:
    """``1 seed``, ``2 seeds``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def note(text: str) -> None:
    """One remark on stderr, never wrapped."""
    sys.stderr.write(f"note: {text}\n")


def print_json(value: object) -> None:
    """One JSON document; undefined numbers become null."""
    say(json.dumps(_finite(value), indent=2, default=str))


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def progress(title: str, total: int, quiet: bool) -> Iterator[Callable[[Outcome], None]]:
    """A progress bar on stderr, told about each finished cell; silent with ``quiet``, off-tty and for a single step."""
    console = stderr()
    if quiet or not console.is_terminal or total <= 1:
        yield lambda outcome: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(outcome: Outcome) -> None:
            failed = " failed" if outcome.failure is not None else ""
            bar.update(task, advance=1, description=f"{title}: {outcome.cell.name}{failed}")

        yield advance
