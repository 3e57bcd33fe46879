"""Tenants in turn on the event loop: nobody waits behind another's crowd, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from eunomia.serving.fronts.address import place_of
from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.protocol.pieces import Pieces
from eunomia.serving.rpc.exchange import RpcExchange, read_beside
from eunomia.serving.tenants.circle import STRANGERS, Circle, group_of, stranger_at
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
    assert not rounds._circle.total
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


def test_a_thousand_addresses_without_a_key_have_one_turn_together() -> None:
    crowd = [stranger_at(f"10.0.{n // 256}.{n % 256}") for n in range(1000)]
    order = asyncio.run(order_of([*crowd, "gold", "gold"], set()))
    assert [n for n, who in enumerate(order) if who == "gold"] <= [1, 3] and len(order) == 1002


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "(1)", "(2)", "(3)"]), st.booleans()), max_size=60))
@examples()
def test_the_circle_goes_as_a_plain_walk_does(steps: list[tuple[str, bool]]) -> None:
    """Joins, and takes in between; the twin looks for who has waited longest for a turn of its group, then its own."""
    circle, waiting = Circle[int](), list[tuple[str, int]]()
    went = dict.fromkeys(["a", "b", "(1)", "(2)", "(3)", STRANGERS], -1)
    since = dict[str, int]()
    for now, (who, takes) in enumerate(steps):
        if not takes:
            for name in {who, group_of(who)}:
                if not any(name in (other, group_of(other)) for other, _ in waiting):
                    since[name] = now
            waiting.append((who, now))
            circle.join(who, now)
        elif waiting:
            waits_since = {name: max(since[name], went[name]) for name in since}
            group = min({group_of(other) for other, _ in waiting}, key=waits_since.__getitem__)
            mine = min(
                {other for other, _ in waiting if group_of(other) == group}, key=waits_since.__getitem__
            )
            one = next(n for other, n in waiting if other == mine)
            waiting.remove((mine, one))
            went[group] = went[mine] = now
            assert circle.take() == one
        assert circle.total == len(waiting)


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("[::1]", "::"),
        ("", ""),
        ("unknown", "unknown"),
    ],
)
def test_callers_are_told_apart_by_what_one_machine_has(host: str, place: str) -> None:
    assert place_of(host) == place


def test_so_it_is_with_numbers_over_grpc() -> None:
    """Each was read as it came: 32 KB of them take one to two milliseconds."""
    message = pb.ModelInferRequest()
    tensor = message.inputs.add(name="x", datatype="INT8", shape=[8000])
    tensor.contents.int_contents.extend([1] * 8000)
    pieces, order = Pieces([message.SerializeToString()]), list[str]()

    async def main() -> None:
        work = JsonProcess(2**20)
        exchange: Any = object.__new__(RpcExchange)
        exchange._packed, exchange._sight = False, SimpleNamespace(parted=None)
        exchange._inference = SimpleNamespace(json=work)
        assert exchange._read_now(pieces) is None

        async def one(who: str) -> None:
            await read_beside(pieces, work, who)
            order.append(who)

        await asyncio.gather(*map(one, ["bronze"] * 20 + ["gold"]))

    asyncio.run(main())
    assert order.index("gold") <= 1 and len(order) == 21
