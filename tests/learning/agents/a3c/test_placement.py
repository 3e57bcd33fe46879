"""Placement: a trace by hand, rules against brute force, masks that nothing passes, training that repeats."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, PolicyError, RecordError, UnknownNameError
from eunomia.inference.environments.edge_cloud.case import Case, draw
from eunomia.inference.environments.edge_cloud.optimum import optimum
from eunomia.inference.environments.edge_cloud.rules import RULES, assignment, find_rule, run
from eunomia.inference.environments.edge_cloud.world import Goals, World
from eunomia.learning.agents.a3c.policy import (
    PreferencePlacement,
    shapes,
)
from eunomia.learning.card import load, save
from eunomia.learning.load import card_of, load_policy

NONE = np.zeros((2, 2), np.bool_)
# Task 0 (tenant 0, weight 3, works 4) and task 1 (tenant 1, weight 1, works 2) arrive at 0 and 1. Device 0 has speed 1
# and is there from 0 to 10, device 1 speed 2 from 2 to 6.
HAND = Case(
    np.array([0.0, 1.0]), np.array([5.0, 8.0]), np.array([4.0, 2.0]), np.array([1.0, 1.0]), np.array([3.0, 1.0]),
    np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), np.array([1.0, 2.0]), np.array([2.0, 2.0]),
    np.array([0.0, 2.0]), np.array([10.0, 6.0]), np.array([[0.5, 1.0], [0.2, 0.8]]), np.array([[0.6, 0.4], [0.9, 0.3]]),
    NONE, NONE, NONE,
)  # fmt: skip


def weights(seed: int, units: int = 4) -> PreferencePlacement:
    rng = np.random.default_rng(seed)
    return PreferencePlacement({name: rng.standard_normal(shape) for name, shape in shapes(units).items()})


def test_a_trace_by_hand() -> None:
    world = World(HAND, Goals(1.0, 0.5, 0.5, 0.1))
    assert world.now_s == 0.0 and world.waiting == [0] and world.mask().tolist() == [[True, False]]
    # Device 0: in time at 4 <= 5. 3/4 * 0.5 + (0.5 * 0.6 + 0.5) * 4 / 14.
    assert world.place(0, 0) == pytest.approx(0.375 + 0.8 * 4 / 14)
    assert world.advance() == (0.0, 1.0) and world.mask().tolist() == [[True, False]]  # queue: 4 + 2 <= 10
    # Deferring to 2: nobody else waits; mean run (4 + 2 + 2 + 1) / 4 = 2.25, two tasks: 0.1 * 1 / 4.5.
    reward, tau = world.advance()
    assert (reward, tau) == (pytest.approx(-0.1 / 4.5), 1.0) and world.mask().tolist() == [[True, True]]
    assert world.place(0, 1) == pytest.approx(0.25 * 0.8 + (0.5 * 0.3 + 0.5) * 1 / 14)
    found = world.metrics()
    assert world.done and found.requester == pytest.approx(0.375 + 0.2) and found.met == 1.0
    assert found.provider == pytest.approx((0.6 * 4 + 0.3 * 1) / 5) and found.utilisation == pytest.approx(
        5 / 14
    )
    assert found.reward == pytest.approx(world.reward) and found.worst_tenant == 1.0


def test_the_optimum_by_hand() -> None:
    # Task 0 waits for device 1 (2 + 2 <= 5): 0.75 * 1 + 0.95 * 2 / 14, against 0.375 + 0.8 * 4 / 14 at once, so it
    # pays though two seconds of waiting cost 0.2 / 4.5. Task 1 then queues there (4 + 1 <= 6).
    goals = Goals(1.0, 0.5, 0.5, 0.1)
    waits = 0.75 + 0.95 * 2 / 14 - 0.1 * 2 / 4.5 + 0.25 * 0.8 + 0.65 * 1 / 14 - 0.1 * 1 / 4.5
    assert optimum(HAND, goals) == pytest.approx(waits)
    with pytest.raises(ConfigError, match="up to 6 tasks"):
        optimum(draw(0, tasks=7, devices=2))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 3))
def test_no_rule_beats_the_optimum_and_none_breaks_a_rule(seed: int, tasks: int, devices: int) -> None:
    case = draw(seed, tasks, devices, 2, bars=0.3)
    best = optimum(case)
    for policy in (*(find_rule(name) for name in RULES), weights(seed)):
        world = run(case, policy)
        assert world.reward <= best + 1e-9
        placed = np.flatnonzero(world.device >= 0)
        device = world.device[placed]
        assert case.allowed[placed, device].all()
        start, end = world.start_s[placed], world.start_s[placed] + case.run_s[placed, device]
        assert (start >= case.arrival_s[placed]).all() and (end <= case.leave_s[device] + 1e-9).all()
        assert (start >= case.join_s[device]).all()
        for d in range(devices):  # one at a time
            mine = np.argsort(start[device == d])
            assert (start[device == d][mine][1:] >= end[device == d][mine][:-1] - 1e-9).all()


def test_where_nothing_is_legal_the_answer_is_to_defer() -> None:
    case = replace(HAND, tenant_bars=np.ones((2, 2), np.bool_))
    world = World(case)
    assert world.done and world.metrics().utilisation == 0.0
    open_ = World(HAND)
    found = weights(0).decision(open_, np.zeros((1, 2), np.bool_))
    assert found.odds.tolist() == [1.0] and len(found.pairs) == 0
    with pytest.raises(PolicyError, match="task 0 may not run on device 1"):
        open_.place(0, 1)


def test_each_rule_does_what_it_says() -> None:
    """One task, three devices: first, tightest window, shortest queue, fastest, best liked."""
    case = Case(
        np.zeros(1), np.array([9.0]), np.array([2.0]), np.ones(1), np.ones(1), np.zeros(1, int), np.zeros(1, int),
        np.array([0, 0, 0]), np.array([1.0, 1.0, 2.0]), np.full(3, 2.0), np.zeros(3), np.array([9.0, 5.0, 7.0]),
        np.array([[0.1, 0.2, 0.3]]), np.array([[0.9], [0.1], [0.2]]), np.zeros((1, 1), np.bool_),
        np.zeros((3, 1), np.bool_), np.zeros((3, 1), np.bool_),
    )  # fmt: skip
    wanted = {"first_fit": 0, "best_fit": 1, "least_loaded": 0, "earliest_finish": 2, "preference": 0}
    for name, device in wanted.items():
        assert find_rule(name)(World(case)) == (0, device), name
    busy = World(case)
    busy.free_s[0] = 1.0
    assert find_rule("least_loaded")(busy) == (0, 1)
    with pytest.raises(UnknownNameError, match="placement rule 'best'"):
        find_rule("best")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 4))
def test_the_assignment_is_the_best_of_all(seed: int, rows: int, columns: int) -> None:
    worth = np.random.default_rng(seed).integers(0, 6, (rows, columns)).astype(float)
    pairs = assignment(worth)
    small, large = sorted((rows, columns))
    table = worth if rows <= columns else worth.T
    best = max(table[np.arange(small), list(p)].sum() for p in itertools.permutations(range(large), small))
    assert sum(worth[i, j] for i, j in pairs) == best
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs) == small


def test_decisions_at_ticks_wait_for_them() -> None:
    world = run(draw(3, tasks=12, devices=3), find_rule("first_fit"), period_s=0.5)
    placed = world.device >= 0
    start = world.start_s[placed]
    end = start + world.case.run_s[placed, world.device[placed]]
    at_tick = np.isclose(start / 0.5, np.round(start / 0.5))
    behind = np.isclose(start[:, None], end[None, :]).any(axis=1)
    assert at_tick.any() and (at_tick | behind).all() and world.done


def test_the_policy_does_not_depend_on_the_order_of_devices() -> None:
    case, order = draw(5, tasks=6, devices=4), [2, 0, 3, 1]
    moved = replace(
        case, **{name: getattr(case, name)[order] for name in (
            "kind", "speed", "device_gb", "join_s", "leave_s", "device_likes", "owner_bars_tenant",
            "owner_bars_model")},
        tenant_likes=case.tenant_likes[:, order],
    )  # fmt: skip
    ours, theirs = run(case, weights(1)), run(moved, weights(1))
    assert ours.reward == pytest.approx(theirs.reward) and (ours.device >= 0).any()
    np.testing.assert_array_equal(ours.device >= 0, theirs.device >= 0)


def test_cards_and_what_cannot_be(tmp_path: Path) -> None:
    path = save(weights(2), tmp_path / "mine", {"cpu_s": 1})
    again = load(path)
    assert run(draw(1), again).reward == run(draw(1), weights(2)).reward and card_of(path)["cpu_s"] == 1
    with pytest.raises(ConfigError, match="cannot schedule layers"):
        load_policy(path)
    tensors = path.with_suffix(".safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-4])
    with pytest.raises(RecordError, match="cut short"):
        load(path)
    with pytest.raises(ConfigError, match="'W1' are missing"):
        PreferencePlacement({})
    for wrong in ({"tenant_likes": HAND.tenant_likes + 1.0}, {"leave_s": HAND.join_s}, {"speed": np.ones(3)},
                  {"arrival_s": np.array([1.0, 0.0])}, {"work_s": np.array([0.0, 1.0])}):  # fmt: skip
        with pytest.raises(ConfigError):
            replace(HAND, **wrong)
    with pytest.raises(ConfigError, match="not be negative"):
        Goals(waiting=-1.0)
    with pytest.raises(ConfigError, match="positive load"):
        draw(0, load=0.0)
