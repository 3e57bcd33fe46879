"""Strangers of very many addresses end, hold up and outnumber none of a tenant's connections."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections import deque
from collections.abc import Callable

import pytest

from eunomia.serving.devices.memory import Young
from eunomia.serving.fronts import connections as bounds
from eunomia.serving.fronts.connections import ConnectionLimits, Connections
from eunomia.serving.fronts.hearing import HEARD, Hearing
from eunomia.serving.fronts.ready import Polled, Ready, Selected
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.carried import Carried
from eunomia.serving.tenants.circle import STRANGERS, Circle, group_of, newcomer_at, stranger_at
from eunomia.serving.tenants.places import MOST, Places
from tests.patience import until_async
from tests.serving.near import MIB, Near
from tests.serving.test_connections import Line, seen
from tests.serving.wire import Wire, lane


def test_strangers_of_many_addresses_end_no_connection_of_a_tenant() -> None:
    """As it was, gold's went first: two come from its address, and one from each of theirs."""
    connections = Connections(ConnectionLimits(most=10))
    gold = [seen(connections, Line(address="10.0.0.1"), 1.0, served=True) for _ in range(3)]
    for line in gold:
        connections.knows(line, "gold")  # type: ignore[arg-type]
    fresh = Line(address="10.0.0.1")
    for n in range(30):
        connections.admit(Line(address=f"10.1.0.{n}"), f"10.1.0.{n}")  # type: ignore[arg-type]
        if n == 5:
            connections.admit(fresh, fresh.address)  # type: ignore[arg-type]
    assert not any(line.closed for line in [*gold, fresh]) and len(connections) == 10
    for _ in range(20):  # strangers where gold is, too
        connections.admit(Line(address="10.0.0.1"), "10.0.0.1")  # type: ignore[arg-type]
    assert not any(line.closed for line in gold) and len(connections) == 10


def test_the_party_with_the_most_connections_makes_room() -> None:
    connections = Connections(ConnectionLimits(most=6))
    bronze = [seen(connections, Line(address=f"10.0.0.{n}"), 1.0) for n in range(5)]
    for line in bronze:
        connections.knows(line, "bronze")  # type: ignore[arg-type]
    stranger = seen(connections, Line(address="10.1.0.1"), 0.5)
    connections.admit(newcomer := Line(address="10.2.0.1"), newcomer.address)  # type: ignore[arg-type]
    assert [line.closed for line in bronze] == [True] + [False] * 4
    assert not stranger.closed and not newcomer.closed


def test_who_asks_as_another_tenant_counts_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "OF_ALL", 2)
    connections = Connections(ConnectionLimits())
    lines = [seen(connections, Line(address=f"10.0.0.{n}"), 1.0) for n in range(3)]
    assert connections.crowded(lines[0])  # type: ignore[arg-type]
    connections.begun(lines[0], lines[0])  # type: ignore[arg-type]
    connections.knows(lines[0], "gold")  # type: ignore[arg-type]
    assert not any(map(connections.crowded, lines))  # type: ignore[arg-type]
    connections.over(lines[0])  # type: ignore[arg-type]
    for line in lines[1:]:
        connections.knows(line, "gold")  # type: ignore[arg-type]
    assert all(map(connections.crowded, lines))  # type: ignore[arg-type]
    for line in lines:
        connections.gone(line)  # type: ignore[arg-type]
    assert not len(connections) and not connections._at and not connections._parties._of


def test_newcomers_at_an_address_of_a_tenant_wait_for_no_stranger() -> None:
    circle = Circle[int]()
    for n in range(9):
        circle.join(stranger_at(f"10.0.0.{n}"), n)
    for who, number in ((newcomer_at("10.1.0.1", "gold"), 100), ("gold", 200)):
        circle.join(who, number)
    assert [circle.take() for _ in range(3)] == [0, 100, 200]
    assert newcomer_at("::1", "") == stranger_at("::1") and group_of(stranger_at("::1")) == STRANGERS
    assert len({group_of(who) for who in ("gold", newcomer_at("::1", "gold"), stranger_at("::1"))}) == 3


def test_places_of_a_tenant() -> None:
    places = Places()
    places.shown("a", "gold")
    places.shown("b", "gold")
    places.shown("b", "bronze")
    assert [places.tenant(name) for name in "abc"] == ["gold", "bronze", ""]
    for n in range(MOST):
        places.shown(str(n), "bronze")
    assert [places.tenant(name) for name in "ab"] == ["gold", ""]


