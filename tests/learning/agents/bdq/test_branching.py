"""Branching Q: formulas by hand, conflicts, torch and NumPy alike, learning on a case whose answer is known."""

import numpy as np
import pytest

from eunomia.core.errors import ConfigError, RecordError, UnknownNameError
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.bdq.policy import BranchingPolicy, duel, resolve, shapes
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from tests.learning.deployment import episode

torch = pytest.importorskip("torch")
from eunomia.config.algorithm import BdqAlgorithm  # noqa: E402
from eunomia.engines.crew import Workers  # noqa: E402
from eunomia.learning.agents import Context  # noqa: E402
from eunomia.learning.agents.bdq.agent import BranchingAgent, BranchingQ, goals  # noqa: E402
from eunomia.learning.agents.replay import SHOWN  # noqa: E402
from eunomia.learning.card import load, save  # noqa: E402
from eunomia.learning.objectives import task_of  # noqa: E402
from tests.learning.deployment import ToySampler  # noqa: E402

ALL = np.ones((2, 3), np.bool_)


def test_dueling_by_hand() -> None:
    # V = 10; A = (1, 2, 6): mean 3; without the third action mean 1.5.
    assert duel(10.0, np.array([[1.0, 2.0, 6.0]]), ALL[:1]).tolist() == [[8.0, 9.0, 13.0]]
    barred = duel(10.0, np.array([[1.0, 2.0, 6.0]]), np.array([[True, True, False]]))
    assert barred.tolist() == [[9.5, 10.5, -np.inf]]


def test_conflicts_by_hand() -> None:
    # Both want sub-job 0. Lane 0 would lose 1 by its next-best, lane 1 would lose 4: lane 1 gets it.
    assert resolve(np.array([[5.0, 4.0, 0.0], [5.0, 1.0, 0.0]]), ALL).tolist() == [1, 0]
    # The loser's next-best may be to hold (action 2), and a busy lane (nothing but hold) holds.
    assert resolve(np.array([[5.0, 1.0, 3.0], [9.0, 1.0, 0.0]]), ALL).tolist() == [2, 0]
    busy = np.array([[False, False, True], [True, True, True]])
    assert resolve(np.array([[9.0, 9.0, 0.0], [1.0, 3.0, 2.0]]), busy).tolist() == [2, 1]


def test_the_target_by_hand() -> None:
    # Forbidden actions have -1e9. Greedy by the first network, valued by the second: 3 and 9.
    q = torch.tensor([[[1.0, 2.0, 0.0], [0.0, 0.0, 5.0]]])
    slow = torch.tensor([[[7.0, 3.0, 0.0], [0.0, 0.0, 9.0]]])
    reward, half, mask = torch.tensor([1.0]), torch.tensor([0.5]), torch.ones(1, 2, 3)
    assert goals(reward, half, q, slow, mask).item() == 1.0 + 0.5 * (3.0 + 9.0) / 2
    only = torch.tensor([[[1.0, 1.0, 1.0], [0.0, 0.0, 1.0]]])  # the second branch has nothing to choose
    assert goals(reward, half, q, slow, only).item() == 1.0 + 0.5 * 3.0
    assert goals(reward, 0.0 * half, q, slow, mask).item() == 1.0  # the episode is over


def observed(rng: np.random.Generator, n: int, lanes: int, padding: int = 0):  # type: ignore[no-untyped-def]
    jobs, pairs = rng.normal(size=(n + padding, len(JOB))), rng.normal(size=(n + padding, lanes, len(PAIR)))
    mask = rng.random((lanes, n + padding + 1)) < 0.7
    waiting = np.arange(n + padding) < n
    mask[:, n:-1], mask[:, -1] = False, True
    return jobs, pairs, rng.normal(size=len(GLOBAL)), waiting, mask


@pytest.mark.parametrize("shared", [True, False])
def test_torch_and_numpy_agree_at_two_sizes(shared: bool) -> None:
    network, rng = BranchingQ(3, 8, shared, seed=4), np.random.default_rng(0)
    for name in ("wa", "wh"):  # 0 at first
        torch.nn.init.normal_(network.tensors[name])
    policy = BranchingPolicy(network.numbers())
    for n, padding in ((5, 0), (12, 4)):
        jobs, pairs, overall, waiting, mask = observed(rng, n, 3, padding)
        shown = (jobs, pairs, overall, waiting, mask)
        batch = {k: torch.as_tensor(np.float32(a))[None] for k, a in zip(SHOWN, shown, strict=True)}
        q = network(batch)[0][0].detach().numpy()
        kept = np.r_[0:n, n + padding]
        ours = policy.q(jobs[:n], pairs[:n], overall, mask[:, kept])
        allowed = mask[:, kept]
        assert np.allclose(q[:, kept][allowed], ours[allowed], atol=1e-4)


