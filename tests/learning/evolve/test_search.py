"""The search: children are legal, equal seeds give equal bits however often it was stopped, the archive is unlike."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.config.evolve import EvolveConfig
from eunomia.core.errors import RecordError
from eunomia.learning.agents.codec import TENANT
from eunomia.learning.distill.inputs import NAMES, PARTS
from eunomia.learning.evolve.expression import ZERO, Node, number, value_of
from eunomia.learning.evolve.language import read_formula
from eunomia.learning.evolve.search import Evolve
from eunomia.learning.evolve.variation import Genome, Variation, exchanged, genome_from, known, tidy
from eunomia.learning.loop import Plan, Trained, train
from eunomia.learning.objectives import task_of
from tests.learning.deployment import ToySampler
from tests.learning.evolve.random_rules import random_node

SEEDS, BASE = st.integers(0, 100_000), "edf_bytes+f+eft_ca+g0.9"
SMALL = EvolveConfig(generations=6, population=8, episodes=2, archive=5)
VARIATION = Variation(frozenset(TENANT), 24)


def agent() -> Evolve:
    return Evolve(SMALL, task_of(ToySampler(), {"hit_rate": 1.0}), BASE, tenants=False)


def run(generations: int, folder: Path | None = None, workers: int = 1) -> tuple[Evolve, Trained]:
    searched = agent()
    return searched, train(searched, Plan(generations, 2, "x"), folder, workers)


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.integers(1, 40), st.sampled_from(PARTS))
def test_tidying_keeps_the_value_and_adds_no_nodes(seed: int, size: int, part: str) -> None:
    node = random_node(np.random.default_rng(seed), part, size)
    tidied = tidy(node)
    assert tidied.nodes <= node.nodes
    row = np.random.default_rng(seed).standard_normal(len(NAMES))
    if not any(each.op == "number" for each in node.walk()):  # nothing is rounded: the same value
        assert value_of(tidied, row) == pytest.approx(value_of(node, row), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("work + 0 * age", "work"),
        ("1 * work / 1", "work"),
        ("--work", "work"),
        ("min(work, work)", "work"),
        ("where(1 < 2, work, age)", "work"),
        ("where(2 < 1, work, age)", "age"),
        ("work - work", "0"),
        ("2 * 3 + sqrt(4)", "8"),
        ("work * 1.23456", "work * 1.23"),
    ],
)
def test_tidying_by_hand(text: str, left: str) -> None:
    assert tidy(read_formula(text, "order")) == read_formula(left, "order")


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_children_are_legal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mine, other = (
        known(BASE),
        genome_from("min(work, size)\nstart = 0.1 - others_loss * idle\nplace = -later"),
    )
    for _ in range(12):
        mine, other = VARIATION.vary(mine, other, rng), mine
        assert mine.nodes <= VARIATION.most and mine.gate > 0.0
        assert genome_from(mine.text) == mine  # what is written is what decides
        asked = {each.op for part in (mine.order, mine.place, mine.start) for each in part.walk()}
        assert not asked & VARIATION.without


def test_an_exchange_by_hand() -> None:
    node = read_formula("work + 2 * age", "order")  # in the order of the program: work 2 age * +
    assert exchanged(node, 0, Node("size")) == read_formula("size + 2 * age", "order")
    assert exchanged(node, 3, ZERO) == Node("+", (Node("work"), ZERO))
    assert exchanged(node, 4, number(1.0)) == number(1.0)


def test_constants_go_out_and_in() -> None:
    genome = genome_from("work * 2 - 3\nstart = 0.1 * idle\ngate = 0.9")
    assert genome.constants.tolist() == [2.0, 3.0, 0.1, 0.9]
    assert genome.with_constants(genome.constants) == genome
    other = genome.with_constants(np.array([1.2345, -1.0, 0.0, -5.0]))
    assert other.constants.tolist() == [1.23, -1.0, 0.0, 0.05]  # three digits; a gate stays positive
    free = genome_from("work\ngate = inf")
    assert not len(free.constants) and free.with_constants(free.constants) == free


def test_the_known_rule_as_a_genome() -> None:
    assert known(BASE) == genome_from("-time_left - 3 * bytes\nplacement = eft_ca\ngate = 0.9")
    assert known("sjf+f+g1").placement == "any_idle" and known("sjf+f").gate == np.inf


def test_a_search_that_was_stopped_gives_the_same_bits(tmp_path: Path) -> None:
    straight, done = run(6)
    for generations in (2, 3, 6):
        stopped, again = run(generations, tmp_path)
    assert stopped.arrays()["state"].tobytes() == straight.arrays()["state"].tobytes()
    assert again.tensors["rule"].tobytes() == done.tensors["rule"].tobytes()
    assert np.array_equal(again.values, done.values) and done.values.mean() >= done.start_values.mean()
    assert [entry["best"] for entry in again.curve] == [entry["best"] for entry in done.curve]
    with pytest.raises(RecordError, match="other settings"):
        train(agent(), Plan(6, 2, "y"), tmp_path)
    check_archive(straight)


def check_archive(searched: Evolve) -> None:
    rules = [each.genome for each in searched.archive]
    assert 2 <= len(rules) <= SMALL.archive
    for i, one in enumerate(rules):
        assert all(searched.probes.distance(one, other) >= SMALL.apart for other in rules[:i])
    assert searched.population[0].genome == known(BASE) and searched.population[0].total == 0.0
    assert len(searched.population) == SMALL.population


def test_the_number_of_workers_changes_nothing() -> None:
    (one, _), (two, _) = run(2), run(2, workers=2)
    assert one.arrays()["state"].tobytes() == two.arrays()["state"].tobytes()


def test_rules_that_decide_alike_have_one_signature() -> None:
    probes = agent().probes
    base = known(BASE)
    doubled = genome_from("-2 * time_left - 6 * bytes\nplacement = eft_ca\ngate = 0.9")
    assert probes.distance(base, doubled) == 0.0
    backwards = genome_from("time_left + 3 * bytes\nplacement = eft_ca\ngate = 0.9")
    assert probes.distance(base, backwards) > 0.1
    never = Genome(base.order, start=number(-9.0), placement="eft_ca", gate=0.9)
    assert probes.distance(base, never) > 0.0
