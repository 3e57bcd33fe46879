"""``eunomia plan``: from networks, promises and a catalogue of devices to a platform."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import print_json, say, stderr

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file (TOML).")]
Force = Annotated[bool, typer.Option("--force", help="Replace the results of another plan in that folder.")]
Alone = Annotated[
    bool,
    typer.Option("--no-rivals", help="Leave out what a greedy choice and fleets of one type would cost."),
]


@dataclass(frozen=True)
class PlanOptions:
    """Options of a plan."""

    sets: opt.Set = None
    out: opt.Out = None
    workers: opt.Workers = None
    no_rivals: Alone = False
    force: Force = False
    as_json: opt.Json = False
    quiet: opt.Quiet = False


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("plan")(bundled(plan))


def plan(file: PlanFile, options: PlanOptions) -> None:
    """Find the platform that keeps all promises at the least cost. Safe to stop and to start again."""
    from eunomia.cli.experiment import print_paths, show
    from eunomia.cli.outputs import compare_folder
    from eunomia.core.errors import EunomiaError
    from eunomia.study.plan import load_plan
    from eunomia.study.plan import plan as search

    checked = load_plan(file, options.sets or ())
    folder = options.out or compare_folder(f"plan {checked.name}")
    silent = options.quiet or options.as_json
    with watching(silent) as on_done:
        result = search(
            checked,
            directory=folder,
            workers=options.workers or opt.cores(),
            overwrite=options.force,
            on_done=on_done,
            rivals=not options.no_rivals,
        )
    paths = {
        "report": str(folder / "report.html"),
        "answer": str(folder / "plan.json"),
        "data": str(folder / "plan.csv"),
    }
    if options.as_json:
        print_json({**result.data(), "paths": paths})
    elif result.row is not None:
        show(result, options.quiet, paths)
    elif not options.quiet:
        for line in result.sentences()[1:]:  # the first is the error
            say(line)
        print_paths(paths)
    if result.row is None:
        raise EunomiaError(f"plan '{checked.name}': {result.sentences()[0]}")


@contextmanager
def watching(quiet: bool) -> Iterator[Callable[[int, str], None] | None]:
    """A line on stderr with what is done so far; silent with ``quiet`` and off-tty."""
    console = stderr()
    if quiet or not console.is_terminal:
        yield None
        return
    with console.status("screening") as status:
        yield lambda done, stage: status.update(f"{stage}: {done} trials")
