"""Credit between many servers: the compiled model beside a slow twin that calls the product's own rule."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.growing.bench import divided, traffic
from benchmarks.growing.model import ALONE, AT_ONCE, Fleet, charge, fill, play
from benchmarks.serving.replicas import Board
from eunomia.core.arrays import Floats
from eunomia.serving.replicas.level import Level
from eunomia.serving.replicas.others import Published
from eunomia.serving.replicas.rule import Accounts, News

WEIGHT = np.array([1.0, 4.0, 2.0])


def slow(fleet: Fleet, demand: Floats, epoch_s: float, weight: Floats) -> Floats:
    """Device-seconds by tenant: plain lists, and :class:`Accounts` for all that is charged."""
    near, far, epoch = (round(each / fleet.tick_s) for each in (fleet.near_s, fleet.far_s, epoch_s))
    servers, tenants, hold_s = range(fleet.servers), range(len(weight)), 1e9
    tag, queue, done = (np.zeros((fleet.servers, len(weight))) for _ in range(3))
    virtual = np.zeros(fleet.servers)
    inside = [Accounts(fleet.near_s, hold_s) for _ in servers]
    between = [Accounts(fleet.far_s, hold_s) for _ in servers]
    told = {r: np.zeros(len(weight)) for r in servers}
    told_far = {g: np.zeros(len(weight)) for g in range(fleet.groups)}

    def news(totals: Floats) -> News:
        return News({str(t): float(totals[t]) for t in tenants})

    for step in range(len(demand) * epoch):
        now_s = step * fleet.tick_s
        for r in servers:
            wanted = demand[step // epoch, r]
            queue[r] = np.minimum(queue[r] + wanted * fleet.tick_s, wanted * fleet.patience_s)
            tag[r] = np.where(queue[r] > 1e-12, np.maximum(tag[r], virtual[r]), tag[r])
            got, level = fill.py_func(tag[r], queue[r], weight, fleet.devices * fleet.tick_s)
            done[r] += got
            virtual[r] = max(virtual[r], level)
        for r in servers:
            g = r // fleet.group
            members = range(g * fleet.group, (g + 1) * fleet.group)
            if (step + r) % near == 0:
                told[r] = done[r].copy()
                inside[r].learned({str(o): news(told[o]) for o in members if o != r}, (), fleet.group, now_s)
            if (step + g) % far == 0 and fleet.groups > 1:
                if r == members[0]:
                    told_far[g] = np.sum([told[o] for o in members], axis=0)
                others = {str(o): news(told_far[o]) for o in range(fleet.groups) if o != g}
                between[r].learned(others, (), fleet.groups, now_s)
            for accounts in (inside[r], between[r]):
                accounts.take(now_s)
            rates = [accounts.rates(now_s) for accounts in (inside[r], between[r])]
            for t in tenants:
                owed = sum(each.get(str(t), 0.0) for each in rates) * fleet.tick_s / weight[t]
                tag[r, t] = charge.py_func(tag[r, t], owed, virtual[r], fleet.most / weight[t])
    return np.asarray(done.sum(axis=0))


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_compiled_model_is_its_slow_twin(group: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet = Fleet(4, group, 0.25, 0.5, devices=2.0, memory_s=0.25)
    demand = rng.uniform(0.0, 3.0, (3, 4, 3)) * (rng.random((3, 4, 3)) < 0.6)
    fast = play(fleet, demand, 5.0, WEIGHT, 1.0).sum(axis=0)
    np.testing.assert_allclose(fast, slow(fleet, demand, 5.0, WEIGHT), rtol=1e-9)


def shipped(fleet: Fleet, demand: Floats, epoch_s: float, weight: Floats) -> Floats:
    """Device-seconds by tenant and window of 20 s: the levels of the server, which meet at a board in memory."""
    near, looks = round(fleet.near_s / fleet.tick_s), round(fleet.far_s / fleet.near_s)
    epoch, window, names = round(epoch_s / fleet.tick_s), round(20.0 / fleet.tick_s), range(len(weight))
    tag, queue, done = (np.zeros((fleet.servers, len(weight))) for _ in range(3))
    virtual, board, given = np.zeros(fleet.servers), Board(), []
    inside = [Level(f"s{r}", "b", fleet.near_s, 1e9) for r in range(fleet.servers)]
    between = [Level(f"g{r // fleet.group}", "", fleet.far_s, 1e9) for r in range(fleet.servers)]
    beats: list[int | None] = [None] * fleet.servers
    for step in range(len(demand) * epoch):
        now_s = step * fleet.tick_s
        if step % window == 0:
            given.append(done.sum(axis=0))
        for r in range(fleet.servers):
            wanted = demand[step // epoch, r]
            queue[r] = np.minimum(queue[r] + wanted * fleet.tick_s, wanted * fleet.patience_s)
            tag[r] = np.where(queue[r] > 1e-12, np.maximum(tag[r], virtual[r]), tag[r])
            got, level = fill(tag[r], queue[r], weight, fleet.devices * fleet.tick_s)
            done[r] += got
            virtual[r] = max(virtual[r], level)
        for r in range(fleet.servers):
            group = f"g{r // fleet.group}"
            if (step + r) % near == 0:
                totals = {str(t): (float(done[r, t]), 0.0, 0.0, 0.0) for t in names}
                row = Published("b", step, now_s, "", totals)
                inside[r].learn(board.exchange(f"s{r}", row, group), now_s, int, lambda _: 1.0)
                if (step + r) // near % looks == 0:
                    look = board.look_at_groups(group, beats[r])
                    beats[r] = look.beat
                    between[r].learn(look.others, now_s, int, lambda _: 1.0)
            for part in (inside[r], between[r]):
                owed = dict(zip(part.service.names, part.service.take(now_s).tolist(), strict=True))
                for t in names:
                    moved = owed.get(str(t), 0.0) / weight[t]
                    tag[r, t] = charge(tag[r, t], moved, virtual[r], fleet.most / weight[t])
    return np.diff(np.array([*given, done.sum(axis=0)]), axis=0)


@pytest.mark.parametrize("seed", range(3))
def test_groups_as_shipped_are_the_simulation(seed: int) -> None:
    """Looks of the server have other phases, and whoever comes first writes a group's row: within 2 % each 20 s."""
    rng = np.random.default_rng(seed)
    fleet = Fleet(8, 4, 0.25, 0.25, devices=2.0, memory_s=0.25)
    demand = rng.uniform(0.0, 5.0, (2, 8, 3)) * (rng.random((2, 8, 3)) < 0.5)
    np.testing.assert_allclose(
        shipped(fleet, demand, 20.0, WEIGHT), play(fleet, demand, 20.0, WEIGHT, 20.0), rtol=0.02
    )


