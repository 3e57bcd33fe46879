"""``eunomia cluster pool`` and ``deferrable``: the two policies of the cluster wing with worlds of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import print_json
from eunomia.cli.experiment import show

if TYPE_CHECKING:
    from eunomia.study.cluster.worlds import Worlds

PoolFile = Annotated[Path, typer.Argument(metavar="POOL", help="Elastic pool of priced machines (TOML).")]
DayFile = Annotated[Path, typer.Argument(metavar="DAY", help="Deferrable jobs and what is left over (TOML).")]


def pool(
    file: PoolFile,
    seeds: opt.Seeds = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """HTAS: containers on rented machines; cost and waiting beside least-requested packing."""
    from eunomia.config.cluster_worlds import load_pool
    from eunomia.study.cluster.pool import run_pools

    result = run_pools(load_pool(file, _overrides(sets, seeds, seed)))
    _print(result, as_json, quiet)


def deferrable(
    file: DayFile,
    seeds: opt.Seeds = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """OSDEC: jobs that may wait, in what on-demand work leaves over; beside first fit and the offline optimum."""
    from eunomia.config.cluster_worlds import load_deferrable
    from eunomia.study.cluster.deferrable import run_deferrables

    result = run_deferrables(load_deferrable(file, _overrides(sets, seeds, seed)))
    _print(result, as_json, quiet)


def _overrides(sets: list[str] | None, seeds: int | None, seed: int | None) -> list[str]:
    given = [*(sets or ())]
    given += [f"compare.seeds={seeds}"] if seeds is not None else []
    return given + ([f"seed={seed}"] if seed is not None else [])


def _print(result: Worlds, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(result.as_table())
    else:
        show(result, quiet, {})
