"""Gavel's agnostic FIFO as its code is: by hand, against a plain twin, and in the simulator."""

from __future__ import annotations

import random
from collections.abc import Set
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.policies.catalogue import allocator
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.cluster import Cluster
from eunomia.core.errors import PolicyError
from tests.cluster.policies.peer_views import view_of

CLUSTER = Cluster.of({"v100": 2, "k80": 2})


def _problem(jobs: int) -> ClusterProblem:
    """Jobs of one device, all there at time 0: 7,200 s on a V100, 28,800 s on a K80."""
    table = ThroughputTable((("m", 1),), ("v100", "k80"), np.array([[4.0, 1.0]]), source="by hand")
    return build_problem([TrainingJob(str(m), "m", 28_800.0) for m in range(jobs)], CLUSTER, table)


def test_all_go_to_the_last_type_by_hand() -> None:
    """Types by name: k80, v100. Five jobs, 2 V100. Whatever is drawn, the first goes to the V100, and the second; the
    V100s are then handed out exactly, and the type drawn for the second job is struck off. If that is the V100, two
    more go to the K80; if it is the K80, no type with devices is left that has room, and the line stops."""
    rng = random.Random(0)
    rng.randrange(2)
    struck = rng.randrange(2)
    policy = allocator("fifo", as_gavel=True)
    policy.reset(0)
    devices = policy.allocate(view_of(CLUSTER, [[1.0, 1.0]] * 5, [9.0] * 5)).devices
    assert devices is not None
    expected = [[1, 0], [1, 0]] + ([[0, 1], [0, 1], [0, 0]] if struck == 1 else [[0, 0]] * 3)
    assert devices.tolist() == expected


def test_a_type_is_handed_out_beyond_what_there_is() -> None:
    """Gangs of 3 on 4 V100 and 4 K80: 4 - 3 = 1 and 1 - 3 < 0 never hit 0, so while the K80s have room, all go to the
    V100s."""
    cluster = Cluster.of({"v100": 4, "k80": 4})
    policy = allocator("fifo", as_gavel=True)
    devices = policy.allocate(view_of(cluster, [[1.0, 1.0]] * 6, [9.0] * 6, scale=[3] * 6)).devices
    assert devices is not None and devices.tolist() == [[3, 0]] * 6


def _plain(
    keys: dict[int, int], held: dict[int, str], count: dict[str, int], rng: random.Random,
    slow: Set[tuple[int, str]] = frozenset(),
) -> dict[int, str]:  # fmt: skip
    """One answer, statement by statement: ``keys`` present jobs and their workers, ``held`` who was placed where.

    ``slow``: jobs and the types where they cannot run.
    """
    count, held, line = dict(count), dict(held), [key for key in sorted(keys) if key not in held]
    for key in sorted(held):
        kind = held[key]
        if key in keys:
            count[kind] -= keys[key]
        else:
            if line and keys[line[0]] <= count[kind] and (line[0], kind) not in slow:
                head = line.pop(0)
                held[head] = kind
                count[kind] -= keys[head]
            del held[key]
    types = sorted(kind for kind in count if count[kind] > 0)
    while line and types:
        head, room, places, kind = line.pop(0), [], [], ""
        for place, kind in enumerate(types):
            if count[kind] >= keys[head]:
                room.append(kind)
                places.append(place)
        if not room:
            break
        drawn = rng.randrange(len(room))
        if (head, kind) in slow:
            continue
        held[head] = kind  # the fault: not room[drawn]
        count[kind] -= keys[head]
        if count[kind] == 0:
            types.pop(places[drawn])
    return held


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_it_is_its_plain_twin(seed: int) -> None:
    """Jobs come and go over 8 answers on three types."""
    rng = np.random.default_rng(seed)
    count = {name: int(rng.integers(1, 9)) for name in ("v100", "p100", "k80")}
    cluster, policy = Cluster.of(count), allocator("fifo", as_gavel=True)
    policy.reset(seed)
    twin, held, present, number = random.Random(seed), {}, {}, 0  # type: ignore[var-annotated]
    for _ in range(8):
        present = {key: gang for key, gang in present.items() if rng.random() < 0.7}
        for _ in range(int(rng.integers(0, 5))):
            present[number], number = int(rng.choice((1, 2, 4))), number + 1
        slow = {(key, "k80") for key in present if key % 5 == 0}
        held = _plain(present, held, count, twin, slow)
        jobs = len(present)
        view = view_of(
            cluster,
            [[float((key, name) not in slow) for name in cluster.names] for key in present],
            [9.0] * jobs,
            scale=list(present.values()),
            key=list(present),
        )
        devices = policy.allocate(view).devices
        assert devices is not None
        found = {
            key: cluster.names[int(row.argmax())]
            for key, row in zip(present, devices, strict=True)
            if row.any()
        }
        assert found == {key: kind for key, kind in held.items() if key in present}


def test_it_runs_in_gavels_mode_only() -> None:
    problem, options = _problem(3), SimulationOptions.gavel(record="jobs")
    run = simulate_cluster(problem, allocator("fifo", as_gavel=True), options, "fifo")
    assert not np.isnan(run.ledger.finish_s).any()
    with pytest.raises(PolicyError, match="hands out more devices than there are.*mode = 'gavel'"):
        simulate_cluster(
            problem, allocator("fifo", as_gavel=True), replace(options, mode="realistic"), "fifo"
        )


def test_nobody_waits_on_a_slow_type() -> None:
    """12 jobs at once, 6 seeds: the fault shares what it hands out twice; the true form leaves more to the K80s."""
    ends = {}
    for as_gavel in (True, False):
        found = [
            simulate_cluster(
                _problem(12),
                allocator("fifo", as_gavel=as_gavel),
                SimulationOptions.gavel(seed, record="jobs"),
                "fifo",
            ).ledger.finish_s.max()
            for seed in range(6)
        ]
        ends[as_gavel] = float(np.mean(found))
    assert ends[True] < ends[False]
