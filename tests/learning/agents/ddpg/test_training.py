"""Training is reproducible, resumes to the bit, and its policies are kept and refused as they should be."""

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from eunomia.config.algorithm import RelmasAlgorithm  # noqa: E402
from eunomia.config.load import scenario_from  # noqa: E402
from eunomia.core.errors import (  # noqa: E402
    PlatformError,
    RecordError,
)
from eunomia.engines.crew import Workers  # noqa: E402
from eunomia.inference.kernel.layout import HIT  # noqa: E402
from eunomia.inference.simulate import simulate_problem  # noqa: E402
from eunomia.learning.agents import Context  # noqa: E402
from eunomia.learning.agents.ddpg.agent import Relmas  # noqa: E402
from eunomia.learning.agents.ddpg.episode import Batch, Exploration, explore  # noqa: E402
from eunomia.learning.agents.ddpg.features import inputs  # noqa: E402
from eunomia.learning.agents.ddpg.learner import Learner  # noqa: E402
from eunomia.learning.agents.ddpg.policy import RelmasPolicy  # noqa: E402
from eunomia.learning.card import save  # noqa: E402
from eunomia.learning.load import card_of, load_policy  # noqa: E402
from eunomia.learning.objectives import task_of  # noqa: E402
from eunomia.serving.dispatch.warm import small_view  # noqa: E402
from eunomia.study.inference.policy import resolve_policy  # noqa: E402
from eunomia.study.learning.scenarios import scenario_episode  # noqa: E402
from tests.learning.agents.ddpg.actors import zero_actor  # noqa: E402
from tests.learning.deployment import ToySampler, episode  # noqa: E402


def learner_of(
    name: Literal["ddpg", "td3"] = "ddpg", seed: int = 5, units: int = 8, **changes: Any
) -> Learner:
    return Learner(4, False, RelmasAlgorithm(name=name, units=units, **changes), seed)


