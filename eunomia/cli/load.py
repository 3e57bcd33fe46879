"""``eunomia load``: open-loop load on any server that speaks the Open Inference Protocol."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import note, print_json, say, stderr, stdout
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, OutputError
from eunomia.core.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from eunomia.config.traffic import LoadConfig
    from eunomia.serving.load.result import Result


@dataclass(frozen=True)
class LoadOptions:
    """Options of a load; those of one stream hold with an address, and a file says them itself."""

    model: Annotated[str | None, typer.Option(help="With an address: the model to ask.")] = None
    rate: Annotated[float, typer.Option(min=1e-6, help="With an address: requests per second.")] = 10.0
    tenant: Annotated[str, typer.Option(help="With an address: who asks.")] = "default"
    deadline_ms: Annotated[
        float, typer.Option(min=1e-3, help="With an address: the deadline of each request.")
    ] = 100.0
    send_deadline: Annotated[
        bool, typer.Option(help="With an address: tell the server that deadline, in place of its own.")
    ] = False
    key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="With an address: variable that holds the API key.")
    ] = None
    sets: opt.Set = None
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write load.json and load.html there.")] = (
        None
    )
    as_json: opt.Json = False
    quiet: opt.Quiet = False

    def stream(self) -> Data:
        """The stream that is sent to an address, as a load file writes it."""
        stream: Data = {
            "tenant": self.tenant,
            "model": self.model,
            "deadline_ms": self.deadline_ms,
            "send_deadline": self.send_deadline,
            "arrivals": {"process": "poisson", "rate_per_s": self.rate},
        }
        return stream | ({"key_env": self.key_env} if self.key_env else {})


REFUSED = re.compile(r"\[(400|StatusCode.INVALID_ARGUMENT)\]")
ENOUGH = 0.9  # of the answers: fewer in time are worth a remark
MEASURED = (
    "latency runs from the intended send time to the answer here; the server's own figures from a request that it has "
    "read to an answer that is ready"
)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("load")(bundled(load))


def load(
    what: Annotated[
        str,
        typer.Argument(
            metavar="LOAD.toml|ADDRESS",
            help="A load file, or an address: HOST:PORT of gRPC, or http://HOST:PORT as a server prints it.",
        ),
    ],
    options: LoadOptions,
) -> None:
    """Send requests on time whatever the server does; latency counts from the intended send time.

    Exit status 1 when not one of them was answered. Ctrl-C ends the load and prints what was sent until then; exit
    status 130.
    """
    out = options.out
    config = _config(what, options.stream(), options.sets or [])
    result = _sent(config, options.quiet or options.as_json)
    if out is not None:
        _write(out, result)
    if options.as_json:
        print_json(result)
    else:
        _print(result)
        if out is not None and not options.quiet:
            say(f"page -> {out / 'load.html'}\ndata -> {out / 'load.json'}")
    total = result["total"]
    if result["ended_early"]:
        raise typer.Exit(INTERRUPTED)
    if total["sent"] and not total["answered"]:
        why = ", ".join(total["errors"])
        raise OutputError(f"not one of {total['sent']} requests was answered: {why}")


def _config(what: str, stream: Data, sets: list[str]) -> LoadConfig:
    """Of a load file, or of one stream to an address."""
    from eunomia.config.traffic import load_traffic, traffic_from

    if what.endswith((".toml", ".yaml", ".yml")):
        return load_traffic(what, sets)
    if stream["model"] is None:
        raise ConfigError(f"say which model to ask at {what}: --model NAME")
    return traffic_from({"url": what, "stream": [stream]}, sets, "load")


def _sent(config: LoadConfig, quiet: bool) -> Result:
    from rich.progress import Progress

    from eunomia.study.serving.load import load_streams, send_load

    console = stderr()
    if quiet or not console.is_terminal:
        return send_load(config, stoppable=True)
    load_streams(config)  # what is wrong is said before the bar is drawn
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("sending", total=None)
        return send_load(
            config,
            on_sent=lambda sent, total: bar.update(task, total=total, advance=sent),
            stoppable=True,
        )


def _write(out: Path, result: Result) -> None:
    from eunomia.core.atomic import write_text
    from eunomia.serving.load.page import render

    write_text(out / "load.json", json.dumps(result, indent=2))
    write_text(out / "load.html", render(result, f"Load on {result['url']}"))


def _print(result: Result) -> None:
    from rich.table import Table

    from eunomia.serving.load.result import lateness

    table = Table(box=None, pad_edge=False, header_style="")
    for name in ("tenant", "model", "sent", "answered", "hit rate", "p50 ms", "p95 ms", "p99 ms", "errors"):
        table.add_column(name, justify="left" if name in ("tenant", "model", "errors") else "right")
    for s in result["streams"]:
        times = [f"{s['latency_ms'][p]:.1f}" if s["latency_ms"] else "-" for p in ("p50", "p95", "p99")]
        errors = ", ".join(f"{text} ({n})" for text, n in s["errors"].items())
        rate = f"{s['hit_rate']:.1%}" if s["sent"] else "-"
        table.add_row(s["tenant"], s["model"], str(s["sent"]), str(s["answered"]), rate, *times, errors)
    stdout().print(table)
    lag = result["generator_lag_ms"]
    say(
        f"offered {result['offered_per_s']:.1f}/s, goodput {result['goodput_per_s']:.1f}/s; "
        f"generator late by {lag['p99']:.1f} ms (p99), {lag['max']:.1f} ms (max)"
    )
    say(MEASURED)
    if result["ended_early"]:
        note("ended early, by Ctrl-C: these are the requests that were sent until then")
    for text in filter(None, (lateness(result), remark(result), sizes(result))):
        note(text)


def sizes(result: Result) -> str:
    """What may help where a network refuses an input whose free sizes nobody gave; empty if it refuses none."""
    for stream in result["streams"]:
        guessed = result.get("guessed_shapes", {}).get(stream["model"], {})
        if guessed and any(REFUSED.match(error) for error in stream["errors"]):
            sent = ", ".join(f'"{name}" = {shape}' for name, shape in guessed.items())
            return (
                f"'{stream['model']}' leaves sizes free, and they were sent as 1; give fitting ones, by --set "
                f"'shapes={{{sent}}}' with other numbers, or at the top of a load file"
            )
    return ""


def remark(result: Result) -> str:
    """What a reader must know of answers that came late; empty if few did. Those that failed are in the table.

    Neither do those count that were late because the generator was.
    """
    total = result["total"]
    if total["hits"] + result["generator_lag_ms"]["hits_lost"] >= ENOUGH * total["answered"]:
        return ""
    return (
        f"{total['hits'] / total['answered']:.0%} of the answers came in time: the load is more than server, network "
        "and this machine can do together, or deadlines are too short; lower the rates (Eunomia's live page says "
        "whether its front end or its devices are full)"
    )
