"""``eunomia cluster``: simulate, compare, study; the other verbs: :mod:`.cluster_ask`, :mod:`.cluster_plan`, ..."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from eunomia.cli import cluster_advise, cluster_ask, cluster_plan, cluster_slurm, cluster_worlds, experiment
from eunomia.cli.bundle import bundled
from eunomia.cli.cluster_options import File
from eunomia.cli.console import say
from eunomia.cli.experiment import CompareOptions, RunOptions, SweepOptions

if TYPE_CHECKING:
    from eunomia.config.cluster import ClusterConfig
    from eunomia.study.batch import OnDone
    from eunomia.study.compare import AnyComparison
    from eunomia.study.wing import AnyWing

DEMO_OUT = Path("out/cluster-demo")

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
    _compare(_wing().checked(cluster, options.overrides), options)


@app.command("demo")
@bundled
def demo(options: CompareOptions) -> None:
    """Compare five policies on a built-in cluster: table, report, data. Needs nothing, takes seconds."""
    from eunomia.config.cluster import demo_cluster

    again = options.out is None  # the demo's own folder is its to replace
    options = replace(options, out=options.out or DEMO_OUT, force=options.force or again)
    _compare(demo_cluster(options.overrides), options)
    if not options.silent:
        say(f"explain  -> eunomia cluster explain {options.out} 20 --policy themis")
        say(
            "next     -> eunomia cluster compare CLUSTER.toml | eunomia cluster whatif sacct.txt --slurm slurm.conf"
        )


def _compare(checked: ClusterConfig, options: CompareOptions) -> None:
    from eunomia.study.compare import compare_in

    def compared(folder: Path, workers: int, on_done: OnDone) -> AnyComparison:
        return compare_in(
            _wing(), checked, options.policy, options.seeds,
            directory=folder, workers=workers, on=options.on, on_done=on_done, overwrite=options.force,
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
    cluster_advise.advise,
    cluster_slurm.daemon,
    cluster_slurm.submit,
    cluster_slurm.status,
    cluster_slurm.cancel,
    cluster_ask.explain,
    cluster_ask.whatif,
    cluster_plan.plan,
    cluster_worlds.pool,
    cluster_worlds.deferrable,
    cluster_ask.policies,
    cluster_ask.jobs,
):
    app.command(_verb.__name__)(_verb)
