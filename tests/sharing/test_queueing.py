"""Queue discipline: a case worked by hand, the optimum of small cases, properties of every discipline."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, PolicyError, UnknownNameError
from eunomia.sharing.queueing import (
    Decision,
    Device,
    ExecutionTables,
    Irina,
    MaxBatch,
    Network,
    Task,
    Unit,
    least_sum,
    read_tables,
    serve,
    shortest_first,
)
from eunomia.sharing.queueing.device import to_boundary_s
from eunomia.study.sharing.queue import QueueStudy, draw_tasks, random_tables, run_gaps, run_queue

# long: 8 s in 4 blocks; short: 1 s, two together 1.5 s. Beside each other long takes 1.25, short 2 times as long.
HAND = ExecutionTables((Network("long", (8.0,), 4), Network("short", (1.0, 1.5))), ((2.0, 1.25), (2.0, 2.0)))
LONG, SHORT = 0, 1
DISCIPLINES = {
    "fifo": MaxBatch(0.0, 1),
    "max batch": MaxBatch(0.5),
    "two slots": MaxBatch(0.5, slots=2),
    "shortest": shortest_first,
    "irina": Irina(),
    "patient": Irina(patience_s=0.01),
    "no batch": Irina(batch=False),
    "no stack": Irina(stack=False),
    "no preempt": Irina(preempt=False),
}


def _run(arrivals: list[tuple[int, float]], rule) -> list[float]:  # type: ignore[no-untyped-def]
    return list(serve([Task(0, network, at) for network, at in arrivals], HAND, rule).completion_s)


def test_irina_batches_by_hand() -> None:
    """Two short: together 1.5 + 1.5 = 3 s, one by one 1 + 2 = 3 s; three: 1.5, 1.5, 2.5 s against 1, 2, 3 s."""
    assert sum(_run([(SHORT, 0.0)] * 3, Irina(stack=False))) == pytest.approx(5.5)


def test_irina_stacks_by_hand() -> None:
    """Short comes after 1 s: beside long it ends at 3 s, when long has 8 - 1 - 2 / 1.25 = 5.4 s left: 8.4 s."""
    assert _run([(LONG, 0.0), (SHORT, 1.0)], Irina()) == pytest.approx([8.4, 2.0])


def test_irina_preempts_by_hand() -> None:
    """Without stacking: long pauses at its boundary at 2 s, short ends at 3 s, long at 9 s: 9 + 2; waiting: 8 + 8."""
    assert _run([(LONG, 0.0), (SHORT, 1.0)], Irina(stack=False)) == pytest.approx([9.0, 2.0])
    assert _run([(LONG, 0.0), (SHORT, 1.0)], Irina(stack=False, preempt=False)) == pytest.approx([8.0, 8.0])


def test_max_batch_waits_for_its_timeout_by_hand() -> None:
    """One short at 0 s, alone until 0.5 s; two at 0 s and 0.2 s are full at 0.2 s."""
    assert _run([(SHORT, 0.0)], MaxBatch(0.5)) == pytest.approx([1.5])
    assert _run([(SHORT, 0.0), (SHORT, 0.2)], MaxBatch(0.5)) == pytest.approx([1.7, 1.5])


def test_optimum_by_hand() -> None:
    """The three cases above cannot be served better."""
    assert least_sum([Task(0, LONG, 0.0), Task(0, SHORT, 1.0)], HAND) == pytest.approx(10.4)
    alone = ExecutionTables(HAND.networks, ((9.0, 9.0), (9.0, 9.0)))
    assert least_sum([Task(0, LONG, 0.0), Task(0, SHORT, 1.0)], alone) == pytest.approx(
        11.0
    )  # 9 + 2 or 10 + 1
    assert least_sum([Task(0, SHORT, 0.0)] * 3, alone) == pytest.approx(5.5)


def test_optimum_is_that_of_all_orders_without_company() -> None:
    """Where company costs too much and nothing is paused or batched, every order can be tried."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        times = rng.uniform(1.0, 5.0, 4)
        tables = ExecutionTables(
            tuple(Network(f"{i}", (float(s),)) for i, s in enumerate(times)), ((99.0,) * 4,) * 4
        )
        slow = min(sum(np.cumsum(order)) for order in itertools.permutations(times.tolist()))
        assert least_sum([Task(0, i, 0.0) for i in range(4)], tables) == pytest.approx(slow)


