"""PPO and discrete SAC: formulas by hand, masks, permutations, and the same training twice."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("gymnasium")
from eunomia.config.algorithm import SacAlgorithm  # noqa: E402
from eunomia.core.errors import ConfigError, RecordError  # noqa: E402
from eunomia.inference.kernel.layout import HIT  # noqa: E402
from eunomia.inference.simulate import simulate_problem  # noqa: E402
from eunomia.learning.agents import ppo, sac  # noqa: E402
from eunomia.learning.agents.pointer import Pointer, tensors  # noqa: E402
from eunomia.learning.agents.pointer_policy import PointerPolicy  # noqa: E402
from eunomia.learning.agents.replay import Ring  # noqa: E402
from eunomia.learning.card import save  # noqa: E402
from eunomia.learning.encodings import encoding as find_encoding  # noqa: E402
from eunomia.learning.gym.stage import Stage  # noqa: E402
from eunomia.learning.load import card_of, load_policy  # noqa: E402
from eunomia.learning.observation.table import GLOBAL, JOB, NEAR  # noqa: E402
from eunomia.study.inference.policy import resolve_policy  # noqa: E402
from tests.learning.deployment import episode  # noqa: E402
from tests.learning.test_loop import agent_of  # noqa: E402


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
    jobs, allowed = seen["jobs"][0], [0, 2, 3]
    rule = [(-30.0 * jobs[i, NEAR] - 300.0 * jobs[i, JOB.index("hopeless")]).item() for i in allowed]
    np.testing.assert_allclose(logits[0, allowed].detach(), rule, rtol=1e-5)
    over = seen["overall"][0, GLOBAL.index("demand_share")].item() - 1.0
    assert logits[0, 6].item() == pytest.approx(max(rule) + 20.0 * over, rel=1e-5)
    assert (logits[0, [1, 4, 5]] == -1e9).all() and torch.isfinite(value).all()
    seen["mask"][0, :6] = 0  # nothing may start: to hold is the one action left
    assert net(seen)[0].softmax(dim=1)[0, 6].item() > 0.1 and net(seen)[0].isfinite().all()


@pytest.mark.parametrize("load", [0.9, 1.6])
def test_ppo_and_sac_start_as_the_gated_rule(load: float) -> None:
    """Every start of whole episodes, as the engine's own ``edf+f+eft+g1`` has it."""
    policy = PointerPolicy(Pointer(8).numbers(), most=64)
    for seed in range(2):
        made = episode(seed, load=load)
        ours, rule = (simulate_problem(made.problem, p, made.options) for p in (policy, "edf+f+eft+g1"))
        assert ours.results.tobytes() == rule.results.tobytes()


def test_nobody_is_asked_who_can_only_hold() -> None:
    """The same episode, with fewer questions: holding where nothing else is allowed changes nothing."""
    played = []
    for encoding in ("start_eft", "priority_eft"):
        stage, asked = Stage.of([episode(3, requests=40)], encoding, "R1", most=64), 0
        total = 0.0
        while stage.live.any():
            shown = stage.batch.shown
            free = find_encoding("start_eft").mask(stage.batch.choice(0))  # type: ignore[misc]
            assert encoding == "priority_eft" or free[:-1].any()
            open_ = shown.overall[0, GLOBAL.index("demand_share")] <= 1.0 and free[:-1].any()
            action = int(np.argmax(free[:-1])) if open_ else 64
            total += float(stage.step(np.array([action]))[0])
            asked += 1
        played.append((asked, stage.hit_rates[0], pytest.approx(total)))
    assert played[0][0] < played[1][0] and played[0][1:] == played[1][1:]


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
    agent = agent_of("sac", SacAlgorithm(name="sac", units=8, rate=0.01))
    assert isinstance(agent, sac.SAC)
    agent.entropy, agent.critic_first = 0.0, 0
    with torch.no_grad():
        agent.log_alpha.fill_(math.log(0.001))
    seen = {name: value.repeat(2, *[1] * (value.ndim - 1)) for name, value in observation(3).items()}
    action, reward = torch.tensor([0, 3]), torch.tensor([0.0, 1.0])  # the end follows at once: Q = r
    for _ in range(200):
        told = agent.update((seen, action, reward, seen, torch.ones(2)))
    odds = agent.network(seen)[0].softmax(dim=1)[0]
    assert np.isfinite(list(told.values())).all() and told["critic"] < 0.05
    assert odds[[1, 4, 5]].max() == 0.0 and odds[3] > odds[0]


def test_what_is_served_is_what_was_trained(tmp_path: Path) -> None:
    """The same choices in NumPy through Views as in PyTorch on the stage, over whole episodes."""
    network, made = shaken(3), episode(5, requests=60, load=2.0)
    stage = Stage.of([made], "start_eft", "R1", most=16)
    while stage.live.any():
        stage.step(network(tensors(stage.seen))[0].argmax(dim=1).numpy())
    path = save(PointerPolicy(network.numbers(), "mine", 16), tmp_path / "mine", {"cpu_s": 1})
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
