"""``eunomia cluster explain | whatif | policies | jobs``: questions about runs, policies and traces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.cluster_options import File, Policy, print_remarks
from eunomia.cli.console import print_json, say
from eunomia.cli.experiment import show
from eunomia.core.errors import ConfigError

if TYPE_CHECKING:
    from eunomia.study.cluster.whatif import Change


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of a comparison.")],
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")],
    policy: Policy = None,
    as_json: opt.Json = False,
) -> None:
    """Why a job waited: who was ahead of it, by which numbers."""
    from eunomia.core.records import read_comparison
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
    as_json: opt.Json = False
    quiet: opt.Quiet = False

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
    """What would change with other devices, prices or weights: before and after, on the same jobs."""
    from eunomia.study.cluster import what_if

    result = what_if(cluster, options.change, options.policy, options.seed, options.sets or ())
    if options.as_json:
        print_json(
            {
                "changes": list(result.changes),
                "policy": result.before.policy,
                "metrics": {name: {"before": b, "after": a} for name, b, a in result.changed()},
                "tenants_jct_mean_s": {name: {"before": b, "after": a} for name, b, a in result.tenants()},
            }
        )
        return
    show(result, options.quiet, {})
    if not options.quiet:
        print_remarks([*result.before.remarks, *result.after.remarks])


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
