"""The compiled round core does what the plain one does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunomia.cluster.options import Slowdown
from eunomia.cluster.placement import Held, Servers, same_places, spread_speed
from eunomia.cluster.round_core import pick
from eunomia.contract.cluster import Cluster, DeviceType
from tests.cluster import plain_rounds as plain


@st.composite
def queues(draw: st.DrawFn):  # type: ignore[no-untyped-def]
    jobs, types = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, jobs - 1), st.integers(0, jobs - 1)).filter(lambda p: p[0] < p[1]),
            max_size=4,
        )
    )
    members = [(m,) for m in range(jobs)] + list(pairs)
    scale_of = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=jobs, max_size=jobs))
    scale = [scale_of[m[0]] for m in members]
    entries = draw(st.permutations([(u, j) for u in range(len(members)) for j in range(types)]))
    free = draw(st.lists(st.integers(0, 6), min_size=types, max_size=types))
    return members, scale, list(entries), free


@given(queues())
def test_pick_serves_the_queue_as_the_plain_one_does(case) -> None:  # type: ignore[no-untyped-def]
    members, scale, entries, free = case
    first = np.array([m[0] for m in members])
    second = np.array([m[1] if len(m) > 1 else -1 for m in members])
    chosen = np.full(len(members), -1)
    left = np.array(free)
    unit, kind = np.array(entries).T
    pick(unit, kind, first, second, np.array(scale), left, np.zeros(16, np.bool_), chosen)
    expected = plain.pick(entries, members, scale, free)
    assert {u: int(k) for u, k in enumerate(chosen) if k >= 0} == expected
    assert left.tolist() == free
    assert (left >= 0).all()


@st.composite
def floors(draw: st.DrawFn):  # type: ignore[no-untyped-def]
    counts = draw(st.lists(st.integers(1, 12), min_size=1, max_size=2))
    per_server = draw(st.integers(1, 4))
    types = tuple(DeviceType(f"t{j}", n, per_server, servers_per_rack=2) for j, n in enumerate(counts))
    cluster = Cluster(types)

    def round_of() -> tuple[list[int], list[int]]:
        kinds, scales, left = [], [], list(counts)
        for _ in range(draw(st.integers(0, 6))):
            kind, size = draw(st.integers(0, len(counts) - 1)), draw(st.integers(1, 5))
            fits = left[kind] >= size
            kinds.append(kind if fits else -1)
            scales.append(size)
            left[kind] -= size if fits else 0
        return kinds, scales

    return cluster, round_of(), round_of(), draw(st.sampled_from(["pack", "strided", "spread"]))


@given(floors())
def test_placement_is_that_of_the_plain_one_and_never_over_allocates(case) -> None:  # type: ignore[no-untyped-def]
    cluster, *rounds, style = case
    servers = Servers(cluster)
    of_type = [list(range(a, b)) for a, b in zip(servers.start.tolist(), servers.end.tolist(), strict=True)]
    held, before = Held.none(len(rounds[0][0])), {}
    for kinds, scales in rounds:
        count = len(kinds)
        units = np.array([u if u < len(held.pointer) - 1 else -1 for u in range(count)], np.int64)
        free = servers.size.copy()
        held = servers.place(
            np.array(kinds, np.int64), np.array(scales, np.int64), held.of(units), free, style
        )
        chosen = {u: k for u, k in enumerate(kinds) if k >= 0}
        plain_free = cluster.server_size.tolist()
        expected = plain.place(
            chosen, scales, before, plain_free, of_type, cluster.server_rack.tolist(), style
        )
        got: dict[int, dict[int, int]] = {}
        for u, s, n in zip(held.unit.tolist(), held.server.tolist(), held.count.tolist(), strict=True):
            got.setdefault(u, {})[s] = n
        assert got == expected
        assert free.tolist() == plain_free
        assert (free >= 0).all()
        before = got


def test_a_unit_that_stays_has_the_same_place() -> None:
    servers = Servers(Cluster.of({"x": 4}, 2))
    kind, scale = np.zeros(2, np.int64), np.array([2, 1], np.int64)
    first = servers.place(kind, scale, Held.none(2), servers.size.copy(), "pack")
    again = servers.place(kind, scale, first, servers.size.copy(), "spread")
    assert same_places(first, again, np.arange(2)).tolist() == [True, True]


def test_levels_of_spread_and_what_they_cost() -> None:
    servers = Servers(Cluster((DeviceType("x", 8, 2, servers_per_rack=2),)))
    scale = np.array([2, 2, 2], np.int64)
    held = Held.from_rows(3, np.array([0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2]), np.array([2, 1, 1, 1, 1]))
    level = servers.level(held, np.zeros(3, np.int64), scale)
    assert level.tolist() == [0, 1, 2]
    speed, measured = np.full(3, 6.0), np.full(3, 2.0)
    assert spread_speed(Slowdown("table"), level, speed, measured).tolist() == [6.0, 2.0, 2.0]
    assert spread_speed(Slowdown("levels", 1.5, 3.0), level, speed, measured).tolist() == [6.0, 4.0, 2.0]
    assert spread_speed(Slowdown("none"), level, speed, measured).tolist() == [6.0, 6.0, 6.0]


@pytest.mark.parametrize("bad", [{"rack": 0.5}, {"rack": 2.0, "cross_rack": 1.5}])
def test_slowdowns_below_one_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(Exception, match="1 <= rack <= cross_rack"):
        Slowdown("levels", **bad)
