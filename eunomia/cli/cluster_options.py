"""Options and notes that the verbs of ``eunomia cluster`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli.console import note

File = Annotated[Path, typer.Argument(metavar="CLUSTER", help="Cluster experiment (TOML).")]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy", "-p", metavar="NAME", help="Policy by name, NAME(setting=value), or FILE.py:CLASS."
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", "-p", metavar="NAME", help="Policy, as for simulate. Repeatable."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=COLUMN", help="Where a CSV holds submit, gpus, duration, ... Repeatable."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


def print_remarks(remarks: tuple[str, ...] | list[str]) -> None:
    """Each remark once."""
    for text in dict.fromkeys(remarks):
        note(text)