def test_irina_is_within_5_percent_of_the_optimum_on_average() -> None:
    found = run_gaps(tuple(range(8)), together=True)
    assert float(np.mean([run["over_optimum"] for run in found.figures["Irina"]])) < 1.05
    for runs in (*found.figures.values(), *run_gaps((0,), together=False).figures.values()):
        assert min(run["over_optimum"] for run in runs) >= 1.0 - 1e-9


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 25), scale=st.floats(0.1, 10.0))
def test_every_task_ends_once_and_time_scales(seed: int, count: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    tables = random_tables(rng)
    least = [n.batch_s[0] for n in tables.networks]
    tasks = [Task(0, int(rng.integers(3)), float(at)) for at in rng.uniform(0.0, 0.1, count)]
    for name, rule in DISCIPLINES.items():
        found = serve(tasks, tables, rule)
        assert len(found.completion_s) == count
        for task, seconds in zip(found.tasks, found.completion_s, strict=True):
            assert seconds >= least[task.network] - 1e-9, name
    larger = ExecutionTables(
        tuple(Network(n.name, tuple(s * scale for s in n.batch_s), n.blocks) for n in tables.networks),
        tables.slowdown,
    )
    later = [Task(t.tenant, t.network, t.arrival_s * scale) for t in tasks]
    ours = sum(serve(tasks, tables, Irina(batch=False, stack=False)).completion_s)
    theirs = sum(serve(later, larger, Irina(batch=False, stack=False)).completion_s)
    assert theirs == pytest.approx(scale * ours, rel=0.02)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 20))
def test_irina_never_idles_while_tasks_wait(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    rule = Irina()

    def watched(device: Device) -> Decision:
        decision = rule(device)
        if decision.kind == "wait" and not device.running:
            assert not device.paused and not any(device.waiting)
        return decision

    tasks = [Task(0, int(rng.integers(3)), float(at)) for at in rng.uniform(0.0, 0.1, count)]
    serve(tasks, random_tables(rng), watched)


def test_a_unit_at_its_boundary_is_not_paused_for_ever() -> None:
    """It once was: pausing took no time, and the same choice came again."""
    tables = random_tables(np.random.default_rng(3))
    rng = np.random.default_rng(4)
    tasks = [Task(0, int(rng.integers(3)), 0.001 * i) for i in range(60)]
    asked = 0

    def counted(device: Device) -> Decision:
        nonlocal asked
        asked += 1
        assert asked < 5_000
        return Irina(stack=False)(device)

    serve(tasks, tables, counted)


def test_boundaries() -> None:
    unit = Unit(LONG, (), 8.0, 7.0)
    assert to_boundary_s(unit, HAND) == pytest.approx(1.0)
    assert to_boundary_s(Unit(LONG, (), 8.0, 6.0), HAND) == 0.0
    assert to_boundary_s(Unit(SHORT, (), 1.0, 0.25), HAND) == pytest.approx(0.25)


def test_patience_bounds_starvation() -> None:
    """Short tasks for ever would hold long back for ever."""
    arrivals = [(LONG, 0.5), *((SHORT, float(i)) for i in range(60))]
    rush = [Task(0, network, at) for network, at in arrivals]
    starved = serve(rush, HAND, Irina(stack=False, preempt=False)).completion_s
    patient = serve(rush, HAND, Irina(stack=False, preempt=False, patience_s=5.0)).completion_s
    assert patient[1] < 20.0 < 40.0 < starved[1]


def test_irina_beats_max_batch_in_bursts() -> None:
    found = run_queue(QueueStudy(tasks=300, seeds=(0, 1)))
    assert found.estimate("Irina", "mean_s").mean * 1.3 < found.estimate(found.methods[0], "mean_s").mean


def test_the_load_is_what_was_asked() -> None:
    study = QueueStudy(tasks=4000, load=0.5, arrivals="poisson")
    tables = random_tables(np.random.default_rng(0))
    tasks = draw_tasks(study, tables, 1)
    work_s = sum(tables.best_s[task.network] for task in tasks)
    assert work_s / tasks[-1].arrival_s == pytest.approx(0.5, rel=0.06)


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not all positive"):
        Network("a", (0.0,))
    with pytest.raises(ConfigError, match="larger batch is faster"):
        Network("a", (2.0, 1.0))
    with pytest.raises(ConfigError, match="below 1"):
        ExecutionTables((Network("a", (1.0,)),), ((0.5,),))
    with pytest.raises(ConfigError, match="at most 6"):
        least_sum([Task(0, 0, 0.0)] * 7, HAND)
    with pytest.raises(UnknownNameError, match="choose one of: bursts, poisson"):
        QueueStudy(arrivals="often")
    with pytest.raises(PolicyError, match="nothing will arrive"):
        serve([Task(0, 0, 0.0)], HAND, lambda device: Decision("wait"))
    with pytest.raises(PolicyError, match="a batch of 3 where 1 wait"):
        serve([Task(0, SHORT, 0.0)], HAND, lambda device: Decision("batch", SHORT, 3))
    file = tmp_path / "t.toml"
    file.write_text("[network.a]\nbatch_ms = [1.0, 'x']\n")
    with pytest.raises(ConfigError, match=r"t\.toml: network 'a': .*hold numbers"):
        read_tables(file)
    file.write_text("[network.a]\nbatch_ms = [1.0]\nbeside = { b = 2.0 }\n")
    with pytest.raises(ConfigError, match="not a key or network"):
        read_tables(file)
    file.write_text("[network.a]\nbatch_ms = [1.0, 1.5]\n")
    assert read_tables(file).slowdown == ((2.0,),)
