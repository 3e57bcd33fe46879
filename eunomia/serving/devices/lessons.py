"""What a run that has ended teaches: what its blocks take, and what devices do to each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise

from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.run import Run
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import Network
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.neighbours import NOTHING, Ran, what_of

OWN = 0.5  # a run that had its core for less of its time was interrupted
Seen = tuple[Run, int, Message, int, int]  # run, device, what it said, rows and class of its input
Alike = tuple[Network, int, int, int, int, int]  # network, device, first block, blocks, rows, class


class Lessons:
    """They are learned later. ``on_learnt``: what a class takes is known now, by its first row."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        self.on_learnt: Callable[[int], None] = lambda cost_row: None
        self._dispatcher, self._clock = dispatcher, clock

    def hear(self, run: Run, device: int, message: Message, size: tuple[int, int]) -> None:
        """Of a run's end; ``size``: rows and class of its input."""
        later, seen = self._dispatcher.later, (run, device, message, *size)
        if self._dispatcher.costs.evident(size[1]):
            later.gather(self._learn, seen)
        else:
            later.add(partial(self._learn, [seen]))
        if self._dispatcher.neighbours is not None:
            job, ends_s = run.job, message["ends_s"]
            what = what_of(job, run.first, run.first + len(ends_s) - 1)
            span_s = self._clock.of(ends_s[0]), self._clock.of(ends_s[-1])
            later.add(partial(self._observe, Ran(device, job.network.name, what, *span_s)))

    def _learn(self, runs: list[Seen]) -> None:
        """An interruption, which says little beside many runs, would pass for the input's time among few."""
        costs, alike = self._dispatcher.costs, dict[Alike, list[list[float]]]()
        for run, device, message, rows, cost_row in runs:
            seconds = [end_s - begin_s for begin_s, end_s in pairwise(message["ends_s"])]
            own_s, network = message.get("own_s", math.inf), run.job.network
            if own_s < OWN * (all_s := sum(seconds)) and not costs.settled(network, device, cost_row):
                seconds = [one_s * own_s / all_s for one_s in seconds]
            alike.setdefault((network, device, run.first, len(seconds), rows, cost_row), []).append(seconds)
        for (network, device, first, _, rows, cost_row), times_s in alike.items():
            if costs.learn_all(network, device, first, times_s, rows, cost_row):
                self._dispatcher.learnt(cost_row)
                self.on_learnt(cost_row)

    def _observe(self, ran: Ran) -> None:
        """What ran beside it tells what networks do to each other."""
        near, now_s = self._dispatcher.neighbours, self._clock.now_s()
        if near is not None:
            lanes = enumerate(self._dispatcher.lanes)
            busy = [(device, lane, lane.job) for device, lane in lanes if lane.job is not None]
            near.ran(ran, [Ran(d, job.network.name, NOTHING, lane.start_s, now_s) for d, lane, job in busy])
