"""DREAM's MapScore, its tuning and its frame drop, by hand."""

import numpy as np
import pytest

from eunomia.core.errors import PolicyError
from eunomia.inference.policies.dream import ALPHA, BETA, DIRECTION, STEP, TRYING, dream
from tests.inference.policies.views import answer, ask, job, make_view

TWO = [[2.0, 6.0], [4.0, 4.0]]


def test_map_score() -> None:
    # t = 10. Request 0: mean work left 4, slack 8: 0.5. c = 2, 6 (sum 8): preference 4 and 4/3: 2 and 2/3.
    # Request 1: mean work left 4, slack 4: 1; c = 4, 4: preference 2 and 2: 2 and 2.
    # Starvation: 0 ran last at 2: 8 s of a mean layer of 4: 2. 1 ran last at 10: 0. Energy all alike: 2 everywhere.
    jobs = [
        job(work_mean_s=4.0, deadline_s=18.0, last_run_s=2.0),
        job(work_mean_s=4.0, deadline_s=14.0, last_run_s=10.0),
    ]
    # alpha = beta = 0: three pairs tie at 2; the earlier sub-job wins.
    assert ask(dream(0.0, 0.0), jobs, TWO, now_s=10.0) == [(0, 0)]
    # With a little more urgency (slack 3.9) request 1 does, on the first of two equal accelerators.
    jobs[1]["deadline_s"] = 13.9
    assert ask(dream(0.0, 0.0), jobs, TWO, now_s=10.0) == [(1, 0)]
    # 4/3.9 * 2 = 2.051 against 2 + alpha * 2: alpha 0.02 is too little, 0.03 enough.
    assert ask(dream(0.02, 0.0), jobs, TWO, now_s=10.0) == [(1, 0)]
    assert ask(dream(0.03, 0.0), jobs, TWO, now_s=10.0) == [(0, 0)]


def test_energy_preference_and_switch_cost() -> None:
    # One request, c alike on both: latency preference 2 each, urgency 1/4. Energy 1 and 3: preference 4 and 4/3.
    facts = dict(latency_s=[[2, 2]], energy=[[3, 1]])
    frame = job(work_mean_s=2.0, deadline_s=8.0)
    assert ask(dream(0.0, 0.0), [frame], **facts) == [(0, 0)]
    assert ask(dream(0.0, 0.1), [frame], **facts) == [(0, 1)]
    # Accelerator 1 ran another request: 4 - 3 = 1 < 4/3.
    policy = dream(0.0, 0.1, switch_cost=3.0)
    view = make_view(policy, [frame], **facts)
    lanes = view.accelerators.copy()
    lanes["last_request"][1] = 7
    moved = type(view)(view.system, view.ready, lanes, view.latency_s, view.demand_bytes_s, view.energy_j)
    assert answer(policy, view) == [(0, 1)]
    assert answer(policy, moved) == [(0, 0)]


def test_frames_that_will_miss_wait_until_the_platform_is_idle() -> None:
    lost = job(work_best_s=5.0, deadline_s=4.0)
    assert ask(dream(drop=True), [lost], [[1, 1]], free_in_s=[1.0, 0.0]) == []
    assert ask(dream(drop=False), [lost], [[1, 1]], free_in_s=[1.0, 0.0]) == [(0, 1)]
    assert ask(dream(drop=True), [lost], [[1, 1]]) == [(0, 0)]
    assert ask(dream(drop=True), [lost, job(deadline_s=9.0)], [[1, 1], [1, 1]], late_last=0) == [(1, 0)]
    # Fast accelerators could save it, 3 s of 4, mean ones, 5 s, could not.
    doubtful = job(work_best_s=3.0, work_mean_s=5.0, path_mean_s=5.0, deadline_s=4.0)
    assert ask(dream(drop=True), [doubtful], [[1, 1]], free_in_s=[1.0, 0.0]) == []
    assert ask(dream(drop=False), [doubtful], [[1, 1]], free_in_s=[1.0, 0.0]) == [(0, 1)]


def windows(outcomes: list[tuple[bool, float]]) -> list[tuple[float, float]]:
    """(alpha, beta) after windows of one request each: (in time, energy over the least energy)."""
    policy = dream(0.5, 0.5, window=1)
    memory = np.zeros(64)
    weights = []
    for n, (in_time, energy) in enumerate([*outcomes, (True, 1.0)]):
        frame = job(work_mean_s=1.0, deadline_s=9.0, work_best_s=0.1)
        # Accelerator 1 would take the least energy, 1 J, but is busy; 1 s ends in time, 10 s does not.
        view = make_view(policy, [frame], [[1.0 if in_time else 10.0, 1.0]], energy=[[energy, 1.0]],
                         free_in_s=[0.0, 5.0], finished=n, memory=memory)  # fmt: skip
        assert answer(policy, view) == [(0, 0)]
        memory = view.system["memory"].copy()
        weights.append((float(memory[ALPHA]), float(memory[BETA])))
    return weights[1:]


def test_weights_follow_the_cost() -> None:
    # Cost = miss rate x energy. Window 1: 1 x 4 = 4, the base; alpha times 2^2 is tried.
    # Window 2: 1 x 2 = 2 < 4: kept, and again. Window 3: 3 >= 2: undone, alpha over 4 (from 2) is tried.
    # Window 4: 2 >= 2: undone, beta times 4. Window 5: a hit costs 0: kept, and beta times 4 again.
    lost = [(False, 4.0), (False, 2.0), (False, 3.0), (False, 2.0), (True, 5.0)]
    assert windows(lost) == [(2.0, 0.5), (8.0, 0.5), (0.5, 0.5), (2.0, 2.0), (2.0, 8.0)]


def test_the_step_halves_after_four_failures_and_the_base_is_measured_anew() -> None:
    policy = dream(0.5, 0.5, window=1)
    memory = np.zeros(64)
    seen = []
    for n in range(8):
        view = make_view(
            policy,
            [job(work_mean_s=1.0, deadline_s=9.0, work_best_s=0.1)],
            [[10.0]],
            finished=n,
            memory=memory,
        )
        answer(policy, view)
        memory = view.system["memory"].copy()
        seen.append([float(memory[place]) for place in (ALPHA, BETA, STEP, DIRECTION, TRYING)])
    # n = 0 starts; 1: base, alpha up; then alpha down, beta up, beta down, each no better; 5: all undone, step halved;
    # 6: the base again, alpha times 2.
    assert seen[1:7] == [[2.0, 0.5, 2, 0, 1], [0.125, 0.5, 2, 1, 1], [0.5, 2.0, 2, 2, 1], [0.5, 0.125, 2, 3, 1],
                         [0.5, 0.5, 1, 0, 0], [1.0, 0.5, 1, 0, 1]]  # fmt: skip


def test_settings_are_checked() -> None:
    with pytest.raises(PolicyError, match="alpha -1"):
        dream(alpha=-1.0)
