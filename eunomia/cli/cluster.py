"""``eunomia cluster``: simulate, compare, study, explain, whatif; policies and traces of the cluster wing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import note, print_json, progress, say
from eunomia.errors import ConfigError, EunomiaError

if TYPE_CHECKING:
    from eunomia.config.cluster import ClusterConfig
    from eunomia.experiment.cluster import ClusterComparison

app = typer.Typer(
    no_args_is_help=True, help="Training jobs on a cluster: simulate, compare, explain, what-if."
)

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
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Change = Annotated[list[str] | None, typer.Option(metavar="NAME=NUMBER", help="Repeatable.")]


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
    from eunomia.experiment.cluster import run_cluster
    from eunomia.records import Comparison
    from eunomia.report.cluster.html import write_cluster_report

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
        _remarks(result.remarks)
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
    from eunomia.experiment.cluster import compare_cluster
    from eunomia.report.cluster.html import write_cluster_report

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
            _remarks(result.remarks)
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
    from eunomia.experiment.cluster import study_cluster

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
            _remarks(result.remarks)
            say()
            say(f"data     -> {folder / 'sweep.parquet'}")
            say(f"csv      -> {folder / 'sweep.csv'}")
    _raise_failures(result)


@app.command("explain")
def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of a comparison.")],
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")],
    policy: Policy = None,
    as_json: opt.Json = False,
) -> None:
    """Why a job waited: who was ahead of it, by which numbers."""
    from eunomia.records import read_comparison
    from eunomia.report.cluster.explain import explain_job

    runs = [r for r in read_comparison(run).runs if "choices" in r.tables]
    chosen = [r for r in runs if policy is None or r.policy == policy]
    if not chosen:
        names = ", ".join(dict.fromkeys(r.policy for r in runs)) or "none"
        raise ConfigError(f"no run of policy '{policy}' with recorded choices in {run}; there are: {names}")
    story = explain_job(chosen[0], job)
    if as_json:
        print_json(story.as_table())
    else:
        say(story.text().rstrip("\n"))


@app.command("whatif")
def whatif(
    cluster: File,
    add: Annotated[
        list[str] | None, typer.Option(metavar="TYPE=COUNT", help="Add devices. Repeatable.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="TYPE=COUNT", help="Remove devices. Repeatable.")
    ] = None,
    price: Annotated[
        list[str] | None, typer.Option(metavar="TYPE=COST", help="Cost per device-hour. Repeatable.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FACTOR", help="Multiply the weight of a job or of a tenant's jobs. Repeatable."
        ),
    ] = None,
    policy: Policy = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """What would change with other devices, prices or weights: before and after, on the same jobs."""
    from eunomia.cli.cluster_tables import print_what_if
    from eunomia.experiment.cluster import what_if

    result = what_if(
        cluster,
        {name: _whole(name, value) for name, value in _numbers("--add", add).items()},
        {name: _whole(name, value) for name, value in _numbers("--remove", remove).items()},
        _numbers("--price", price),
        _numbers("--weight", weight),
        policy,
        seed,
        sets or (),
    )
    if as_json:
        print_json(
            {
                "changes": list(result.changes),
                "policy": result.before.policy,
                "metrics": {name: {"before": b, "after": a} for name, b, a in result.rows()},
                "tenants_jct_mean_s": {name: {"before": b, "after": a} for name, b, a in result.tenants()},
            }
        )
        return
    print_what_if(result)
    if not quiet:
        _remarks([*result.before.remarks, *result.after.remarks])


@app.command("policies")
def policies(as_json: opt.Json = False) -> None:
    """List the policies of the cluster wing."""
    from eunomia.cluster.policies.catalogue import ALLOCATORS

    if as_json:
        print_json(ALLOCATORS.names())
        return
    for name in ALLOCATORS.names():
        say(name)


@app.command("jobs")
def jobs(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="Job trace in any known format.")],
    format: Annotated[str, typer.Option(help="Format; auto = by the file's first line.")] = "auto",
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as .csv or .parquet.")] = None,
    as_json: opt.Json = False,
) -> None:
    """Read a job trace, say what is in it, and write it in the canonical schema if asked."""
    import numpy as np

    from eunomia.cluster.traces import read_jobs
    from eunomia.cluster.traces.canonical import write

    found = read_jobs(trace, format)
    if to is not None:
        write(found, to)
    known = found.duration_s[~np.isnan(found.duration_s)]
    facts = {
        "format": found.format,
        "jobs": len(found),
        "tenants": len(found.tenants),
        "job_types": len(found.job_types),
        "span_s": float(found.arrival_s[-1] - found.arrival_s[0]),
        "one_gpu_share": float((found.gpus == 1).mean()),
        "largest_gpus": int(found.gpus.max()),
        "median_duration_s": float(np.median(known)) if len(known) else None,
        "source": found.source,
        "licence": found.licence,
        "notes": list(found.notes),
        "written": None if to is None else str(to),
    }
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        if value not in (None, "", []):
            say(f"{key.replace('_', ' '):<18} {'; '.join(value) if isinstance(value, list) else value}")


def _checked(path: Path, sets: list[str] | None, seed: int | None) -> ClusterConfig:
    from eunomia.config.cluster import load_cluster

    return load_cluster(path, [*(sets or ()), *([f"seed={seed}"] if seed is not None else [])])


def _numbers(option: str, texts: list[str] | None) -> dict[str, float]:
    """``v100=4`` texts as numbers. Raises ConfigError."""
    found: dict[str, float] = {}
    seen: set[str] = set()
    for text in texts or ():
        name, equals, value = text.rpartition("=")
        try:
            found[name] = float(value)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise ConfigError(f"{option} {text}: write NAME=NUMBER, for example {option} v100=4")
        if name in seen:
            raise ConfigError(f"{option} names '{name}' twice")
        seen.add(name)
    return found


def _whole(name: str, value: float) -> int:
    if not value.is_integer():
        raise ConfigError(f"{name}={value:g}: give a whole number of devices")
    return int(value)


def _remarks(remarks: tuple[str, ...] | list[str]) -> None:
    for text in dict.fromkeys(remarks):
        note(text)


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
