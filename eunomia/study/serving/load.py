"""Open-loop load on a server: from a load file to what was answered in time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
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

OnSent = Callable[[int, int], None]  # requests answered since the last call, and requests in all


def send_load(
    config: LoadConfig | str | Path, overrides: Iterable[str] = (), on_sent: OnSent | None = None
) -> Result:
    """Send the requests of a load file on time, whatever the server does; latency counts from the intended time.

    Returns what ``eunomia load --json`` prints. Raises ConfigError, and OutputError when the server refuses.
    """
    checked = config if isinstance(config, LoadConfig) else load_traffic(config, overrides)
    streams = load_streams(checked)
    samples = asyncio.run(_send(checked, streams, on_sent))
    return {**summarise(samples, streams, checked.warmup_s), "seed": checked.seed, "url": checked.url}


async def _send(config: LoadConfig, streams: list[LoadStream], on_sent: OnSent | None) -> Samples:
    schedule = draw_schedule(streams, config.duration_s, config.seed)
    ca = config.tls_ca or ("" if config.tls else None)
    client = TritonClient(config.url, config.protocol, streams, config.timeout_s, ca)
    try:
        await client.prepare(config.shapes, config.seed)
        if on_sent is None:
            return await send_all(schedule, client)
        total = len(schedule.time_s)
        return await send_all(schedule, client, lambda sent: on_sent(sent, total))
    finally:
        await client.close()


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
                raise ConfigError(f"tenant '{s.tenant}': the environment variable {s.key_env} is not set")
        streams.append(LoadStream(s.tenant, s.model, process, s.deadline_ms * 1e-3, key, s.send_deadline))
    return streams
