"""Options that several commands share, each described once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="Scenario file (TOML).")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a value, e.g. --set tenant.gold.weight=2. Repeatable."
    ),
]
Seed = Annotated[
    int | None, typer.Option(min=0, max=2**63 - 1, help="First seed, instead of the scenario's.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only: no progress, no hints.")]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for data, report and timeline.")]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy", "-p", metavar="NAME", help="Policy by name, or FILE.py:FUNCTION. Repeatable.",
        autocompletion=lambda incomplete: complete_policy(incomplete),
    ),
]  # fmt: skip
Record = Annotated[
    Literal["first", "all", "requests"],
    typer.Option(
        help="Keep every layer and decision of the first seed, of all seeds, or none (requests only)."
    ),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")]
On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="WHERE",
        help="processes (of this machine), ray, or a Ray cluster: HOST:PORT or ray://HOST:PORT.",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option("--seeds", min=1, max=10_000, help="Seeds per policy, instead of the scenario's."),
]


def complete_policy(incomplete: str) -> list[str]:
    """Policy names for shell completion."""
    from eunomia.inference.policies import POLICIES

    return [name for name in POLICIES.names() if name.startswith(incomplete)]


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