def test_by_hand_a_tenant_of_one_server_in_one_of_two_groups() -> None:
    """Weights 4 : 1, four servers of one device; light enters at one: alone 0.2 of 4 devices, shared 0.8."""
    demand = np.array([[[9.0, 9.0], [9.0, 0.0], [9.0, 0.0], [9.0, 0.0]]])
    weight, fleet = np.array([4.0, 1.0]), Fleet(4, 2, 0.25, 0.25, devices=1.0)
    alone = play(Fleet(4, 2, 0.25, 0.25, ALONE, devices=1.0), demand, 60.0, weight, 20.0)[-1]
    np.testing.assert_allclose(alone, [76.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(shipped(fleet, demand, 60.0, weight)[-1], [64.0, 16.0], rtol=0.03)


def test_by_hand_one_full_server_divides_by_weight() -> None:
    """Two devices, both wait all the time: 4 : 1 of 2 devices in 10 s are 16 and 4 device-seconds."""
    demand = np.full((1, 1, 2), 9.0)
    got = play(Fleet(1, 1, 0.25, 0.25, ALONE, devices=2.0), demand, 10.0, np.array([4.0, 1.0]), 10.0)
    np.testing.assert_allclose(got, [[16.0, 4.0]], rtol=1e-9)


def test_by_hand_a_tenant_that_enters_at_one_server_gets_its_share() -> None:
    """Weights 1 : 1, one tenant at both servers, the other at the first: alone 1.5 : 0.5, shared 1 : 1."""
    demand = np.array([[[9.0, 9.0], [9.0, 0.0]]])
    fleet, weight = Fleet(2, 2, 0.25, 0.25, devices=1.0), np.ones(2)
    alone = play(Fleet(2, 2, 0.25, 0.25, ALONE, devices=1.0), demand, 100.0, weight, 100.0)[0]
    at_once = play(Fleet(2, 2, 0.25, 0.25, AT_ONCE, devices=1.0), demand, 100.0, weight, 100.0)[0]
    shared = play(fleet, demand, 100.0, weight, 100.0)[0]
    np.testing.assert_allclose(alone, [150.0, 50.0], rtol=1e-6)
    np.testing.assert_allclose(at_once, [100.0, 100.0], rtol=0.02)
    np.testing.assert_allclose(shared, [100.0, 100.0], rtol=0.04)


@pytest.mark.parametrize("seed", range(5))
def test_nobody_gets_more_than_devices_and_demand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demand = rng.uniform(0.0, 4.0, (2, 6, 3))
    fleet = Fleet(6, 3, 0.25, 1.0, devices=3.0)
    got = play(fleet, demand, 4.0, WEIGHT, 1.0)
    assert (got.sum(axis=1) <= 6 * 3.0 * (1.0 + 1e-9)).all()
    assert (got.sum(axis=0) <= 4.0 * demand.sum(axis=(0, 1)) + 1e-9).all()


def test_quotas_that_follow_at_once_refuse_nothing() -> None:
    wanted = np.tile(np.array([[[8.0], [0.0]]]), (10, 1, 1))
    assert divided(wanted, np.array([10.0]), 0, 0.0) == pytest.approx(3.0 / 8.0)  # 5 of 8 are let in
    assert divided(wanted, np.array([10.0]), 1, 0.0) == pytest.approx(
        0.3 / 8.0
    )  # the first second alone is lost


def test_traffic_wants_what_it_says() -> None:
    found = traffic(0, 10.0, 30.0)
    assert found.shape == (3, 100, 24)
    np.testing.assert_allclose(found.sum(axis=(1, 2)), 13_000.0)


def test_wrong_fleets_say_why() -> None:
    with pytest.raises(ValueError, match="10 servers do not divide into groups of 3"):
        Fleet(10, 3, 0.25, 0.25)
    with pytest.raises(ValueError, match="at least a tick"):
        Fleet(10, 5, 0.01, 0.25)
