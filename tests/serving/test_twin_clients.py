"""Who sends a request because another one was answered, told from recorded times alone."""

from __future__ import annotations

import numpy as np
import pytest

from eunomia.core.arrays import Floats
from eunomia.study.serving.twin_clients import FEWEST, following


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
    return int((following(np.zeros(len(sent_s), np.int64), sent_s, answered_s).after >= 0).sum())


@pytest.mark.parametrize("clients", [1, 2, 8])
def test_by_hand_each_request_follows_an_answer(clients: int) -> None:
    sent_s, answered_s = closed([clients], np.random.default_rng(clients))
    after, think_s = following(np.zeros(50, np.int64), sent_s, answered_s)
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
    after, _ = following(pair, np.concatenate([sent_s, alone_s]), np.concatenate([answered_s, alone_s + 0.7]))
    assert (after[:50] >= 0).sum() == 46 and (after[50:] == -1).all() and after.max() < 50


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 1.3, 3.0])
def test_requests_that_come_by_themselves_are_told_apart(load: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        sent_s = np.cumsum(rng.exponential(1.0 / load, 400))
        assert found(sent_s, served(sent_s, rng.uniform(0.5, 1.5, 400))) == 0
        assert found(sent_s, served(sent_s, np.ones(400))) == 0


def test_a_camera_that_the_server_just_keeps_up_with_is_told_apart() -> None:
    rng = np.random.default_rng(0)
    sent_s = np.arange(300) * 1.0 + rng.normal(0.0, 0.002, 300)
    assert found(sent_s, served(sent_s, rng.uniform(0.9, 0.99, 300))) == 0


def test_clients_that_think_for_long_count_as_sending_by_themselves() -> None:
    sent_s, answered_s = closed([2], np.random.default_rng(0), think_s=2.0)
    assert found(sent_s, answered_s) == 0


def test_few_requests_say_nothing_and_lost_answers_free_nobody() -> None:
    sent_s, answered_s = closed([2], np.random.default_rng(0))
    assert found(sent_s[: FEWEST - 1], answered_s[: FEWEST - 1]) == 0
    answered_s[20] = np.nan
    assert 0 <= found(sent_s, answered_s) < 48
    after, _ = following(np.zeros(50, np.int64), sent_s, answered_s)
    assert 20 not in after
