"""Time slices: cases by hand, properties of every policy, threads that die, the choice of a quantum."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, PolicyError, UnknownNameError
from eunomia.sharing.slices import (
    POLICIES,
    CostProfile,
    Job,
    Turn,
    TurnScheduler,
    choose_quantum,
    floor_and_cost,
    simulate_slices,
    simulate_ungated,
)
from eunomia.sharing.slices.gate import Gate
from eunomia.study.sharing.slices import run_slices
from tests.patience import PATIENCE_S

EVEN = CostProfile((2.0, 2.0), 4.0)  # two nodes of 2 s
COARSE = CostProfile((6.0,), 6.0)


def _order(scheduler: TurnScheduler, names: str, steps: int) -> str:
    """Whose nodes run, one letter each."""
    found = ""
    for name in names:
        scheduler.want(name)
    for _ in range(steps):
        assert scheduler.holder is not None
        found += scheduler.holder.name
        if scheduler.charge(scheduler.holder.name, 0):
            scheduler.advance()
    return found


def _of(policy: str, quantum_s: float, *jobs: Turn, **more: bool) -> TurnScheduler:
    scheduler = TurnScheduler(policy, quantum_s, **more)
    for job in jobs:
        scheduler.join(job)
    return scheduler


def test_the_threshold_is_the_quantum_in_units_of_cost() -> None:
    """C = 8, D = 2 s: a quantum of 0.5 s is used up after a cost of 2; a node of cost 6 is 1.5 s."""
    profile = CostProfile((6.0, 2.0), 2.0)
    assert profile.threshold(0.5) == 2.0 and profile.seconds(0) == 1.5


def test_fair_by_hand() -> None:
    """Nodes of 2 s and a quantum of 4 s: two nodes each in turn."""
    assert _order(_of("fair", 4.0, Turn("a", EVEN), Turn("b", EVEN)), "ab", 8) == "aabbaabb"


def test_overuse_is_charged_by_hand() -> None:
    """Quantum 4 s; a's node of 6 s overuses 2 s, so its next quantum is 2 s; b has three nodes of 2 s for each of a.

    Uncharged, a has 6 s of every 10.
    """
    jobs = Turn("a", COARSE), Turn("b", EVEN)
    assert _order(_of("fair", 4.0, *jobs), "ab", 16).count("b") == 12
    again = Turn("a", COARSE), Turn("b", EVEN)
    assert _order(_of("fair", 4.0, *again, charges_overuse=False), "ab", 15) == "abb" * 5


def test_weights_by_hand() -> None:
    """Mean quantum 4 s, weights 1 and 3: 2 s and 6 s."""
    jobs = Turn("a", EVEN, weight=1.0, wants=True), Turn("b", EVEN, weight=3.0, wants=True)
    scheduler = _of("weighted", 4.0, *jobs)
    scheduler.advance()
    assert _order(scheduler, "", 8) == "abbbabbb"


def test_priority_by_hand() -> None:
    """c wants late: it has the device alone from the next boundary of a quantum; then a and b in turn."""
    scheduler = _of("priority", 2.0, Turn("a", EVEN), Turn("b", EVEN), Turn("c", EVEN, priority=1))
    assert _order(scheduler, "ab", 4) == "abab"
    assert _order(scheduler, "c", 4) == "accc"
    scheduler.rest("c")
    assert _order(scheduler, "", 4) == "abab"


def test_a_job_longer_than_its_quantum_waits_for_several_rounds() -> None:
    scheduler = _of("fair", 1.0, Turn("a", COARSE), Turn("b", CostProfile((1.0,), 1.0)))
    assert _order(scheduler, "ab", 14) == "a" + "b" * 6 + "a" + "b" * 6


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000), policy=st.sampled_from(sorted(POLICIES)), count=st.integers(1, 6),
    quantum_s=st.floats(0.0005, 0.02),
)  # fmt: skip
def test_time_is_shared_to_within_a_quantum_and_a_node(
    seed: int, policy: str, count: int, quantum_s: float
) -> None:
    """Every job ends, no device time is lost, and while all work none is ahead of its weight by more than that."""
    rng = np.random.default_rng(seed)
    costs = [tuple(rng.uniform(1e-4, 3e-3, int(rng.integers(1, 9))).tolist()) for _ in range(count)]
    jobs = [
        Job(
            f"{n}",
            CostProfile(c, float(sum(c))),
            int(rng.integers(3, 30)),
            weight=float(rng.uniform(0.5, 3.0)),
        )
        for n, c in enumerate(costs)
    ]
    found = simulate_slices(jobs, TurnScheduler(policy, quantum_s), 0.0)
    assert set(found.end_s) == {job.name for job in jobs}
    assert found.makespan_s == pytest.approx(sum(job.runs * job.profile.solo_s for job in jobs))
    weights = {job.name: job.weight if policy == "weighted" else 1.0 for job in jobs}
    mean = sum(weights.values()) / count
    slack = quantum_s * max(weights.values()) / mean + max(max(c) for c in costs)
    turns = [found.at_first_s[job.name] / weights[job.name] * mean for job in jobs]
    if policy != "priority":
        assert max(turns) - min(turns) <= 2.0 * slack * mean / min(weights.values()) + 1e-9


def test_what_it_must_show() -> None:
    """Two to ten identical jobs end within 2 %, weights are met within 5 %, at an overhead below 2 %; ungated not."""
    found = run_slices((0,))
    mean = {m: {f: found.estimate(m, f).mean for f in found.metrics} for m in found.methods}
    assert (
        mean["2 ms"]["spread"] < 0.02 and mean["2 ms"]["weights"] < 0.05 and mean["2 ms"]["overhead"] < 0.02
    )
    assert mean["ungated"]["spread"] > 0.5 and mean["ungated"]["weights"] > 0.2
    assert mean["0.5 ms"]["overhead"] > mean["16 ms"]["overhead"]


def test_ungated_by_hand() -> None:
    """Two jobs of one node: either order, and both end."""
    jobs = [Job(name, COARSE, 1) for name in "ab"]
    found = simulate_ungated(jobs, np.random.default_rng(0))
    assert sorted(found.end_s.values()) == [6.0, 12.0] and found.spread == 1.0


def test_the_quantum_is_chosen_from_curves() -> None:
    curves = {"a": {1.0: 0.04, 2.0: 0.01, 4.0: 0.005}, "b": {1.0: 0.01, 2.0: 0.02, 4.0: 0.01}}
    assert choose_quantum(curves, 0.02) == 2.0
    assert choose_quantum({"a": {1.0: 0.01, 2.0: 0.05, 4.0: 0.01}}, 0.02) == 4.0  # 1 s was luck
    assert floor_and_cost({1.0: 0.02, 2.0: 0.01, 4.0: 0.005}) == pytest.approx((0.0, 0.02))
    with pytest.raises(ConfigError, match="overhead is 1.0% at the largest quantum"):
        choose_quantum(curves, 0.001)
    with pytest.raises(ConfigError, match="no quantum in common"):
        choose_quantum({"a": {1.0: 0.1}, "b": {2.0: 0.1}}, 0.5)
    with pytest.raises(ConfigError, match="no overhead was measured"):
        choose_quantum({}, 0.5)


def test_floor_and_cost_of_an_exact_curve() -> None:
    curve = {q: 0.04 + 80e-6 / q for q in (0.001, 0.002, 0.008)}
    assert floor_and_cost(curve) == pytest.approx((0.04, 80e-6))
    with pytest.raises(ConfigError, match="overhead at 1 quanta; a floor and a cost need at least two"):
        floor_and_cost({0.001: 0.1})


def test_threads_take_turns_and_one_that_dies_passes_the_token_on() -> None:
    gate, ran = Gate(TurnScheduler("fair", 4.0)), list[str]()
    gate.join(*(Turn(name, EVEN) for name in "abc"))

    def work(name: str) -> None:
        with gate.job(name):
            for node in range(6):
                if name == "b" and node == 3:
                    return  # as if it had raised
                ran.append(name)
                gate.boundary(name, node % 2)

    threads = [threading.Thread(target=work, args=(name,)) for name in "cab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert "".join(ran) == "aabbccaabccaacc" and gate.scheduler.holder is None


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match="a profile of 0 nodes"):
        CostProfile((), 1.0)
    with pytest.raises(ConfigError, match=r"with 0\.0 s alone"):
        CostProfile((1.0,), 0.0)
    with pytest.raises(UnknownNameError, match="choose one of: fair, priority, weighted"):
        TurnScheduler("unfair", 1.0)
    with pytest.raises(ConfigError, match=r"quantum is 0\.0 s"):
        TurnScheduler("fair", 0.0)
    scheduler = _of("fair", 1.0, Turn("a", EVEN))
    with pytest.raises(ConfigError, match="two jobs are called 'a'"):
        scheduler.join(Turn("a", EVEN))
    with pytest.raises(ConfigError, match="weight is nan"):
        scheduler.join(Turn("b", EVEN, weight=float("nan")))
    with pytest.raises(UnknownNameError, match="unknown job 'z'"):
        scheduler.want("z")
    with pytest.raises(PolicyError, match="job 'a' runs a node"):
        scheduler.charge("a", 0)
    with pytest.raises(ConfigError, match="runs and threads"):
        Job("a", EVEN, 0)
