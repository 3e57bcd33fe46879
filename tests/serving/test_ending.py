"""A run that holds its device is ended in its midst: the device lives, nobody else waits, and its tenant pauses."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.serving.strange import write_networks
from eunomia.serving.devices.aside import END, listen, order
from eunomia.serving.devices.ending import Ending
from eunomia.serving.devices.network import load_network
from eunomia.serving.devices.piece import live_of
from eunomia.serving.devices.run import CLOSELY_S, Run
from eunomia.serving.devices.watching import (
    FAR,
    GRACE_S,
    GRACE_WALL_S,
    LEAST_S,
    LONGER,
    SHORT_GRACE_S,
    UNSURE,
    WELL,
    Watching,
)
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job

FOREVER = 10**15  # turns


def test_a_loop_ends_when_its_number_is_named_and_the_next_run_does_not(tmp_path: Path) -> None:
    path = write_networks(tmp_path)["turns"]
    network, ending = load_network(str(path), str(tmp_path), {}, 1.0), Ending()
    network.obey(ending.options)
    heard, ends = os.pipe()
    listen(heard, {END: lambda number, *_: ending.end(number)})

    def run(turns: int) -> int:
        live = network.run_block(0, live_of({"x": np.array([turns], np.int64)}))
        return int(live["y"].numpy()[0])

    ending.begin(7)
    assert order(ends, END, 6)
    assert run(5) == 5, "another run's end"
    threading.Thread(target=order, args=(ends, END, 7)).start()
    with pytest.raises(Exception, match="terminate"):
        run(FOREVER)
    ending.over()
    assert order(ends, END, 7)
    ending.begin(8)
    assert run(5) == 5
    os.close(ends)


class Watched:
    """One device with one run; nothing but clocks moves."""

    def __init__(self, trial: int | None = None) -> None:
        self.said: list[Any] = []
        self.trial = trial
        self.device: Any = SimpleNamespace(
            index=0, used_s=0.0, all_used_s=0.0, blameless=False, stands_by=False, stopped=False,
            heard=lambda number: False, spec=SimpleNamespace(name="d", kind="cpu"),
            place=SimpleNamespace(far=False), end=self.said.append, kill=lambda: self.said.append("kill"),
        )  # fmt: skip
        costs = CostBook(1)
        job = Job(0, costs.add("n", 1), 0.0)
        self.run, self.now_s = Run(job, 0, 1, ticket=3, limit_s=60.0, sent=True, behind=trial), 0.0
        self.lane = SimpleNamespace(due_s=[0.02], start_s=0.0, stopping=False)
        self.waiting: list[Job] = []
        self.dispatcher = SimpleNamespace(
            lanes=[self.lane],
            sure=lambda job: True,
            clock=SimpleNamespace(now_s=lambda: self.now_s),
            costs=costs,
            agreements=[SimpleNamespace(tenant=name) for name in "ab"],
            waiting=SimpleNamespace(jobs=lambda: self.waiting),
        )
        self.queue = [self.run]
        execution: Any = SimpleNamespace(
            queues=[self.queue], dispatcher=self.dispatcher, stop=lambda device: self.said.append("stop"),
            looking=SimpleNamespace(),
        )  # fmt: skip
        ladder: Any = SimpleNamespace(tries_on=lambda device: self.trial)
        devices: Any = [self.device]
        self.watching = Watching(devices, execution, ladder)
        self.watching.patience_s = lambda job: 0.3 / FAR
        self.watching.look(0.0)

    def waits(self, tenant: int) -> None:
        """A request of tenant 0, whose run it is, or of 1."""
        self.waiting.append(Job(tenant, self.run.job.network, 0.0))

    def after(self, used_s: float, wall_s: float = 0.0) -> list[Any]:
        """What was said by the time that both clocks have moved so far."""
        self.device.used_s += used_s
        self.now_s += wall_s or used_s
        self.watching.look(self.now_s)
        return self.said


def test_a_device_that_compiles_for_each_size_has_time_by_the_clock_alone() -> None:
    watched = Watched()
    watched.device.spec.kind, watched.run.ticket = "tensorrt", 4
    watched.after(0.0)
    assert watched.after(50.0) == [] and watched.after(11.0) == [4]


def test_processor_time_ends_a_run_and_then_its_device() -> None:
    watched = Watched()
    assert watched.after(0.0, wall_s=50.0) == [], "somebody else had its core"
    assert watched.after(LONGER * 0.02 + 0.29) == [] and watched.after(0.02) == [3] and watched.run.ended
    assert watched.after(GRACE_S) == [3] and watched.after(0.01) == [3, "kill"]
    assert not watched.device.blameless


def test_a_run_on_another_machine_was_too_long_where_it_is_so_twice() -> None:
    """The way there may be at fault once."""
    watched = Watched()
    watched.device.place.far = True
    assert watched.after(0.0, wall_s=59.0) == [] and watched.after(0.0, wall_s=2.0) == ["kill"]
    assert not watched.run.ended
    watched.run.job.retries = 1
    watched.after(0.0, wall_s=0.1)
    assert watched.run.ended


def test_whose_process_somebody_has_stopped_is_not_to_blame() -> None:
    watched = Watched()
    watched.device.stopped = True
    assert watched.after(0.0, wall_s=61.0) == [3] and watched.after(0.0, wall_s=GRACE_WALL_S + 0.1) == [
        3,
        "kill",
    ]
    assert watched.device.blameless


def test_where_a_process_stands_by_a_node_that_goes_on_has_little_time() -> None:
    watched = Watched()
    watched.device.stands_by = True
    watched.dispatcher.costs.measured(watched.run.job.network, 0, [1e-3])
    assert watched.after(LONGER * 0.02 + 0.31) == [3]
    assert watched.watching.suspects(0) == CLOSELY_S, "until it is over"
    assert ran(watched, 0.1) == [3], "it has not heard of it"
    watched.device.heard = lambda number: number == 3
    assert ran(watched, 0.1) == [3] and watched.after(0.0, wall_s=1.0) == [3], "nor run since"
    assert ran(watched, 0.9 * SHORT_GRACE_S) == [3]
    assert ran(watched, 0.2 * SHORT_GRACE_S) == [3, "kill"] and ran(watched, 1.0) == [3, "kill"], "once"


def ran(watched: Watched, seconds: float) -> list[Any]:
    """What was said when all threads of its process together had run so long, and nobody else had."""
    watched.device.all_used_s += seconds
    return watched.after(0.0)


def test_a_node_that_may_take_as_long_as_the_longest_block_has_that_time() -> None:
    watched = Watched()
    watched.device.stands_by, block_s = True, 4 * SHORT_GRACE_S
    watched.dispatcher.costs.measured(watched.run.job.network, 0, [block_s])
    watched.device.heard = lambda number: True
    assert watched.after(LONGER * 0.02 + 0.31) == [3]
    assert ran(watched, 0.0) == [3] and ran(watched, 0.9 * block_s) == [3]
    assert ran(watched, 0.2 * block_s) == [3, "kill"]


@pytest.mark.parametrize("patience_s", [0.0, math.inf])
def test_a_run_that_only_waits_ends_by_the_clock(patience_s: float) -> None:
    watched = Watched()
    watched.watching.patience_s = lambda job: patience_s
    watched.run.ticket = 4
    watched.dispatcher.sure = lambda job: False
    watched.after(0.0)
    assert watched.after(LEAST_S - 0.01) == []
    watched.after(0.02)
    assert watched.said == ([4] if patience_s == 0.0 else []), "a size that never ran has no estimate"
    watched.after(0.0, wall_s=61.0)
    assert watched.said[:1] == [4] and watched.after(0.0, wall_s=GRACE_WALL_S + 0.01)[-1] == "kill"


def test_a_suspect_is_looked_at_often_until_it_has_to_end() -> None:
    watched = Watched()
    assert watched.watching.suspects(0)
    watched.device.used_s = 10.0
    assert not watched.watching.suspects(0) and watched.said == [3], "the next look is no hurry"
    for kind, patience in (("tensorrt", lambda job: 0.075), ("cpu", lambda job: math.inf)):
        other = Watched()
        other.device.spec.kind, other.run.ticket, other.watching.patience_s = kind, 5, patience
        assert not other.watching.suspects(0), "nothing ends it but the clock"
    watched.queue.clear()
    assert not watched.watching.suspects(0)


def suspected(watched: Watched, used_s: float) -> list[Any]:
    """What was said when the device's processor time has moved so far."""
    watched.device.used_s += used_s
    watched.watching.suspects(0)
    return watched.said


