"""Backfill on one node: by hand, and against decisions that a real slurmctld 22.05 made."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.page import RESULTS
from benchmarks.slurm.decisions import MODELS, judge
from eunomia.cluster.operators.slurm_conf import read_slurm_conf
from eunomia.cluster.policies.slurm.one_node import plan_node

A100, T4 = 0, 1


def starts(
    jobs: list[tuple[int, int, float]], running: list[tuple[float, int, int]], free: list[int]
) -> list[int]:
    """Jobs as (type, devices, limit) in order of priority; who runs as (end, type, devices)."""
    limit_s = np.full((len(jobs), 2), np.inf)
    for m, (kind, _, limit) in enumerate(jobs):
        limit_s[m, kind] = limit
    ends, kinds, counts = (np.array([one[n] for one in running]) for n in range(3))
    found = plan_node(
        np.array([count for _, count, _ in jobs]), limit_s, np.ones((len(jobs), 2)), 0.0, np.array(free),
        (ends.astype(float), kinds.astype(np.int64), counts.astype(np.int64)), (86_400.0, 60.0),
    )  # fmt: skip
    return np.flatnonzero(found >= 0).tolist()


def test_who_is_reserved_takes_the_whole_node() -> None:
    """The first waits for a100s until 300; free t4s help only those whose limit ends before."""
    running = [(300.0, A100, 2)]
    assert starts([(A100, 1, 600.0), (T4, 1, 240.0), (T4, 1, 1200.0)], running, [0, 4]) == [1]
    assert starts([(T4, 1, 1200.0), (A100, 1, 600.0), (T4, 1, 240.0)], running, [0, 4]) == [0, 2]


def test_a_reservation_begins_on_a_whole_minute() -> None:
    """The a100 is free after 299 s, so the node is taken from 240 on."""
    running = [(299.0, A100, 2)]
    assert starts([(A100, 1, 600.0), (T4, 1, 239.0)], running, [0, 4]) == [1]
    assert starts([(A100, 1, 600.0), (T4, 1, 241.0)], running, [0, 4]) == []


def test_ends_within_a_window_count_as_its_last() -> None:
    """One a100 would do at 300, but the other ends within 30 s and both are looked at together."""
    running = [(300.0, A100, 1), (328.0, A100, 1)]
    assert starts([(A100, 1, 600.0), (T4, 1, 299.0)], running, [0, 4]) == [1]
    assert starts([(A100, 1, 600.0), (T4, 1, 299.0)], [(270.0, A100, 1), (301.0, A100, 1)], [0, 4]) == []


def test_a_conf_of_one_node_says_so(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=a Gres=gpu:a100:2,gpu:t4:4\nSchedulerParameters=bf_resolution=300\n")
    made = read_slurm_conf(conf).allocator()
    assert made.one_node and made.resolution_s == 300.0
    conf.write_text("NodeName=a,b Gres=gpu:a100:2\n")
    assert not read_slurm_conf(conf).allocator().one_node


def test_a_job_that_never_fits_holds_nobody_up() -> None:
    assert starts([(A100, 3, 60.0), (T4, 4, 1200.0)], [(300.0, A100, 2)], [0, 4]) == [1]


def test_it_decides_as_slurmctld_did() -> None:
    """500 starts of ``python -m benchmarks slurm --only decisions``; the model of before agrees on three of four."""
    seeds = defaultdict(list)
    for line in (RESULTS / "data" / "slurm-decisions.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        seeds[event.pop("seed")].append(event)
    mended, before = ([judge(events, MODELS[name]) for events in seeds.values()] for name in list(MODELS)[:2])
    assert sum(verdict.agreed + verdict.missed for verdict in mended) >= 500
    assert min(verdict.part for verdict in mended) >= 0.95
    assert max(verdict.part for verdict in before) < 0.9
