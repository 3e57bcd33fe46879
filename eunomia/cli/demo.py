"""``eunomia demo``: the whole thing on a packaged scenario, in seconds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import counted, print_json, progress, say, stderr

if TYPE_CHECKING:
    from eunomia.core.records import RunRecords

DEMO_OUT = Path("out/demo")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("demo")(demo)


def demo(
    policy: opt.Policies = None,
    seeds: opt.Seeds = None,
    explain: Annotated[
        str | None, typer.Option(metavar="REQUEST", help="Then explain a request: req-1042.")
    ] = None,
    sets: opt.Set = None,
    out: opt.Out = None,
    workers: opt.Workers = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compare policies on a built-in scenario: table, report, timeline. Needs nothing, takes seconds."""
    from eunomia import study
    from eunomia.cli.outputs import write_outputs
    from eunomia.cli.tables import comparison_json, print_comparison
    from eunomia.config import demo_scenario
    from eunomia.core.ownership import require_ours

    scenario = demo_scenario(sets or ())
    folder = out or DEMO_OUT
    names = policy or scenario.compare.policies
    total = len(names) * (seeds or scenario.compare.seeds)
    if out is not None:
        require_ours(out)
    if not (quiet or as_json):
        stderr().print(
            f"simulating {counted(len(scenario.tenant), 'tenant')}, {scenario.duration_s:g} s of requests, "
            f"{counted(len(names), 'policy', 'policies')} x {counted(total // len(names), 'seed')}"
        )
    started_s = time.perf_counter()
    with progress("simulating", total, quiet or as_json) as on_done:
        result = study.compare(
            scenario,
            policy,
            seeds,
            directory=folder,
            workers=workers or 1,
            on_done=on_done,
            overwrite=out is None,
        )
    records = result.records()
    paths = write_outputs(records, folder)
    if as_json:
        print_json({**comparison_json(result), "paths": paths})
        return
    print_comparison(result)
    if quiet:
        return
    stderr().print(f"took {time.perf_counter() - started_s:.1f} s")
    say()
    say(f"report   -> {paths['report']}        (one file, opens offline)")
    say(f"timeline -> {paths['timeline']}      (open in ui.perfetto.dev)")
    say(f"data     -> {paths['data']}/<policy>/<seed>/*.parquet")
    say(f"try      -> eunomia explain {folder} req-{a_miss(records.runs[0])} --policy {result.policies[0]}")
    say(
        "next     -> eunomia compare SCENARIO.toml | eunomia models | eunomia policies | eunomia trace info FILE"
    )
    if explain is not None:
        from eunomia.cli.inspect import find_run
        from eunomia.report.explain import explain as tell

        say()
        say(tell(find_run(folder, result.policies[0], None), explain).text())


def a_miss(run: RunRecords) -> int:
    """A request that missed its deadline, from the middle of the run; any request where none did."""
    table = run["requests"]
    missed = [
        number
        for number, outcome in zip(table["request"].to_pylist(), table["outcome"].to_pylist(), strict=True)
        if outcome != "hit"
    ]
    return int(missed[len(missed) // 2]) if missed else int(table["request"][0].as_py())