def batch(seed: int, n: int = 5, size: int = 6) -> Batch:
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    width, count = inputs(4, False), rng.integers(1, n + 1, size)
    return Batch(draw(size, n, width), np.tanh(draw(size, n, 6)), count, draw(size), rng.random(size, np.float32),
                 draw(size, n, width), rng.integers(0, n + 1, size), draw(size))  # fmt: skip


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize("network", ["lstm", "sets"])
@pytest.mark.parametrize("critic", ["joint", "compatible"])
def test_a_step_is_reproducible_and_padding_is_not_seen(twin: bool, critic: str, network: str) -> None:
    def steps(spoil: bool) -> dict[str, np.ndarray]:
        learner = learner_of("td3" if twin else "ddpg", residual=twin, critic=critic, network=network)
        for n in range(4):
            given = batch(n)
            if spoil:
                for i in range(6):
                    given.seen[i, given.count[i] :] = 9.0
                    given.then[i, given.then_count[i] :] = -9.0
            learner.clone(given)
            learner.regress(given)
            learner.update(given, given, 0.3)
        return learner.kept()

    one, other, spoilt = steps(False), steps(False), steps(True)
    for name, value in one.items():
        assert value.tobytes() == other[name].tobytes(), name
        np.testing.assert_allclose(value, spoilt[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("critic", ["joint", "compatible"])
def test_the_actor_climbs_its_critic_and_the_critic_learns_its_returns(critic: str) -> None:
    learner, given = learner_of(seed=1, residual=False, critic=critic), batch(3)
    learner.critic_step.param_groups[0]["lr"] = 0.01
    losses = [learner.regress(given) for _ in range(150)]
    assert losses[-1] < 0.2 * losses[0]
    learner.follow_actor()
    learner.critic_step.param_groups[0]["lr"] = 0.0
    learner.actor_step.param_groups[0]["lr"] = 0.01
    values = [learner.update(given)["value"] for _ in range(60)]
    assert values[-1] > values[0] + 0.01


def test_the_slope_of_one_sub_job_is_found_among_many() -> None:
    # Earned is the noise on the margin of urgent sub-jobs less that of the others: no mean over the list has it.
    rng, learner = np.random.default_rng(0), learner_of(units=16)
    losses, learner.critic_step.param_groups[0]["lr"] = [], 0.01
    for _ in range(120):
        given = batch(int(rng.integers(1 << 30)), 5, 64)
        given.action[:] *= 0.2
        valid = np.arange(given.seen.shape[1]) < given.count[:, None]
        sign = np.where(given.seen[:, :, 0] > 0.0, 1.0, -1.0)
        given.returns[:] = (sign * given.action[:, :, 1] * valid).sum(axis=1)
        losses.append(learner.regress(given) / float(given.returns.var()))
    assert np.mean(losses[-20:]) < 0.4
    learner.critic_step.param_groups[0]["lr"], learner.actor_step.param_groups[0]["lr"] = 0.0, 0.01
    for n in range(60):
        learner.update(batch(n, 5, 64))
    held = (
        learner.actor(torch.from_numpy(given.seen), torch.from_numpy(given.count)).detach().numpy()[:, :, 1]
    )
    assert np.mean(np.sign(held[valid]) == sign[valid]) > 0.8


def test_td3_smooths_its_target_with_clipped_noise_and_takes_the_lesser_critic() -> None:
    action = torch.linspace(-1.0, 1.0, 6000).reshape(100, 10, 6)
    assert torch.equal(learner_of("ddpg").smooth(action), action)
    twin = learner_of("td3", critic="joint")
    noise = twin.smooth(action) - action
    inner = noise[action.abs() < 0.5]
    assert (
        0.17 < inner.std() < 0.21
        and inner.abs().max() <= 0.5 + 1e-6
        and twin.smooth(action).abs().max() <= 1.0
    )
    given = batch(2)
    for critic, worth in zip(twin.targets[1:], (-5.0, 5.0), strict=True):
        torch.nn.init.zeros_(critic.head[2].weight)
        torch.nn.init.constant_(critic.head[2].bias, worth)
    goal = twin.goal(given).numpy()
    np.testing.assert_allclose(goal, given.reward - 5.0 * given.factor * (given.then_count > 0), rtol=1e-5)


def test_a_clone_holds_where_the_gated_teacher_holds_in_episodes_that_it_has_not_seen() -> None:
    settings = RelmasAlgorithm(
        name="ddpg", teacher="edf+f+eft+g0.9", residual=False, units=16, clone_steps=150, every=1
    )
    agent = Relmas(settings, Context(task_of(ToySampler(), {"hit_rate": 1.0}), 1))
    agent.begin(Workers(1))
    clone, width = agent.policy(agent.tensors()), inputs(4, False)
    taught, _ = explore(clone, episode(77), Exploration(0.0, teacher=True), np.random.default_rng(0))
    seen, row, agreed = taught.rows[:, :width], 0, []
    for n in taught.counts.tolist():
        with torch.no_grad():
            action = agent.learner.actor(torch.from_numpy(seen[row : row + n])[None], torch.tensor([n]))[
                0
            ].numpy()
        agreed += ((action[:, 1] >= 0.0) == (taught.rows[row : row + n, width + 1] >= 0.0)).tolist()
        row += n
    wanted = taught.rows[:, width + 1] >= 0.0
    assert 0.05 < np.mean(~wanted) < 0.95
    assert np.mean(agreed) > 0.95


@pytest.fixture
def card(tmp_path: Path) -> Path:
    rng, plain = np.random.default_rng(0), zero_actor(4, 8, True)
    weights = {name: rng.standard_normal(value.shape) for name, value in plain.items()}
    return save(
        RelmasPolicy(weights, "mine", 0.25, "wait", {"gate": 0.9, "most": 5}), tmp_path / "mine", {"cpu_s": 3}
    )


def test_a_card_gives_the_same_policy_back(card: Path) -> None:
    again, made = load_policy(card), episode(0)
    assert (again.name, again.period_layers, again.period_mode) == ("mine", 0.25, "wait")
    assert again.corrected == {"gate": 0.9, "toll": 0.0, "residual": 1, "most": 5}
    assert card_of(card)["family"] == "relmas"
    runs = [simulate_problem(made.problem, load_policy(card), made.options).results for _ in range(2)]
    assert runs[0].tobytes() == runs[1].tobytes()


def test_damaged_cards_are_refused(card: Path) -> None:
    tensors, text = card.with_suffix(".safetensors"), card.read_text()
    facts = json.loads(text)
    for change, reason in (
        ({"name": "other"}, "changed after it was written"),
        ({"format": 9}, "format 9"),
        ({"family": "x"}, "not a checkpoint of"),
    ):
        card.write_text(json.dumps({**facts, **change}))
        with pytest.raises(RecordError, match=reason):
            load_policy(card)
    card.write_text(text[:50])
    with pytest.raises(RecordError, match="no checkpoint"):
        load_policy(card)
    card.write_text(text)
    content = tensors.read_bytes()
    tensors.write_bytes(content[:-8])
    with pytest.raises(RecordError, match="SHA-256 differs"):
        load_policy(card)
    tensors.unlink()
    with pytest.raises(RecordError, match="cannot read"):
        load_policy(card)


def test_weights_that_are_not_finite_are_refused(card: Path) -> None:
    policy = load_policy(card)
    policy.tensors["bias"][3] = np.nan  # after the check: as a damaged training would write it
    save(policy, card)
    with pytest.raises(RecordError, match="not a finite number"):
        load_policy(card)


def test_the_shipped_policy_and_cards_are_found(card: Path) -> None:
    shipped = load_policy("relmas")
    assert isinstance(shipped, RelmasPolicy) and shipped.lanes == 6
    assert card_of("relmas")["policy"]["kind"] == "lstm"
    assert load_policy(card).name == "mine" and resolve_policy(str(card)).period_layers == 0.25


@pytest.mark.parametrize("name", ["relmas", "relmas-slo"])
def test_shipped_policies_are_found_by_name_and_pinned_to_six_accelerators(name: str) -> None:
    shared = {"models": [{"model": "yolo-lite", "deadline_factor": 3.0, "slo": {"hit_rate": 0.9}}]}
    tenant = {"name": "a", "arrivals": {"process": "poisson", "rate_per_s": 2000.0}, **shared}
    platform = {"preset": "simba3-eyeriss3", "dram_bandwidth_gb_s": 32.0}
    scenario = scenario_from({"name": "six", "duration_s": 0.05, "tenant": [tenant], "platform": platform,
                              "engine": {"late": "drop"}})  # fmt: skip
    made, card = scenario_episode(scenario, 1, 40), card_of(name)
    policy = resolve_policy(name)
    results = simulate_problem(made.problem, policy, made.options).results
    assert policy.name == name and (results["outcome"] == HIT).mean() > 0.5
    assert card["policy"]["promises"] == (name == "relmas-slo") and card["policy"]["lanes"] == 6
    with pytest.raises(PlatformError, match="trained for 6 accelerators and the platform has 4"):
        simulate_problem(episode(0).problem, policy, episode(0).options)
    with pytest.raises(PlatformError, match="trained for 6 accelerators and the platform has 1"):
        policy(small_view())  # as a server asks it, which prepares nobody
