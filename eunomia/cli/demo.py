"""``eunomia demo``: the whole thing on a packaged scenario, in seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import counted, print_json, progress, say, stderr

if TYPE_CHECKING:
    from eunomia.core.records import RunRecords

DEMO_OUT = Path("out/demo")
# The strongest rules without and with a gate, that for tenants, and the policies learned for each objective.
LEARNED = ("edf+f+eft", "edf+f+eft+g0.9", "triage", "eunomia", "eunomia-attainment", "eunomia-shortfall")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("demo")(bundled(demo))


@dataclass(frozen=True)
class DemoOptions:
    """Options of the demo."""

    policy: opt.Policies = None
    seeds: opt.Seeds = None
    learned: Annotated[
        bool, typer.Option("--learned", help="Compare the learned policies with the best rules.")
    ] = False
    explain: Annotated[
        str | None, typer.Option(metavar="REQUEST", help="Then explain a request: req-1042.")
    ] = None
    sets: opt.Set = None
    out: opt.Out = None
    workers: opt.Workers = None
    as_json: opt.Json = False
    quiet: opt.Quiet = False


def demo(options: DemoOptions) -> None:
    """Compare policies on a built-in scenario: table, report, timeline. Needs nothing, takes seconds."""
    from eunomia.cli.experiment import comparison_json, show
    from eunomia.config import demo_scenario
    from eunomia.core.ownership import require_ours
    from eunomia.study.inference.compare import compare as compare_policies
    from eunomia.study.inference.policy import resolve_policy
    from eunomia.study.wing import wing_of

    scenario = demo_scenario(options.sets or ())
    folder = options.out or DEMO_OUT
    names = options.policy or (list(LEARNED) if options.learned else scenario.compare.policies)
    total = len(names) * (options.seeds or scenario.compare.seeds)
    silent = options.quiet or options.as_json
    if options.out is not None:
        require_ours(options.out)
    for name in names:
        resolve_policy(name)  # a name that nobody has is said before anything else
    if not silent:
        stderr().print(
            f"simulating {counted(len(scenario.tenant), 'tenant')}, {scenario.duration_s:g} s of requests, "
            f"{counted(len(names), 'policy', 'policies')} x {counted(total // len(names), 'seed')}"
        )
    started_s = time.perf_counter()
    with progress("simulating", total, silent) as on_done:
        result = compare_policies(
            scenario, names, options.seeds,
            directory=folder, workers=options.workers or 1, on_done=on_done, overwrite=options.out is None,
        )  # fmt: skip
    records = result.records()
    paths = wing_of("inference").publish(records, folder)
    if options.as_json:
        print_json({**comparison_json(result), "paths": paths})
        return
    show(result, True, paths)
    if options.quiet:
        return
    stderr().print(f"took {time.perf_counter() - started_s:.1f} s")
    _say_where(paths, folder, records.runs[0], result.policies[0])
    if options.explain is not None:
        from eunomia.cli.inspect import find_run
        from eunomia.report.explain import explain as tell

        say()
        say(tell(find_run(folder, result.policies[0], None), options.explain).text())


def _say_where(paths: dict[str, str], folder: Path, run: RunRecords, policy: str) -> None:
    say()
    say(f"report   -> {paths['report']}        (one file, opens offline)")
    say(f"timeline -> {paths['timeline']}      (open in ui.perfetto.dev)")
    say(f"data     -> {paths['data']}/<policy>/<seed>/*.parquet")
    say(f"try      -> eunomia explain {folder} req-{a_miss(run)} --policy {policy}")
    say("learned  -> eunomia demo --learned; eunomia policies show eunomia")
    say(
        "next     -> eunomia compare SCENARIO.toml | eunomia models | eunomia policies | eunomia trace info FILE"
    )


def a_miss(run: RunRecords) -> int:
    """A request that missed its deadline, from the middle of the run; any request where none did."""
    table = run["requests"]
    missed = [
        number
        for number, outcome in zip(table["request"].to_pylist(), table["outcome"].to_pylist(), strict=True)
        if outcome != "hit"
    ]
    return int(missed[len(missed) // 2]) if missed else int(table["request"][0].as_py())
