"""A long list is written over several turns of the event loop."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from eunomia.core.data import Json
from eunomia.serving.fronts.lots import LOT, json_list


@pytest.mark.parametrize("count", [0, 1, LOT, 10 * LOT + 1])
def test_a_turn_makes_so_many_entries(count: int) -> None:
    made = Counter[int]()

    async def main() -> None:
        loop, turn = asyncio.get_running_loop(), 0

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(next_turn)

        def entries() -> Iterator[Json]:
            for n in range(count):
                made[turn] += 1
                yield {"name": f"tenant{n}", "weight": n / 2}

        next_turn()
        answer = await json_list(entries(), lambda: None)
        assert json.loads(answer.text or "") == [
            {"name": f"tenant{n}", "weight": n / 2} for n in range(count)
        ]

    asyncio.run(main())
    assert max(made.values(), default=0) <= LOT
