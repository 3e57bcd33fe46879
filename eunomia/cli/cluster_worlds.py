"""``eunomia cluster pool`` and ``deferrable``: the two policies of the cluster wing with worlds of their own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import note, print_json

if TYPE_CHECKING:
    from eunomia.study.cluster.worlds import Worlds

POOL = {
    "cost": "cost", "wait_mean_s": "mean wait", "wait_max_s": "longest wait", "turnaround_mean_s": "turnaround",
    "machine_h": "machine hours", "migrations": "migrations", "unfinished": "unfinished",
}  # fmt: skip
DEFERRABLE = {
    "served": "served", "utilisation": "utilisation", "wait_slots": "wait, slots", "overload": "overload",
    "window_passed": "window passed",
}  # fmt: skip

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
    _print(result, POOL, "scheduler", as_json, quiet)


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
    _print(result, DEFERRABLE, "policy", as_json, quiet)


def _overrides(sets: list[str] | None, seeds: int | None, seed: int | None) -> list[str]:
    given = [*(sets or ())]
    given += [f"compare.seeds={seeds}"] if seeds is not None else []
    return given + ([f"seed={seed}"] if seed is not None else [])


def _print(result: Worlds, shown: dict[str, str], what: str, as_json: bool, quiet: bool) -> None:
    from eunomia.cli.tables import print_table

    if as_json:
        print_json(result.as_table())
        return
    first = result.methods[0]
    heads = (what, *shown.values(), f"{shown[result.headline]} / {first}")
    rows = [[m, *(_text(result, m, name) for name in shown), _ratio(result, m)] for m in result.methods]
    print_table(heads, rows, right=range(1, len(heads)))
    if not quiet and len(result.seeds) > 1:
        note(
            f"means over {len(result.seeds)} seeds with half their 95 % interval; every row met the same jobs"
        )


def _text(result: Worlds, method: str, figure: str) -> str:
    from eunomia.report.cluster.words import duration

    found = result.estimate(method, figure)
    if not found.n or math.isnan(found.mean):
        return "-"
    if figure.endswith("_s"):
        return duration(found.mean)
    factor, unit = (100.0, " %") if figure in ("served", "utilisation", "overload") else (1.0, "")
    half = f" ±{factor * found.half_width:.2g}" if found.has_interval else ""
    return f"{factor * found.mean:.4g}{half}{unit}"


def _ratio(result: Worlds, method: str) -> str:
    found = result.against_first(method)
    if found is None:
        return ""
    span = f" [{found.low:.3f}, {found.high:.3f}]" if found.has_interval else ""
    return f"{found.mean:.3f}{span}"
