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
LOOK_S = 0.25  # between two looks whether to stop
STOPPED_S = 2.0  # so long those under way may still be answered
MAX_OPEN = 20_000  # requests under way; beyond that a request counts as not sent, and is reported


@dataclass(frozen=True)
class Samples:
    """One entry per request. ``latency_s``: from the intended send time; nan without an answer.

    ``lag_s``: how much later than intended it was really sent: what the generator itself cannot keep up with.
    ``early``: it was stopped; ``schedule`` holds what was sent until then.
    """

    schedule: Schedule
    latency_s: npt.NDArray[np.float64]
    lag_s: npt.NDArray[np.float64]
    error: list[str]
    wall_s: float
    early: bool = False


async def send_all(
    schedule: Schedule, client: Client, on_done: Callable[[int], None] = lambda n: None, drain_s: float = 30.0,
    clock: Callable[[], float] = time.perf_counter, stop: asyncio.Event | None = None,
) -> Samples:  # fmt: skip
    """Open loop: every request leaves at its time, even when earlier ones have no answer yet.

    ``clock``: seconds, of the event loop's own pace; uvloop's own clock counts only milliseconds. ``stop``: once it is
    set, nothing more is sent.
    """
    stop = asyncio.Event() if stop is None else stop
    count = len(schedule.time_s)
    latency_s, lag_s, error = np.full(count, np.nan), np.zeros(count), ["no answer"] * count
    tasks: set[asyncio.Task[None]] = set()
    whole: dict[
        str, str
    ] = {}  # of failures that are counted together: their text, without numbers if these differ

    async def one(n: int) -> None:
        intended_s = start_s + schedule.time_s[n]
        lag_s[n] = clock() - intended_s
        try:
            await client.send(int(schedule.stream[n]))
        except Exception as trouble:  # every way in which a request can fail is a result, not a fault
            error[n] = alike = shorten(trouble)
            text = shorten(trouble, numbers=True)
            if whole.setdefault(alike, text) != text:
                whole[alike] = alike
        else:
            latency_s[n], error[n] = clock() - intended_s, OK
        on_done(1)

    with undisturbed():
        start_s = clock() + 0.05
        for n in range(count):
            while not stop.is_set() and (wait_s := start_s + schedule.time_s[n] - clock()) > 0.0005:
                await asyncio.sleep(min(wait_s, LOOK_S))
            if stop.is_set():
                count = n
                break
            if len(tasks) >= MAX_OPEN:
                error[n] = "not sent: too many requests under way"
                on_done(1)
                continue
            task = asyncio.create_task(one(n))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await _drain(tasks, drain_s, clock, stop)
    sent = Schedule(schedule.time_s[:count], schedule.stream[:count])
    wall_s, early = clock() - start_s, stop.is_set()
    errors = [whole.get(text, text) for text in error[:count]]
    return Samples(sent, latency_s[:count], lag_s[:count], errors, wall_s, early)


async def _drain(
    tasks: set[asyncio.Task[None]], drain_s: float, clock: Callable[[], float], stop: asyncio.Event
) -> None:
    """Wait for the answers that are still to come, and no longer; less where it is to stop."""
    end_s, least_s = clock() + drain_s, clock() + STOPPED_S
    while tasks and (left_s := (min(end_s, least_s) if stop.is_set() else end_s) - clock()) > 0.0:
        await asyncio.wait(tasks, timeout=min(left_s, LOOK_S))
    late = list(tasks)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


def shorten(error: Exception, *, numbers: bool = False) -> str:
    """One line, without ``numbers``, so that equal failures can be counted together; cut between words."""
    line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    text = line if numbers else re.sub(r"\d+(\.\d+)?", "#", line)
    if len(text) <= MAX_TEXT:
        return text
    cut = text[: MAX_TEXT - len(MORE) + 1].rpartition(" ")[0].rstrip() or text[: MAX_TEXT - len(MORE)]
    return cut + MORE
