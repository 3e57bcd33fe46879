"""Stock asynchronous clients in a closed loop, by transport."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from eunomia.serving.devices.memory import undisturbed

IMAGE = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)  # 602,112 bytes
TRANSPORTS = ("http", "grpc", "shared memory")
Headers = dict[str, str]


class Address(Protocol):
    """Whatever listens for both protocols."""

    @property
    def http(self) -> str:
        """Host and port."""

    @property
    def grpc(self) -> str:
        """Host and port."""


class Stock:
    """tritonclient over HTTP, gRPC, or HTTP with the tensor in system shared memory."""

    def __init__(self, live: Address, transport: str, tenant: str, region: str = "bench") -> None:
        if transport == "grpc":
            import tritonclient.grpc.aio as module

            self._client: Any = module.InferenceServerClient(live.grpc)
        else:
            import tritonclient.http.aio as module

            self._client = module.InferenceServerClient(live.http, conn_limit=1000, conn_timeout=120)
        self._shared = transport == "shared memory"
        self._region: Any = None
        self._name = region
        self._headers: Headers = {"x-tenant-id": tenant}
        self._input = module.InferInput("image", list(IMAGE.shape), "FP32")

    async def __aenter__(self) -> Stock:
        """Put the tensor where this transport wants it."""
        if not self._shared:
            self._input.set_data_from_numpy(IMAGE)
            return self
        import tritonclient.utils.shared_memory as shm

        name = f"/eunomia-{self._name}-{os.getpid()}"
        self._region = shm.create_shared_memory_region("image", name, IMAGE.nbytes)
        shm.set_shared_memory_region(self._region, [IMAGE])
        await self._client.register_system_shared_memory("image", name, IMAGE.nbytes, headers=self._headers)
        self._input.set_shared_memory("image", IMAGE.nbytes)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._region is not None:
            import tritonclient.utils.shared_memory as shm

            await self._client.unregister_system_shared_memory("image", headers=self._headers)
            shm.destroy_shared_memory_region(self._region)
        await self._client.close()

    async def infer(self, model: str, **parameters: Any) -> Any:
        """One request."""
        return await self._client.infer(model, [self._input], headers=self._headers, parameters=parameters)


@dataclass(frozen=True)
class Closed:
    """What a closed loop saw. ``latency_s``: of every answer."""

    wall_s: float
    latency_s: list[float]

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latency_s) / self.wall_s


async def closed_loop(client: Stock, model: str, users: int, seconds: float) -> Closed:
    """``users`` requests under way at any time, for that long."""
    latency_s: list[float] = []

    async def user() -> None:
        while time.perf_counter() - began < seconds:
            start = time.perf_counter()
            await client.infer(model)
            latency_s.append(time.perf_counter() - start)

    with undisturbed():
        began = time.perf_counter()
        await asyncio.gather(*(user() for _ in range(users)))
    return Closed(time.perf_counter() - began, latency_s)
