"""What a scrape shows of thousands of objectives is found over several turns of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.observe.metrics import PAIRS, Telemetry

COUNT = 7 * PAIRS + 1


def test_a_turn_looks_at_so_many_objectives() -> None:
    looked, turn = Counter[int](), 0

    def refresh(_: float) -> None:
        looked[turn] += 1

    async def main() -> bytes:
        nonlocal turn
        loop = asyncio.get_running_loop()

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(next_turn)

        next_turn()
        telemetry = Telemetry()
        agreements: list[Any] = [
            SimpleNamespace(tenant="gold", model=f"n{n}", slo=SimpleNamespace(target=0.9))
            for n in range(COUNT)
        ]
        indicators: list[Any] = [SimpleNamespace(refresh=refresh, sli=0.5) for _ in agreements]
        dispatcher = cast(Dispatcher, SimpleNamespace(agreements=agreements, indicators=indicators))
        work = asyncio.create_task(telemetry.show_objectives(dispatcher, 1.0, lambda: None))
        await asyncio.sleep(0)
        agreements.append(None)  # a pair comes meanwhile
        await work
        return (await telemetry.page())[0]

    page = asyncio.run(main()).decode()
    assert page.count("eunomia_slo_attainment_ratio{") == COUNT
    assert sum(looked.values()) == COUNT and max(looked.values()) <= PAIRS
