"""Formulas are read as written, refuse all else in one sentence with its place, and mean the same compiled."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.learning.distill.inputs import NAMES, PARTS
from eunomia.learning.evolve.expression import (
    ARITY,
    MOST_NODES,
    STACK,
    ZERO,
    Formula,
    Node,
    number,
    value_of,
)
from eunomia.learning.evolve.language import read_formula, write_formula
from eunomia.learning.evolve.rule import read_rule, write_rule
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.learning.policy.formula import run_formula
from tests.learning.evolve.random_rules import random_formulas, random_node

SEEDS = st.integers(0, 100_000)
ROW = dict.fromkeys(NAMES, 0.0)


def at(**features: float) -> np.ndarray:
    return np.array([{**ROW, **features}[name] for name in NAMES])


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("-time_left - 3 * bytes", -8.0),
        ("work / 0", 4e6),
        ("-work / -0.0", -4e6),
        ("min(work, 2) + max(bytes, 7)", 9.0),
        ("where(started > 0.5, 1, 2)", 2.0),
        ("where(1, work, 2)", 4.0),
        ("where(work >= 4, 1, 2) + (work < 4)", 1.0),
        ("sqrt(-work)", -2.0),
        ("sqrt(work)", 2.0),
        ("log1p(-bytes)", -math.log(2.0)),
        ("abs(-work)", 4.0),
        ("2 - (3 - 1) * 2", -2.0),
        ("1e6 * 1e6 * 1e6 * work", 1e15),
        ("--work", 4.0),
        ("+1.5", 1.5),
    ],
)
def test_formulas_by_hand(text: str, worth: float) -> None:
    row = at(time_left=5.0, bytes=1.0, work=4.0)
    node = read_formula(text, "order")
    assert value_of(node, row) == pytest.approx(worth, rel=1e-15)
    assert value_of(read_formula(write_formula(node), "order"), row) == value_of(node, row)


def machine(formula: Formula, row: np.ndarray) -> float:
    """The compiled stack machine's value; a constant is a leaf, which trees decide."""
    block = np.concatenate([np.full(3, np.nan), formula.pack()])
    ends = np.cumsum([len(JOB), len(PAIR), len(GLOBAL)])
    return float(run_formula(block, 3, *np.split(row, ends)))


@settings(max_examples=400, deadline=None)
@given(SEEDS, st.sampled_from(PARTS), st.integers(2, MOST_NODES))
def test_the_stack_machine_agrees_with_the_definition_to_the_last_bit(
    seed: int, part: str, size: int
) -> None:
    rng = np.random.default_rng(seed)
    formula = Formula(random_node(rng, part, size))
    if formula.node.op == "number":
        return
    row = np.round(rng.standard_normal(len(NAMES)) * rng.choice([0.0, 1e-7, 1.0, 1e3], len(NAMES)), 9)
    found, told = machine(formula, row), value_of(formula.node, row)
    assert np.isfinite(told) and found == told and math.copysign(1, found) == math.copysign(1, told)


@pytest.mark.parametrize("op", ARITY)
@pytest.mark.parametrize("a", [-3.0, -1e-7, -0.0, 0.0, 1e-7, 3.0, 1e12])
def test_every_operation_agrees_at_edges(op: str, a: float) -> None:
    for b in (-2.0, -0.0, 0.0, 1e-7, a):
        formula = Formula(Node(op, (Node("work"), Node("bytes"), Node("age"))[: ARITY[op]]))
        row = at(work=a, bytes=b, age=5.0)
        assert machine(formula, row) == value_of(formula.node, row)


