"""What policies believe: noise, learning, completion of co-location figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eunomia.cluster.completion import complete_pairs, low_rank
from eunomia.cluster.estimates import Beliefs
from eunomia.cluster.options import Estimates, SimulationOptions
from eunomia.cluster.simulate import simulate_cluster
from eunomia.core.errors import ConfigError
from tests.cluster.small import Shares, job, problem

KEYS, SCALE = np.array([0, 1]), np.array([1, 2])


def beliefs(**how: object) -> Beliefs:
    p = problem(job("x", 10.0), job("y", 10.0, "b", 2))
    return Beliefs(p, SimulationOptions(estimates=Estimates(**how)))  # type: ignore[arg-type]


def test_exact_beliefs_are_the_truth() -> None:
    assert beliefs().speed(KEYS, SCALE).tolist() == [[2.0, 1.0], [8.0, 2.0]]


def test_bias_scales_all_and_noise_is_seeded() -> None:
    assert beliefs(kind="noisy", sigma=0.0, bias=1.5).speed(KEYS, SCALE).tolist() == [[3.0, 1.5], [12.0, 3.0]]
    one, two = (beliefs(kind="noisy", sigma=0.5).speed(KEYS, SCALE) for _ in range(2))
    assert (one == two).all()
    assert (one != beliefs().speed(KEYS, SCALE)).any()


def test_observing_moves_beliefs_towards_the_truth_where_a_job_ran_and_nowhere_else() -> None:
    b = beliefs(kind="online", sigma=0.0, bias=2.0, learning_rate=0.5)
    b.observe(np.array([0]), np.array([1]))
    assert b.speed(KEYS, SCALE).tolist() == [[4.0, 1.5], [16.0, 4.0]]
    for _ in range(60):
        b.observe(np.array([0]), np.array([1]))
    assert b.speed(KEYS, SCALE)[0, 1] == pytest.approx(1.0)


def test_the_simulator_applies_the_truth_whatever_is_believed() -> None:
    p = problem(job("x", 1000.0))
    wrong = SimulationOptions(estimates=Estimates("noisy", sigma=1.0, bias=5.0))
    right = simulate_cluster(p, Shares({0: (1.0, 0.0)}), SimulationOptions())
    assert simulate_cluster(p, Shares({0: (1.0, 0.0)}), wrong).ledger.finish_s == pytest.approx(
        right.ledger.finish_s
    )


def test_other_scale_factors_come_from_the_table_within_a_jobs_range() -> None:
    p = problem(job("x", 10.0, scale=2, min_scale=1, max_scale=2), fast=4, slow=4)
    b = Beliefs(p, SimulationOptions())
    assert p.scales.tolist() == [1, 2, 4]
    at = [b.speed_at(np.array([0]), k, int(s)).tolist()[0] for k, s in enumerate(p.scales)]
    assert at == [[2.0, 1.0], [4.0, 2.0], [0.0, 0.0]]
    assert b.true_speed(np.array([0]), np.array([1])).tolist() == [[2.0, 1.0]]


def low_rank_pairs(rng: np.random.Generator, rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Pairs whose log ratio has rank one plus a row effect, as a few traits of models would give."""
    taste, load = rng.uniform(0.1, 0.6, rows), rng.uniform(0.2, 1.0, rows)
    alone = rng.uniform(1.0, 50.0, (rows, 1))
    ratio = np.exp(-taste[:, None] * load[None, :] - 0.2)
    return (ratio * alone)[:, :, None], alone


def test_completion_recovers_hidden_pairs_of_low_rank() -> None:
    rng = np.random.default_rng(0)
    beside, alone = low_rank_pairs(rng)
    believed = complete_pairs(beside, alone, 0.5, rng)
    error = np.abs(believed / beside - 1.0)
    hidden = believed != beside
    assert 0.3 < hidden.mean() < 0.7
    assert np.median(error[hidden]) < 0.05
    ratio = beside[:, :, 0] / alone
    guess_by_mean = np.abs(ratio[~hidden[:, :, 0]].mean() / ratio - 1.0)[hidden[:, :, 0]]
    assert np.median(error[hidden]) < 0.5 * np.median(guess_by_mean)


def test_completion_keeps_what_is_known_and_what_cannot_share() -> None:
    rng = np.random.default_rng(1)
    beside, alone = low_rank_pairs(rng, 12)
    beside[3, 5] = beside[5, 3] = 0.0
    believed = complete_pairs(beside, alone, 0.6, rng)
    assert believed[3, 5, 0] == believed[5, 3, 0] == 0.0
    assert (believed[believed == beside] > 0.0).any()
    assert (believed[beside > 0.0] > 0.0).all()


def test_a_low_rank_fit_of_a_complete_matrix_is_close_to_it() -> None:
    rng = np.random.default_rng(2)
    values = np.outer(rng.normal(size=20), rng.normal(size=20))
    assert low_rank(values, np.ones((20, 20), np.bool_)) == pytest.approx(values, abs=0.15)


@pytest.mark.parametrize(
    "bad", [{"bias": 0.0}, {"sigma": -1.0}, {"learning_rate": 0.0}, {"pairs_known": 1.5}]
)
def test_estimates_that_make_no_sense_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        replace(Estimates(), **bad)
