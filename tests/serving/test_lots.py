"""A long list is written over several turns of the event loop."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eunomia.core.data import Json
from eunomia.serving.dispatch.later import Later
from eunomia.serving.fronts.lots import LOT, json_list
from eunomia.serving.observe.books import Books
from eunomia.serving.observe.statistics import ModelStatistics
from eunomia.serving.rpc import front
from eunomia.serving.rpc.front import STATED, GrpcFront
from eunomia.serving.tenants.rounds import Rounds


class Turns:
    """Counts those of the event loop."""

    count = 0

    def next(self) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(self.next)


@pytest.mark.parametrize("count", [0, 1, LOT, 10 * LOT + 1])
def test_a_turn_makes_so_many_entries(count: int) -> None:
    made = Counter[int]()

    async def main() -> None:
        turns = Turns()

        def entries() -> Iterator[Json]:
            for n in range(count):
                made[turns.count] += 1
                yield {"name": f"tenant{n}", "weight": n / 2}

        turns.next()
        answer = await json_list(entries(), lambda: None)
        assert json.loads(answer.text or "") == [
            {"name": f"tenant{n}", "weight": n / 2} for n in range(count)
        ]

    asyncio.run(main())
    assert max(made.values(), default=0) <= LOT


def test_each_network_is_summed_over_all_tenants_in_a_turn_of_its_own() -> None:
    """Those of 20 networks and 1,000 tenants took 12 ms in one, over both protocols."""
    books, keys, order = Books(Later()), [f"n{n}" for n in range(20)], list[str]()
    for key in keys:
        for tenant in ("gold", "silver"):
            books.refused(tenant, key, "limit")

    async def others(reading: asyncio.Task[Any]) -> None:
        while not reading.done():
            order.append("others")
            await asyncio.sleep(0)

    async def main(only: str | None) -> list[int]:
        reading = asyncio.create_task(books.statistics_of(keys, only, lambda: order.append("begin")))
        await others(reading)
        return [entry["inference_stats"]["fail"]["count"] for entry in await reading]

    assert asyncio.run(main(None)) == [2] * 20
    assert order.count("begin") == 19 and order.count("others") >= 20
    assert asyncio.run(main("gold")) == [1] * 20 and asyncio.run(main("nobody")) == [0] * 20


def test_statistics_of_many_networks_over_grpc_are_put_together_in_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """43 us a network: 200 of them took 9 ms."""
    found = [ModelStatistics().content(f"n{n}") for n in range(5 * STATED + 3)]
    put, begun, stated = list[int](), list[None](), front.stated

    def note(some: Any) -> Any:
        put.append(len(some))
        return stated(some)

    monkeypatch.setattr(front, "stated", note)
    service = SimpleNamespace(rota=SimpleNamespace(begin=lambda: begun.append(None)))
    one = cast(GrpcFront, SimpleNamespace(service=service))
    message = cast(Any, asyncio.run(cast(Any, GrpcFront._stated(one, found))))
    assert [entry.name for entry in message.model_stats] == [entry["name"] for entry in found]
    assert max(put) <= STATED and len(begun) == len(put)


def test_of_many_calls_for_statistics_one_of_a_tenant_goes_in_a_round_of_the_loop() -> None:
    """They all began in one turn, and eight connections with 128 of them took 8 ms of it."""
    asked = list[int]()

    async def main() -> None:
        turns = Turns()

        async def statistics(*_: Any) -> list[Json]:
            asked.append(turns.count)
            return []

        async def stated(_: Any) -> None:
            pass

        service = SimpleNamespace(
            identify=lambda caller: SimpleNamespace(name="gold"), model_statistics=statistics
        )
        inference = SimpleNamespace(json=SimpleNamespace(rounds=Rounds()))
        one = cast(GrpcFront, SimpleNamespace(service=service, inference=inference, _stated=stated))
        call = SimpleNamespace(fields={}, host="")
        request = SimpleNamespace(name="", version="")
        turns.next()
        await asyncio.gather(
            *(cast(Any, GrpcFront.ModelStatistics(one, request, cast(Any, call))) for _ in range(20))
        )

    asyncio.run(main())
    assert len(set(asked)) == len(asked) == 20
