"""Settings of allocators: whatever is given, an allocator is made or one sentence says what is wrong."""

from __future__ import annotations

import inspect
import warnings

import pytest

from eunomia.cluster.policies.catalogue import ALLOCATORS, allocator, own_allocator
from eunomia.core.errors import ConfigError, EunomiaError, UnknownNameError

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


def test_the_same_for_a_name_that_the_user_wrote() -> None:
    with pytest.raises(UnknownNameError, match="unknown setting 'knob'"):
        own_allocator("themis", knob=0.5)
