"""``eunomia profile``: what this machine does, measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import note, print_json, stderr
from eunomia.cli.experiment import print_paths, show

if TYPE_CHECKING:
    from eunomia.sharing.corun import Case

app = typer.Typer(help="What this machine does, measured.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """What this machine does, measured."""


@dataclass(frozen=True)
class CorunOptions:
    """Options of ``corun``."""

    place: Annotated[list[str] | None, typer.Option(help="'own core' or 'same core'; default both.")] = None
    degree: Annotated[list[int] | None, typer.Option(help="Number of neighbours; default 1. Repeatable.")] = (
        None
    )
    block: Annotated[float, typer.Option(help="Seconds per block.")] = 0.25
    width: Annotated[float, typer.Option(help="Relative width of an interval that is narrow enough.")] = 0.05
    lost: Annotated[float, typer.Option(help="Set aside what others disturbed more.")] = 0.1
    budget: Annotated[float, typer.Option(help="Seconds in all.")] = 300.0
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Blocks and table; the same command goes on.")
    ] = None
    as_json: opt.Json = False
    quiet: opt.Quiet = False


@app.command("corun")
@bundled
def corun(
    clients: Annotated[
        list[str],
        typer.Argument(
            metavar="CLIENT...", help="compute, cache, bandwidth, each perhaps @0.5; NETWORK.onnx."
        ),
    ],
    options: CorunOptions,
) -> None:
    """By how much clients slow each other on this machine's cores, with intervals."""
    from eunomia.sharing.corun.design import PLACES, Design
    from eunomia.study.sharing.corun import run_corun

    places, degrees = tuple(options.place or PLACES), tuple(options.degree or (1,))
    bounds = (options.block, options.width, options.lost, options.budget)
    design = Design(tuple(dict.fromkeys(clients)), places, degrees, *bounds)
    silent = options.quiet or options.as_json or not stderr().is_terminal
    found = run_corun(design, options.out, None if silent else _told)
    if options.as_json:
        print_json({"spent_s": found.spent_s, "cases": found.rows(), "said": found.sentences()})
        return
    show(found, True, {})
    if options.out is not None and not options.quiet:
        print_paths({"table": str(options.out / "corun.csv"), "blocks": str(options.out / "corun.json")})


def _told(case: Case, narrow: int, cases: int) -> None:
    note(f"{narrow} of {cases} cases done; measured {case.key}")


@dataclass(frozen=True)
class GateOptions:
    """Options of ``gate``."""

    light: Annotated[Path | None, typer.Option(metavar="FILE.onnx", help="Convolutions; default: made.")] = (
        None
    )
    heavy: Annotated[
        Path | None, typer.Option(metavar="FILE.onnx", help="Streams weights; default: made.")
    ] = None
    block: Annotated[float, typer.Option(help="Seconds per part of a round; a round has eight.")] = 1.0
    budget: Annotated[float, typer.Option(help="Seconds in all.")] = 200.0
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Rounds and made networks.")] = None
    as_json: opt.Json = False
    quiet: opt.Quiet = False


@app.command("gate")
@bundled
def gate(options: GateOptions) -> None:
    """Whether a gate on memory bandwidth gains anything here: two workers, at will and gated, in turn."""
    from tempfile import TemporaryDirectory

    from eunomia.study.sharing.gate import GateStudy, run_gate

    study = GateStudy(options.light, options.heavy, options.block, options.budget)
    silent = options.quiet or options.as_json or not stderr().is_terminal
    with TemporaryDirectory() as scratch:
        told = None if silent else lambda count: note(f"{count} rounds")
        found = run_gate(study, options.out or Path(scratch), told)
    if options.as_json:
        print_json({"spent_s": found.spent_s, "ratios": found.rows(), "said": found.sentences()})
        return
    show(found, True, {})
