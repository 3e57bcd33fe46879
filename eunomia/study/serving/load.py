"""Open-loop load on a server: from a load file to what was answered in time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from eunomia.config.traffic import LoadConfig, load_traffic
from eunomia.core.errors import ConfigError
from eunomia.serving.load.client import TritonClient
from eunomia.serving.load.plan import LoadStream, draw_schedule
from eunomia.serving.load.result import Result, summarise
from eunomia.serving.load.run import Samples, send_all
from eunomia.study.inference.demand import arrivals_of
from eunomia.workload.closed_loop import ClosedLoop
from eunomia.workload.paced import Paced

Guessed = dict[str, dict[str, list[int]]]  # shapes by network and input
OnSent = Callable[[int, int], None]  # requests answered since the last call, and requests in all


def send_load(
    config: LoadConfig | str | Path,
    overrides: Iterable[str] = (),
    on_sent: OnSent | None = None,
    *,
    stoppable: bool = False,
) -> Result:
    """Send the requests of a load file on time, whatever the server does; latency counts from the intended time.

    Returns what ``eunomia load --json`` prints. Raises ConfigError, and OutputError when the server refuses.
    ``stoppable``: Ctrl-C ends the sending, and the result holds what was sent until then (``ended_early``). The next
    one is raised. Only in the main thread.
    """
    checked = config if isinstance(config, LoadConfig) else load_traffic(config, overrides)
    streams = load_streams(checked)
    samples, owners, guessed = asyncio.run(_send(checked, streams, on_sent, stoppable))
    if not len(samples.schedule.time_s):
        raise KeyboardInterrupt
    streams = [replace(stream, tenant=owner) for stream, owner in zip(streams, owners, strict=True)]
    result = summarise(samples, streams, checked.warmup_s)
    return {**result, "seed": checked.seed, "url": checked.url, "guessed_shapes": guessed}


async def _send(
    config: LoadConfig, streams: list[LoadStream], on_sent: OnSent | None, stoppable: bool
) -> tuple[Samples, list[str], Guessed]:
    """And whose the streams are, and the sizes that were guessed."""
    schedule = draw_schedule(streams, config.duration_s, config.seed)
    ca = config.tls_ca or ("" if config.tls else None)
    client = TritonClient(config.url, config.protocol, streams, config.timeout_s, ca)
    try:
        await client.prepare(config.shapes, config.seed)
        owners = await client.owners()
        total, stop = len(schedule.time_s), _on_interrupt() if stoppable else None
        told = (lambda sent: on_sent(sent, total)) if on_sent is not None else (lambda sent: None)
        return await send_all(schedule, client, told, stop=stop), owners, client.guessed
    finally:
        await client.close()


def _on_interrupt() -> asyncio.Event:
    """It is set by the first Ctrl-C; the next one is raised."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def first() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stop.set()

    loop.add_signal_handler(signal.SIGINT, first)
    return stop


def load_streams(config: LoadConfig) -> list[LoadStream]:
    """The file's words as the generator's objects; raises ConfigError."""
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
                raise ConfigError(
                    f"the environment variable {s.key_env} is not set: export {s.key_env}=eun_..., the key of a tenant"
                )
        streams.append(LoadStream(s.tenant, s.model, process, s.deadline_ms * 1e-3, key, s.send_deadline))
    return streams