class One:
    """Stands there, until it is heard."""

    def __init__(self, heard: list[str], name: str) -> None:
        self._heard, self._name = heard, name

    def heard(self) -> None:
        self._heard.append(self._name)


def test_each_group_is_heard_by_itself() -> None:
    """As it was, one queue was heard, a few in a turn: a newcomer waited for all strangers."""

    async def main() -> None:
        here, heard = Hearing(lambda: None), list[str]()
        pairs = [socket.socketpair() for _ in range(4 * HEARD + 1)]
        for n, (ours, theirs) in enumerate(pairs):
            who = stranger_at(str(n)) if n < 4 * HEARD else newcomer_at("x", "gold")
            here.hear(One(heard, who), ours.fileno(), who)
            theirs.sendall(b"x")
        await until_async(lambda: "gold(x)" in heard)
        assert heard.index("gold(x)") <= 2 * HEARD
        await until_async(lambda: len(heard) == len(pairs))
        assert not here._at and not here._groups and not here._standing
        here.close()
        for pair in pairs:
            for one in pair:
                one.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", [Polled, Selected])
def test_a_few_at_a_time(kind: Callable[[], Ready]) -> None:
    if kind is Polled and not hasattr(__import__("select"), "epoll"):
        pytest.skip("this system has no epoll")
    pairs, watch = [socket.socketpair() for _ in range(9)], kind()
    found = set[int]()
    for ours, theirs in pairs:
        watch.add(ours.fileno())
        theirs.sendall(b"x")
    assert watch.fileno() >= 0
    while some := [*watch.some(4)]:
        assert len(some) <= 4 and not found & {*some}
        found |= {*some}
        for descriptor in some:
            watch.remove(descriptor)
    assert found == {ours.fileno() for ours, _ in pairs}
    watch.close()
    for pair in pairs:
        for one in pair:
            one.close()


def test_young_objects_are_looked_at_where_as_many_old_ones_go() -> None:
    """Without that the collector never looks here, and in the end at all of them at once."""

    def came() -> list[object]:
        return [[n] for n in range(50)]

    held, young, most = deque(came() for _ in range(100)), Young(), 0
    gc.collect()
    for _ in range(400):
        held.append(came())
        held.popleft()
        young.worked(1e-3)
        most = max(most, len(gc.get_objects(0)))
    assert most < 400 * 50 / 4


def test_a_connection_of_several_tenants_is_of_the_one_that_has_least() -> None:
    carried, has = Carried(), {"gold": 1, "bronze": 2}
    assert carried.add("gold") and carried.name == "gold" and not carried.add("gold")
    assert carried.add("bronze") and carried.name == "bronze+gold"
    assert group_of(carried.name, has.__getitem__) == "gold" and group_of(carried.name) == "bronze"
    for n in reversed(range(20)):
        carried.add(f"a{n:02}")
    assert carried.name == "+".join(f"a{n:02}" for n in range(8)) and not carried.add("gold")


def test_what_comes_by_a_proxy_does_not_wait_behind_one_of_its_tenants() -> None:
    """As it was, gold's request behind bronze's stood at the end of bronze's queue, behind 900 others."""

    async def main() -> None:
        circle, one = Circle[str](), lane()
        one.connection_made(Wire())
        for tenant in ("gold", "bronze"):
            one.knows(tenant)
        for n in range(900):
            circle.join("bronze", str(n))
        circle.join(one.who, "gold's")
        assert "gold's" in [circle.take(), circle.take()]

    asyncio.run(main())


def test_of_a_proxys_tenants_one_pays_that_can_for_what_it_does_not_take() -> None:
    """As it was, bronze's full account ended the connection, and gold's calls with it."""

    async def main() -> None:
        bodies = Bodies(512 * MIB)
        untaken = bodies.leaving("bronze")
        untaken.need(2 * bodies.budget("bronze"))
        for tenants, ended in ((["bronze"], True), (["bronze", "gold"], False)):
            assert waiting(bodies, tenants).wire.aborted == ended
        untaken.close()
        near = waiting(bodies, [])
        assert bodies.untaken == {"gold": MIB, STRANGERS: MIB} and not near.wire.aborted

    asyncio.run(main())


def waiting(bodies: Bodies, tenants: list[str]) -> Near:
    """A connection of theirs, whose client does not take a megabyte."""
    near = Near()
    near.line.outlet._bodies, near.wire.waits = bodies, MIB
    for tenant in tenants:
        near.line.knows(tenant)
    near.line.pause_writing()
    return near
