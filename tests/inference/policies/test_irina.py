"""Irina's order: by hand, and as the discipline of ``eunomia.sharing.queueing`` has it on one device."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eunomia.core.errors import ConfigError
from eunomia.inference.policies import load_policy
from eunomia.inference.policies.irina import irina
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.sharing.queueing import ExecutionTables, Irina, Network, Task, serve
from eunomia.workload.tenant import Agreement
from tests.inference.policies.views import ask, guarded, job
from tests.serving.test_dispatcher import Replay


def test_least_seconds_per_task_by_hand() -> None:
    # Two of pair 1 share a batch of 4 (1 + 0.2) / 2 = 2.4 s a task: before 3 s alone, not before 2 s.
    both = [job(pair=1, work_best_s=4.0), job(pair=1, work_best_s=4.0)]
    batched = irina(batch=8, marginal=0.2)
    assert ask(batched, [job(work_best_s=3.0), *both], [[1.0]] * 3) == [(1, 0)]
    assert ask(batched, [job(work_best_s=2.0), *both], [[1.0]] * 3) == [(0, 0)]
    assert ask(irina(), [job(work_best_s=3.0), *both], [[1.0]] * 3) == [(0, 0)]
    # What has begun is in no batch any more.
    begun = [job(pair=1, work_best_s=4.0, layers_done=1), job(pair=1, work_best_s=4.0)]
    assert ask(batched, [job(work_best_s=3.0), *begun], [[1.0]] * 3) == [(0, 0)]


def test_patience_bounds_waiting_but_stops_nothing() -> None:
    jobs = [job(work_best_s=1.0, arrival_s=8.0), job(work_best_s=9.0, arrival_s=2.0)]
    assert ask(irina(patience_s=7.0), jobs, [[1.0]] * 2, now_s=10.0) == [(1, 0)]
    assert ask(irina(patience_s=9.0), jobs, [[1.0]] * 2, now_s=10.0) == [(0, 0)]
    running = job(work_best_s=0.5, layers_done=1, request=-1)  # the last one on the idle accelerator
    assert ask(irina(patience_s=7.0), [*jobs, running], [[1.0]] * 3, now_s=10.0) == [(-1, 0)]


@pytest.mark.parametrize("seed", range(5))
def test_one_device_ends_tasks_when_the_discipline_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks, whole_s = [4, 1, 3], rng.uniform(0.5, 8.0, 3)
    tables = ExecutionTables(
        tuple(Network(f"m{n}", (float(whole_s[n]),), blocks[n]) for n in range(3)), ((2.0,) * 3,) * 3
    )
    at_s, networks = np.cumsum(rng.exponential(2.5, 40)), rng.integers(3, size=40)
    tasks = [Task(0, int(n), float(at)) for n, at in zip(networks, at_s, strict=True)]
    expected = serve(tasks, tables, Irina(batch=False, stack=False)).completion_s
    latency_s = np.concatenate([np.full(count, s / count) for count, s in zip(blocks, whole_s, strict=True)])
    replay = Replay(guarded("irina"), latency_s[:, None], blocks, DispatchOptions(lease_s=0.0))
    ended: dict[int, float] = {}
    left = replay.dispatcher.leave
    replay.dispatcher.leave = lambda job, **why: (
        ended.update({job.payload: replay.clock.now_s()}) or left(job, **why)
    )  # type: ignore[method-assign]
    for n in range(3):
        replay.dispatcher.add_pair(Agreement(f"t{n}", f"m{n}"))
    replay.play([(task.arrival_s, task.network, math.inf, task.network) for task in tasks])
    assert [ended[n] - task.arrival_s for n, task in enumerate(tasks)] == pytest.approx(list(expected))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("irina(patience_s=0)", "patience_s is 0.0; it must be positive"),
        ("irina(batch=0)", "a batch has at least 1 task"),
        ("irina(marginal=1.5)", "one more adds 0 to 1 of its time"),
    ],
)
def test_wrong_settings_are_refused(call: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_policy(call)
