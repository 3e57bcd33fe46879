"""Tables for people in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.table import Table

from eunomia.cli.console import stdout


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), width: int | None = None
) -> None:
    """A plain aligned table; columns of ``right`` are flushed right. ``width``: of a line; None = the console's."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, header in enumerate(headers):
        justify: Literal["right", "left"] = "right" if index in right else "left"
        table.add_column(
            header, justify=justify, overflow="fold", no_wrap=header == "policy"
        )  # to be copied whole
    for row in rows:
        table.add_row(*row)
    console = stdout()
    if width is not None:
        console.width = width
    console.print(table)
