"""``eunomia run``, ``compare`` and ``sweep``: the lab's scenarios."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from eunomia.cli import experiment
from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.experiment import CompareOptions, RunOptions, SweepOptions

if TYPE_CHECKING:
    from eunomia.study.batch import OnDone
    from eunomia.study.compare import AnyComparison
    from eunomia.study.wing import AnyWing

Options = TypeVar("Options", bound=CompareOptions)
Bracket = Annotated[
    int | None,
    typer.Option(
        "--bracket",
        min=1,
        metavar="N",
        help="Show each policy's place between best schedule found and bound, on the first N requests of each seed.",
    ),
]


@dataclass(frozen=True)
class LabCompare(CompareOptions):
    """Options of a comparison of the lab."""

    record: opt.Record = "first"
    bracket: Bracket = None


@dataclass(frozen=True)
class LabSweep(SweepOptions):
    """Options of a sweep of the lab."""

    record: opt.Record = "requests"


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("run")(bundled(run))
    app.command("compare")(bundled(compare))
    app.command("sweep")(bundled(sweep))


def run(scenario: opt.ScenarioFile, options: RunOptions) -> None:
    """Run a scenario once: one policy, one seed. Writes data, report and timeline."""
    experiment.run(_wing(), scenario, options, "eunomia explain")


def compare(scenario: opt.ScenarioFile, options: LabCompare) -> None:
    """Compare policies on the same requests, over several seeds. A stopped comparison goes on where it left off."""
    from eunomia.study.inference.compare import compare as compare_policies

    options = _written_out(options)
    checked = _wing().checked(scenario, options.overrides)

    def compared(folder: Path, workers: int, on_done: OnDone) -> AnyComparison:
        return compare_policies(
            checked, options.policy, options.seeds, bracket=options.bracket,
            directory=folder, workers=workers, on=options.on, record=options.record, on_done=on_done,
            overwrite=options.force,
        )  # fmt: skip

    experiment.compare(_wing(), checked, options, compared)


def sweep(scenario: opt.ScenarioFile, options: LabSweep) -> None:
    """Compare policies at every point of a grid, on all cores. Safe to stop and to start again."""
    experiment.sweep(_wing(), scenario, _written_out(options), record=options.record)


def _written_out(options: Options) -> Options:
    """With names of groups, such as ``published``, replaced by their policies."""
    if options.policy is None:
        return options
    from eunomia.study.inference.groups import ungrouped

    return replace(options, policy=ungrouped(options.policy))


def _wing() -> AnyWing:
    from eunomia.study.wing import wing_of

    return wing_of("inference")