@settings(max_examples=300, deadline=None)
@given(SEEDS, st.sampled_from(PARTS), st.integers(1, MOST_NODES))
def test_what_is_written_is_read_back(seed: int, part: str, size: int) -> None:
    node = random_node(np.random.default_rng(seed), part, size)
    assert node.nodes <= size
    if node.depth <= 24:
        assert read_formula(write_formula(node), part) == node


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.integers(1, MOST_NODES))
def test_linear_terms_and_the_rest_are_the_formula(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    node, row = random_node(rng, "order", size), rng.standard_normal(len(NAMES))
    linear, rest = Formula(node).split
    parts = [weight * row[NAMES.index(name)] for name, weight in linear.items()] + [value_of(rest.node, row)]
    scale = sum(map(abs, parts)) + 1.0
    assert sum(parts) == pytest.approx(value_of(node, row), abs=1e-9 * scale) or abs(sum(parts)) > 1e14
    assert all(name in JOB for name in linear)


def test_the_deepest_formula_fits_on_the_stack() -> None:
    node = Node("work")
    while node.nodes + 3 <= MOST_NODES:
        node = Node("where", (number(0.0), Node("age"), node))
    deepest, free = 0, 0
    for each in node.walk():
        free += 1 - len(each.parts)
        deepest = max(deepest, free)
    assert deepest + 2 <= STACK
    assert machine(Formula(node), at(work=3.0)) == 3.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("work +", "line 1, column"),
        ("__import__('os').system('x')", "this is not allowed"),
        ("work.real", "column 1: this is not allowed"),
        ("[work]", "not allowed"),
        ("lambda: 1", "not allowed"),
        ("(x := 1)", "not allowed"),
        ("work if age else 1", "not allowed"),
        ("work ** 2", "not allowed"),
        ("work < age < 1", "not allowed"),
        ("1 == work", "not allowed"),
        ("min(work)", "min has 1 arguments; it takes 2"),
        ("min(a=work)", "this is not allowed"),
        ("min(*work)", "min has 1 arguments"),
        ("work + 'a'", "column 8: 'a' is not a number"),
        ("True", "True is not a number"),
        ("1e999", "out of bounds"),
        ("9" * 400, "out of bounds"),
        ("-1e7 * work", "column 2: the number is out of bounds"),
        ("3j", "is not a number"),
        ("work\x00", "cannot be read"),
        ("(" * 300 + "work" + ")" * 300, "cannot be read"),
        ("-" * 1500 + "work", "at most 40 nodes|cannot be read"),
        ("+".join(["work"] * 30), "has 59 nodes; at most 40"),
        ("abs(" * 30 + "work" + ")" * 30, "31 levels deep; at most 24"),
        ("work+" * 500 + "work", "characters and cannot be read; write one plain"),
    ],
)
def test_what_is_not_a_formula_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        read_formula(text, "order")
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 400


def test_unknown_features_are_named_with_their_place() -> None:
    with pytest.raises(
        UnknownNameError, match=r"'laxiti' of the order \(line 1, column 5\); did you mean 'laxity'"
    ):
        read_formula("1 + laxiti", "order")
    with pytest.raises(UnknownNameError, match="'demand' of the order"):
        read_formula("demand", "order")  # the order knows no accelerator
    with pytest.raises(UnknownNameError, match="'own_loss' of the place"):
        read_formula("own_loss", "place")


RULE = """
# small first where bandwidth is short
-time_left - 3 * bytes
placement = eft_ca   # how
gate = 0.9
start = -0.2 * others_loss
"""


def test_a_rule_from_text_and_back() -> None:
    rules = read_rule(RULE, "mine")
    assert (rules.name, rules.place, rules.gate) == ("mine", "eft_ca", 0.9)
    assert rules.formulas["place"].node == ZERO
    written = write_rule(rules)
    assert written == (
        "order = -time_left - 3 * bytes\nplacement = eft_ca\ngate = 0.9\nstart = -0.2 * others_loss\n"
    )
    assert write_rule(read_rule(written)) == written
    assert read_rule("work").gate == 1.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gate = 1", "has no order"),
        ("work\nage", "line 2: the rule has a second 'order'"),
        ("work\ngate = -1", "line 2: the gate is '-1'"),
        ("work\ngate = x", "line 2: the gate is 'x'"),
        ("work\nplacement = best", "unknown placement"),
        ("work\nordr = 1", "unknown part of a rule 'ordr' in line 2; did you mean 'order'"),
        ("work\nstart = 1 +", "line 2, column"),
        ("+".join(["work"] * 16) + "\nstart = " + "+".join(["idle"] * 16), "has 62 nodes; at most 40"),
        ("# nothing\n" * 2000, "characters; at most"),
    ],
)
def test_rules_that_cannot_be_read_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_rule(text)


def test_the_column_counts_from_the_line() -> None:
    with pytest.raises(ConfigError, match="line 2, column 16: 'a' is not"):
        read_rule("work\nstart = 1  +   'a'")


def test_trees_are_not_written_as_one_text() -> None:
    rules = random_formulas(3)
    assert read_rule(write_rule(rules)).heuristic.gate == 0.9
    with pytest.raises(ConfigError, match="only formulas"):
        write_rule(type(rules)("x", {"work": 1.0}))
