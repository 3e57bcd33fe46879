"""What the measuring commands share: their options, and how a part of the page is shown and written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.serving.machine import Watch
from benchmarks.serving.page import machine_line, write_part


def options(description: str | None, *, resume: bool = False) -> argparse.ArgumentParser:
    """A parser of ``--small`` and ``--write``, and ``--resume`` where the measurement is kept in pieces."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--small", action="store_true", help="a quick run")
    parser.add_argument("--write", action="store_true", help="put the result into results/serving.md")
    if resume:
        parser.add_argument("--resume", action="store_true", help="go on with a run that was cut off")
    return parser


def publish(name: str, title: str, lines: Sequence[str], watch: Watch, *, write: bool) -> None:
    """Print a part under the machine's name and how busy it was, and write it into the page if asked to."""
    lines = [machine_line(), watch.verdict, *lines]
    print("\n".join(lines))
    if write:
        write_part(name, title, lines)
