"""PPO and discrete SAC: formulas by hand, masks, permutations, and the same training twice."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # small networks; more threads only wait for each other
pytest.importorskip("gymnasium")
from eunomia.errors import ConfigError  # noqa: E402
from eunomia.inference.learning.gym.vector import SchedulingVectorEnv  # noqa: E402
from eunomia.inference.learning.observation.table import GLOBAL, JOB, NEAR  # noqa: E402
from eunomia.inference.learning.trainers import ppo, sac  # noqa: E402
from eunomia.inference.learning.trainers.pointer import Pointer  # noqa: E402
from tests.inference.learning.deployment import episode  # noqa: E402


def environment() -> SchedulingVectorEnv:
    return SchedulingVectorEnv(lambda seed: episode(seed, requests=10), 2, "priority_eft", "R1", most=6)


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


@pytest.mark.parametrize(
    ("train", "settings"),
    [(ppo.train, ppo.Settings(steps=60, rollout=16, epochs=2, minibatch=16, units=8)),
     (sac.train, sac.Settings(steps=60, first=20, batch=8, every=2, units=8, replay=40))],
)  # fmt: skip
def test_training_is_reproducible(train: Callable[..., Any], settings: Any) -> None:
    (one, curve), (other, again) = train(settings, environment()), train(settings, environment())
    assert len(curve) == len(again) >= 1
    for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.isfinite(a).all() and torch.equal(a, b)


def test_wrong_settings_are_one_sentence() -> None:
    for wrong in ({"steps": 0}, {"gamma": 0.0}, {"rate": -1.0}):
        with pytest.raises(ConfigError, match="it must"):
            ppo.Settings(**wrong)
        with pytest.raises(ConfigError, match="it must"):
            sac.Settings(**wrong)
