"""Rules: read as written, refuse what cannot be, and decide alike compiled, stepped and in plain Python."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eunomia.contract.constants import give_constants
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.distill.inputs import MAY_ASK, NAMES, PARTS
from eunomia.learning.distill.plain import decide
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.distill.text import from_text, to_text
from eunomia.learning.distill.tree import Tree, constant, node
from eunomia.learning.observation.table import MEANINGS
from tests.inference.policies.views import job, make_view
from tests.inference.strategies import Case, cases
from tests.learning.deployment import episode

HAND = """
if laxity_ratio <= 0.25:
    if started > 0.5: +1.5   # finish what was begun
    else: -2
else:
    0
"""


def random_tree(rng: np.random.Generator, part: str, depth: int, size: float) -> Tree:
    if depth == 0:
        return constant(float(np.round(size * rng.standard_normal(), 2)))
    low, high = (random_tree(rng, part, depth - 1, size) for _ in range(2))
    return node(int(rng.choice(MAY_ASK[part])), float(np.round(rng.uniform(0.0, 1.0), 2)), low, high)


def random_rules(seed: int, place: str = "eft", size: float = 1.0) -> RuleSet:
    rng = np.random.default_rng(seed)
    sizes = {"order": size, "place": 0.3 * size, "start": 0.3 * size}
    trees = {part: random_tree(rng, part, 3, sizes[part]) for part in PARTS}
    return RuleSet("random", {"laxity": -1.0, "bytes": -2.0}, place, 0.9, trees)


def test_a_tree_by_hand() -> None:
    tree = from_text(HAND, "order")
    rows = np.zeros((3, len(NAMES)))
    rows[0, NAMES.index("started")] = 1.0
    rows[2, NAMES.index("laxity_ratio")] = 0.26
    assert tree(rows).tolist() == [1.5, -2.0, 0.0]
    assert tree.leaves == 3
    assert set(MEANINGS) == set(NAMES)


def test_order_rules_by_hand() -> None:
    rules = RuleSet("hand", {"laxity": -1.0}, "any_idle", np.inf)
    urgent, begun = job(deadline_s=4.0), job(deadline_s=5.0, attained_s=1.0)
    bonus = replace(rules, trees={**rules.trees, "order": from_text("if started > 0.5: 2\nelse: 0", "order")})
    for set_of_rules, first in ((rules, 0), (bonus, 1)):
        policy = RulePolicy(set_of_rules)
        view = make_view(policy, [urgent, begun], [[1.0], [1.0]])
        assert [a.request for a in policy(view)] == [first]


def test_place_and_start_rules_by_hand() -> None:
    # The second accelerator takes 1.5 times as long; a rule that prizes small demands sends the job there.
    rules = RuleSet("hand", {"laxity": -1.0}, "eft", 1.0)
    facts = {
        "demand": [[8.0, 1.0, 1.0]],
        "bandwidth": 10.0,
        "free_in_s": [0.0, 0.0, 5.0],
        "running_demand": 3.0,
    }
    plain = RulePolicy(rules)
    assert [
        a.accelerator for a in plain(make_view(plain, [job(deadline_s=9.0)], [[1.0, 1.5, 1.0]], **facts))
    ] == [0]
    small = replace(
        rules, trees={**rules.trees, "place": from_text("if demand <= 0.5: 0.6\nelse: 0", "place")}
    )
    away = RulePolicy(small)
    assert [
        a.accelerator for a in away(make_view(away, [job(deadline_s=9.0)], [[1.0, 1.5, 1.0]], **facts))
    ] == [1]
    # gate 1 - 3/10 leaves 0.7; a rule that takes 0.8 off it for great demands holds the job back.
    strict = replace(
        rules, trees={**rules.trees, "start": from_text("if demand > 0.5: -0.8\nelse: 0", "start")}
    )
    holding = RulePolicy(strict)
    assert holding(make_view(holding, [job(deadline_s=9.0)], [[1.0, 1.5, 1.0]], **facts)) == []
    assert holding.counts["holds"] == 1


def test_rules_without_trees_are_the_heuristic() -> None:
    e = episode(3)
    rules = RuleSet("edf", {"time_left": -1.0}, "eft", 0.9)
    ours = simulate_problem(e.problem, RulePolicy(rules), e.options).results
    theirs = simulate_problem(e.problem, "edf+f+eft+g0.9", e.options).results
    assert np.array_equal(ours["finish_s"], theirs["finish_s"], equal_nan=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10_000), st.sampled_from(PARTS), st.integers(0, 5))
def test_what_is_written_is_read_back(seed: int, part: str, depth: int) -> None:
    tree = random_tree(np.random.default_rng(seed), part, depth, 1.0)
    assert np.array_equal(from_text(to_text(tree), part).pack(), tree.pack())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(periodic=False), st.integers(0, 10_000), st.sampled_from(["eft", "any_idle", "eft_ca"]))
def test_compiled_stepped_and_plain_decide_alike(case: Case, seed: int, place: str) -> None:
    rules = random_rules(seed, place)
    policy = RulePolicy(rules, alarm=np.inf)
    compiled = simulate_problem(case.problem(), policy, case.options)
    stepped = simulate_problem(case.problem(), policy, case.options, stepped=True)
    for column in ("request", "layer", "accelerator", "start_s"):
        assert np.array_equal(compiled.subjobs[column], stepped.subjobs[column])


def test_the_plain_twin_starts_the_same() -> None:
    for seed, place in ((0, "eft"), (1, "any_idle"), (2, "eft_ca"), (3, "eft")):
        rules, e = random_rules(seed, place), episode(seed, requests=60)
        policy, asked = RulePolicy(rules, alarm=np.inf), []

        def both(view, policy=policy, rules=rules, asked=asked):  # type: ignore[no-untyped-def]
            give_constants(policy, view.system)
            ours, twin = policy(view), decide(view, rules)
            asked.append(len(ours))
            assert ours == twin or not ours  # asked again at one instant, the compiled form answers once
            return twin if ours else []

        simulate_problem(e.problem, both, e.options)
        assert sum(asked) > 100


def test_a_copy_decides_alike() -> None:
    policy, e = RulePolicy(random_rules(7)), episode(3)
    copy = pickle.loads(pickle.dumps(policy))
    ours, theirs = (simulate_problem(e.problem, p, e.options).results["finish_s"] for p in (policy, copy))
    assert np.array_equal(ours, theirs, equal_nan=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "order rules are empty"),
        ("if laxity <= 1: 2", r"line 1 .* needs an 'else:'"),
        ("if laxity <= 1:\n2\nelse: 1", "has nothing indented below it"),
        ("if laxity <= 1: 2\n  else: 3", "needs an 'else:' indented like it"),
        ("if laxity <= x: 2\nelse: 3", "has 'x' where a number"),
        ("if laxity <= 1: nan\nelse: 3", "must be finite"),
        ("if laxity == 1: 2\nelse: 3", "where a number or 'if NAME <= NUMBER:' belongs"),
        ("0\n0", "line 2 .* does not belong to the rule above"),
    ],
)
def test_rules_that_cannot_be_read_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        from_text(text, "order")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="feature 'laxiti' in line 2"):
        from_text("# mine\nif laxiti <= 1: 2\nelse: 3", "order")
    with pytest.raises(UnknownNameError, match="feature 'demand'"):
        from_text("if demand <= 1: 2\nelse: 3", "order")  # the order knows no accelerator
    with pytest.raises(UnknownNameError, match="feature of a sub-job 'slower'"):
        RuleSet("x", {"slower": 1.0})
    with pytest.raises(UnknownNameError, match="placement"):
        RuleSet("x", {}, place="best")