def test_who_holds_up_another_tenant_is_to_stop_and_then_to_end() -> None:
    """Its estimate is 20 ms, and it may hold others up for 75: 60 ms are its own, 70 of theirs end it."""
    watched = Watched()
    assert suspected(watched, 0.05) == []
    watched.waits(tenant=0)
    assert suspected(watched, 0.05) == [], "who waits is its own tenant's"
    watched.waits(tenant=1)
    assert suspected(watched, 0.0) == ["stop"] and watched.lane.stopping
    assert suspected(watched, 0.069) == ["stop"] and suspected(watched, 0.002) == ["stop", 3]


def test_who_came_between_two_looks_has_waited_since_then() -> None:
    watched = Watched()
    assert suspected(watched, 0.10) == [] and suspected(watched, 0.02) == []
    watched.waits(tenant=1)
    watched.waiting[0].arrival_s, watched.now_s = 7.004, 7.01
    assert suspected(watched, 0.01) == ["stop"]
    assert watched.watching._seen[0].wanted_s == pytest.approx(0.124)
    early = Watched()
    early.now_s = 9.0
    early.waits(tenant=1)
    assert suspected(early, 0.1) == ["stop"] and early.watching._seen[0].wanted_s == 0.0, "since it was sent"


def test_what_runs_of_a_network_took_of_late_is_its_own_time() -> None:
    for factor, own_s in (
        (1.2, WELL * 1.2 * 0.02),
        (4.0, 0.075),
    ):  # but its tenant may teach no more than its bound
        watched = Watched()
        watched.dispatcher.costs.scatter.runs[0][0].put(factor)
        watched.run.ticket = 4
        watched.waits(tenant=1)
        assert suspected(watched, 0.0) == ["stop"] and suspected(watched, own_s - 0.0005) == ["stop"]
        assert suspected(watched, 0.001) == ["stop", 4]


