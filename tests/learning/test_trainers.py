"""PPO and discrete SAC: formulas by hand, masks, permutations, and the same training twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # small networks; more threads only wait for each other
pytest.importorskip("gymnasium")
from eunomia.core.errors import ConfigError, RecordError  # noqa: E402
from eunomia.inference.kernel.layout import HIT  # noqa: E402
from eunomia.inference.simulate import simulate_problem  # noqa: E402
from eunomia.learning import loop as run  # noqa: E402
from eunomia.learning import state  # noqa: E402
from eunomia.learning.agents import ppo, sac  # noqa: E402
from eunomia.learning.agents.bdq.agent import BranchingAgent, BranchingSettings  # noqa: E402
from eunomia.learning.agents.pointer import Pointer, served, tensors  # noqa: E402
from eunomia.learning.agents.pointer_policy import PointerPolicy, save_pointer  # noqa: E402
from eunomia.learning.agents.replay import Play, Ring  # noqa: E402
from eunomia.learning.episodes import Episode  # noqa: E402
from eunomia.learning.gym.stage import Stage  # noqa: E402
from eunomia.learning.load import card_of, load_policy  # noqa: E402
from eunomia.learning.loop import Plan  # noqa: E402
from eunomia.learning.observation.table import GLOBAL, JOB, NEAR  # noqa: E402
from eunomia.study.inference.policy import resolve_policy  # noqa: E402
from tests.learning.deployment import episode  # noqa: E402


def observation(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    waiting = np.array([[1, 1, 1, 1, 0, 0]], np.int8)
    mask = np.array([[1, 0, 1, 1, 0, 0, 1]], np.int8)
    return {"jobs": torch.from_numpy(rng.standard_normal((1, 6, len(JOB))).astype(np.float32)),
            "overall": torch.from_numpy(rng.standard_normal((1, len(GLOBAL))).astype(np.float32)),
            "waiting": torch.from_numpy(waiting), "mask": torch.from_numpy(mask)}  # fmt: skip


def shaken(seed: int = 0) -> Pointer:
    """A pointer whose output layers are not 0."""
    torch.manual_seed(seed)
    net = Pointer(8)
    for part in (net.rho, net.hold):
        torch.nn.init.normal_(part[-1].weight)
    return net


def test_the_pointer_starts_as_a_rule_and_masks() -> None:
    seen, net = observation(1), Pointer(8)
    logits, value = net(seen)
    near = seen["jobs"][0, :, NEAR]
    allowed = [0, 2, 3]
    rule = [(-6.0 * near[i] - 30.0 * seen["jobs"][0, i, JOB.index("hopeless")]).item() for i in allowed]
    np.testing.assert_allclose(logits[0, allowed].detach(), rule, rtol=1e-5)
    assert (
        logits[0, 6].item() == -8.0 and (logits[0, [1, 4, 5]] == -1e9).all() and torch.isfinite(value).all()
    )


def test_the_pointer_does_not_depend_on_the_order_of_rows_nor_on_padding() -> None:
    seen, net, order = observation(2), shaken(), [2, 0, 3, 1, 4, 5]
    moved = {**seen, "jobs": seen["jobs"][:, order], "mask": seen["mask"][:, [*order, 6]]}
    logits, value = net(seen)
    other, same = net(moved)
    np.testing.assert_allclose(other.detach(), logits[:, [*order, 6]].detach(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value.detach(), same.detach(), rtol=1e-5)
    spoilt = {**seen, "jobs": seen["jobs"].clone()}
    spoilt["jobs"][:, 4:] = 3.0
    np.testing.assert_array_equal(net(spoilt)[0].detach(), logits.detach())


def test_advantages_by_hand() -> None:
    rewards, values = torch.tensor([[1.0], [0.0], [2.0]]), torch.tensor([[0.5], [1.0], [0.0], [4.0]])
    ends = torch.tensor([[0.0], [1.0], [0.0]])
    # Backwards with gamma 0.5, lambda 0.5: 2 + 2 - 0 = 4; an end: 0 - 1 = -1; 1 + 0.5 - 0.5 + 0.25 * -1 = 0.75.
    assert ppo.advantages(rewards, values, ends, 0.5, 0.5)[:, 0].tolist() == [0.75, -1.0, 4.0]


def test_sac_ignores_masked_actions_and_learns_a_choice() -> None:
    agent = sac.SAC(sac.Settings(units=8, rate=0.01, entropy=0.0, alpha=0.001))
    seen = {name: value.repeat(2, *[1] * (value.ndim - 1)) for name, value in observation(3).items()}
    action, reward = torch.tensor([0, 3]), torch.tensor([0.0, 1.0])  # the end follows at once: Q = r
    for _ in range(200):
        told = agent.update(seen, action, reward, seen, torch.ones(2))
    odds = agent.actor(seen)[0].softmax(dim=1)[0]
    assert np.isfinite(list(told.values())).all() and told["critic"] < 0.05
    assert odds[[1, 4, 5]].max() == 0.0 and odds[3] > odds[0]


OBJECTIVE = {"hit_rate": 1.0}
AGENTS: dict[str, Callable[[], Any]] = {
    "ppo": lambda: ppo.PPOAgent(ppo.Settings(epochs=2, minibatch=64, units=8), Play("priority_eft", 2, 6),
                                SmallSampler(), OBJECTIVE),
    "sac": lambda: sac.SACAgent(sac.Settings(first=20, batch=8, units=8, replay=150), Play("priority_eft", 2, 6),
                                SmallSampler(), OBJECTIVE),
    "bdq": lambda: BranchingAgent(BranchingSettings(3, 8, batch=16, memory=150, copy_every=5,
                                                    auxiliaries=("next_demand",)),
                                  Play("branch", 2, 6), SmallSampler(), OBJECTIVE),
}  # fmt: skip
PLAN = Plan(iterations=3, validate_every=2, identity="x")


class SmallSampler:
    """Episodes of a few dozen decisions."""

    def training(self, generation: int, count: int) -> list[Episode]:
        return [episode(1000 * generation + i, requests=12) for i in range(count)]

    def validation(self) -> list[Episode]:
        return [episode(seed, requests=12) for seed in range(2)]


@pytest.mark.parametrize("name", AGENTS)
def test_a_training_stopped_anywhere_ends_in_the_same_bits(name: str, tmp_path: Path) -> None:
    whole = run.train(AGENTS[name](), PLAN)
    for stop in (1, 2):
        folder = tmp_path / str(stop)

        def interrupt(progress: run.Progress, at: int = stop) -> None:
            if progress.entry["iteration"] == at:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run.train(AGENTS[name](), PLAN, folder, interrupt)
        resumed = run.train(AGENTS[name](), PLAN, folder)
        assert str(resumed.curve) == str(whole.curve)
        for key, value in resumed.tensors.items():
            assert value.tobytes() == whole.tensors[key].tobytes(), key
    agent = AGENTS[name]()
    assert any(not np.array_equal(value, whole.tensors[key]) for key, value in agent.tensors().items()) or (
        whole.values.mean() == whole.start_values.mean()
    )
    with pytest.raises(RecordError, match="other settings"):
        run.train(agent, Plan(3, 2, identity="y"), folder)
    (folder / state.FILE).write_bytes(b"cut")
    with pytest.raises(RecordError, match="remove it"):
        run.train(agent, PLAN, folder)


def test_a_state_keeps_its_shapes_and_is_read_under_the_older_name_of_its_settings(tmp_path: Path) -> None:
    arrays = {"number": np.array(1.5), "table": np.arange(6.0).reshape(2, 3).T}
    state.write_arrays(arrays, {"iteration": 2}, tmp_path, "x")
    content = (tmp_path / state.FILE).read_bytes()
    older = content.replace(b'"settings":"x"', b'"identity":"x"')  # as long: a header starts with its length
    assert len(older) == len(content) and older != content
    for written in (content, older):
        (tmp_path / state.FILE).write_bytes(written)
        found, notes = state.read_arrays(tmp_path, "x") or ({}, {})
        assert notes == {"iteration": 2}
        for name, value in arrays.items():
            np.testing.assert_array_equal(found[name], value, strict=True)
        with pytest.raises(RecordError, match="other settings"):
            state.read_arrays(tmp_path, "y")


def test_what_is_served_is_what_was_trained(tmp_path: Path) -> None:
    """The same choices in NumPy through Views as in PyTorch on the stage, over whole episodes."""
    network, made = shaken(3), episode(5, requests=60, load=2.0)
    stage = Stage([made], "priority_eft", "R1", most=16)
    while stage.live.any():
        stage.step(network(tensors(stage.seen))[0].argmax(dim=1).numpy())
    path = save_pointer(PointerPolicy(served(network), "mine", 16), tmp_path / "mine", {"cpu_s": 1})
    policy = load_policy(path)
    results = simulate_problem(made.problem, policy, made.options).results
    hits = float((results["outcome"] == HIT).mean())
    assert hits == pytest.approx(float(stage.hit_rates[0])) and 0.0 < hits < 1.0
    assert card_of(path)["cpu_s"] == 1 and resolve_policy(str(path)).name == "mine"
    tensors_file = path.with_suffix(".safetensors")
    tensors_file.write_bytes(tensors_file.read_bytes()[:-4])
    with pytest.raises(RecordError, match="SHA-256 differs"):
        load_policy(path)
    with pytest.raises(ConfigError, match=r"'inner\.0\.weight' are missing"):
        PointerPolicy({})


def test_the_ring_forgets_the_oldest() -> None:
    ring = Ring(3, ("x",))
    for number in range(5):
        seen = {"x": np.array([[number]], np.float32)}
        ring.add(seen, np.array([number]), np.array([float(number)]), seen, np.array([0.0]), np.array([True]))
    now, action, reward, then, end = ring.sample(200, np.random.default_rng(0))
    assert ring.count == 3 and set(action.tolist()) == {2, 3, 4} and not end.any()
    assert (now["x"][:, 0] == reward).all() and (then["x"][:, 0] == reward).all()


def test_wrong_settings_are_one_sentence() -> None:
    for wrong in ({"units": 0}, {"gamma": 0.0}, {"rate": -1.0}):
        with pytest.raises(ConfigError, match="it must"):
            ppo.Settings(**wrong)
        with pytest.raises(ConfigError, match="it must"):
            sac.Settings(**wrong)
