"""Two devices with orders ahead: half-done requests change their device, and nothing of them is lost."""

from __future__ import annotations

import asyncio
import math
import os
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from eunomia.inference.policies import load_policy
from eunomia.serving.devices.answers import Payload
from eunomia.serving.devices.arena import FLAGS, Arena
from eunomia.serving.devices.aside import FETCH, order
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.loading import LoadedModel
from eunomia.serving.devices.messages import array_at, pair, place, receive, send
from eunomia.serving.devices.moving import STARTS, Moving
from eunomia.serving.devices.piece import Live, live_of
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.devices.worker import Worker
from eunomia.serving.dispatch import runs
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.protocol.errors import ModelFailed, NoRoom
from eunomia.serving.server import Server
from eunomia.workload.tenant import Agreement
from tests.patience import PATIENCE_S, until_async
from tests.serving.live import SIDE, options

AHEAD = DispatchOptions(ahead_s=3e-3, lease_s=1e-3)
TWO = [DeviceSpec("first"), DeviceSpec("second")]
CLIENTS, REQUESTS = 20, 15


class Bench:
    """A pool whose devices are no processes: what they are told is written down."""

    def __init__(self, folder: Path) -> None:
        policy = load_policy("edf")
        self.pool = DevicePool(
            TWO, ManualClock(), policy, AHEAD, cache=folder, arena_bytes=2**20, target_s=1.0
        )
        self.told: list[tuple[int, dict[str, Any]]] = []
        for device in self.pool.devices:
            device.tell = lambda message, n=device.index: self.told.append((n, message)) is None  # type: ignore[misc]
        self.network = self.pool.costs.add("net", 3, sizes=[4])
        for n in range(2):
            self.pool.costs.measured(self.network, n, [1.0, 1.0, 1.0])
        self.pool.loading._labels[self.network.index] = "net#1"
        self.pool.loading.models["net"] = LoadedModel(
            self.network, "net#1", "", {}, {"inputs": [], "outputs": []}
        )
        self.pair = self.pool.dispatcher.add_pair(Agreement("gold", "net"))
        self.free = self.pool.arena.free_bytes

    def job(self, block: int = 0, device: int = -1) -> Job:
        """A request that has run up to this block."""
        slot = self.pool.arena.allocate(1)
        answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.exception())
        job = Job(self.pair, self.network, 0.0, 100.0, block=block, device=device)
        job.payload = Payload([], slot, answer)
        return job

    def fetching(self) -> Job:
        """A half-done request of device 1 goes on on device 0, which waits for its tensors."""
        job = self.job(1, 1)
        runs.begin(self.pool.dispatcher, job, 0, 0.0)
        self.pool.execution.run(0, job, 1, 2)
        return job

    def kinds(self, device: int) -> list[str]:
        """What a device was told so far."""
        return [message["kind"] for n, message in self.told if n == device]


def test_a_revoked_order_does_not_revoke_the_one_before_it(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path)
        moving = bench.fetching()
        bench.pool.execution.queue(0, bench.job(), 0, 2)
        bench.pool.execution.revoke(0)
        assert bench.kinds(1) == ["fetch"] and bench.kinds(0) == []
        bench.pool.execution.on_message(
            1, {"kind": "tensors", "request": moving.number, "tensors": [], "bytes": 1}
        )
        order = bench.told[-1][1]
        assert (order["kind"], order["request"]) == ("run", moving.number)
        assert not bench.pool.arena.skipped(0, order["ticket"])

    asyncio.run(main())


def test_lost_tensors_are_asked_for_once_and_fail_their_request(tmp_path: Path) -> None:
    async def main() -> None:
        bench = Bench(tmp_path)
        moving = bench.fetching()
        bench.pool.execution.on_message(
            1, {"kind": "tensors", "request": moving.number, "tensors": None, "bytes": 0}
        )
        assert bench.kinds(1) == ["fetch"]
        with pytest.raises(ModelFailed, match="has lost its tensors"):
            await moving.payload.answer
        assert bench.pool.arena.free_bytes == bench.free and not bench.pool.busy

    asyncio.run(main())


