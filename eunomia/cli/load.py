"""``eunomia load``: open-loop load on any server that speaks the Open Inference Protocol."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import print_json, say, stderr, stdout
from eunomia.core.errors import ConfigError, OutputError

if TYPE_CHECKING:
    from eunomia.config.traffic import LoadConfig
    from eunomia.serving.load.plan import LoadStream


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("load")(load)


def load(
    what: Annotated[
        str, typer.Argument(metavar="LOAD.toml|HOST:PORT", help="A load file, or a gRPC address.")
    ],
    model: Annotated[str | None, typer.Option(help="With an address: the model to ask.")] = None,
    rate: Annotated[float, typer.Option(min=1e-6, help="With an address: requests per second.")] = 10.0,
    tenant: Annotated[str, typer.Option(help="With an address: who asks.")] = "default",
    deadline_ms: Annotated[
        float, typer.Option(min=1e-3, help="With an address: what counts as in time.")
    ] = 100.0,
    send_deadline: Annotated[
        bool, typer.Option(help="With an address: tell the server that deadline, in place of its own.")
    ] = False,
    key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="With an address: variable that holds the API key.")
    ] = None,
    sets: opt.Set = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write load.json and load.html there.")
    ] = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Send requests on time whatever the server does; latency counts from the intended send time.

    Exit status 1 when not one of them was answered.
    """
    from eunomia.serving.load.result import summarise

    stream = {"tenant": tenant, "model": model, "deadline_ms": deadline_ms, "send_deadline": send_deadline,
              "arrivals": {"process": "poisson", "rate_per_s": rate}}  # fmt: skip
    config = _config(what, stream | ({"key_env": key_env} if key_env else {}), sets or [])
    streams = load_streams(config)
    samples = asyncio.run(_send(config, streams, quiet or as_json))
    result = {**summarise(samples, streams, config.warmup_s), "seed": config.seed, "url": config.url}
    if out is not None:
        _write(out, result)
    if as_json:
        print_json(result)
    else:
        _print(result)
        if out is not None and not quiet:
            say(f"page -> {out / 'load.html'}\ndata -> {out / 'load.json'}")
    total = result["total"]
    if total["sent"] and not total["answered"]:
        why = ", ".join(total["errors"])
        raise OutputError(f"not one of {total['sent']} requests was answered: {why}")


def load_streams(config: LoadConfig) -> list[LoadStream]:
    """The file's words as the generator's objects; raises ConfigError."""
    from eunomia.serving.load.plan import LoadStream
    from eunomia.study.inference.demand import arrivals_of
    from eunomia.workload.closed_loop import ClosedLoop
    from eunomia.workload.paced import Paced

    streams = []
    for s in config.stream:
        process = arrivals_of(s.arrivals)
        if isinstance(process, ClosedLoop | Paced):
            raise ConfigError(
                f"tenant '{s.tenant}': a load is an open loop; choose poisson, bursty, a trace or their like"
            )
        key = None
        if s.key_env is not None:
            key = os.environ.get(s.key_env)
            if not key:
                raise ConfigError(f"tenant '{s.tenant}': the environment variable {s.key_env} is not set")
        streams.append(LoadStream(s.tenant, s.model, process, s.deadline_ms * 1e-3, key, s.send_deadline))
    return streams


def _config(what: str, stream: dict[str, Any], sets: list[str]) -> LoadConfig:
    """Of a load file, or of one stream to an address."""
    from eunomia.config.traffic import load_traffic, traffic_from

    if what.endswith((".toml", ".yaml", ".yml")):
        return load_traffic(what, sets)
    if stream["model"] is None:
        raise ConfigError(f"say which model to ask at {what}: --model NAME")
    return traffic_from({"url": what, "stream": [stream]}, sets, "load")


async def _send(config: LoadConfig, streams: list[LoadStream], quiet: bool) -> Any:
    from rich.progress import Progress

    from eunomia.serving.load.client import TritonClient
    from eunomia.serving.load.plan import draw_schedule
    from eunomia.serving.load.run import send_all

    schedule = draw_schedule(streams, config.duration_s, config.seed)
    client = TritonClient(config.url, config.protocol, streams, config.timeout_s)
    try:
        await client.prepare(config.shapes, config.seed)
        console = stderr()
        if quiet or not console.is_terminal:
            return await send_all(schedule, client)
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task("sending", total=len(schedule.time_s))
            return await send_all(schedule, client, lambda n: bar.advance(task, n))
    finally:
        await client.close()


def _write(out: Path, result: dict[str, Any]) -> None:
    from eunomia.core.atomic import write_text
    from eunomia.serving.load.page import render

    write_text(out / "load.json", json.dumps(result, indent=2))
    write_text(out / "load.html", render(result, f"Load on {result['url']}"))


def _print(result: dict[str, Any]) -> None:
    from rich.table import Table

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
        f"offered {result['offered_per_s']:.1f}/s, in time {result['goodput_per_s']:.1f}/s; "
        f"generator late by {lag['p99']:.1f} ms (p99), {lag['max']:.1f} ms (max)"
    )
