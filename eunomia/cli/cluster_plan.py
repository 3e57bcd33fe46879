"""``eunomia cluster plan``: which nodes to rent for a log's jobs, under which policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import print_json, say
from eunomia.cli.experiment import show
from eunomia.cli.plan import watching
from eunomia.core.errors import EunomiaError

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="Log, nodes, promises (TOML).")]
Table = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write every set of nodes with its verdict.")
]


@dataclass(frozen=True)
class NodesOptions:
    """Options of a plan of nodes."""

    sets: opt.Set = None
    csv: Table = None
    workers: opt.Workers = None
    as_json: opt.Json = False
    quiet: opt.Quiet = False


@bundled
def plan(file: PlanFile, options: NodesOptions) -> None:
    """Find the nodes to rent for a log's jobs: the least rent that keeps what is promised, and under which policy."""
    from eunomia.config.cluster_plan import load_cluster_plan
    from eunomia.core.atomic import write_text
    from eunomia.study.cluster.nodes import plan_nodes

    config = load_cluster_plan(file, options.sets or ())
    with watching(options.quiet or options.as_json) as on_done:
        result = plan_nodes(config, on_done, options.workers or opt.cores())
    if options.csv is not None:
        write_text(options.csv, result.csv_text())
    if options.as_json:
        print_json(result.answer())
    elif result.counts is not None:
        show(result, options.quiet, {"data": str(options.csv)} if options.csv else {})
    elif not options.quiet:
        say(result.sentences()[-1])
    if result.counts is None:
        raise EunomiaError(f"plan of nodes '{config.name}': {result.sentences()[0]}")