@pytest.mark.parametrize("where", ["on the way", "at the end"])
def test_a_batch_that_finds_no_room_runs_one_by_one(tmp_path: Path, where: str) -> None:
    """Eight spectrograms together held 594 MB between two blocks: all were refused, each of which fits alone."""

    async def main() -> None:
        bench = Bench(tmp_path)
        pool, waits = bench.pool, list[Job]()
        first, second = bench.job(1, 1) if where == "on the way" else bench.job(), bench.job()
        first.together = [second]
        runs.begin(pool.dispatcher, first, 0, 0.0)
        pool.execution.run(0, first, first.block, 3)
        again = pool.dispatcher.wait_again
        pool.dispatcher.wait_again = lambda job: (waits.append(job), again(job))[1]  # type: ignore[method-assign]
        if where == "on the way":
            told = {"kind": "tensors", "request": first.number, "tensors": None, "bytes": 2**21}
            pool.execution.on_message(1, told)
        else:
            ended = {"kind": "done", "ticket": bench.told[-1][1]["ticket"], "next": 3, "skipped": [], "tensors": None,
                     "bytes": 2**21, "span_s": (0.0, 3.0), "ends_s": [0.0, 1.0, 2.0, 3.0]}  # fmt: skip
            pool.execution.on_message(0, ended)
        assert waits == [first, second] and not first.together and (first.group, second.group) == (None, None)
        assert not first.payload.answer.done() and not second.payload.answer.done()
        assert bench.network.index in pool.costs.apart
        assert {lane.job for lane in pool.dispatcher.lanes} == {first, second}, "both run, by themselves"

    asyncio.run(main())


@pytest.mark.parametrize("ends", ["cancelled", "hopeless", "closed"])
def test_who_shares_a_half_done_batch_does_not_leave_with_its_first(tmp_path: Path, ends: str) -> None:
    """It had no answer, ever, and its memory was not given back."""

    async def main() -> None:
        bench = Bench(tmp_path)
        first, second, gone = bench.job(1, 0), bench.job(), bench.job()
        first.together, gone.cancelled = [second, gone], True
        bench.pool.dispatcher.wait(first)
        if ends == "cancelled":
            bench.pool.cancel(first)
        elif ends == "hopeless":
            bench.pool.dispatcher.withdraw(first)
            bench.pool.execution.dropped(first, "hopeless")
        else:
            await bench.pool.close()
            assert second.payload.over and gone.payload.over
            return
        await until_async(lambda: "run" in (*bench.kinds(0), *bench.kinds(1)))
        assert [m["request"] for _, m in bench.told if m["kind"] == "run"] == [second.number]
        assert first.payload.over and gone.payload.over and not second.payload.over

    asyncio.run(main())


def test_one_that_finds_no_room_on_its_way_begins_anew_and_there_is_an_end(tmp_path: Path) -> None:
    """The server moved it to another device, found no room for that, and told its client that it takes too much."""

    async def main() -> None:
        bench = Bench(tmp_path)
        moving = bench.fetching()
        told = {"kind": "tensors", "request": moving.number, "tensors": None, "bytes": 2**21}
        bench.pool.execution.on_message(1, told)
        assert (moving.block, bench.told[-1][1]["kind"]) == (0, "run"), "from its first block"
        assert not moving.payload.answer.done()
        devices = Mock()
        moves, run = Moving(devices, [], Mock()), Mock(job=moving, move_from=1)
        for _ in range(STARTS):
            moves._without_room(run, NoRoom("too large"))
        assert (devices.dispatcher.run_again.call_count, devices.fail.call_count) == (STARTS - 1, 1)

    asyncio.run(main())


@pytest.mark.parametrize("ends", ["tensors lost", "holder dies", "device dies"])
@pytest.mark.parametrize("sent", [False, True])
def test_who_waits_for_tensors_is_not_charged_for_device_time(tmp_path: Path, ends: str, sent: bool) -> None:
    """Device 0 gets no order before device 1 has sent the tensors."""

    async def main() -> None:
        bench = Bench(tmp_path)
        moving, lane = bench.fetching(), bench.pool.dispatcher.lanes[0]
        bench.pool.recovery._spawn = lambda work: work.close()  # type: ignore[assignment, method-assign]
        lane.last_request = 77  # what has run there before
        answer = {"kind": "tensors", "request": moving.number, "tensors": None, "bytes": 0}
        if sent:
            bench.pool.execution.on_message(1, {**answer, "tensors": [], "bytes": 1})
        bench.pool.dispatcher.clock.time_s = 5.0  # type: ignore[attr-defined]
        if ends == "tensors lost":
            told: dict[str, Any] = {
                "kind": "failed",
                "ticket": bench.told[-1][1].get("ticket"),
                "skipped": [],
            }
            bench.pool.execution.on_message(*((0, {**told, "why": "x"}) if sent else (1, answer)))
        else:
            bench.pool._on_death(1 if ends == "holder dies" else 0)
        if sent and ends == "holder dies":  # it has the tensors, and goes on
            assert lane.job is moving
        else:
            assert (lane.busy_s, lane.last_request) == ((5.0, moving.number) if sent else (0.0, 77))

    asyncio.run(main())


