"""The set network: compiled, NumPy and PyTorch alike; indifferent to order; the gated rule at first; at any size."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.ddpg.episode import Exploration, explore
from eunomia.learning.agents.ddpg.features import JOB, inputs
from eunomia.learning.agents.ddpg.sets import SetPolicy, shapes
from eunomia.learning.agents.served import Floats
from eunomia.learning.card import save
from eunomia.learning.load import load_policy
from tests.learning.deployment import episode

GATE = {"gate": 1.0}


def network(units: int = 8, promises: bool = False, seed: int = 0, size: float = 0.4) -> dict[str, Floats]:
    rng = np.random.default_rng(seed)
    return {name: size * rng.standard_normal(shape) for name, shape in shapes(units, promises).items()}


def act(t: dict[str, Floats], rows: Floats, lanes: int) -> Floats:
    """The formulas of sets.py."""
    each = rows[:, len(JOB) : len(JOB) + 3 * lanes].reshape(len(rows), 3, lanes)
    own = np.hstack([np.delete(rows, np.s_[len(JOB) : len(JOB) + 3 * lanes], 1), each.mean(2), each.max(2)])
    e = own @ t["first"] + t["first_bias"]
    e = e / (1.0 + abs(e))
    wide = np.hstack([e, np.tile(e.mean(axis=0), (len(e), 1)), np.tile(e.max(axis=0), (len(e), 1))])
    k = wide @ t["mix"] + t["mix_bias"]
    o = (k / (1.0 + abs(k))) @ t["out"] + t["out_bias"]
    return np.tanh(np.hstack([o[:, :2], np.einsum("nk,nks->ns", o[:, 2:], each)]))


def asked(tensors: dict[str, Floats], promises: bool = False) -> tuple[list[Floats], list[Floats]]:
    """What an episode showed at every decision, and what compiled code answered."""
    policy = SetPolicy(tensors, period_layers=0.0, corrected=GATE)
    log, _ = explore(policy, episode(2), Exploration(0.0), np.random.default_rng(0))
    lists, width = np.split(log.rows.astype(float), np.cumsum(log.counts)[:-1]), inputs(4, promises)
    return [rows[:, :width] for rows in lists], [rows[:, width:] for rows in lists]


@pytest.mark.parametrize("promises", [False, True])
def test_the_compiled_network_equals_numpy_and_pytorch(promises: bool) -> None:
    torch = pytest.importorskip("torch")
    from eunomia.learning.agents.ddpg.networks import SetActor

    torch.manual_seed(3)
    net = SetActor(4, promises, 16)
    shown, _ = asked(net.numbers(), promises)
    net.normalise(torch.from_numpy(np.concatenate(shown)).float())
    weights = net.numbers()
    for seen, done in zip(*asked(weights, promises), strict=True):
        np.testing.assert_allclose(done, act(weights, seen, 4), atol=1e-5)
        padded = np.vstack([seen, np.full((3, seen.shape[1]), 9.0)])  # beyond ``count`` nothing is seen
        with torch.no_grad():
            theirs = net(torch.from_numpy(padded).float()[None], torch.tensor([len(seen)]))[0]
        np.testing.assert_allclose(done, theirs[: len(seen)].numpy(), atol=2e-5)
    assert len(shown) > 100 and max(map(len, shown)) > 3


def test_neither_the_order_of_sub_jobs_nor_that_of_accelerators_matters() -> None:
    """Of the compiled network, on rows that an episode showed."""
    from eunomia.learning.agents.ddpg.act import act_sets

    tensors, lanes = network(size=1.0), 4
    weights = np.concatenate([value.ravel() for value in tensors.values()])
    rows = max(asked(tensors)[0], key=len)
    there, back = np.random.default_rng(1).permutation(len(rows)), [2, 0, 3, 1]
    moved = rows.copy()
    for kind in range(3):
        at = len(JOB) + kind * lanes
        moved[:, at : at + lanes] = rows[:, at : at + lanes][:, back]
    one, other = (np.empty((len(rows), 2 + lanes)) for _ in range(2))
    act_sets(rows, lanes, 8, weights, one)
    act_sets(moved[there], lanes, 8, weights, other)
    np.testing.assert_allclose(other, one[there][:, [0, 1, *(2 + s for s in back)]], atol=1e-12)
    assert np.ptp(one[:, 1]) > 0.01 and np.ptp(one[:, 2:], axis=1).max() > 0.01


def test_a_network_that_says_nothing_is_the_gated_rule() -> None:
    for seed in range(2):
        made, still = episode(seed), {name: 0.0 * value for name, value in network().items()}
        policy = SetPolicy(still, period_layers=0.0, corrected=GATE)
        ours, rule = (simulate_problem(made.problem, p, made.options) for p in (policy, "edf+f+eft+g1"))
        assert ours.results.tobytes() == rule.results.tobytes()


def test_one_network_serves_any_number_of_accelerators(tmp_path: Path) -> None:
    made = SetPolicy(network(), "mine", period_layers=0.0, corrected=GATE)
    policy = load_policy(save(made, tmp_path / "mine"))
    base = episode(1)
    for lanes in ([0, 1], [0, 0, 1, 1, 1]):
        problem = build_problem(
            base.problem.requests, base.problem.table, Lanes(base.problem, lanes), base.options
        )
        for one in (policy, made, pickle.loads(pickle.dumps(policy))):
            results = simulate_problem(problem, one, base.options).results
            assert (results["outcome"] != 3).all() and one.counts["invalid"] == 0
    stepped = simulate_problem(problem, policy, base.options, stepped=True).results
    assert stepped.tobytes() == results.tobytes()


class Lanes:
    """The platform of a problem with other accelerators."""

    def __init__(self, problem, type_of) -> None:  # type: ignore[no-untyped-def]
        self.types, self.type_of = ("a", "b"), np.array(type_of)
        self.dram_bytes_s, self.contention = problem.bandwidth_bytes_s, problem.contention
