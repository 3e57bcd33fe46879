"""The contract check for policies of others: it passes what keeps the contract, and names what does not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError, PolicyError, UnknownNameError
from eunomia.study.inference.conformance import check_policy
from tests.core import newcomers

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_policy.py"


def able(view: View) -> list[tuple[int, int]]:
    """Each pair of a row and an idle accelerator that can run it."""
    return [(i, int(s)) for i in range(len(view)) for s in view.idle if np.isfinite(view.latency_s[i, s])]


def first(view: View) -> list[Assign]:
    return [view.assign(*pair) for pair in able(view)[:1]]


@pytest.mark.parametrize("policy", ["edf", "herald(theta=0.2)", f"{EXAMPLE}:least_laxity", first])
def test_policies_that_keep_the_contract_pass(policy: str | Callable[[View], list[Assign]]) -> None:
    check_policy(policy)


class Counting:
    """It goes on counting from one run to the next."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, view: View) -> list[Assign]:
        self.asked += 1
        pairs = able(view)
        return [view.assign(*pairs[self.asked % len(pairs)])] if pairs else []


def drawn(view: View) -> list[Assign]:
    pairs = able(view)
    return [view.assign(*random.choice(pairs))] if pairs else []


def raises(view: View) -> list[Assign]:
    raise ZeroDivisionError("no idea")


def writes(view: View) -> list[Assign]:
    view.latency_s[0, 0] = 0.0
    return first(view)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (newcomers.last_first, "accelerators that cannot run every layer: .*, which cannot run it"),
        (lambda view: [], "it must start one"),
        (lambda view: [view.assign(0, 99)], r"in the lab of a single accelerator: .*accelerators, 0 to 0"),
        (lambda view: first(view) * 2, "already started or queued|busy"),
        (lambda view: None, "must return a list of Assign"),
        (raises, "it raises ZeroDivisionError: no idea"),
        (writes, "read-only"),
        (Counting, "the second run of the same requests differs"),
        (drawn, "the second run of the same requests differs"),
    ],
)
def test_what_breaks_the_contract_is_named(policy: Callable[[View], list[Assign]], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        check_policy(policy)


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean"):
        check_policy("eddf")
    with pytest.raises(ConfigError, match="cannot be called"):
        check_policy(3)  # type: ignore[arg-type]
