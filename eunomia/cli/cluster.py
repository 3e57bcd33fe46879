"""``eunomia cluster``: simulate, compare, study; the other verbs: :mod:`.cluster_ask`, :mod:`.cluster_worlds`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import cluster_ask, cluster_worlds
from eunomia.cli import options as opt
from eunomia.cli.cluster_options import File, Force, Policies, Policy, print_remarks
from eunomia.cli.console import print_json, progress, say
from eunomia.core.errors import EunomiaError

if TYPE_CHECKING:
    from eunomia.config.cluster import ClusterConfig
    from eunomia.study.cluster import ClusterComparison

app = typer.Typer(
    no_args_is_help=True, help="Training jobs on a cluster: simulate, compare, explain, what-if."
)


@app.command("simulate")
def simulate(
    cluster: File,
    policy: Policy = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    out: opt.Out = None,
    force: Force = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Run one policy on one seed. Writes data and a report."""
    from eunomia.cli.cluster_tables import print_cluster_run
    from eunomia.cli.outputs import run_folder
    from eunomia.cli.run import check_free
    from eunomia.core.records import Comparison
    from eunomia.report.cluster.html import write_cluster_report
    from eunomia.study.cluster import run_cluster

    if out is not None:
        check_free(out, force)
    result = run_cluster(cluster, policy, seed, sets or ())
    folder = out or run_folder(result.config.name, result.policy, result.seed)
    written = result.write(folder, overwrite=force or out is None)
    write_cluster_report(folder / "report.html", Comparison(result.config.name, (written,), written.manifest))
    if as_json:
        print_json(
            {"policy": result.policy, "seed": result.seed, "metrics": result.metrics, "remarks": result.remarks,
             "paths": {"report": str(folder / "report.html"), "data": str(folder)}}
        )  # fmt: skip
        return
    print_cluster_run(result)
    if not quiet:
        print_remarks(result.remarks)
        say()
        say(f"report   -> {folder / 'report.html'}")
        say(f"data     -> {folder}")
        say(f"explain  -> eunomia cluster explain {folder} {written['jobs']['job'][0].as_py()}")


@app.command("compare")
def compare(
    cluster: File,
    policy: Policies = None,
    seeds: opt.Seeds = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    out: opt.Out = None,
    workers: opt.Workers = None,
    force: Force = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compare policies on the same jobs, over several seeds. A stopped comparison goes on where it left off."""
    from eunomia.cli.cluster_tables import print_cluster_comparison
    from eunomia.cli.outputs import compare_folder
    from eunomia.report.cluster.html import write_cluster_report
    from eunomia.study.cluster import compare_cluster

    checked = _checked(cluster, sets, seed)
    total = len(policy or checked.compare.policies) * (seeds or checked.compare.seeds)
    folder = out or compare_folder(checked.name)
    with progress("comparing", total, quiet or as_json) as on_done:
        result = compare_cluster(
            checked, policy, seeds, (), folder, min(workers or opt.cores(), total), on_done, force
        )
    write_cluster_report(folder / "report.html", result.records())
    if as_json:
        print_json(
            {**_as_json(result), "paths": {"report": str(folder / "report.html"), "data": str(folder)}}
        )
    else:
        print_cluster_comparison(result)
        if not quiet:
            print_remarks(result.remarks)
            say()
            say(f"report   -> {folder / 'report.html'}")
            say(f"data     -> {folder}")
    _raise_failures(result)


@app.command("study")
def study(
    cluster: File,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over", metavar="KEY=[A, B]", help="Values of a key, in place of \\[study]. Repeatable."
        ),
    ] = None,
    policy: Policies = None,
    seeds: opt.Seeds = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    out: opt.Out = None,
    workers: opt.Workers = None,
    force: Force = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compare policies at every point of a grid, on all cores. Safe to stop and to start again."""
    from eunomia.cli.cluster_tables import print_cluster_comparison
    from eunomia.cli.outputs import compare_folder
    from eunomia.cli.run import parse_grid
    from eunomia.study.cluster import study_cluster

    checked = _checked(cluster, sets, seed)
    grid = parse_grid(over) if over else checked.study
    points = 1
    for values in grid.values():
        points *= len(values)
    total = points * len(policy or checked.compare.policies) * (seeds or checked.compare.seeds)
    folder = out or compare_folder(f"{checked.name} study")
    with progress("studying", total, quiet or as_json) as on_done:
        result = study_cluster(
            checked,
            grid,
            policy,
            seeds,
            (),
            folder,
            min(workers or opt.cores(), max(1, total)),
            on_done,
            force,
        )
    if as_json:
        print_json(_as_json(result))
    else:
        print_cluster_comparison(result)
        if not quiet:
            print_remarks(result.remarks)
            say()
            say(f"data     -> {folder / 'sweep.parquet'}")
            say(f"csv      -> {folder / 'sweep.csv'}")
    _raise_failures(result)


def _checked(path: Path, sets: list[str] | None, seed: int | None) -> ClusterConfig:
    from eunomia.config.cluster import load_cluster

    return load_cluster(path, [*(sets or ()), *([f"seed={seed}"] if seed is not None else [])])


def _as_json(result: ClusterComparison) -> dict[str, object]:
    from eunomia.metrics.cluster import CLUSTER_METRICS

    points = [
        {
            "setting": setting,
            "policies": {
                policy: {
                    name: {"mean": e.mean, "low": e.low, "high": e.high, "n": e.n}
                    for name in CLUSTER_METRICS
                    if (e := result.estimate(policy, name, number)).n
                }
                for policy in result.policies
            },
        }
        for number, setting in enumerate(result.settings)
    ]
    return {"name": result.config.name, "seeds": list(result.seeds), "points": points, "remarks": list(result.remarks),
            "failures": result.failures}  # fmt: skip


def _raise_failures(result: ClusterComparison) -> None:
    if result.failures:
        raise EunomiaError("\n".join(f"failed: {name}: {reason}" for name, reason in result.failures.items()))


for _verb in (
    cluster_ask.explain,
    cluster_ask.whatif,
    cluster_worlds.pool,
    cluster_worlds.deferrable,
    cluster_ask.policies,
    cluster_ask.jobs,
):
    app.command(_verb.__name__)(_verb)
