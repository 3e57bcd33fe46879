"""Loading beside traffic: a device goes on serving while it loads another network."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import numpy as np

from eunomia.serving.devices.messages import Message
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.models.convolutional import mobilenet_v2
from eunomia.serving.server import Server
from eunomia.workload.tenant import Agreement
from tests.serving.live import SIDE, options

PICTURE = {"image": np.ones((1, 3, SIDE, SIDE), np.float32)}
AGAIN = 2  # loads; at the second one the optimised form lies in the cache


def test_a_device_answers_while_it_loads_another_network(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(options(tmp_path)) as server:
            server.guard.limit_s = math.inf
            pool, clock = server.pool, server.service.clock
            pair = pool.dispatcher.add_pair(Agreement("gold", "small"))
            network = pool.models["small"].network
            (tmp_path / "other.onnx").write_bytes(mobilenet_v2(side=SIDE))
            device, during, loads = pool.devices[0], 0, 0
            told = device.tell

            def tell(message: Message) -> bool:
                nonlocal loads
                loads += message["kind"] == "load"
                return told(message)

            device.tell = tell  # type: ignore[method-assign]
            for _ in range(AGAIN):
                load = asyncio.ensure_future(server.service.repository.load("other"))
                while not load.done():
                    await pool.submit(Job(pair, network, clock.now_s()), PICTURE)
                    during += not load.done()
                await load
            assert loads == AGAIN and during > 3 * AGAIN, (
                "a device that waits for its load answers one at a time"
            )
            assert pool.deaths == 0

    asyncio.run(main())
