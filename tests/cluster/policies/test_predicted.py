"""Run times from users' history: hazards and index against obvious twins, no look ahead, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.policies.predicted import Predicted
from eunomia.cluster.policies.run_times import BINS, EDGES, HEAVY, WIDTH, RunTimes, age_bin, index
from eunomia.cluster.problem import build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.traces import read_jobs
from eunomia.cluster.traces.logged import logged
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import EunomiaError
from tests.cluster.policies.peer_views import check_legal, view_of
from tests.shared_data import shared

CLUSTER = Cluster.of({"a": 1}, 1)
LOG = "job,arrival_s,gpus,tenant,duration_s\n" + "".join(
    f"{user}-{n},{n},1,tenant {user},{run_s}\n" for n in range(30) for user, run_s in ((0, 40_000), (1, 50))
)


def test_hazards_are_those_of_kaplan_and_meier() -> None:
    """Job by job, group by group, with what is believed of the group above."""
    rng = np.random.default_rng(1)
    known = RunTimes(2.0)
    jobs = [(f"u{rng.integers(3)}", int(rng.integers(1, 3)), float(rng.lognormal(7.0, 2.0)), bool(rng.integers(2)))
            for _ in range(60)]  # fmt: skip
    leaves = np.array([known.leaf(user, size) for user, size, _, _ in jobs])
    runs, gone = np.array([one[2] for one in jobs]), np.array([one[3] for one in jobs])
    known.learn(leaves[gone], runs[gone])
    found = known.hazards(leaves[~gone], runs[~gone])

    def number(run_s: float) -> int:
        return int(age_bin(np.array([run_s]))[0])

    def drawn(group: list[tuple[str, int, float, bool]], parent: Iterable[float]) -> list[float]:
        rows = []
        for b, chance in enumerate(parent):
            ended = sum(number(run_s) == b for _, _, run_s, over in group if over)
            left = sum(number(run_s) >= b if over else number(run_s) > b for _, _, run_s, over in group)
            rows.append((ended + 2.0 * chance) / (left + 2.0))
        return rows

    every = drawn(jobs, HEAVY)
    for user, size in {one[:2] for one in jobs}:
        of_user = drawn([one for one in jobs if one[0] == user], every)
        expected = drawn([one for one in jobs if one[:2] == (user, size)], of_user)
        np.testing.assert_allclose(found[known.leaf(user, size)], expected, rtol=1e-12)


def test_index_is_the_best_ratio_of_all_horizons() -> None:
    hazard = np.random.default_rng(2).uniform(0.0, 0.9, (2, BINS + 1))
    found = index(hazard)
    for row in range(2):
        for start in (0, 7, BINS):
            best, lives, spent = 0.0, 1.0, 0.0
            for b in range(start, BINS + 1):
                spent += lives * WIDTH[b] * (1.0 - 0.5 * hazard[row, b])
                lives *= 1.0 - hazard[row, b]
                best = max(best, (1.0 - lives) / spent)
            assert found[row, start] == pytest.approx(best, rel=1e-12)


def test_without_history_who_ran_less_goes_first() -> None:
    """A tail of 1 / age: the older, the longer it is still believed to take."""
    worth = index(RunTimes().hazards(np.array([], int), np.array([])).reshape(-1, BINS + 1))
    assert worth.shape == (0, BINS + 1)
    worth = index(HEAVY[None, :])[0]
    assert (np.diff(worth[2:]) < 0.0).all() and EDGES[1] == 30.0


def test_users_of_short_jobs_go_first(tmp_path: Path) -> None:
    """Tenant 0's jobs took 11 hours, tenant 1's 50 s; until a job of tenant 1 has run for longer than any did."""
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    policy = allocator("predicted", history=str(path))
    view = view_of(CLUSTER, [[1.0], [1.0]], [9e4, 9e4], tenant=[0, 1])
    answer = policy.allocate(view)
    check_legal(view, answer)
    assert answer.devices is not None and answer.devices.tolist() == [[0], [1]]
    late = replace(view, total_steps=view.total_steps + [0.0, 5e5], now_s=1e4)
    assert policy.allocate(late).devices.tolist() == [[1], [0]]  # type: ignore[union-attr]


def test_patience_ends(tmp_path: Path) -> None:
    """Tenant 0's job waits behind tenant 1's until it is old enough; without patience it waits for ever."""
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    for patience, served in ((3.0, [[1], [0]]), (0.0, [[0], [1]])):
        policy = allocator("predicted", history=str(path), patience=patience)
        view = view_of(CLUSTER, [[1.0], [1.0]], [9e4, 9e4], tenant=[0, 1], arrival_s=[0.0, 1e5], now_s=1e5)
        answer = policy.allocate(view)
        assert answer.devices is not None and answer.devices.tolist() == served


def test_it_does_not_look_at_what_is_left() -> None:
    """Other run times of those present, the same done so far: the same answer."""
    rng = np.random.default_rng(3)
    cluster = Cluster.of({"a": 4, "b": 4}, 4)
    for _ in range(20):
        done, left = rng.lognormal(8.0, 2.0, 6), rng.lognormal(8.0, 2.0, (2, 6))
        answers = []
        for rest in left:
            view = view_of(
                cluster, [[1.0, 1.0]] * 6, rest.tolist(), total=(done + rest).tolist(), tenant=[0, 1, 2] * 2,
                scale=[1, 2, 4, 1, 2, 4],
            )  # fmt: skip
            answers.append(Predicted().allocate(view).devices)
        assert answers[0] is not None and answers[1] is not None
        np.testing.assert_array_equal(answers[0], answers[1])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"strength": 0.0}, "strength is 0.0; it must be greater than 0"),
        ({"stay": float("nan")}, "stay is nan; it must be greater than 0"),
        ({"patience": -1.0}, "patience is -1.0; it must be at least 0"),
        ({"history": "no such file.csv"}, "no such file.csv"),
    ],
)
def test_wrong_settings_are_one_sentence(settings: dict[str, object], said: str) -> None:
    with pytest.raises(EunomiaError, match=said):
        allocator("predicted", **settings)


def test_on_philly_history_brings_jobs_home_sooner() -> None:
    """400 jobs of up to six hours of Microsoft's log after 4,000 that had ended: sooner than without run times.

    By default sooner than Tiresias; without patience sooner than everybody who is not told run times.
    """
    trace = read_jobs(shared("traces/philly_reduced.csv"))
    start = 30_000
    part = trace.select(slice(start, start + 400))
    past = trace.select(np.flatnonzero(trace.arrival_s + trace.duration_s <= trace.arrival_s[start])[-4000:])
    cluster = Cluster.of({"gpu": 32}, 8)
    part = part.select((part.gpus <= 32) & (part.duration_s <= 21_600.0))
    jobs, speeds, _ = logged(part, cluster, {"gpu": 1.0})
    problem = build_problem(jobs, cluster, speeds)
    options = SimulationOptions(events="at_once", restart=Restart(10.0, 10.0, 10.0), record="jobs")
    blind = {name: allocator(name) for name in ("tiresias", "gittins", "least_attained_service")}
    told = {"default": Predicted(past), "impatient": Predicted(past, patience=0.0)}
    mean_s = {}
    for name, policy in {**blind, **told}.items():
        run = simulate_cluster(problem, policy, options)
        mean_s[name] = float((run.ledger.finish_s - problem.arrival_s).mean())
    assert mean_s["default"] < mean_s["tiresias"], mean_s
    assert all(mean_s["impatient"] < mean_s[name] for name in blind), mean_s