@pytest.mark.parametrize("holder_dies", [False, True])
def test_memory_that_a_device_may_still_write_is_not_given_to_others(
    tmp_path: Path, holder_dies: bool
) -> None:
    async def main() -> None:
        bench = Bench(tmp_path)
        moving = bench.fetching()
        bench.pool.recovery._spawn = lambda work: work.close()  # type: ignore[assignment, method-assign]
        room = bench.told[-1][1]["room"]
        bench.pool._on_death(0)  # the one that waits for the tensors; the other may be writing them
        again = bench.told[-1][1]
        assert again["kind"] == "run" and again["room"][0] != room[0]
        free = bench.pool.arena.free_bytes
        if holder_dies:
            bench.pool._on_death(1)
        else:
            late = {"kind": "tensors", "request": moving.number, "tensors": [], "bytes": 1}
            bench.pool.execution.on_message(1, late)
        assert bench.pool.arena.free_bytes >= free + room[1]

    asyncio.run(main())


class Stages:
    """A network of two blocks whose second waits until it may go on, as a slow device's would."""

    blocks, has_whole, bound, options = 2, False, None, None
    clock = staticmethod(lambda: 0.0)

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def run_block(self, n: int, live: Live) -> Live:
        """One more in each element."""
        if n:
            assert self.go_on.wait(PATIENCE_S)
        return live_of({"x": live["x"].numpy() + 1.0})


def test_a_busy_device_hands_tensors_over_at_once_though_runs_are_queued_on_it() -> None:
    """Requests 1 and 2 wait between two blocks; 3 holds the device, and another run stands behind it."""
    line, theirs = pair()
    line.settimeout(PATIENCE_S)
    arena, network = Arena.create(2**20), Stages()
    worker = Worker(theirs, arena, 0, "")
    worker._networks["net"] = network  # type: ignore[assignment]
    placed, end = place([("x", np.ones(3, np.float32))], FLAGS)
    array_at(memoryview(arena.memory), placed[0])[...] = 1.0
    heard, pipe = os.pipe()

    def run(request: int, last: int) -> None:
        told = {
            "kind": "run",
            "ticket": request,
            "request": request,
            "model": "net",
            "first": 0,
            "last": last,
        }
        send(line, told | {"inputs": [placed], "whole": False, "room": [end, 64]})

    try:
        worker.obey_aside(heard)
        serving = threading.Thread(target=worker.serve, daemon=True)
        serving.start()
        assert receive(line) == {"kind": "ready"}
        for request, last in ((1, 1), (2, 1), (3, 2)):
            run(request, last)
        assert [receive(line)["ticket"] for _ in range(2)] == [1, 2]  # type: ignore[index]
        run(4, 1)
        for request, size, found in ((1, 64, True), (2, 0, False), (2, 64, True), (9, 64, False)):
            assert order(pipe, FETCH, request, end, size)
            message = receive(line)
            assert message is not None and message["kind"] == "tensors" and message["request"] == request
            assert message["bytes"] == (0 if request == 9 else 64)
            assert (message["tensors"] is not None) == found
            if found:
                given = array_at(memoryview(arena.memory), message["tensors"][0])
                np.testing.assert_array_equal(given, np.full(3, 2.0))
                given[...] = 0.0
        network.go_on.set()
        assert [receive(line)["ticket"] for _ in range(2)] == [3, 4]  # type: ignore[index]
        send(line, {"kind": "stop"})
        serving.join(PATIENCE_S)
    finally:
        network.go_on.set()
        os.close(pipe)
        line.close()
        theirs.close()


def test_every_request_is_answered_and_all_memory_comes_back_with_a_reload_between(tmp_path: Path) -> None:
    picture = {"image": np.ones((1, 3, SIDE, SIDE), np.float32)}
    draw = random.Random(1)

    async def main() -> None:
        chosen = replace(
            options(tmp_path), devices=TWO, block_s=2e-4, policy="weighted_fair", dispatch=AHEAD,
            arena_bytes=128 * 2**20,
        )  # fmt: skip
        async with Server(chosen) as server:
            server.guard.limit_s = math.inf
            pool = server.pool
            pairs = [pool.dispatcher.add_pair(Agreement(name, "small")) for name in ("a", "b", "c")]

            async def client() -> list[Any]:
                answers = []
                for _ in range(REQUESTS):
                    now_s = server.service.clock.now_s()
                    due_s = now_s + draw.choice([0.004, 0.02, 0.2])
                    job = Job(draw.choice(pairs), pool.models["small"].network, now_s, due_s)
                    answers.append((await pool.submit(job, picture))["logits"])
                return answers

            asked = [asyncio.ensure_future(client()) for _ in range(CLIENTS)]
            await server.service.repository.load("small")
            answers = [answer for some in await asyncio.gather(*asked) for answer in some]
            for answer in answers:
                np.testing.assert_array_equal(answer, answers[0])
            while pool.busy or pool.arena.free_bytes < pool.arena.room_bytes:
                await asyncio.sleep(0)
            assert pool.deaths == 0

    asyncio.run(main())