def test_a_size_that_nobody_knows_has_time() -> None:
    watched = Watched()
    watched.dispatcher.sure = lambda job: False
    watched.run.ticket = 4
    watched.waits(tenant=1)
    assert suspected(watched, 0.0) == [] and suspected(watched, FAR * 0.075 + UNSURE * 0.02 - 0.01) == []
    assert suspected(watched, 0.02) == [4]


@pytest.mark.parametrize(("blocks", "each_s", "most_s"), [(10, 0.015, UNSURE * 0.15), (10, 70.0, 10 * 0.075)])
def test_a_size_that_nobody_knows_has_time_for_all_its_blocks(
    blocks: int, each_s: float, most_s: float
) -> None:
    """The first batch of eight pictures, of 15 ms each, was ended after 0.1 s, and all others like it after that."""
    watched = Watched()
    watched.dispatcher.sure = lambda job: False
    watched.run.ticket, watched.lane.due_s = 4, [each_s * (n + 1) for n in range(blocks)]
    watched.after(0.0)
    assert watched.after(FAR * 0.075 + most_s - 0.01) == [] and watched.after(0.02) == [4]


def test_who_waits_behind_a_trial_of_sizes_is_not_to_blame() -> None:
    watched = Watched(trial=9)
    assert watched.after(0.6) == [-9] and not watched.run.ended
    watched.trial = None
    assert watched.after(0.3) == [-9] and watched.after(0.3) == [-9], "its own time begins now"
    assert watched.after(0.3) == [-9, 3]
    short = Watched(trial=9)
    assert short.after(0.3) == []
    short.trial = None  # it is through before it has to end
    assert [len(short.after(0.3)) for _ in range(3)] == [0, 0, 1] and short.said == [3]
    stuck = Watched(trial=9)
    stuck.after(0.6)
    assert stuck.after(GRACE_S + 0.01) == [-9, "kill"] and stuck.device.blameless


def test_a_trial_that_came_before_the_first_look_and_after_the_run_excuses_nothing() -> None:
    watched = Watched()
    watched.trial, watched.run.ticket = 9, 4
    watched.after(0.0)
    assert watched.after(0.6) == [4] and watched.run.ended


def test_a_trial_that_waits_behind_a_run_excuses_nothing() -> None:
    watched = Watched()
    watched.trial = 9
    assert watched.after(0.6) == [3] and watched.run.ended
    assert watched.after(GRACE_S + 0.01) == [3, "kill"] and not watched.device.blameless