def test_branches_start_as_the_gated_rule() -> None:
    policy = BranchingPolicy(BranchingQ(4, 8, True).numbers(), most=64)
    for seed in range(2):
        made = episode(seed, load=1.6)
        ours, rule = (simulate_problem(made.problem, p, made.options) for p in (policy, "edf+f+eft+g1"))
        assert ours.results.tobytes() == rule.results.tobytes()


def test_a_shared_branch_needs_fewer_numbers_however_many_accelerators() -> None:
    sizes = {
        (d, shared): sum(value.size for value in BranchingQ(d, 8, shared).numbers().values())
        for d in (2, 8)
        for shared in (True, False)
    }
    assert sizes[2, True] == sizes[8, True] < sizes[2, False] < sizes[8, False]


def test_the_trunk_hears_the_branches_scaled() -> None:
    """Gradients by hand: branches through the trunk over 1 + branches; value and heads whole."""
    network, branches = BranchingQ(3, 4, seed=1).double(), 3
    shown = observed(np.random.default_rng(1), 4, 3)
    seen = {k: torch.as_tensor(np.float64(a))[None] for k, a in zip(SHOWN, shown, strict=True)}

    def gradients(scale: float) -> dict[str, torch.Tensor]:
        """Of the sum of allowed Q, with the trunk's outputs heard ``scale`` times."""
        hidden, z = network.trunk(seen)
        leaves = [x.detach().requires_grad_() for x in (hidden, z)]
        network.trunk, kept = (lambda _: tuple(leaves)), network.trunk
        q = network(seen)[0]
        network.trunk = kept
        network.zero_grad()
        (q * (seen["mask"] > 0)).sum().backward()
        heads = {n: p.grad.clone() for n, p in network.tensors.items() if p.grad is not None}
        # undo the factor that forward() put on what the leaves heard, and put ours on
        heard = [leaf.grad * (branches + 1) * scale for leaf in leaves]
        trunk = [network.tensors[n] for n in ("W1", "b1", "Wz", "bz")]
        back = torch.autograd.grad([hidden, z], trunk, heard)
        return heads | dict(zip(("W1", "b1", "Wz", "bz"), back, strict=True))

    expected, unscaled = gradients(1.0 / (branches + 1)), gradients(1.0)
    network.zero_grad()
    (network(seen)[0] * (seen["mask"] > 0)).sum().backward()
    for name, parameter in network.tensors.items():
        torch.testing.assert_close(parameter.grad, expected[name], msg=name)
    assert not torch.allclose(unscaled["W1"], expected["W1"]) and expected["W1"].abs().max() > 0.0


def test_any_weights_give_legal_schedules() -> None:
    for shared in (True, False):
        e = episode(1, requests=40)
        policy = BranchingPolicy(BranchingQ(4, 8, shared, seed=2).numbers())
        results = simulate_problem(e.problem, policy, e.options).results
        assert (results["outcome"] >= 0).all()
    with pytest.raises(ConfigError, match="has 3 branches and the platform 4 accelerators"):
        simulate_problem(e.problem, BranchingPolicy(BranchingQ(3, 8).numbers()), e.options)


def test_auxiliary_losses_are_heard_by_the_trunk() -> None:
    def after(*auxiliaries: str) -> np.ndarray:
        settings = BdqAlgorithm(
            name="bdq",
            iterations=2,
            units=8,
            batch=16,
            every=20,
            auxiliaries=list(auxiliaries),
            episodes=1,
            most=8,
        )
        agent = BranchingAgent(settings, Context(task_of(ToySampler(), {"hit_rate": 1.0})))
        assert np.isfinite(agent.iterate(1, Workers())["loss"])
        return agent.tensors()["W1"]

    plain = after()
    assert np.array_equal(plain, after()) and not np.array_equal(plain, after("next_demand"))


def test_what_cannot_be_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownNameError, match="auxiliary loss 'demand'"):
        BranchingQ(2, auxiliaries=("demand",))
    with pytest.raises(ConfigError, match="'W1' are missing"):
        BranchingPolicy({})
    broken = {name: np.zeros(shape) for name, shape in shapes(4, 1).items()} | {"bv": np.array([np.nan])}
    with pytest.raises(ConfigError, match="not a finite number"):
        BranchingPolicy(broken)
    policy = BranchingPolicy(BranchingQ(2, 4).numbers(), "mine", 16)
    path = save(policy, tmp_path / "mine")
    read = load(path)
    assert (read.name, read.most) == ("mine", 16)
    assert all(np.array_equal(read.tensors[name], value) for name, value in policy.tensors.items())
    tensors = path.with_suffix(".safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-9])
    with pytest.raises(RecordError, match="cut short"):
        load(path)
