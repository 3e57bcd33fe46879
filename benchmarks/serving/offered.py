"""Open-loop load on a running server, in this process, with the product's own generator and stock clients."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.serving.clients import IMAGE
from eunomia.serving.load.client import TritonClient
from eunomia.serving.load.plan import LoadStream, draw_schedule
from eunomia.serving.load.run import Samples, send_all
from eunomia.workload.arrivals import ArrivalProcess, Poisson


@dataclass(frozen=True)
class Stream:
    """One tenant's requests, Poisson unless ``arrivals`` says otherwise.

    ``claimed_ms``: a deadline that the client sends along; None = none.
    """

    tenant: str
    model: str
    rate_per_s: float
    deadline_ms: float
    claimed_ms: float | None = None
    arrivals: ArrivalProcess | None = None


@dataclass(frozen=True)
class Seen:
    """What one stream got. ``latency_s``: from the intended send time, nan without an answer."""

    sent: int
    answered: int
    hits: int
    latency_s: npt.NDArray[np.float64]
    errors: dict[str, int]
    lag_p99_s: float
    in_window: int  # answered before the load ended

    @property
    def hit_rate(self) -> float:
        """Share in time."""
        return self.hits / self.sent if self.sent else float("nan")

    def percentile_ms(self, p: float) -> float:
        """Of answered requests."""
        known = self.latency_s[~np.isnan(self.latency_s)]
        return float(np.percentile(known, p)) * 1e3 if len(known) else float("nan")


class SharedPicture(TritonClient):
    """HTTP with the picture in system shared memory: what floods a core with 90 MB/s otherwise is the transport."""

    async def prepare(self, shapes: Mapping[str, Sequence[int]], seed: int) -> None:
        """The same picture for every network, registered by every tenant."""
        import tritonclient.utils.shared_memory as shm

        await super().prepare(shapes, seed)
        key = f"/eunomia-picture-{os.getpid()}"
        self._region = shm.create_shared_memory_region("picture", key, IMAGE.nbytes)
        shm.set_shared_memory_region(self._region, [IMAGE])
        for headers in {stream.tenant: self._headers(stream) for stream in self._streams}.values():
            await self._client.unregister_system_shared_memory("picture", headers=headers)
            await self._client.register_system_shared_memory("picture", key, IMAGE.nbytes, headers=headers)
        for inputs in self._inputs.values():
            inputs[0].set_shared_memory("picture", IMAGE.nbytes)

    async def close(self) -> None:
        """Let go of the memory too; the server has mapped nothing."""
        import tritonclient.utils.shared_memory as shm

        await super().close()
        shm.destroy_shared_memory_region(self._region)


def offer(
    url: str,
    streams: Sequence[Stream],
    seconds: float,
    seed: int,
    *,
    protocol: str = "grpc",
    timeout_s: float = 30.0,
) -> list[Seen]:
    """Send for ``seconds``, wait for the answers, one result per stream. ``protocol``: http, grpc or shared."""
    return asyncio.run(offered(url, streams, seconds, seed, protocol=protocol, timeout_s=timeout_s))


async def offered(
    url: str,
    streams: Sequence[Stream],
    seconds: float,
    seed: int,
    *,
    protocol: str = "grpc",
    timeout_s: float = 30.0,
) -> list[Seen]:
    """The same inside an event loop."""
    load = [
        LoadStream(s.tenant, s.model, s.arrivals or Poisson(s.rate_per_s), (s.claimed_ms or s.deadline_ms) * 1e-3,
                   send_deadline=s.claimed_ms is not None)
        for s in streams
    ]  # fmt: skip
    client = (
        SharedPicture(url, "http", load, timeout_s)
        if protocol == "shared"
        else TritonClient(url, protocol, load, timeout_s)
    )
    try:
        await client.prepare({"image": [1, 3, 224, 224]}, seed)
        samples = await send_all(draw_schedule(load, seconds, seed), client, drain_s=timeout_s)
    finally:
        await client.close()
    return [seen(samples, n, stream.deadline_ms * 1e-3, seconds) for n, stream in enumerate(streams)]


def seen(samples: Samples, stream: int, deadline_s: float, seconds: float) -> Seen:
    """One stream's part of the samples."""
    mine = samples.schedule.stream == stream
    latency_s = samples.latency_s[mine]
    errors: dict[str, int] = {}
    for n in np.flatnonzero(mine):
        if samples.error[n]:
            errors[samples.error[n]] = errors.get(samples.error[n], 0) + 1
    lag: Any = samples.lag_s[mine]
    return Seen(int(mine.sum()), int((~np.isnan(latency_s)).sum()), int((latency_s <= deadline_s).sum()), latency_s,
                errors, float(np.percentile(lag, 99)) if len(lag) else 0.0,
                int((samples.schedule.time_s[mine] + latency_s <= seconds).sum()))  # fmt: skip
