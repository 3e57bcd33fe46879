"""Decoding and teacher by hand, the compiled LSTM against NumPy and PyTorch, and the policy inside the engine."""

from dataclasses import replace

import numpy as np
import pytest

from eunomia.config.algorithm import RelmasAlgorithm
from eunomia.contract.view import ACCELERATOR, READY, SYSTEM
from eunomia.core.addresses import give_blocks
from eunomia.core.errors import ConfigError, PlatformError
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.ddpg.decide import Scene, prioritise, start_in_turn, teach
from eunomia.learning.agents.ddpg.episode import Exploration, explore
from eunomia.learning.agents.ddpg.features import inputs
from eunomia.learning.agents.ddpg.policy import RelmasPolicy, shapes
from eunomia.learning.agents.served import Floats
from eunomia.workload.requests import RequestTable
from tests.learning.agents.ddpg.actors import act, zero_actor
from tests.learning.deployment import OPTIONS, episode


def actor(lanes: int = 4, units: int = 8, promises: bool = False, seed: int = 0) -> dict[str, Floats]:
    rng, needed = np.random.default_rng(seed), shapes(lanes, units, promises)
    return {name: 0.4 * rng.standard_normal(shape) for name, shape in needed.items()}


def scene(demand: list[float], period_s: float = 0.0, running: float = 0.0) -> tuple[Scene, RelmasPolicy]:
    """Sub-jobs that are due at 1, 2, ... on two accelerators, the first faster; B = 2, layers of one second."""
    n, policy = len(demand), RelmasPolicy(zero_actor(2, 2, False), corrected={"gate": 1.0})
    ready, accelerators, system = np.zeros(n, READY), np.zeros(2, ACCELERATOR), np.zeros(1, SYSTEM)
    ready["deadline_s"], ready["request"] = np.arange(1.0, n + 1.0), np.arange(n)
    accelerators["request"], system["bandwidth_bytes_s"], system["period_s"] = -1, 2.0, period_s
    system["demand_bytes_s"] = running
    give_blocks(system[0], policy.blocks)
    latency = np.tile([1.0, 1.2], (n, 1))
    view = Scene(ready, latency, np.repeat(np.array(demand)[:, None], 2, axis=1), accelerators, system[0])
    return view, policy


def started(view: Scene, policy: RelmasPolicy, actions: np.ndarray) -> list[list[int]]:
    n = len(view.ready)
    answer, key, order = np.zeros((n, 2), np.int64), np.zeros(n), np.arange(n)
    prioritise(view.ready, order, actions, view.system, policy.head[0], key)
    count = start_in_turn(view, order, actions, key, answer, np.zeros(n))
    return answer[:count].tolist()


def test_starts_of_one_instant_see_each_other_by_hand() -> None:
    # Row 0 takes the fast accelerator; it is busy then, so that row 1 finishes first on the other one (1.2 < 2).
    assert started(*scene([0.5, 0.5, 0.5]), np.zeros((3, 4))) == [[0, 0], [1, 1]]
    # The demand of row 0 alone is above B = 2: row 1 is held, though nothing ran when the instant began.
    assert started(*scene([2.5, 0.5, 0.5]), np.zeros((3, 4))) == [[0, 0]]
    # At 2.0 the gate of 1 is still open; a margin of -0.1 closes it for row 1 alone, and row 2 starts in its place.
    assert started(*scene([2.0, 0.5, 0.5]), np.zeros((3, 4))) == [[0, 0], [1, 1]]
    margins = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, -0.1, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert started(*scene([2.0, 0.5, 0.5]), margins) == [[0, 0], [2, 1]]


def test_priorities_and_scores_correct_the_rule_by_hand() -> None:
    actions = np.array([[-0.5, 0.0, 0.0, 0.0], [0.9, 0.0, 0.0, 0.6], [0.0, 0.0, 0.0, 0.0]])
    # Mean relative deadline 2: keys are -0.5 - 0.5, -1 + 0.9, -1.5. Row 1 first; its score of 0.6 for accelerator 1 is
    # worth 0.3 of its least finish time, 1.2 - 0.3 < 1.
    assert started(*scene([0.1, 0.1, 0.1]), actions) == [[1, 1], [0, 0]]
    # At a tick all are queued, with the load of what was queued before them.
    assert started(*scene([0.1, 0.1, 0.1], period_s=1.0), actions) == [[1, 1], [0, 0], [2, 0]]


def test_alone_actions_decide_by_hand() -> None:
    view, policy = scene([0.5, 0.5, 0.5])
    policy.head["residual"] = 0
    actions = np.array([[0.1, 0.2, 0.5, 0.9], [0.7, 0.3, 0.3, -0.1], [0.9, -0.2, 0.0, 0.1]])
    # Priorities 2, 1, 0. Nothing runs, so that row 2 starts on 1; its demand is 0.25 B, and row 1 has a margin of 0.3;
    # row 0 wants accelerator 1, which is busy by then.
    assert started(view, policy, actions) == [[2, 1], [1, 0]]


def test_the_teacher_by_hand() -> None:
    view, _ = scene([0.1, 0.1, 0.1], running=1.0)
    view.accelerators["free_in_s"] = [3.0, 0.0]
    latency = np.array([[1.0, 5.0], [1.0, 5.0], [1.0, 3.5]])
    actions = np.empty((3, 4))
    teach(np.array([2, 0, 1]), latency, view.accelerators, 0.4, actions)
    # Row 2 finishes at 4 on accelerator 0 and at 3.5 on 1, which is busy for the others.
    np.testing.assert_allclose(actions[:, 0], -0.3 + 1.2 * 0.85 ** np.arange(3))
    assert (actions[:, 1] == 0.4).all()
    assert actions[:, 2:].argmax(axis=1).tolist() == [1, 0, 0]


