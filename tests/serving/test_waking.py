"""A policy that waits for something is asked again when it wants to be, once, however often it was asked before."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eunomia.contract.view import Assign, View
from eunomia.serving.devices.execution import Execution
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.workload.tenant import Agreement
from tests.patience import until_async
from tests.serving.test_dispatcher import Replay

ARRIVALS, ROUNDS = 50, 20


class Holds:
    """Starts nothing."""

    def __init__(self) -> None:
        self.wake_s, self.asked = 0.002, 0

    def __call__(self, view: View) -> list[Assign]:
        self.asked += 1
        return []


class Counting(asyncio.SelectorEventLoop):
    """Keeps the handle of every timer that calls ``what``."""

    def __init__(self, what: Callable[[], None]) -> None:
        super().__init__()
        self.what, self.timers = what, list[asyncio.TimerHandle]()

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = super().call_later(delay, callback, *args, context=context)
        if callback == self.what:
            self.timers.append(timer)
        return timer

    @property
    def kept(self) -> int:
        """Timers that nobody has put off, whether or not they have called: the successor of each puts it off."""
        return sum(not timer.cancelled() for timer in self.timers)


def test_one_timer_whatever_was_asked() -> None:
    """As it was, each empty answer added one, and each that called added its successor."""
    nothing: Any = None
    policy = Holds()
    replay = Replay(policy, np.ones((1, 1)), [1], DispatchOptions())
    dispatcher = replay.dispatcher
    dispatcher.executor = execution = Execution(nothing, [], nothing, replay.clock)
    execution.connect(dispatcher, nothing)
    dispatcher.add_pair(Agreement("t", "m"))
    loop = Counting(dispatcher.look_again)

    async def scene() -> None:
        for n in range(ARRIVALS):
            dispatcher.arrive(Job(0, replay.networks[0], 0.0, math.inf, payload=n))
        assert policy.asked == ARRIVALS and loop.kept == 1
        await until_async(lambda: policy.asked >= ARRIVALS + ROUNDS)
        assert loop.kept == 1

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scene())
