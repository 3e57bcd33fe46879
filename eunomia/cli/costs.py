"""``eunomia costs``: a table of measured costs to fill in, what it lacks, and tables from other tools' results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import print_json, say

app = typer.Typer(no_args_is_help=True, help="Measured costs: a CSV to fill in, and what a filled one lacks.")

Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type", "-t", metavar="NAME", help="Accelerator type to measure. Repeatable; default: all."
    ),
]
OutCsv = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The CSV file to write.")]


@app.command("template")
def template(
    scenario: opt.ScenarioFile, out: OutCsv = Path("costs.csv"), kinds: Types = None, sets: opt.Set = None
) -> None:
    """Write the CSV to fill in: one row per type and distinct layer of the scenario, times left empty."""
    from eunomia.config import load_scenario
    from eunomia.core.atomic import write_text
    from eunomia.core.errors import OutputError
    from eunomia.study.inference.measured import template_csv

    text, rows = template_csv(load_scenario(scenario, sets or ()), kinds or ())
    if out.exists():
        raise OutputError(f"'{out}' exists and may hold measurements; name another file with --out")
    write_text(out, text)
    say(f"{out}: {rows} rows; fill in latency_s (seconds; inf = cannot run), as far as you can")
    say(f"then: eunomia costs check {scenario} {out}")


@app.command("check")
def check(
    scenario: opt.ScenarioFile,
    costs: Annotated[Path, typer.Argument(metavar="COSTS.csv", help="Measured costs, gaps allowed.")],
    sets: opt.Set = None,
    as_json: opt.Json = False,
) -> None:
    """What a CSV of costs gives for a scenario, and how far to trust what is estimated."""
    from eunomia.config import load_scenario
    from eunomia.study.inference.measured import coverage, coverage_data

    found = coverage(load_scenario(scenario, sets or ()), costs)
    if as_json:
        print_json(coverage_data(found))
        return
    for how in found:
        say(how.sentence())
    say(f'to use it: [platform] cost_csv = "{costs}"; types that it does not name are modelled')


@dataclass(frozen=True)
class ImportOptions:
    """How results of another tool become costs of a type."""

    tool: Annotated[
        str, typer.Option("--from", metavar="TOOL", help="maestro, scale-sim, stream, timeloop or zigzag.")
    ]
    model: Annotated[str, typer.Option("--model", "-m", help="Network: a name, or an ONNX file.")]
    kind: Annotated[str, typer.Option("--type", "-t", metavar="NAME", help="Accelerator type they are for.")]
    clock_mhz: Annotated[float, typer.Option(min=1e-3, help="Clock: the tools count cycles.")]
    layers: Annotated[
        str, typer.Option(metavar="A,B", help="Layers of the network in the order of the results.")
    ] = ""
    word_bytes: Annotated[
        float, typer.Option(min=0.01, help="Bytes of a word: DRAM traffic comes in words.")
    ] = 1.0
    link_gb_s: Annotated[float | None, typer.Option(min=1e-6, help="The type's own DRAM bandwidth.")] = None
    out: OutCsv = Path("costs.csv")


def import_results(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Result files, in order.")],
    options: ImportOptions,
) -> None:
    """Turn result files of MAESTRO, SCALE-Sim, Stream, Timeloop or ZigZag into a CSV of costs."""
    from eunomia.cli.catalogue import find_model
    from eunomia.core.atomic import write_text
    from eunomia.core.errors import OutputError, UnknownNameError
    from eunomia.hardware.imported import Import, cost_rows
    from eunomia.hardware.results import FORMATS

    if options.tool not in FORMATS:
        raise UnknownNameError("tool", options.tool, FORMATS)
    figures = [found for file in files for found in FORMATS[options.tool](file)]
    how = Import(options.kind, options.tool, options.clock_mhz, options.word_bytes, options.link_gb_s)
    names = [name.strip() for name in options.layers.split(",") if name.strip()]
    text = cost_rows(figures, find_model(options.model, {}, {}, {}), names, how)
    if options.out.exists():
        raise OutputError(f"'{options.out}' exists and may hold measurements; name another file with --out")
    write_text(options.out, text)
    bytes_known = sum(found.dram_words is not None for found in figures)
    say(f"{options.out}: {len(figures)} layers of {options.model} on '{options.kind}', from {options.tool}")
    if bytes_known < len(figures):
        say(
            f"DRAM traffic of {len(figures) - bytes_known} is not in the results: every tensor was counted once"
        )


app.command("import")(bundled(import_results))
