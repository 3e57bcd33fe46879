"""What a policy may declare beside its answers: declared once, read in one way, and written down."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from eunomia.contract.traits import STEADY, TRAITS, forget, title
from eunomia.contract.view import Assign, View
from eunomia.inference.policies.catalogue import own_policy
from eunomia.inference.policies.knowledge import Knowledge
from eunomia.inference.simulate import simulate_problem
from tests.inference.policies.test_contract import busy_case

ROOT = Path(__file__).parents[1]
NAMES = {trait.name for trait in TRAITS}


def read_by_name(source: str) -> list[int]:
    """Lines that look up an attribute with the name of a trait by getattr or hasattr."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "hasattr")
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
        and node.args[1].value in NAMES
    ]


def test_no_other_code_looks_a_trait_up() -> None:
    assert read_by_name('a = getattr(p, "x", 1)\nb = hasattr(p, "charge_s")\n') == [2]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "eunomia").rglob("*.py"))
        for line in read_by_name(path.read_text())
    ]
    assert not found, "read these by eunomia/contract/traits.py"


def test_every_trait_is_declared_once_and_documented() -> None:
    assert len(NAMES) == len(TRAITS)
    section = (ROOT / "docs/policies.md").read_text().split("\n## Traits\n", 1)[1]
    assert set(re.findall(r"`(\w+)`", section)) == NAMES
    assert all(trait.meaning for trait in TRAITS)


class Careful:
    """A policy of one's own with traits."""

    steady = True

    def __init__(self) -> None:
        self.told: list[object] = []
        self.charge_s = 0.0

    def reset(self, seed: int) -> None:
        self.told.append(seed)

    def prepare(self, knowledge: Knowledge) -> None:
        self.told.append(knowledge.latency_s.shape)

    def __call__(self, view: View) -> list[Assign]:
        self.charge_s = 0.25
        return [view.assign(0, s) for s in view.idle if view.latency_s[0, s] < float("inf")][:1]


def test_traits_of_a_policy_of_ones_own_are_honoured() -> None:
    policy, case = own_policy(Careful), busy_case(2)
    assert STEADY.of(policy) and not STEADY.of(len) and title(policy) == "Careful" and title(len) == "len"
    slow = simulate_problem(case.problem(), policy, case.options)
    assert policy.told == [(7, 2), case.options.seed]
    policy.__class__.charge_s = property(lambda self: 0.0, lambda self, value: None)  # type: ignore[attr-defined]
    fast = simulate_problem(case.problem(), policy, case.options)
    assert slow.end_s > fast.end_s + 5.0
    forget(policy, 7)
    forget(len, 7)
    assert policy.told[-1] == 7
