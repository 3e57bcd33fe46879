"""Settings of allocators: whatever is given, an allocator is made or one sentence says what is wrong."""

from __future__ import annotations

import inspect
import warnings

import pytest

from eunomia.cluster.policies.catalogue import ALLOCATORS, allocator, own_allocator
from eunomia.core.errors import ConfigError, EunomiaError, UnknownNameError
from eunomia.study.cluster.build import resolve_allocator

WRONG = (None, True, -1, 0, 1.5, float("nan"), float("inf"), "", "red", [], {}, b"x", object(), 10**30)


@pytest.mark.parametrize("name", list(ALLOCATORS))
def test_a_wrong_value_of_any_setting_is_one_sentence(name: str) -> None:
    """Every keyword of every allocator with values that are mostly wrong; no exception but Eunomia's own leaves."""
    found = ALLOCATORS.load(name)
    known = inspect.signature(found).parameters if callable(found) else {}
    for setting in [*known, "knob", "needs", "rng"]:
        for value in WRONG:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    allocator(name, **{setting: value})
            except EunomiaError as error:
                assert str(error).strip()
                assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"knob": 0.5}, "unknown setting 'knob' of cluster policy 'themis'"),
        ({"fairness": "high"}, "fairness is 'high'; it must be a number"),
        ({"fairness": 1.5}, r"fairness is 1.5; the knob f must lie in \[0, 1\]"),
        ({"lease_s": 0.0}, "lease_s is 0.0"),
        ({"lease_s": float("inf")}, "lease_s is inf"),
        ({"lease_s": None}, "lease_s is None"),
        ({"aligned": "yes"}, "aligned is 'yes'; it must be true or false"),
        ({"payment": "gold"}, "payment is 'gold'; choose one of"),
        ({"leftovers": ["worst"]}, "leftovers is"),
        ({"mechanism": 3}, "mechanism is '3'; choose one of"),
        ({"needs": 3}, "needs is 3"),
        ({"rng": 3}, "unknown setting 'rng'"),
        ({"book": None}, "unknown setting 'book'"),
    ],
)
def test_themis_says_what_is_wrong_with_each(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        allocator("themis", **settings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("themis(knob=)", "unknown setting 'knob' of cluster policy 'themis'; choose one of: aligned"),
        ("themis(lease_s=ten)", "lease_s is 'ten'; it must be a number"),
        ("themis(0.8)", r"write settings as name\(setting=value"),
        ("max_min_fairness(solver=foo)", "unknown solver 'foo'; choose one of: as_gavel, embedding"),
        ("max_min_fairness(split=0)", "split is 0: a programme is split into 1 part"),
        ("max_min_fairness_strategy_proof(solver=foo)", "unknown solver 'foo'; choose one of"),
        ("shortest_job_programme(split=-1)", "split is -1"),
        (
            "kueue(file=queues.yaml)",
            "unknown setting 'file' of cluster policy 'kueue'; choose one of: borrow",
        ),
        ("slurm(weight=3)", "unknown setting 'weight' of cluster policy 'slurm'"),
        ("slurm(age=old)", "age is 'old'; it must be a number"),
        ("shockwave(window=3)", "choose one of: makespan_price, power, round_s, rounds$"),
        ("gittins(_table=1)", "unknown setting '_table'"),
    ],
)
def test_a_policy_as_text_that_is_wrong(text: str, said: str) -> None:
    """Settings of the operators' files and of the solvers, too; no name that is private is offered or taken."""
    with pytest.raises(ConfigError, match=said) as caught:
        resolve_allocator(text)
    assert "\n" not in str(caught.value) and "__init__" not in str(caught.value)


def test_the_same_for_a_name_that_the_user_wrote() -> None:
    with pytest.raises(UnknownNameError, match="unknown setting 'knob'"):
        own_allocator("themis", knob=0.5)
