"""Expert iteration: labels are rollouts' values, the gradient is the loss's, and a run is resumed to the same bits."""

from typing import Any

import numpy as np
import pytest

from eunomia.config.training import StageConfig
from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError, PolicyError
from eunomia.inference.lookahead.values import candidate_values
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents import Context, make_agent
from eunomia.learning.agents.codec import Codec
from eunomia.learning.agents.expert.agent import Expert
from eunomia.learning.agents.expert.labels import Labeller, Labels, collect, together
from eunomia.learning.agents.expert.regret import Descent, descend, loss_and_gradient
from eunomia.learning.loop import Plan, train
from eunomia.learning.objectives import task_of
from eunomia.learning.observation.table import GLOBAL, JOB
from eunomia.learning.policy.bases import base_weights
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import Weights
from tests.learning.deployment import ToySampler, episode, gain_of

RULE = "edf+f+eft+g1.0"
STAGE = StageConfig(trainer="expert", episodes=2, share=0.5)


def expert(start: Weights, rule: str = RULE, **keys: object) -> Expert:
    stage = StageConfig(**{**STAGE.model_dump(), **keys})  # type: ignore[arg-type]
    made = make_agent("expert", stage, Context(task_of(ToySampler(), {"hit_rate": 1.0}), 3, start, rule=rule))
    assert isinstance(made, Expert)
    return made


class Spy(Labeller):
    """Compares every label with ``candidate_values`` of the live engine."""

    compared = 0

    def attach(self, engine: Any) -> Any:
        self.companion = super().attach(engine)
        return self.companion

    def __call__(self, view: View) -> list[Assign]:
        found, rows = candidate_values(self.companion), len(self.noted)
        answer = super().__call__(view)
        new = self.noted[rows:]
        if len(new):
            assert set(new["worth"]) <= set(found.value)
            self.compared += 1
        return answer


def test_labels_are_what_rollouts_say_and_watching_changes_nothing() -> None:
    e, weights = episode(5), base_weights(RULE)
    spy, compiled = Spy(weights, RULE, 0.7, 1.0, 0), Labeller(weights, RULE, 0.7, 1.0, 0)
    watched = simulate_problem(e.problem, spy, e.options, stepped=True)
    noted = simulate_problem(e.problem, compiled, e.options)
    alone = simulate_problem(e.problem, LearnedPolicy(weights, alarm=np.inf), e.options)
    assert spy.compared > 20
    assert spy.noted.tobytes() == compiled.noted.tobytes()
    for outcome in (watched, noted):
        assert np.array_equal(outcome.results["outcome"], alone.results["outcome"])


def test_labels_have_a_best_choice_each_and_differ_within_a_point() -> None:
    labels = collect(base_weights(RULE), RULE, 0.7, 0.6, 1, episode(6))
    assert labels.points > 20 and np.array_equal(np.unique(labels.point), np.arange(labels.points))
    least = np.full(labels.points, np.inf)
    np.minimum.at(least, labels.point, labels.regret)
    assert (least == 0.0).all() and (np.bincount(labels.point, labels.regret) > 0.0).all()
    both = together([labels, labels])
    assert both.points == 2 * labels.points and len(both.regret) == 2 * len(labels.regret)


def random_labels(rng: np.random.Generator) -> Labels:
    point = np.repeat(np.arange(5), [1, 2, 3, 2, 4])
    return Labels(
        rng.normal(size=(12, len(JOB))).astype(np.float32),
        np.abs(rng.normal(size=(12, len(GLOBAL)))).astype(np.float32),
        rng.uniform(0.0, 2.0, 12),
        point,
    )


@pytest.mark.parametrize("kind", ["linear", "hidden"])
def test_the_gradient_is_that_of_the_loss(kind: str) -> None:
    rng = np.random.default_rng(0)
    weights, names = base_weights(RULE), ("job",)
    if kind == "hidden":
        weights, names = weights.with_network("hidden", 3, 1), (*names, "W1", "b1", "out")
    codec, labels = Codec(weights, names, True), random_labels(rng)
    x = 0.1 * rng.normal(size=codec.size)
    _, gradient = loss_and_gradient(codec.decode(x), labels)
    ours = codec.gather(gradient)
    for _ in range(5):
        way = rng.normal(size=codec.size)
        ahead, behind = (loss_and_gradient(codec.decode(x + h * way), labels)[0] for h in (1e-6, -1e-6))
        assert ours @ way == pytest.approx((ahead - behind) / 2e-6, rel=1e-4, abs=1e-7)


def test_expected_regret_by_hand() -> None:
    # Two candidates alike in all: each is drawn with probability 1/2.
    jobs, overall = np.zeros((2, len(JOB)), np.float32), np.zeros((2, len(GLOBAL)), np.float32)
    labels = Labels(jobs, overall, np.array([0.0, 2.0]), np.array([0, 0]))
    assert loss_and_gradient(Weights(gate=1.0), labels)[0] == pytest.approx(1.0)


def test_descent_finds_the_feature_that_tells_good_from_bad() -> None:
    rng = np.random.default_rng(1)
    point = np.repeat(np.arange(200), 3)
    jobs = rng.normal(size=(600, len(JOB))).astype(np.float32)
    best = np.maximum.reduceat(jobs[:, 2], np.arange(0, 600, 3))[point]
    regret = (jobs[:, 2] < best).astype(np.float64)
    labels = Labels(jobs, np.zeros((600, len(GLOBAL)), np.float32), regret, point)
    codec = Codec(Weights(gate=5.0), ("job",), False)
    x, loss = descend(codec, np.zeros(codec.size), labels, Descent(epochs=200), rng)
    assert loss < 0.2 and np.argmax(codec.decode(x).job) == 2


def test_a_hidden_layer_is_taught_too() -> None:
    agent = expert(base_weights(RULE).with_network("hidden", 3, 1))
    taught = train(agent, Plan(1, 1))
    assert agent.weights(taught.tensors).kind == "hidden" and gain_of(taught) >= 0.0


def test_what_cannot_be_taught_is_refused() -> None:
    with pytest.raises(ConfigError, match="pointer"):
        expert(base_weights(RULE).with_network("pointer", 3, 1))
    with pytest.raises(PolicyError, match="cannot roll out"):
        train(expert(base_weights(RULE), "dysta+g0.9"), Plan(1, 1))
