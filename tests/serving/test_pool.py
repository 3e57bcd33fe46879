"""Devices together: requests that come at once, and processes that do not come back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.serving.devices.recovery import pause_s
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.server import Server
from eunomia.workload.tenant import Agreement
from tests.patience import until
from tests.serving.live import SIDE, options, running

PICTURE = {"image": np.ones((1, 3, SIDE, SIDE), np.float32)}


def test_requests_of_one_round_are_shown_to_the_policy_together(tmp_path: Path) -> None:
    async def main() -> tuple[int, list[Job]]:
        async with Server(options(tmp_path)) as server:
            pool = server.pool
            for watcher in list(pool._tasks):  # it would ask the policy as well
                watcher.cancel()
            pair = pool.dispatcher.add_pair(Agreement("gold", "small"))
            network = pool.models["small"].network
            jobs, answers = [], []
            for n in range(5):
                now_s = server.service.clock.now_s()
                jobs.append(Job(pair, network, now_s, now_s + 5.0 - n))
                answers.append(pool.submit(jobs[-1], PICTURE))
                if n == 0:
                    asked = pool.dispatcher.rounds
            assert pool.dispatcher.rounds == asked and len(pool.dispatcher.unheard) == 4
            await asyncio.sleep(0)
            assert not pool.dispatcher.unheard
            asked = pool.dispatcher.rounds - asked
            await asyncio.gather(*answers)
            return asked, jobs

    asked, (_, *others) = asyncio.run(main())
    assert asked == 1
    heard_s = [job.arrival_s + job.reach_s for job in others]
    assert max(heard_s) - min(heard_s) < 1e-9 and heard_s[0] > max(job.arrival_s for job in others)


def test_a_device_that_cannot_start_is_tried_later_and_later_and_serves_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as server:
        python = sys.executable
        monkeypatch.setattr(sys, "executable", "/bin/false")
        os.kill(server.pool.devices[0].pid, signal.SIGKILL)
        until(lambda: server.pool.deaths >= 4)
        assert not server.service.ready
        monkeypatch.setattr(sys, "executable", python)
        until(lambda: server.service.ready)


def test_the_pause_before_a_device_is_started_again_doubles() -> None:
    paused_s = [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert [pause_s(vain) for vain in range(9)] == pytest.approx(paused_s) and pause_s(10**6) == 5.0


def test_a_piece_of_memory_is_given_back_once(tmp_path: Path) -> None:
    async def main() -> Any:
        async with Server(options(tmp_path)) as server:
            arena = server.pool.arena
            slots = [arena.allocate(5000) for _ in range(4)]
            for n in (1, 3, 0):
                arena.release(slots[n])
                with pytest.raises(ValueError, match="free already"):
                    arena.release(slots[n])
            arena.release(slots[2])
            assert arena.free_bytes == arena.room_bytes

    asyncio.run(main())
