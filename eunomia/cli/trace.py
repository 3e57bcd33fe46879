"""``eunomia trace``: look at a trace, turn it into the canonical schema, list the formats."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import print_json, say
from eunomia.core.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Look at a trace, import it, convert it.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="Trace file.")]
Format = Annotated[str, typer.Option("--format", "-f", metavar="NAME", help="Format, or auto.")]
Output = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where to write: .csv or .parquet.")
]


@app.command("formats")
def formats(as_json: opt.Json = False) -> None:
    """List the trace formats that can be read."""
    from eunomia.workload.traces import FORMATS, TRACES

    known = {name: FORMATS.find(name).what for name in TRACES.names()}
    if as_json:
        print_json(known)
        return
    for name, what in known.items():
        say(f"{name:<17} {what}")


@app.command("info")
def info(file: File, form: Format = "auto", as_json: opt.Json = False) -> None:
    """Rows, span, rate, burstiness and tenants of a trace."""
    from eunomia.workload import traces
    from eunomia.workload.traces.summary import describe

    summary = describe(traces.open(form, file))
    if as_json:
        print_json(asdict(summary))
        return
    say(f"{summary.path}: {summary.format}, {summary.rows} rows over {summary.span_s:.1f} s")
    say(
        f"rate        {summary.mean_rate_per_s:.3f} per s on average; burstiness {summary.burstiness:.2f} (Poisson: 1)"
    )
    shown = summary.tenants[:8]
    more = f" and {len(summary.tenants) - len(shown)} more" if len(summary.tenants) > len(shown) else ""
    say("tenants     " + ", ".join(f"{one.tenant} {one.share:.0%}" for one in shown) + more)
    say("models      " + (", ".join(summary.models[:8]) or "not named"))
    for column in summary.columns:
        middle, high, top = f"{column.p50:.5g}", f"{column.p90:.5g}", f"{column.p99:.5g}"
        say(f"{column.column:<20} p50 {middle}, p90 {high}, p99 {top} ({column.known} rows)")
    if summary.source:
        say(f"source      {summary.source}; licence {summary.licence or 'not known'}")
    for note in summary.notes:
        say(f"note        {note}")


@app.command("import")
def import_(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="Format of the file, or auto.")],
    file: File,
    out: Output = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Read a public trace and write it in Eunomia's own schema, beside the file unless --out says where."""
    _convert(form, file, out, as_json, quiet)


@app.command("convert")
def convert(
    file: File,
    form: Format = "auto",
    out: Output = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """The same as import, with the format found by the file's header."""
    _convert(form, file, out, as_json, quiet)


def _convert(form: str, file: Path, out: Path | None, as_json: bool, quiet: bool) -> None:
    from eunomia.workload import traces
    from eunomia.workload.traces import canonical

    target = out or file.with_name(f"{file.stem}.canonical.parquet")
    if target.exists() and file.exists() and target.samefile(file):
        raise ConfigError(f"{target} is the trace itself; choose another file with --out")
    trace = traces.open(form, file)
    canonical.write(trace, target)
    if as_json:
        print_json({"rows": len(trace), "format": trace.format, "path": str(target)})
    elif not quiet:
        say(f"{len(trace)} rows of {trace.format} -> {target}")
        say(f'use      -> arrivals = {{ trace = "canonical", path = "{target}" }}')
