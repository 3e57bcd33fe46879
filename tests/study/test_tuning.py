"""Choosing on validation traces."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import build_problem
from eunomia.study.inference.tuning import (
    FIRST_VALIDATION_SEED,
    OBJECTIVES,
    ValidationProblem,
    choose,
    choose_each,
    grid,
    score,
    validation_seeds,
)
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo
from tests.inference.strategies import ToyPlatform, layers, toy_table


def one_lane(late: str = "run", **facts: float) -> ValidationProblem:
    """Two requests at time 0 on one accelerator: 2 s due at 2, 1 s due at 10; targets 0.9 and 0.5."""
    models = [DnnModel("long", layers(1), ()), DnnModel("short", layers(1), ())]
    table = toy_table(models, ("a",), np.array([[2.0], [1.0]]))
    agreements = (Agreement("gold", "long", Slo(0.9)), Agreement("lead", "short", Slo(0.5)))
    requests = RequestTable(agreements, np.array([0, 1]), np.array([0.0, 0.0]), np.array([2.0, 10.0]))
    options = EngineOptions(late=late)  # type: ignore[arg-type]
    return ValidationProblem(
        build_problem(requests, table, ToyPlatform(("a",), np.array([0])), options), options, **facts
    )


def test_the_candidate_of_greatest_mean_is_chosen_and_all_scores_are_kept() -> None:
    choice = choose(["sjf", "edf"], [one_lane(), one_lane()])
    assert choice.scores == {
        "sjf": (0.5, 0.5),
        "edf": (1.0, 1.0),
    }  # shortest first makes the long one late
    assert (choice.name, choice.score) == ("edf", 1.0)


def test_ties_go_to_the_candidate_named_first() -> None:
    assert choose(["llf", "edf"], [one_lane()]).name == "llf"
    assert choose(["edf", "llf"], [one_lane()]).name == "edf"


def test_each_family_has_its_own_choice() -> None:
    chosen = choose_each({"edf": grid("edf", gate=(math.inf, 0.9)), "short": ("sjf",)}, [one_lane()])
    assert {family: choice.name for family, choice in chosen.items()} == {"edf": "edf", "short": "sjf"}


@pytest.mark.parametrize(
    ("objective", "expected"),
    # sjf: gold misses its only request (target 0.9), lead hits; energies are the least possible
    [("hit_rate", 0.5), ("worst_tenant", 0.0), ("attainment", 0.5), ("shortfall", -0.45), ("max_min", -0.9),
     ("uxcost", -2.0)],
)  # fmt: skip
def test_objectives_by_hand(objective: str, expected: float) -> None:
    assert score("sjf", one_lane(), objective) == pytest.approx(expected)


def test_every_objective_is_tested_by_hand() -> None:
    assert set(OBJECTIVES) == {"hit_rate", "worst_tenant", "attainment", "shortfall", "max_min", "uxcost"}


def test_requests_outside_the_measured_time_do_not_count() -> None:
    with pytest.raises(ConfigError, match="hit-rate targets"):
        score("sjf", one_lane(from_s=1.0), "attainment")


def test_grids_write_names_that_load() -> None:
    assert grid("herald", theta=(0.5, 0.2), gate=(math.inf, 0.9)) == (
        "herald(theta=0.5)", "herald(theta=0.5)+g0.9", "herald(theta=0.2)", "herald(theta=0.2)+g0.9",
    )  # fmt: skip
    assert grid("edf+f+eft", gate=(math.inf, 0.75)) == ("edf+f+eft", "edf+f+eft+g0.75")
    with pytest.raises(ConfigError, match="no settings but a gate"):
        grid("edf+f", theta=(0.1,))


def test_validation_seeds_are_no_test_seeds() -> None:
    assert validation_seeds(2, 0, 1, 2) == [FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + 1]
    with pytest.raises(ConfigError, match="is for validation"):
        validation_seeds(2, FIRST_VALIDATION_SEED + 1)


def test_nothing_to_choose_from_and_names_given_twice() -> None:
    with pytest.raises(ConfigError, match="0 candidates"):
        choose([], [one_lane()])
    with pytest.raises(ConfigError, match="0 validation problems"):
        choose(["edf"], [])
    with pytest.raises(ConfigError, match="two candidates are called 'edf'"):
        choose(["edf", "edf"], [one_lane()])
    with pytest.raises(UnknownNameError, match="hit_rate"):
        choose(["edf"], [one_lane()], "hitrate")
