"""Tenants in turn on the event loop: nobody waits behind another's crowd, and nobody waits for ever."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.tenants.rounds import Rounds
from tests.serving.made_up import examples


async def order_of(arrivals: list[str], gone: set[int]) -> list[str]:
    """In which order messages of these tenants are taken up; those that are gone give up while they wait."""
    rounds, order = Rounds(), []

    async def one(who: str) -> None:
        await rounds.turn(who)
        order.append(who)

    tasks = [asyncio.create_task(one(who)) for who in arrivals]
    await asyncio.sleep(0)
    for n in gone:
        if n < len(tasks):
            tasks[n].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await rounds.turn("late")
    assert not rounds._waiting
    return order


@given(st.lists(st.sampled_from("abc"), max_size=30), st.sets(st.integers(0, 29), max_size=10))
@examples()
def test_whoever_stays_is_served_and_others_wait_at_most_one_message_of_each(
    arrivals: list[str], gone: set[int]
) -> None:
    order = asyncio.run(order_of(arrivals, gone))
    first = {arrivals.index(who) for who in set(arrivals)}  # those go at once and cannot be called back
    stay = [who for n, who in enumerate(arrivals) if n in first or n not in gone]
    assert sorted(order) == sorted(stay)
    for who in set(order):
        mine = [n for n, other in enumerate(order) if other == who]
        for before, after in zip(mine, mine[1:], strict=False):
            between = order[before + 1 : after]
            assert all(between.count(other) <= 1 for other in set(between)), order


def test_a_crowd_of_one_tenant_does_not_keep_another_waiting() -> None:
    order = asyncio.run(order_of(["bronze"] * 200 + ["gold"], set()))
    assert order.index("gold") <= 1 and len(order) == 201
