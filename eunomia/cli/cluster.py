"""``eunomia cluster``: simulate, compare, study; the other verbs: :mod:`.cluster_ask`, :mod:`.cluster_worlds`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from eunomia.cli import cluster_ask, cluster_worlds, experiment
from eunomia.cli.bundle import bundled
from eunomia.cli.cluster_options import File
from eunomia.cli.experiment import CompareOptions, RunOptions, SweepOptions

if TYPE_CHECKING:
    from eunomia.study.batch import OnDone
    from eunomia.study.compare import AnyComparison
    from eunomia.study.wing import AnyWing

app = typer.Typer(
    no_args_is_help=True, help="Training jobs on a cluster: simulate, compare, explain, what-if."
)


@app.command("simulate")
@bundled
def simulate(cluster: File, options: RunOptions) -> None:
    """Run one policy on one seed. Writes data and a report."""
    experiment.run(_wing(), cluster, options, "eunomia cluster explain")


@app.command("compare")
@bundled
def compare(cluster: File, options: CompareOptions) -> None:
    """Compare policies on the same jobs, over several seeds. A stopped comparison goes on where it left off."""
    from eunomia.study.compare import compare_in

    checked = _wing().checked(cluster, options.overrides)

    def compared(folder: Path, workers: int, on_done: OnDone) -> AnyComparison:
        return compare_in(
            _wing(), checked, options.policy, options.seeds,
            directory=folder, workers=workers, on_done=on_done, overwrite=options.force,
        )  # fmt: skip

    experiment.compare(_wing(), checked, options, compared)


@app.command("study")
@bundled
def study(cluster: File, options: SweepOptions) -> None:
    """Compare policies at every point of a grid, on all cores. Safe to stop and to start again."""
    experiment.sweep(_wing(), cluster, options)


def _wing() -> AnyWing:
    from eunomia.study.wing import wing_of

    return wing_of("cluster")


for _verb in (
    cluster_ask.explain,
    cluster_ask.whatif,
    cluster_worlds.pool,
    cluster_worlds.deferrable,
    cluster_ask.policies,
    cluster_ask.jobs,
):
    app.command(_verb.__name__)(_verb)
