"""Branching Q: formulas by hand, conflicts, torch and NumPy alike, learning on a case whose answer is known."""

import numpy as np
import pytest

from eunomia.errors import ConfigError, RecordError, UnknownNameError
from eunomia.inference.learning.branching.choose import duel, resolve, target
from eunomia.inference.learning.branching.serve import (
    BranchingPolicy,
    BranchingWeights,
    load_branching,
    save_branching,
    shapes,
)
from eunomia.inference.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.inference.simulate import simulate_problem
from tests.inference.learning.deployment import episode

torch = pytest.importorskip("torch")
from eunomia.inference.learning.branching.network import BranchingQ  # noqa: E402
from eunomia.inference.learning.branching.train import BranchingSettings, Replay, train_branching  # noqa: E402

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
    q, slow = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 5.0]]), np.array([[7.0, 3.0, 0.0], [0.0, 0.0, 9.0]])
    assert target(1.0, 0.5, False, q, slow, ALL) == 1.0 + 0.5 * (3.0 + 9.0) / 2
    only = np.array([[True, True, True], [False, False, True]])  # the second branch is not asked
    assert target(1.0, 0.5, False, q, slow, only) == 1.0 + 0.5 * 3.0
    assert target(1.0, 0.5, True, q, slow, ALL) == 1.0


def observed(rng: np.random.Generator, n: int, lanes: int, padding: int = 0):  # type: ignore[no-untyped-def]
    jobs, pairs = rng.normal(size=(n + padding, len(JOB))), rng.normal(size=(n + padding, lanes, len(PAIR)))
    mask = rng.random((lanes, n + padding + 1)) < 0.7
    waiting = np.arange(n + padding) < n
    mask[:, n:-1], mask[:, -1] = False, True
    return jobs, pairs, rng.normal(size=len(GLOBAL)), waiting, mask


@pytest.mark.parametrize("shared", [True, False])
def test_torch_and_numpy_agree_at_two_sizes(shared: bool) -> None:
    network, rng = BranchingQ(3, 8, shared, seed=4), np.random.default_rng(0)
    weights = network.weights()
    assert weights.parameters == sum(p.numel() for p in network.tensors.values())
    for n, padding in ((5, 0), (12, 4)):
        jobs, pairs, overall, waiting, mask = observed(rng, n, 3, padding)
        batch = [torch.as_tensor(np.float32(a))[None] for a in (jobs, pairs, overall, waiting, mask)]
        q = network(batch)[0][0].detach().numpy()
        kept = np.r_[0:n, n + padding]
        ours = weights.q(jobs[:n], pairs[:n], overall, mask[:, kept])
        allowed = mask[:, kept]
        assert np.allclose(q[:, kept][allowed], ours[allowed], atol=1e-4)


def test_a_shared_branch_needs_fewer_numbers_however_many_accelerators() -> None:
    sizes = {
        (d, shared): BranchingQ(d, 8, shared).weights().parameters for d in (2, 8) for shared in (True, False)
    }
    assert sizes[2, True] == sizes[8, True] < sizes[2, False] < sizes[8, False]


def test_the_trunk_hears_the_branches_scaled() -> None:
    network = BranchingQ(3, 4, seed=1)
    batch = [torch.as_tensor(np.float32(a))[None] for a in observed(np.random.default_rng(1), 4, 3)]
    hidden, z = network.trunk(batch)
    assert hidden.shape == (1, 4, 4) and z.shape == (1, 4)
    mask = batch[4]
    q, _ = network(batch)
    (q * mask).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.tensors.values())


def test_any_weights_give_legal_schedules() -> None:
    for shared in (True, False):
        e = episode(1, requests=40)
        policy = BranchingPolicy(BranchingQ(4, 8, shared, seed=2).weights())
        results = simulate_problem(e.problem, policy, e.options).results
        assert (results["outcome"] >= 0).all()
    with pytest.raises(ConfigError, match="has 3 branches and the platform 4 accelerators"):
        simulate_problem(e.problem, BranchingPolicy(BranchingQ(3, 8).weights()), e.options)


def test_training_repeats_and_auxiliary_losses_are_heard() -> None:
    def draw(seed: int):  # type: ignore[no-untyped-def]
        return episode(seed % 5, requests=20)

    settings = BranchingSettings(steps=240, size=4, most=8, units=8, batch=16)
    first, losses = train_branching(draw, settings)
    again, _ = train_branching(draw, settings)
    for name, value in first.weights().tensors.items():
        assert np.array_equal(value, again.weights().tensors[name])
    assert len(losses) > 40 and np.isfinite(losses).all()
    helped = BranchingSettings(steps=240, size=4, most=8, units=8, batch=16, auxiliaries=("next_demand",))
    other, _ = train_branching(draw, helped)
    assert not np.array_equal(other.weights().tensors["W1"], first.weights().tensors["W1"])


def test_what_cannot_be_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownNameError, match="auxiliary loss 'demand'"):
        BranchingQ(2, auxiliaries=("demand",))
    with pytest.raises(ConfigError, match="at least 1"):
        BranchingSettings(steps=0)
    with pytest.raises(ConfigError, match="'W1' are missing"):
        BranchingWeights(4, 1, {})
    broken = {name: np.zeros(shape) for name, shape in shapes(4, 1).items()} | {"bv": np.array([np.nan])}
    with pytest.raises(ConfigError, match="not a finite number"):
        BranchingWeights(4, 1, broken)
    weights = BranchingQ(2, 4).weights()
    save_branching(weights, tmp_path / "x.safetensors")
    read = load_branching(tmp_path / "x.safetensors")
    assert all(np.array_equal(read.tensors[name], value) for name, value in weights.tensors.items())
    (tmp_path / "x.safetensors").write_bytes((tmp_path / "x.safetensors").read_bytes()[:-9])
    with pytest.raises(RecordError, match="is not a branching policy"):
        load_branching(tmp_path / "x.safetensors")


def test_the_memory_is_a_ring() -> None:
    replay = Replay(3)
    for number in range(5):
        replay.add((np.float32(number),))
    (drawn,) = replay.draw(200, np.random.default_rng(0))
    assert len(replay) == 3 and set(drawn.tolist()) == {2.0, 3.0, 4.0}
