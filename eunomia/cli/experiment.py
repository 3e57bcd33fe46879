"""Simulate, compare, sweep: the verbs of both wings, written once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import note, print_json, progress, say, stdout
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError

if TYPE_CHECKING:
    from eunomia.study.batch import Keep, OnDone
    from eunomia.study.compare import AnyComparison
    from eunomia.study.result import AnyRun, Result
    from eunomia.study.sweep import AnySweep
    from eunomia.study.wing import AnyWing

OnePolicy = Annotated[
    str | None,
    typer.Option(
        "--policy", "-p", metavar="NAME", help="Policy by name, or FILE.py:FUNCTION.",
        autocompletion=opt.complete_policy,
    ),
]  # fmt: skip
Force = Annotated[bool, typer.Option("--force", help="Replace an existing run of that name.")]
ForceAll = Annotated[
    bool, typer.Option("--force", help="Replace the results of other settings in that folder.")
]
Over = Annotated[
    list[str] | None,
    typer.Option(
        "--over", metavar="KEY=[A, B]", help="Values of a key, in place of the file's section. Repeatable."
    ),
]


RankBy = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="METRIC", help="Rank by this metric; default: hit rate (cluster: mean JCT)."
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """Options of one run."""

    policy: OnePolicy = None
    seed: opt.Seed = None
    sets: opt.Set = None
    out: opt.Out = None
    force: Force = False
    as_json: opt.Json = False
    quiet: opt.Quiet = False


@dataclass(frozen=True)
class CompareOptions:
    """Options of a comparison."""

    policy: opt.Policies = None
    seeds: opt.Seeds = None
    seed: opt.Seed = None
    sets: opt.Set = None
    out: opt.Out = None
    workers: opt.Workers = None
    on: opt.On = "processes"
    force: ForceAll = False
    as_json: opt.Json = False
    quiet: opt.Quiet = False

    @property
    def overrides(self) -> list[str]:
        """What is changed in the file."""
        return [*(self.sets or ()), *([f"seed={self.seed}"] if self.seed is not None else [])]

    @property
    def silent(self) -> bool:
        """Whether nothing but results is printed."""
        return self.quiet or self.as_json


@dataclass(frozen=True)
class SweepOptions(CompareOptions):
    """Options of a sweep."""

    over: Over = None
    by: RankBy = None


def run(wing: AnyWing, file: Path, options: RunOptions, explain: str) -> None:
    """One policy on one seed; ``explain``: the verb that explains a part of it."""
    from eunomia.cli.outputs import check_free, run_folder
    from eunomia.core.records import Comparison

    if options.out is not None:
        check_free(options.out, options.force)
    config = wing.checked(file, options.sets or ())
    result = wing.simulate(config, options.policy, options.seed)
    folder = options.out or run_folder(result.config.name, result.policy, result.seed)
    written = result.write(folder, overwrite=options.force or options.out is None)
    paths = wing.publish(Comparison(result.config.name, (written,), written.manifest), folder)
    if options.as_json:
        print_json({**run_json(result), "paths": paths})
        return
    show(result, options.quiet, paths)
    if not options.quiet:
        for remark in dict.fromkeys([*wing.remarks(result.config), *result.remarks]):
            note(remark)
        say(f"explain  -> {explain} {folder} {result.example}")


def compare(
    wing: AnyWing,
    config: Any,
    options: CompareOptions,
    compared: Callable[[Path, int, OnDone], AnyComparison],
) -> None:
    """Several policies on several seeds; ``compared`` runs them, of a folder, a number of processes, and progress."""
    from eunomia.cli.outputs import compare_folder

    folder = options.out or compare_folder(config.name)
    total = amount(config, options)
    if not options.silent:
        for remark in wing.remarks(config):
            note(remark)
    with progress("comparing", total, options.silent) as on_done:
        result = compared(folder, min(options.workers or opt.cores(), total), on_done)
    paths = wing.publish(result.records(), folder)
    if options.as_json:
        print_json({**comparison_json(result), "paths": paths})
    else:
        show(result, options.quiet, paths)
    raise_failures(result.failures)


def sweep(wing: AnyWing, file: Path, options: SweepOptions, record: Keep = "requests") -> None:
    """The same at every point of a grid; ``record``: which tables its metrics may read."""
    from eunomia.cli.outputs import compare_folder
    from eunomia.study.compare import metric_of
    from eunomia.study.sweep import size_of, sweep_in

    config = wing.checked(file, options.overrides)
    metric_of(wing, options.by or wing.chart)
    grid = parse_grid(options.over) if options.over else wing.grid(config)
    folder = options.out or compare_folder(f"{config.name} {wing.grid_section}")
    total = size_of(grid) * amount(config, options)
    if not options.silent:
        for remark in wing.remarks(config):
            note(remark)
    workers = min(options.workers or opt.cores(), max(1, total))
    with progress("sweeping", total, options.silent) as on_done:
        result = sweep_in(
            wing, config, grid, options.policy, options.seeds,
            directory=folder, workers=workers, on=options.on, on_done=on_done, overwrite=options.force, record=record,
        )  # fmt: skip
    result = result.ranked_by(options.by) if options.by else result
    if options.as_json:
        print_json(sweep_json(result))
    else:
        names = {"report": "report.html", "data": "sweep.parquet", "csv": "sweep.csv"}
        show(result, options.quiet, {what: str(folder / name) for what, name in names.items()})
    raise_failures(result.failures)


def amount(config: Any, options: CompareOptions) -> int:
    """How many runs a comparison has."""
    return len(options.policy or config.compare.policies) * (options.seeds or config.compare.seeds)


def parse_grid(texts: list[str]) -> dict[str, list[object]]:
    """``load=[0.7, 1.0]`` texts as a grid. Raises ConfigError."""
    from eunomia.config.overrides import parse_override

    grid: dict[str, list[object]] = {}
    for text in texts:
        key, values = parse_override(text, "--over")
        if not isinstance(values, list) or not values:
            raise ConfigError(f"--over {text}: give a list of values, for example --over 'load=[0.7, 1.0]'")
        grid[key] = values
    return grid


def show(result: Result, quiet: bool, paths: dict[str, str]) -> None:
    """The table of a result, what it says in sentences, and where the files are.

    A terminal too narrow for the table gets it without intervals, and in parts if it is still too narrow.
    """
    from eunomia.cli.tables import print_table

    console, table = stdout(), result.table()
    if console.is_terminal and table.width > console.width:
        table = result.table(short=True)
    console.print(result.title, style="bold", soft_wrap=True)
    for part in table.parts(console.width) if console.is_terminal else [table]:
        print_table(part.header, part.rows, part.right, None if console.is_terminal else part.width)
    for line in result.footnotes():
        stdout().print(line, style="dim", soft_wrap=True)
    for line in result.sentences():
        stdout().print(line, soft_wrap=True)
    if not quiet:
        print_paths(paths)


def print_paths(paths: dict[str, str]) -> None:
    """Where the files are."""
    say()
    for what, path in paths.items():
        say(f"{what:<9}-> {path}")


def run_json(result: AnyRun) -> Data:
    """A run as data."""
    return {
        "policy": result.policy,
        "seed": result.seed,
        "metrics": result.metrics,
        "remarks": result.remarks,
    }


def comparison_json(result: AnyComparison) -> Data:
    """A comparison as data: estimates per policy and metric, what the wing adds, failures."""
    return {
        "scenario": result.config.name,
        "seeds": list(result.seeds),
        **result.facts(),
        "remarks": list(result.remarks),
        "failures": result.failures,
    }


def sweep_json(result: AnySweep) -> Data:
    """A sweep as data: one entry per setting."""
    points = [
        {"setting": setting, **(comparison_json(point) if point.answers else {"failures": point.failures})}
        for setting, point in zip(result.settings, result.points, strict=True)
    ]
    return {
        "scenario": result.config.name,
        "points": points,
        "ranking": result.sentences(),
        "remarks": list(result.remarks),
        "failures": result.failures,
    }


def raise_failures(failures: dict[str, str]) -> None:
    """Exit with status 1 when some runs failed; the others are written and shown."""
    from eunomia.core.errors import EunomiaError

    if failures:
        raise EunomiaError("\n".join(f"failed: {name}: {reason}" for name, reason in failures.items()))
