"""``eunomia run``, ``compare`` and ``sweep``: simulate, write, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import note, print_json, progress, say
from eunomia.core.errors import ConfigError

if TYPE_CHECKING:
    from eunomia.config import Scenario

Force = Annotated[bool, typer.Option("--force", help="Replace an existing run of that name.")]
ForceAll = Annotated[
    bool, typer.Option("--force", help="Replace the results of other settings in that folder.")
]

Bracket = Annotated[
    int | None,
    typer.Option(
        "--bracket",
        min=1,
        metavar="N",
        help="Show each policy's place between best schedule found and bound, on the first N requests of each seed.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("run")(run)
    app.command("compare")(compare)
    app.command("sweep")(sweep)


def run(
    scenario: opt.ScenarioFile,
    policy: Annotated[
        str | None,
        typer.Option("--policy", "-p", metavar="NAME", help="Policy by name, or FILE.py:FUNCTION.",
                     autocompletion=opt.complete_policy),
    ] = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    out: opt.Out = None,
    force: Force = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:  # fmt: skip
    """Run a scenario once: one policy, one seed. Writes data, report and timeline."""
    from eunomia import study
    from eunomia.cli.outputs import run_folder, write_outputs
    from eunomia.cli.tables import print_run
    from eunomia.core.records import Comparison

    if out is not None:
        check_free(out, force)
    result = study.run(scenario, policy, seed, overrides=sets or ())
    folder = out or run_folder(result.scenario.name, result.policy, result.seed)
    written = result.write(folder, overwrite=force or out is None)
    paths = write_outputs(Comparison(result.scenario.name, (written,), written.manifest), folder)
    if as_json:
        print_json({"policy": result.policy, "seed": result.seed, "metrics": result.metrics, "paths": paths})
        return
    print_run(result)
    if not quiet:
        _note_traces(result.scenario)
        _print_paths(paths)
        say(f"explain  -> eunomia explain {folder} req-0")


def check_free(folder: Path, force: bool) -> None:
    """Refuse a place that is taken before anything is computed."""
    from eunomia.core.atomic import clear_output_errors, occupied
    from eunomia.core.errors import OutputError
    from eunomia.core.ownership import require_ours

    with clear_output_errors(folder):
        require_ours(folder)
        if occupied(folder) and not force:
            raise OutputError(f"'{folder}' exists already; choose another name, or replace it with --force")


def compare(
    scenario: opt.ScenarioFile,
    policy: opt.Policies = None,
    seeds: opt.Seeds = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    out: opt.Out = None,
    workers: opt.Workers = None,
    record: opt.Record = "first",
    bracket: Bracket = None,
    force: ForceAll = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compare policies on the same requests, over several seeds. A stopped comparison goes on where it left off."""
    from eunomia import study
    from eunomia.cli.outputs import compare_folder

    checked = _checked(scenario, sets, seed)
    folder = out or compare_folder(checked.name)
    total = len(policy or checked.compare.policies) * (seeds or checked.compare.seeds)
    if not quiet:
        _note_traces(checked)
    with progress("comparing", total, quiet or as_json) as on_done:
        result = study.compare(
            checked,
            policy,
            seeds,
            directory=folder,
            workers=min(workers or opt.cores(), total),
            record=record,
            on_done=on_done,
            overwrite=force,
            bracket=bracket,
        )
    show_comparison(result, folder, as_json, quiet)


def _checked(path: Path, sets: list[str] | None, seed: int | None) -> Scenario:
    from eunomia.config import load_scenario

    return load_scenario(path, [*(sets or ()), *([f"seed={seed}"] if seed is not None else [])])


def show_comparison(result, folder: Path, as_json: bool, quiet: bool) -> None:  # type: ignore[no-untyped-def]
    """Write report and timeline of a comparison, print its table, name what failed."""
    from eunomia.cli.outputs import write_outputs
    from eunomia.cli.tables import comparison_json, print_comparison

    paths = write_outputs(result.records(), folder)
    if as_json:
        print_json({**comparison_json(result), "paths": paths})
    else:
        print_comparison(result)
        if not quiet:
            _print_paths(paths)
    _raise_failures(result.failures)


def sweep(
    scenario: opt.ScenarioFile,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="KEY=[A, B]",
            help="Values of a key, in place of the section \\[sweep]. Repeatable.",
        ),
    ] = None,
    policy: opt.Policies = None,
    seeds: opt.Seeds = None,
    seed: opt.Seed = None,
    sets: opt.Set = None,
    out: opt.Out = None,
    workers: opt.Workers = None,
    record: opt.Record = "first",
    force: ForceAll = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compare policies at every point of a grid, on all cores. Safe to stop and to start again."""
    from eunomia import study
    from eunomia.cli.outputs import compare_folder
    from eunomia.cli.tables import print_sweep, sweep_json
    from eunomia.study.sweep import settings_of

    checked = _checked(scenario, sets, seed)
    grid = parse_grid(over) if over else checked.sweep
    folder = out or compare_folder(f"{checked.name} sweep")
    total = (
        len(settings_of(grid)) * len(policy or checked.compare.policies) * (seeds or checked.compare.seeds)
    )
    if not quiet:
        _note_traces(checked)
    with progress("sweeping", total, quiet or as_json) as on_done:
        result = study.sweep(
            checked,
            grid,
            policy,
            seeds,
            directory=folder,
            workers=min(workers or opt.cores(), max(1, total)),
            on_done=on_done,
            overwrite=force,
        )
    if as_json:
        print_json(sweep_json(result))
    else:
        print_sweep(result)
        if not quiet:
            _print_paths({"data": str(folder / "sweep.parquet"), "csv": str(folder / "sweep.csv")})
    _raise_failures(result.failures)


def parse_grid(texts: list[str]) -> dict[str, list[object]]:
    """``load=[0.7, 1.0]`` texts as a grid. Raises ConfigError."""
    from eunomia.config.overrides import parse_override

    grid: dict[str, list[object]] = {}
    for text in texts:
        key, values = parse_override(text)
        if not isinstance(values, list) or not values:
            raise ConfigError(f"--over {text}: give a list of values, for example --over 'load=[0.7, 1.0]'")
        grid[key] = values
    return grid


def _note_traces(scenario: Scenario) -> None:
    """Say what of the scenario's traces is not used."""
    from eunomia.study.inference.notes import trace_notes

    for sentence in trace_notes(scenario):
        note(sentence)


def _print_paths(paths: dict[str, str]) -> None:
    say()
    for what, path in paths.items():
        say(f"{what:<9}-> {path}")


def _raise_failures(failures: dict[str, str]) -> None:
    """Exit with status 1 when some runs failed; the others are written and shown."""
    from eunomia.core.errors import EunomiaError

    if failures:
        raise EunomiaError("\n".join(f"failed: {name}: {reason}" for name, reason in failures.items()))
