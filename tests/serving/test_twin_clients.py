"""Who sends a request because another one was answered, told from recorded times alone."""

from __future__ import annotations

import numpy as np
import pytest

from eunomia.core.arrays import Floats
from eunomia.study.serving.twin_clients import FEWEST, following

ONE = np.zeros(50, np.int64)


def served(sent_s: Floats, work_s: Floats) -> Floats:
    """When each is answered by one device, first come, first served."""
    free_s, ends_s = 0.0, []
    for at_s, took_s in zip(sent_s, work_s, strict=True):
        free_s = max(free_s, at_s) + took_s
        ends_s.append(free_s)
    return np.array(ends_s)


def closed(clients: list[int], rng: np.random.Generator, think_s: float = 0.0) -> tuple[Floats, Floats]:
    """Phases of so many waiting clients, 50 requests each."""
    sent, answered, free_s = list[float](), list[float](), 0.0
    for count in clients:
        ready = [free_s + 0.01 * n for n in range(count)]
        for _ in range(50):
            at_s = min(ready)
            free_s = max(free_s, at_s) + rng.uniform(0.5, 1.5)
            ready[ready.index(at_s)] = free_s + rng.exponential(think_s) if think_s else free_s + 1e-3
            sent.append(at_s)
            answered.append(free_s)
    return np.array(sent), np.array(answered)


def found(sent_s: Floats, answered_s: Floats) -> int:
    one = np.zeros(len(sent_s), np.int64)
    return int((following(one, one, sent_s, answered_s).after >= 0).sum())


@pytest.mark.parametrize("clients", [1, 2, 8])
def test_by_hand_each_request_follows_an_answer(clients: int) -> None:
    sent_s, answered_s = closed([clients], np.random.default_rng(clients))
    after, think_s = following(ONE, ONE, sent_s, answered_s)
    assert (after[:clients] == -1).all() and sorted(after[clients:].tolist()) == list(range(50 - clients))
    np.testing.assert_allclose(think_s[clients:], 1e-3)


def test_more_and_fewer_clients_in_turn_are_found_too() -> None:
    sent_s, answered_s = closed([1, 2, 4, 2], np.random.default_rng(0))
    assert found(sent_s, answered_s) >= 190


def test_pairs_are_looked_at_one_by_one() -> None:
    rng = np.random.default_rng(3)
    sent_s, answered_s = closed([4], rng)
    alone_s = np.sort(rng.uniform(0.0, sent_s.max(), 50))
    pair = np.repeat([0, 1], 50)
    after, _ = following(
        pair, pair, np.concatenate([sent_s, alone_s]), np.concatenate([answered_s, alone_s + 0.7])
    )
    assert (after[:50] >= 0).sum() == 46 and (after[50:] == -1).all() and after.max() < 50


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 1.3, 3.0])
def test_requests_that_come_by_themselves_are_told_apart(load: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        sent_s = np.cumsum(rng.exponential(1.0 / load, 400))
        assert found(sent_s, served(sent_s, rng.uniform(0.5, 1.5, 400))) == 0
        assert found(sent_s, served(sent_s, np.ones(400))) == 0


@pytest.mark.parametrize("jitter_s, spread_s", [(0.002, 0.05), (0.02, 0.01), (0.02, 0.02), (0.005, 0.003)])
def test_a_camera_that_the_server_just_keeps_up_with_is_told_apart(jitter_s: float, spread_s: float) -> None:
    """Pictures at an even rate, and with intervals that vary by themselves."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        even_s = np.arange(300) + rng.normal(0.0, jitter_s, 300)
        for sent_s in (even_s, np.cumsum(1.0 + rng.normal(0.0, jitter_s, 300))):
            assert found(sent_s, served(sent_s, rng.uniform(0.9 - spread_s, 0.9 + spread_s, 300))) == 0


def test_a_fast_network_with_a_client_that_takes_an_eighth_of_its_time_is_one_that_waits() -> None:
    rng = np.random.default_rng(0)
    took_s, think_s = rng.normal(2e-3, 2e-5, 500), rng.normal(2.5e-4, 5e-5, 500).clip(0.0)
    sent_s = np.concatenate([[0.0], np.cumsum(took_s + think_s)[:-1]])
    assert found(sent_s, sent_s + took_s) > 480


@pytest.mark.parametrize("pause_s", [3.0, 60.0])
def test_pauses_and_a_few_requests_by_themselves_change_nothing(pause_s: float) -> None:
    rng = np.random.default_rng(1)
    one, other = closed([3], rng), closed([3], rng)
    after_s = one[1].max() + pause_s
    sent_s, answered_s = (np.concatenate([a, b + after_s]) for a, b in zip(one, other, strict=True))
    assert found(sent_s, answered_s) >= 90
    alone_s = rng.uniform(0.0, sent_s.max(), 8)
    assert found(np.append(sent_s, alone_s), np.append(answered_s, alone_s + 0.5)) >= 80


def test_a_client_that_takes_turns_with_two_networks_waits_too() -> None:
    sent_s, answered_s = closed([1], np.random.default_rng(0))
    after, _ = following(np.arange(50) % 2, ONE, sent_s, answered_s)
    assert (after >= 0).sum() >= 48


def test_bursts_by_themselves_are_told_apart() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        sent_s = np.sort(np.repeat(np.cumsum(rng.exponential(20.0, 40)), 8) + rng.uniform(0.0, 2.0, 320))
        assert found(sent_s, served(sent_s, rng.uniform(0.5, 1.5, 320))) == 0


def test_clients_that_think_for_long_count_as_sending_by_themselves() -> None:
    sent_s, answered_s = closed([2], np.random.default_rng(0), think_s=20.0)
    assert found(sent_s, answered_s) == 0


def test_an_hour_of_both_is_told_apart_piece_by_piece() -> None:
    """Three clients that wait, then as many requests by themselves, then two that wait."""
    rng = np.random.default_rng(2)
    first, last = closed([3] * 8, rng), closed([2] * 8, rng)
    alone_s = first[1].max() + 5.0 + np.cumsum(rng.exponential(2.0, 400))
    ends_s = served(alone_s, rng.uniform(0.5, 1.5, 400))
    later_s = ends_s.max() + 5.0
    sent_s = np.concatenate([first[0], alone_s, last[0] + later_s])
    one = np.zeros(len(sent_s), np.int64)
    after = following(one, one, sent_s, np.concatenate([first[1], ends_s, last[1] + later_s])).after
    assert (after[:400] >= 0).mean() > 0.8 and (after[-400:] >= 0).mean() > 0.8
    assert (after[464:736] >= 0).sum() == 0, "but for the stretches that hold both"


def test_few_requests_say_nothing_and_lost_answers_free_nobody() -> None:
    sent_s, answered_s = closed([2], np.random.default_rng(0))
    assert (
        found(sent_s[: FEWEST - 1], answered_s[: FEWEST - 1])
        == 0
        < found(sent_s[:FEWEST], answered_s[:FEWEST])
    )
    assert found(sent_s, sent_s) == 0, "answers that took no time"
    answered_s[20] = np.nan
    assert 0 < found(sent_s, answered_s) < 48
    after, _ = following(ONE, ONE, sent_s, answered_s)
    assert 20 not in after
