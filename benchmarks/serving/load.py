"""Open and closed loops on a running server, in this process, with the product's own generator and stock clients."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.serving.live import Live
from eunomia.serving.devices.memory import undisturbed
from eunomia.serving.devices.messages import Port
from eunomia.serving.load.client import Client, TritonClient
from eunomia.serving.load.plan import LoadStream, draw_schedule
from eunomia.serving.load.run import Samples, send_all
from eunomia.workload.arrivals import ArrivalProcess, Poisson

IMAGE = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)  # 602,112 bytes
TRANSPORTS = ("http", "grpc", "shared memory")
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Stream:
    """One tenant's requests, Poisson unless ``arrivals`` says otherwise.

    ``claimed_ms``: a deadline that the client sends along; None = none.
    """

    tenant: str
    model: str
    rate_per_s: float = 1.0
    deadline_ms: float = 1000.0
    claimed_ms: float | None = None
    arrivals: ArrivalProcess | None = None

    @property
    def load(self) -> LoadStream:
        """For the generator."""
        arrivals, claims = self.arrivals or Poisson(self.rate_per_s), self.claimed_ms is not None
        deadline_s = (self.claimed_ms or self.deadline_ms) * 1e-3
        return LoadStream(self.tenant, self.model, arrivals, deadline_s, send_deadline=claims)


@dataclass(frozen=True)
class Seen:
    """What one stream got. ``latency_s``: from the intended send time, nan without an answer."""

    sent: int
    answered: int
    hits: int
    latency_s: npt.NDArray[np.float64]
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


class PictureClient(TritonClient):
    """The stock client with one picture for every network. ``transport``: one of ``TRANSPORTS``.

    In system shared memory every tenant registers the picture: what floods a core with 90 MB/s otherwise is the
    transport.
    """

    def __init__(self, url: str, transport: str, streams: Sequence[LoadStream], timeout_s: float) -> None:
        super().__init__(url, "grpc" if transport == "grpc" else "http", streams, timeout_s)
        self._shared = transport == "shared memory"
        self._region: Any = None

    async def prepare(self, shapes: Mapping[str, Sequence[int]], seed: int) -> None:
        """Make the picture and put it where this transport wants it; the server is not asked for metadata."""
        port = Port(name="image", shape=list(IMAGE.shape), datatype="FP32")
        rng = np.random.default_rng(seed)
        self._inputs = {stream.model: [self._input(port, shapes, rng)] for stream in self._streams}
        if not self._shared:
            return
        import tritonclient.utils.shared_memory as shm

        key = f"/eunomia-picture-{os.getpid()}-{id(self)}"
        self._region = shm.create_shared_memory_region("picture", key, IMAGE.nbytes)
        shm.set_shared_memory_region(self._region, [IMAGE])
        for headers in {stream.tenant: self._headers(stream) for stream in self._streams}.values():
            await self._client.unregister_system_shared_memory("picture", headers=headers)
            await self._client.register_system_shared_memory("picture", key, IMAGE.nbytes, headers=headers)
        tensors: list[Any] = [inputs[0] for inputs in self._inputs.values()]
        for tensor in tensors:
            tensor.set_shared_memory("picture", IMAGE.nbytes)

    async def close(self) -> None:
        """Let go of the memory too; the server has mapped nothing."""
        await super().close()
        if self._region is not None:
            import tritonclient.utils.shared_memory as shm

            shm.destroy_shared_memory_region(self._region)


class Prepared(Client, Protocol):
    """A client that makes its requests beforehand."""

    async def prepare(self, shapes: Mapping[str, Sequence[int]], seed: int, /) -> None:
        """Make them."""


Made = Callable[[str, str, Sequence[LoadStream], float], Prepared]


@asynccontextmanager
async def client(
    url: str,
    transport: str,
    streams: Sequence[Stream],
    *,
    seed: int = 0,
    timeout_s: float = TIMEOUT_S,
    made: Made = PictureClient,
) -> AsyncIterator[Prepared]:
    """Ready inside the block."""
    found = made(url, transport, [stream.load for stream in streams], timeout_s)
    try:
        await found.prepare({}, seed)
        yield found
    finally:
        await found.close()


# --- closed loops -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Closed:
    """What a closed loop saw. ``latency_s``: of every answer."""

    wall_s: float
    latency_s: list[float]

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latency_s) / self.wall_s


async def closed_loop(
    client: Client, users: int, seconds: float, pause_s: float = 0.0, order: Sequence[int] = (0,)
) -> Closed:
    """``users`` who send for that long, each when the last one is answered, the streams in turns of ``order``.

    ``pause_s``: between an answer and the next request; of several users half to one and a half times that, by lot, so
    that they do not fall into step.
    """
    latency_s, streams = list[float](), itertools.cycle(order)

    async def user(n: int) -> None:
        lot = random.Random(n)
        while time.perf_counter() - began < seconds:
            if pause_s:
                await asyncio.sleep(pause_s * (lot.uniform(0.5, 1.5) if users > 1 else 1.0))
            start = time.perf_counter()
            await client.send(next(streams))
            latency_s.append(time.perf_counter() - start)

    with undisturbed():
        began = time.perf_counter()
        await asyncio.gather(*map(user, range(users)))
    return Closed(time.perf_counter() - began, latency_s)


def closed_rate(
    live: Live,
    stream: Stream,
    seconds: float,
    users: int = 4,
    transport: str = "grpc",
    made: Made = PictureClient,
) -> float:
    """Answers per second of one tenant alone: what the device gives when it never waits."""

    async def alone() -> float:
        url = live.grpc if transport == "grpc" else live.http
        async with client(url, transport, [stream], made=made) as found:
            return (await closed_loop(found, users, seconds)).rate

    return asyncio.run(alone())


# --- open loops ---------------------------------------------------------------------------------------------


def offer(url: str, streams: Sequence[Stream], seconds: float, seed: int, **more: Any) -> list[Seen]:
    """Send for ``seconds``, wait for the answers, one result per stream. ``more``: of ``client``."""
    return asyncio.run(offered(url, streams, seconds, seed, **more))


async def offered(
    url: str, streams: Sequence[Stream], seconds: float, seed: int, *, transport: str = "grpc", **more: Any
) -> list[Seen]:
    """The same inside an event loop."""
    drain_s = more.get("timeout_s", TIMEOUT_S)
    schedule = draw_schedule([stream.load for stream in streams], seconds, seed)
    async with client(url, transport, streams, seed=seed, **more) as found:
        samples = await send_all(schedule, found, drain_s=drain_s)
    return [seen(samples, n, stream.deadline_ms * 1e-3, seconds) for n, stream in enumerate(streams)]


def seen(samples: Samples, stream: int, deadline_s: float, seconds: float) -> Seen:
    """One stream's part of the samples."""
    mine = samples.schedule.stream == stream
    latency_s, lag_s = samples.latency_s[mine], samples.lag_s[mine]
    return Seen(
        sent=int(mine.sum()),
        answered=int((~np.isnan(latency_s)).sum()),
        hits=int((latency_s <= deadline_s).sum()),
        latency_s=latency_s,
        lag_p99_s=float(np.percentile(lag_s, 99)) if len(lag_s) else 0.0,
        in_window=int((samples.schedule.time_s[mine] + latency_s <= seconds).sum()),
    )
