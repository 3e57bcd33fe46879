"""``eunomia cluster explain | whatif | policies | jobs``: questions about runs, policies and traces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.cluster_options import Columns, File, Policy, print_remarks
from eunomia.cli.console import print_json, say
from eunomia.cli.experiment import show
from eunomia.core.errors import ConfigError

if TYPE_CHECKING:
    from eunomia.study.cluster.whatif import Change, WhatIf


def explain(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run or comparison, or a daemon's --state.")
    ],
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")],
    policy: Policy = None,
    as_json: opt.Json = False,
) -> None:
    """Why a job waited: who was ahead of it, by which numbers."""
    from eunomia.core.records import read_comparison
    from eunomia.report.cluster.explain import explain_job
    from eunomia.study.cluster import slurm_ask

    if slurm_ask.is_daemons(run):
        acts = slurm_ask.story(run, job)
        if as_json:
            print_json(acts)
        else:
            say("\n".join(slurm_ask.line(act) for act in acts))
        return
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


@dataclass(frozen=True)
class WhatIfOptions:
    """What changes, and what is run before and after."""

    add: Annotated[list[str] | None, typer.Option(metavar="TYPE=COUNT", help="Add devices. Repeatable.")] = (
        None
    )
    remove: Annotated[
        list[str] | None, typer.Option(metavar="TYPE=COUNT", help="Remove devices. Repeatable.")
    ] = None
    price: Annotated[
        list[str] | None, typer.Option(metavar="TYPE=COST", help="Cost per device-hour. Repeatable.")
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FACTOR", help="Multiply the weight of a job or of a tenant's jobs. Repeatable."
        ),
    ] = None
    policy: Policy = None
    seed: opt.Seed = None
    sets: opt.Set = None
    slurm: Annotated[
        Path | None,
        typer.Option(metavar="SLURM.CONF", help="CLUSTER is a log; replay it under this slurm.conf."),
    ] = None
    kueue: Annotated[
        Path | None,
        typer.Option(metavar="QUEUES", help="CLUSTER is a log; replay it under these ClusterQueues."),
    ] = None
    shares: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Shares of accounts: sshare -a -P (with --slurm).")
    ] = None
    qos: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PRIORITY", help="Priority of a QOS (--slurm). Repeatable."),
    ] = None
    quota: Annotated[
        list[str] | None,
        typer.Option(metavar="QUEUE:FLAVOR=COUNT", help="Another nominal quota (--kueue). Repeatable."),
    ] = None
    speed: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE=FACTOR", help="Speed of a type beside the others, for a log. Repeatable."),
    ] = None
    column: Columns = None
    format: Annotated[str, typer.Option(help="Format of a log; auto = by its first line.")] = "auto"
    jobs: Annotated[int, typer.Option(min=1, help="Replay the first N jobs of a log.")] = 20_000
    every: Annotated[bool, typer.Option("--all", help="Print every figure and every tenant.")] = False
    as_json: opt.Json = False
    quiet: opt.Quiet = False

    @property
    def log_only(self) -> list[str]:
        """Options given that belong to a log."""
        given = {
            "shares": self.shares,
            "qos": self.qos,
            "quota": self.quota,
            "speed": self.speed,
            "column": self.column,
        }
        return [f"--{name}" for name, value in given.items() if value]

    @property
    def change(self) -> Change:
        """The change in numbers. Raises ConfigError."""
        from eunomia.study.cluster.whatif import Change

        return Change(
            {name: _whole(name, value) for name, value in _numbers("--add", self.add).items()},
            {name: _whole(name, value) for name, value in _numbers("--remove", self.remove).items()},
            _numbers("--price", self.price),
            _numbers("--weight", self.weight),
        )


@bundled
def whatif(cluster: File, options: WhatIfOptions) -> None:
    """What would change with other devices, prices, weights, quotas or schedulers: before and after, on the same jobs.

    With --slurm or --kueue, CLUSTER is a log (sacct -P, Kueue's Workloads, SWF, any CSV by --column). Its replay under
    the present scheduler is compared with the log's own waits first. Then --set changes keys of slurm.conf, or
    QUEUE:KEY of Kueue, and --policy takes another scheduler.
    """
    result = _asked(cluster, options)
    if options.as_json:
        print_json(result.answer())
        return
    show(replace(result, whole=options.every), options.quiet, {})
    if not options.quiet:
        print_remarks([*result.before.remarks, *result.after.remarks])


def _asked(cluster: Path, options: WhatIfOptions) -> WhatIf:
    """Before and after, of an experiment or of a log. Raises ConfigError."""
    from eunomia.study.cluster import what_if

    if options.slurm is None and options.kueue is None:
        if options.log_only:
            raise ConfigError(
                f"{options.log_only[0]} belongs to a log; give --slurm FILE or --kueue FILE with it"
            )
        if cluster.is_file() and cluster.suffix.lower() not in (".toml", ".yaml", ".yml"):
            raise ConfigError(
                f"{cluster} is no cluster file (.toml); a log is replayed under its scheduler's configuration: "
                "add --slurm SLURM.CONF or --kueue QUEUES"
            )
        return what_if(cluster, options.change, options.policy, options.seed, options.sets or ())
    from eunomia.cluster.traces.columns import mapping_of
    from eunomia.study.cluster.status_quo import Log, pairs
    from eunomia.study.cluster.status_quo_kueue import what_if_kueue
    from eunomia.study.cluster.status_quo_slurm import what_if_slurm

    if options.slurm is not None and options.kueue is not None:
        raise ConfigError("give one of --slurm and --kueue: a log has one scheduler")
    speed = _numbers("--speed", options.speed)
    log = Log(cluster, options.format, mapping_of(options.column or []), speed, options.jobs)
    settings = pairs("--set", options.sets or ())
    if options.slurm is None:
        assert options.kueue is not None
        quota = _numbers("--quota", options.quota)
        return what_if_kueue(
            log, options.kueue, options.change, quota=quota, settings=settings, policy=options.policy
        )
    return what_if_slurm(
        log,
        options.slurm,
        options.change,
        settings=settings,
        shares=options.shares,
        qos=_numbers("--qos", options.qos),
        policy=options.policy,
    )


def policies(as_json: opt.Json = False) -> None:
    """List the policies of the cluster wing."""
    from eunomia.cluster.policies.catalogue import ALLOCATORS

    if as_json:
        print_json(ALLOCATORS.names())
        return
    for name in ALLOCATORS.names():
        say(name)


def jobs(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="Job trace in any known format.")],
    format: Annotated[str, typer.Option(help="Format; auto = by the file's first line.")] = "auto",
    column: Columns = None,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as .csv or .parquet.")] = None,
    as_json: opt.Json = False,
) -> None:
    """Read a job trace, say what is in it, and write it in the canonical schema if asked."""
    import numpy as np

    from eunomia.cluster.traces import read_jobs
    from eunomia.cluster.traces.canonical import write
    from eunomia.cluster.traces.columns import mapping_of

    found = read_jobs(trace, format, columns=mapping_of(column or []))
    if to is not None:
        write(found, to)
    known = found.duration_s[~np.isnan(found.duration_s)]
    waits = np.asarray(found.more.get("wait_s", ()), float)
    waits = waits[~np.isnan(waits)]
    facts = {
        "format": found.format,
        "jobs": len(found),
        "tenants": len(found.tenants),
        "job_types": len(found.job_types),
        "span_s": float(found.arrival_s[-1] - found.arrival_s[0]),
        "one_gpu_share": float((found.gpus == 1).mean()),
        "largest_gpus": int(found.gpus.max()),
        "median_duration_s": float(np.median(known)) if len(known) else None,
        **({"mean_wait_s": float(waits.mean())} if len(waits) else {}),
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
            say(f"{key.replace('_', ' '):<18} {_fact(value)}")


def _fact(value: object) -> str:
    """A fact as people read it."""
    if isinstance(value, list):
        return "; ".join(value)
    return f"{value:,.{0 if abs(value) >= 100.0 else 3}f}" if isinstance(value, float) else str(value)


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
