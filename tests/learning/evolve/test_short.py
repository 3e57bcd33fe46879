"""A learned policy as one short rule: which terms, how they are written, and the search that tunes them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.learning.agents.codec import TENANT
from eunomia.learning.distill.fitting.samples import collect
from eunomia.learning.distill.fitting.teacher import ByTeacher
from eunomia.learning.evolve.expression import ZERO
from eunomia.learning.evolve.language import write_formula
from eunomia.learning.evolve.rule import read_rule
from eunomia.learning.evolve.short import Short, ShortOptions, as_sum, cut, in_proportion, signed
from eunomia.learning.evolve.variation import genome_from
from eunomia.learning.loop import Plan, Progress, Trained, train
from eunomia.learning.objectives import task_of
from eunomia.learning.observation.table import JOB
from eunomia.learning.policy.bases import base_weights
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import Weights
from tests.learning.deployment import ToySampler
from tests.learning.test_policy import random_weights

SMALL = ShortOptions(24, 3, 6, 2)


def agent(options: ShortOptions = SMALL) -> Short:
    return Short(options, task_of(ToySampler(), {"hit_rate": 1.0}), random_weights(0), tenants=False)


def test_formulas_by_hand() -> None:
    assert (
        write_formula(in_proportion({"work": -4.0, "age": 2.0, "bytes": 1.0}))
        == "age - 2 * work + 0.5 * bytes"
    )
    assert write_formula(in_proportion({"work": -4.0, "age": -2.0})) == "-(work + 0.5 * age)"
    assert in_proportion({}) == ZERO == as_sum({})
    assert write_formula(as_sum({"idle": -0.5, "size": 0.25})) == "0.25 * size - 0.5 * idle"
    turned = signed(genome_from("age - -2 * work + -0.5 * bytes\nstart = 1 * idle + -2 * size"))
    assert turned == genome_from("age + 2 * work - 0.5 * bytes\nstart = 1 * idle - 2 * size")


@pytest.mark.parametrize("nodes", [1, 2, 5, 13, 24, 40])
@pytest.mark.parametrize("starts", [0, 2])
def test_a_rule_has_the_most_terms_that_its_nodes_allow(nodes: int, starts: int) -> None:
    if starts and nodes < 9:
        return
    weights = random_weights(0)
    teacher = ByTeacher(weights, {})
    driver = LearnedPolicy(weights, alarm=np.inf)
    found = collect(teacher, driver, teacher, ToySampler().training(0, 2), 0.5, 0)
    made = cut(found, teacher, nodes, starts, frozenset(TENANT))
    assert made.nodes <= nodes and (nodes - 4 < made.nodes or made.order.nodes < 4)
    asked = {each.op for part in (made.order, made.start) for each in part.walk()}
    assert not asked & set(TENANT)


def test_one_node_has_no_room_for_a_minus() -> None:
    """The teacher's one term is -time_left, two nodes."""
    weights = base_weights("edf+f+eft")
    teacher = ByTeacher(weights, {})
    driver = LearnedPolicy(weights, alarm=np.inf)
    found = collect(teacher, driver, teacher, ToySampler().training(0, 2), 0.5, 0)
    two, one = (cut(found, teacher, nodes, 0, frozenset(TENANT)) for nodes in (2, 1))
    assert write_formula(two.order) == "-time_left" and two.nodes == 2
    assert one.order == ZERO and one.nodes <= 1


def test_the_terms_of_a_linear_rule_are_found() -> None:
    weights = base_weights("edf_bytes+f+eft+g0.8")  # -time_left - 3 bytes: proportions alone count
    short = Short(replace(SMALL, nodes=12), task_of(ToySampler(), {"hit_rate": 1.0}), weights, tenants=False)
    teacher = ByTeacher(weights, {})
    driver = LearnedPolicy(weights, alarm=np.inf)
    found = collect(teacher, driver, teacher, ToySampler().training(0, 4), 0.5, 0)
    made = cut(found, teacher, 40, 0, short.without).rules()
    told = dict(zip(JOB, made.heuristic.base, strict=True))
    assert told["bytes"] / told["time_left"] == pytest.approx(3.0, abs=0.02) and told["time_left"] < 0.0
    assert made.gate == pytest.approx(0.8)


def run(generations: int, folder: Path | None = None, workers: int = 1) -> tuple[Short, Trained]:
    made = agent()
    return made, train(made, Plan(generations, 2, "x"), folder, workers)


def test_a_stopped_search_ends_in_the_same_bits(tmp_path: Path) -> None:
    """Stopped, not ended: the last iteration of a shorter search would be validated too, and might be the best."""

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    _, straight = run(3)
    with pytest.raises(KeyboardInterrupt):
        train(agent(), Plan(3, 2, "x"), tmp_path, 1, stop)
    resumed, found = run(3, tmp_path, workers=2)
    assert {k: v.tobytes() for k, v in found.tensors.items()} == {
        k: v.tobytes() for k, v in straight.tensors.items()
    }
    rules = resumed.policy(found.tensors).rule_set
    assert 0 < rules.nodes <= SMALL.nodes and read_rule(resumed.genome.text).nodes <= SMALL.nodes
    assert found.values.mean() >= found.start_values.mean()  # validation keeps the better one


def test_what_cannot_be_searched() -> None:
    with pytest.raises(ConfigError, match="rule of 41 nodes; give 1 to 40"):
        ShortOptions(nodes=41)
    with pytest.raises(ConfigError, match="population is 2"):
        ShortOptions(population=2)


def test_weights_of_nothing_give_a_rule_of_nothing() -> None:
    weights = Weights()
    teacher = ByTeacher(weights, {})
    found = collect(
        teacher, LearnedPolicy(weights, alarm=np.inf), teacher, ToySampler().training(0, 1), 0.5, 0
    )
    assert cut(found, teacher, 40, 0, frozenset()).order == ZERO
