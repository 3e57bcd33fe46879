"""Tenants that mix their keys on connections take no more from others than with connections of their own."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from eunomia.serving.fronts.connections import ConnectionLimits, Connections
from eunomia.serving.fronts.hearing import Hearing
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.carried import Carried
from eunomia.serving.tenants.circle import Circle
from tests.serving.made_up import examples
from tests.serving.near import MIB, Near
from tests.serving.test_connections import Line, seen

Sets = list[list[str]]


@st.composite
def keys(draw: st.DrawFn, most: int = 60) -> tuple[int, Sets]:
    """Tenants in league, and the keys on each of their connections in their order."""
    tenants = draw(st.integers(1, 10))
    one = st.lists(
        st.sampled_from([f"b{n}" for n in range(tenants)]), min_size=1, max_size=tenants, unique=True
    )
    return tenants, draw(st.lists(one, min_size=1, max_size=most))


def carrying(tenants: list[str]) -> str:
    """The name of a connection of theirs."""
    carried = Carried()
    for tenant in tenants:
        carried.add(tenant)
    return carried.name


def turns_of(gold: list[str], bronze: list[str], turns: int = 600) -> Counter[str]:
    """How many turns each kind has; all connections have something again at once."""
    circle, went = Circle[tuple[str, str]](), Counter[str]()
    for kind, names in (("bronze", bronze), ("gold", gold)):
        for name in names:
            circle.join(name, (name, kind))
    for _ in range(turns):
        name, kind = circle.take()
        went[kind] += 1
        circle.join(name, (name, kind))
    return went


@examples(1.0)
@given(keys())
def test_turns(found: tuple[int, Sets]) -> None:
    """As it was, each set of keys had turns of its own: 7 tenants went 127 times before gold's one request."""
    tenants, sets = found
    apart = turns_of(["gold"], [f"b{n % tenants}" for n in range(max(tenants, len(sets)))])
    mixed = turns_of(["gold"], [carrying(one) for one in sets])
    assert mixed["gold"] >= apart["gold"]


@examples(1.0)
@given(keys(), st.integers(0, 9))
def test_turns_of_a_proxy(found: tuple[int, Sets], others: int) -> None:
    """What gold asks by a proxy with keys of everybody has at least half of gold's turns."""
    tenants, sets = found
    flood = [carrying(one) for one in sets] + [f"b{n}" for n in range(tenants)] * 9
    proxy = turns_of([carrying(["gold", *(f"b{n}" for n in range(min(others, tenants, 7)))])], flood)
    assert proxy["gold"] >= 600 // (2 * (tenants + 1))


def kept(sets: Sets, most: int = 40, gold: int = 8) -> int:
    """How many of gold's connections stay when as many as these come."""
    connections = Connections(ConnectionLimits(most=most))
    pool = [seen(connections, Line(address="10.0.0.1"), 1.0, served=True) for _ in range(gold)]
    for line in pool:
        connections.knows(line, "gold")  # type: ignore[arg-type]
    for tenants in sets:
        line, carried = Line(address="10.0.0.2"), Carried()
        connections.admit(line, line.address)  # type: ignore[arg-type]
        for tenant in tenants:
            if carried.add(tenant):
                connections.knows(line, carried.name)  # type: ignore[arg-type]
    return sum(not line.closed for line in pool)


@examples(1.0)
@given(keys())
def test_places(found: tuple[int, Sets]) -> None:
    """As it was, each set of keys was a party of its own, and gold's the largest: 39 of its 40 had to end."""
    tenants, sets = found
    assert kept(sets) >= kept([[f"b{n % tenants}"] for n in range(len(sets))])


def test_places_among_very_many() -> None:
    mixed = [[f"b{n}" for n in range(7) if number >> n & 1] for number in range(1, 128)]
    assert kept(mixed * 3, most=400, gold=40) == kept([[f"b{n % 7}"] for n in range(381)], most=400, gold=40)


def test_room() -> None:
    """Each account may hold as much as is left: with one for each set of keys next to nothing was."""

    async def main() -> None:
        bodies, nears = Bodies(512 * MIB), list[Near]()
        for number in range(1, 128):
            near = Near()
            near.line.outlet._bodies, near.wire.waits = bodies, MIB
            for n in range(7):
                if number >> n & 1:
                    near.line.knows(f"b{n}")
            near.line.pause_writing()
            nears.append(near)
        assert set(bodies.held) == {f"b{n}" for n in range(7)}

    asyncio.run(main())


def test_hearing() -> None:
    """Of each group some are heard in a turn."""

    async def main() -> None:
        here, pairs = Hearing(lambda: None), [socket.socketpair() for _ in range(7)]
        for n, (ours, _) in enumerate(pairs, 1):
            one = type("One", (), {"heard": lambda self: None})()
            here.hear(one, ours.fileno(), carrying([f"b{k}" for k in range(3) if n >> k & 1]))
        assert len(here._groups) == 3 and max(here._sizes.values()) == 3
        here.close()
        for pair in pairs:
            for end in pair:
                end.close()

    asyncio.run(main())
