"""HTAS: packing, flavours, draining by hand; nothing lost in a run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.environments.elastic_pool import (
    Flavour,
    Node,
    PoolJob,
    drain,
    least_requested,
    pack_batch,
    pack_services,
    scale,
    time_bin,
)
from eunomia.cluster.environments.elastic_pool_run import PATTERNS, PoolOptions, arrivals, run_pool
from eunomia.core.errors import ConfigError, PlatformError

BOX = Flavour("box", 4.0, 8.0, 1.0)
CATALOGUE = (BOX, Flavour("big", 8.0, 16.0, 1.6), Flavour("gpu", 4.0, 8.0, 3.0, "v100", 2))


def _job(name: str, run_s: float, cpu: float = 1.0, memory_gib: float = 1.0) -> PoolJob:
    return PoolJob(name, 0.0, run_s, cpu, memory_gib)


def _nodes(*runs_s: tuple[float, ...]) -> list[Node]:
    nodes = [Node(i, BOX, 0.0, 0.0) for i in range(len(runs_s))]
    for node, runs in zip(nodes, runs_s, strict=True):
        for k, run_s in enumerate(runs):
            node.start(_job(f"old {node.number}.{k}", run_s), 0.0)
    return nodes


def test_time_bins() -> None:
    assert [time_bin(s, 300.0) for s in (0.0, 299.0, 300.0, math.inf)] == [0, 0, 1, math.inf]


def test_batch_jobs_go_where_jobs_end_with_them() -> None:
    """Nodes whose longest jobs have 100, 700 and 1300 s left, bins 0, 2 and 4: a job of 650 s joins the second;
    one of 400 s (bin 1) the next greater bin; one of 2000 s (bin 6) the greatest lesser."""
    for run_s, node in ((650.0, 1), (400.0, 1), (2000.0, 2), (50.0, 0)):
        placed, left = pack_batch([_job("new", run_s)], _nodes((100.0,), (700.0,), (1300.0,)), 0.0, 300.0)
        assert [n.number for _, n in placed] == [node] and not left


def test_longest_first() -> None:
    """One node with room for one: the longer job gets it."""
    node = Node(0, Flavour("tiny", 1.0, 1.0, 1.0), 0.0, 0.0)
    placed, left = pack_batch([_job("short", 10.0), _job("long", 99.0)], [node], 0.0, 300.0)
    assert [job.name for job, _ in placed] == ["long"] and [job.name for job in left] == ["short"]


def test_services_best_fit_by_memory() -> None:
    nodes = _nodes((), (math.inf,) * 3)
    placed, _ = pack_services([_job("web", math.inf, 0.5, 4.0)], nodes, 0.0)
    assert placed[0][1].number == 1  # 5 GiB left beats 8


def test_least_requested_takes_the_emptiest() -> None:
    placed, _ = least_requested([_job("new", 9.0)], _nodes((9.0,), ()), 0.0)
    assert placed[0][1].number == 1


def test_machines_that_boot_are_not_used() -> None:
    node = Node(0, BOX, ready_s=100.0, rented_s=0.0)
    assert pack_batch([_job("new", 9.0)], [node], 50.0, 300.0)[1]
    assert not pack_batch([_job("new", 9.0)], [node], 100.0, 300.0)[1]


def test_flavours_by_use_per_price() -> None:
    """8 cores, 16 GiB wanted: big scores 1 / 1.6, box 1 / 1 twice as dear in the end but the rule is greedy."""
    assert [f.name for f in scale([_job("a", 9.0, 4.0, 8.0)], CATALOGUE)] == ["box"]
    assert [f.name for f in scale([_job("a", 9.0, 8.0, 16.0)], CATALOGUE)] == [
        "big"
    ]  # it fits on nothing smaller
    free = np.array([4.0, 8.0])
    assert scale([_job("a", 9.0, 4.0, 8.0)], CATALOGUE, free) == []  # free before a machine would be here


def test_device_kinds_are_bought_for_who_asks() -> None:
    job = PoolJob("train", 0.0, 9.0, 1.0, 1.0, device="v100", devices=3)
    with pytest.raises(PlatformError, match="'train'.*3 x v100"):
        scale([job], CATALOGUE)
    two = [PoolJob(f"train {i}", 0.0, 9.0, 1.0, 1.0, device="v100", devices=2) for i in range(2)]
    assert [f.name for f in scale(two, CATALOGUE)] == ["gpu", "gpu"]


def test_drain_moves_all_or_none() -> None:
    """The emptiest node's two jobs fit beside the other's; with one that does not fit nobody moves."""
    nodes = _nodes((500.0,), (500.0, 500.0))
    found = drain(nodes, 0.0)
    assert found is not None
    source, moves = found
    assert source.number == 0 and [(job.name, node.number) for job, node in moves] == [("old 0.0", 1)]
    full = _nodes((500.0,), ())
    full[1].start(_job("wide", 500.0, 4.0, 4.0), 0.0)
    assert drain(full, 0.0, below=0.4) is None


def test_one_job_costs_one_machine() -> None:
    """One job of 100 s on the two initial machines: they are paid until the run ends at the next cycle, 120 s."""
    result = run_pool([_job("only", 100.0)], CATALOGUE, PoolOptions())
    assert result.finished == 1 and result.rented == 2
    assert result.cost == pytest.approx(2 * 1.0 * result.end_s / 3600.0)
    assert result.wait_s.tolist() == [0.0] and result.turnaround_s.tolist() == [100.0]


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1000),
    pattern=st.sampled_from(PATTERNS),
    scheduler=st.sampled_from(["htas", "least_requested"]),
    error=st.sampled_from([0.0, 1.0]),
)
def test_nothing_is_lost(seed: int, pattern: str, scheduler: str, error: float) -> None:
    jobs = arrivals(pattern, seed, 60, error=error)  # type: ignore[arg-type]
    options = PoolOptions(scheduler=scheduler, migrate_fails=0.5, seed=seed)  # type: ignore[arg-type]
    result = run_pool(jobs, CATALOGUE, options)
    assert result.submitted == 60 == result.finished + result.unfinished and result.unfinished == 0
    batch = [job for job in jobs if math.isfinite(job.run_s)]
    assert len(result.turnaround_s) == len(batch)
    assert result.turnaround_s.sum() >= sum(job.run_s for job in batch) - 1e-6
    again = run_pool(jobs, CATALOGUE, options)
    assert again.cost == result.cost and (again.wait_s == result.wait_s).all()


def test_patterns() -> None:
    """Growing: three quarters of the jobs in the second half. On-off: nothing in the second ten minutes."""
    growing = np.array([job.arrival_s for job in arrivals("growing", 0, 2000)])
    assert abs((growing > 3600.0).mean() - 0.75) < 0.04
    bursts = np.array([job.arrival_s for job in arrivals("on_off", 0, 2000)])
    assert not ((bursts > 601.0) & (bursts < 1199.0)).any()


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match="scheduler is 'best'"):
        PoolOptions(scheduler="best")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cycle_s is 0"):
        PoolOptions(cycle_s=0.0)
    with pytest.raises(ConfigError, match="price_per_hour is 0"):
        Flavour("free", 1.0, 1.0, 0.0)
    with pytest.raises(ConfigError, match="pattern is 'waves'"):
        arrivals("waves", 0)  # type: ignore[arg-type]
