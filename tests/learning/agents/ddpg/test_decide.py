"""Decoding and teacher by hand, the compiled LSTM against NumPy and PyTorch, and the policy inside the engine."""

from dataclasses import replace

import numpy as np
import pytest

from eunomia.contract.view import ACCELERATOR, READY
from eunomia.core.errors import ConfigError, PlatformError
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.ddpg.decide import decode, start_idle, teach
from eunomia.learning.agents.ddpg.episode import Exploration, explore
from eunomia.learning.agents.ddpg.features import inputs
from eunomia.learning.agents.ddpg.policy import RelmasPolicy, shapes
from eunomia.learning.agents.served import Floats
from eunomia.workload.requests import RequestTable
from tests.learning.agents.ddpg.actors import act, zero_actor
from tests.learning.deployment import episode


def actor(lanes: int = 4, units: int = 8, promises: bool = False, seed: int = 0) -> dict[str, Floats]:
    rng, needed = np.random.default_rng(seed), shapes(lanes, units, promises)
    return {name: 0.4 * rng.standard_normal(shape) for name, shape in needed.items()}


ORDER = np.array([2, 0, 1])  # view rows in order of deadline
ACTIONS = np.array([[0.1, 0.5, 0.9, 0.2], [0.7, 0.3, 0.3, -0.1], [-0.8, 0.0, 0.1, 0.9]])  # priority, 3 scores
LATENCY = np.array(
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, np.inf, 1.0]]
)  # by view row: row 2 cannot run on 1


def test_decoding_at_a_tick_by_hand() -> None:
    answer, priority = np.zeros((3, 2), np.int64), np.zeros(3)
    # First in order is row 2: its best accelerator 1 cannot run it, so 0 (0.5 > 0.2). Then row 0: a tie of 0
    # and 1 goes to 0.
    assert decode(ORDER, ACTIONS, LATENCY, -0.5, False, answer, priority) == 2
    assert answer[:2].tolist() == [[2, 0], [0, 0]] and priority[:2].tolist() == [0.1, 0.7]
    assert decode(ORDER, ACTIONS, LATENCY, -1.0, False, answer, priority) == 3
    assert answer[2].tolist() == [1, 2] and priority[2] == -0.8
    assert (
        decode(ORDER, ACTIONS, LATENCY, 0.9, False, answer, priority) == 0
    )  # all held: something still runs
    assert decode(ORDER, ACTIONS, LATENCY, 0.9, True, answer, priority) == 1  # a platform never stands still
    assert answer[0].tolist() == [0, 0] and priority[0] == 0.7


def test_decoding_at_an_event_by_hand() -> None:
    accelerators, answer = np.zeros(3, ACCELERATOR), np.zeros((3, 2), np.int64)
    accelerators["request"] = [-1, 5, -1]
    # Row 0 has the highest priority and takes 0; row 2 wanted it and waits; row 1 is held at -0.5, starts on 2 at -1.
    assert start_idle(ORDER, ACTIONS, LATENCY, accelerators, -0.5, answer) == 1
    assert answer[0].tolist() == [0, 0]
    assert start_idle(ORDER, ACTIONS, LATENCY, accelerators, -1.0, answer) == 2
    assert answer[:2].tolist() == [[0, 0], [1, 2]]
    assert start_idle(ORDER, ACTIONS, LATENCY, accelerators, 0.9, answer) == 0
    accelerators["request"] = -1
    assert start_idle(ORDER, ACTIONS, LATENCY, accelerators, 0.9, answer) == 1


def test_the_teacher_by_hand() -> None:
    ready, accelerators = np.zeros(3, READY), np.zeros(2, ACCELERATOR)
    ready["late"] = [0, 1, 0]
    accelerators["free_in_s"] = [3.0, 0.0]
    latency = np.array([[1.0, 5.0], [1.0, 5.0], [1.0, 3.5]])
    actions = np.empty((3, 3))
    teach(ready, np.array([1, 2, 0]), latency, accelerators, actions)
    # By deadline: row 1 (hopeless, so last), row 2, row 0. Finishes: 4 on accelerator 0 against 3.5 and 5.
    np.testing.assert_allclose(actions[:, 0], [-0.3 + 1.2 * 0.85**2, 0.9, -0.3 + 1.2 * 0.85])
    assert actions[:, 1:].argmax(axis=1).tolist() == [0, 1, 0]


def test_the_compiled_lstm_equals_numpy_and_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from eunomia.learning.agents.ddpg.learner import ActorNet

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
            theirs = net(torch.from_numpy(seen)[None])[0].numpy()
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
    assert act(lstm, rows[:0]).shape == (0, 5)


@pytest.mark.parametrize("period_layers", [0.0, 0.1])
@pytest.mark.parametrize("hold", [-1.0, 0.2])
def test_stepped_and_compiled_runs_agree(period_layers: float, hold: float) -> None:
    made = episode(3)
    policy = RelmasPolicy(actor(), period_layers=period_layers, hold=hold)
    runs = [
        simulate_problem(made.problem, policy, made.options, stepped=stepped).results
        for stepped in (False, True)
    ]
    assert runs[0].tobytes() == runs[1].tobytes()
    assert policy.counts["invalid"] == 0 and policy.counts["ticks"] > 100


def test_the_teacher_at_every_event_is_edf_f_eft() -> None:
    for seed in range(3):
        made = episode(seed)
        _, outcome = explore(
            RelmasPolicy(zero_actor(4, 2, False), period_layers=0.0),
            made,
            Exploration(0.0, teacher=True),
            np.random.default_rng(0),
        )
        rule = simulate_problem(made.problem, "edf+f+eft", replace(made.options, record="all"))
        assert outcome.results.tobytes() == rule.results.tobytes()


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
    with pytest.raises(ConfigError, match=r"weights 'out' are of shape \(8, 4\); shape \(8, 5\) is needed"):
        RelmasPolicy({**actor(), "out": np.zeros((8, 4))})
    with pytest.raises(PlatformError, match="trained for 3 accelerators and the platform has 4"):
        simulate_problem(episode(0).problem, RelmasPolicy(actor(3)), episode(0).options)


def test_an_action_that_is_no_number_is_replaced_and_counted() -> None:
    policy = RelmasPolicy(actor(), period_layers=0.0)
    policy.weights[-1] = np.nan  # as if memory had been damaged after loading
    made = episode(0)
    results = simulate_problem(made.problem, policy, made.options).results
    assert (results["outcome"] != 3).all() and policy.counts["invalid"] > 0
