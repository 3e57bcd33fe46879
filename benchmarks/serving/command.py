"""What the measuring commands share: a part of the page of the live server as a table."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.serving.machine import Watch
from benchmarks.serving.page import machine_line
from benchmarks.table import Table


def part(lines: Sequence[str], watch: Watch) -> Table:
    """The lines under the machine's name and how busy it was."""
    return Table("all", notes=("\n".join([machine_line(), watch.verdict, *lines]).strip(),))