def test_the_compiled_lstm_equals_numpy_and_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from eunomia.learning.agents.ddpg.networks import ActorNet

    torch.manual_seed(3)
    net = ActorNet(4, True, 16)
    weights = net.numbers()
    made = episode(2)
    log, _ = explore(
        RelmasPolicy(weights, period_layers=0.2), made, Exploration(0.0), np.random.default_rng(0)
    )
    width, row = inputs(4, True), 0
    for n in log.counts.tolist():
        seen, done = log.rows[row : row + n, :width], log.rows[row : row + n, width:]
        with torch.no_grad():
            theirs = net(torch.from_numpy(seen)[None], torch.tensor([n]))[0].numpy()
        np.testing.assert_allclose(done, theirs, atol=1e-5)
        np.testing.assert_allclose(done, act(weights, seen.astype(float)), atol=1e-5)
        row += n


def test_what_comes_later_in_the_list_changes_nothing_and_the_order_matters() -> None:
    lstm, rows = actor(), np.random.default_rng(5).standard_normal((6, inputs(4, False)))
    whole = act(lstm, rows)
    np.testing.assert_array_equal(act(lstm, rows[:4]), whole[:4])
    swapped = act(lstm, rows[::-1])[::-1]
    assert (
        np.abs(swapped - whole).max() > 0.01
    )  # unlike a set network, an LSTM is not permutation-equivariant
    assert act(lstm, rows[:0]).shape == (0, 6)


@pytest.mark.parametrize("period_layers", [0.0, 0.1])
@pytest.mark.parametrize("residual", [False, True])
def test_stepped_and_compiled_runs_agree(period_layers: float, residual: bool) -> None:
    made = episode(3)
    policy = RelmasPolicy(actor(), period_layers=period_layers, corrected={"gate": 0.9, "residual": residual})
    runs = [
        simulate_problem(made.problem, policy, made.options, stepped=stepped).results
        for stepped in (False, True)
    ]
    assert runs[0].tobytes() == runs[1].tobytes()
    assert policy.counts["invalid"] == 0 and policy.counts["ticks"] > 100


@pytest.mark.parametrize("rule", ["edf+f+eft", "edf+f+eft+g0.9", "edf_bytes+f+eft+g1"])
def test_an_actor_that_corrects_nothing_is_the_gated_rule(rule: str) -> None:
    for seed in range(3):
        for late in ("drop", "last"):
            made = episode(seed, options=replace(OPTIONS, late=late))
            policy = RelmasPolicy(
                zero_actor(4, 2, False),
                period_layers=0.0,
                corrected=RelmasAlgorithm(name="ddpg", teacher=rule).corrected,
            )
            ours = simulate_problem(made.problem, policy, made.options)
            theirs = simulate_problem(made.problem, rule, made.options)
            assert ours.results.tobytes() == theirs.results.tobytes()


def test_noise_of_a_request_lasts_for_life() -> None:
    made, policy = episode(3), RelmasPolicy(zero_actor(4, 2, False), period_layers=0.0)
    width = inputs(4, False)
    for coherent in (True, False):
        log, _ = explore(policy, made, Exploration(0.2, coherent=coherent), np.random.default_rng(1))
        each = [np.unique(log.rows[log.request == r, width:], axis=0) for r in np.unique(log.request)]
        assert all(len(seen) == 1 for seen in each) == coherent
        assert len(np.unique(log.rows[:, width])) >= len(each)


def test_tenants_come_and_go_without_retraining() -> None:
    policy = RelmasPolicy(actor(promises=True), period_layers=0.0)
    base = episode(1)
    table = base.problem.requests
    for kept in (2, 9):  # of nine (tenant, network) pairs
        rows = np.flatnonzero(table.pair < kept)
        fewer = RequestTable(
            table.agreements[:kept], table.pair[rows], table.arrival_s[rows], table.relative_deadline_s[rows]
        )
        problem = build_problem(fewer, base.problem.table, _Platform(base), base.options)
        results = simulate_problem(problem, policy, base.options).results
        assert len(results) == len(rows) and (results["outcome"] != 3).all()


class _Platform:
    def __init__(self, made) -> None:  # type: ignore[no-untyped-def]
        self.types, self.type_of = ("a", "b"), made.problem.type_of
        self.dram_bytes_s, self.contention = made.problem.bandwidth_bytes_s, made.problem.contention


def test_wrong_numbers_are_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigError, match="not a finite number"):
        RelmasPolicy({**actor(), "bias": np.full(32, np.nan)})
    with pytest.raises(ConfigError, match=r"weights 'out' are of shape \(8, 4\); shape \(8, 6\) is needed"):
        RelmasPolicy({**actor(), "out": np.zeros((8, 4))})
    with pytest.raises(PlatformError, match="trained for 3 accelerators and the platform has 4"):
        simulate_problem(episode(0).problem, RelmasPolicy(actor(3)), episode(0).options)


def test_an_action_that_is_no_number_is_replaced_and_counted() -> None:
    policy = RelmasPolicy(actor(), period_layers=0.0)
    policy.weights[-1] = np.nan  # as if memory had been damaged after loading
    made = episode(0)
    results = simulate_problem(made.problem, policy, made.options).results
    assert (results["outcome"] != 3).all() and policy.counts["invalid"] > 0
