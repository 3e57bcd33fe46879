"""Send a schedule on time, whatever the server does, and write down what came back when."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.serving.devices.memory import undisturbed
from eunomia.serving.load.client import Client
from eunomia.serving.load.plan import Schedule

OK = ""
MAX_TEXT, MORE = 200, " ..."  # letters of an error
MAX_OPEN = 20_000  # requests under way; beyond that a request counts as not sent, and is reported


@dataclass(frozen=True)
class Samples:
    """One entry per request. ``latency_s``: from the intended send time; nan without an answer.

    ``lag_s``: how much later than intended it was really sent: what the generator itself cannot keep up with.
    """

    schedule: Schedule
    latency_s: npt.NDArray[np.float64]
    lag_s: npt.NDArray[np.float64]
    error: list[str]
    wall_s: float


async def send_all(
    schedule: Schedule, client: Client, on_done: Callable[[int], None] = lambda n: None, drain_s: float = 30.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Samples:  # fmt: skip
    """Open loop: every request leaves at its time, even when earlier ones have no answer yet.

    ``clock``: seconds, of the event loop's own pace; uvloop's own clock counts only milliseconds.
    """
    count = len(schedule.time_s)
    latency_s, lag_s, error = np.full(count, np.nan), np.zeros(count), ["no answer"] * count
    tasks: set[asyncio.Task[None]] = set()

    async def one(n: int) -> None:
        intended_s = start_s + schedule.time_s[n]
        lag_s[n] = clock() - intended_s
        try:
            await client.send(int(schedule.stream[n]))
        except Exception as trouble:  # every way in which a request can fail is a result, not a fault
            error[n] = shorten(trouble)
        else:
            latency_s[n], error[n] = clock() - intended_s, OK
        on_done(1)

    with undisturbed():
        start_s = clock() + 0.05
        for n in range(count):
            wait_s = start_s + schedule.time_s[n] - clock()
            if wait_s > 0.0005:
                await asyncio.sleep(wait_s)
            if len(tasks) >= MAX_OPEN:
                error[n] = "not sent: too many requests under way"
                on_done(1)
                continue
            task = asyncio.create_task(one(n))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=drain_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
    return Samples(schedule, latency_s, lag_s, error, clock() - start_s)


def shorten(error: Exception) -> str:
    """One line, numbers taken out, so that equal failures can be counted together; cut between words."""
    line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    text = re.sub(r"\d+(\.\d+)?", "#", line)
    if len(text) <= MAX_TEXT:
        return text
    cut = text[: MAX_TEXT - len(MORE) + 1].rpartition(" ")[0].rstrip() or text[: MAX_TEXT - len(MORE)]
    return cut + MORE
