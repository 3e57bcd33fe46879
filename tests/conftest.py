"""Settings of all tests: hypothesis never fails on a slow machine, and repeats its examples."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

BOUNDS_EXAMPLES = 5  # of each property where all indices are checked (tests/inference/test_bounds.py)

settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", settings.get_profile("suite"), derandomize=False, max_examples=1000)
settings.register_profile(
    "page", settings.get_profile("suite"), max_examples=250
)  # benchmarks/serving/conformance.py
settings.register_profile("bounds", settings.get_profile("suite"), max_examples=BOUNDS_EXAMPLES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With the profile "bounds", tests that ask for more examples get as few as all others."""
    if os.environ.get("HYPOTHESIS_PROFILE") != "bounds":
        return
    for function in {getattr(item, "obj", None) for item in items}:
        asked = getattr(function, "_hypothesis_internal_use_settings", None)
        if asked is not None:
            fewer = settings(asked, max_examples=min(asked.max_examples, BOUNDS_EXAMPLES))
            function._hypothesis_internal_use_settings = fewer
