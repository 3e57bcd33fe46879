"""Runs of a network that has just ended a device wait until another process stands by for the next time.

Where one does, a death costs the others a few milliseconds; else its process has to start, and each network to be
loaded, which takes seconds. So who sent what a device died of waits for that, for ``MOST_S`` after a death at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from eunomia.serving.devices.climbs import Known, end
from eunomia.serving.devices.device import Device
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.jobs import Job

MOST_S, LOOK_S = 20.0, 0.25


class Unguarded:
    """By pair of tenant and network."""

    def __init__(self, devices: Sequence[Device], clock: Clock) -> None:
        self._devices, self._clock = devices, clock
        self._until_s: dict[int, float] = {}
        self.expected: Callable[[Device], bool] = lambda device: True  # whether one will stand by there
        self._known: Known | None = None

    def felled(self, job: Job) -> None:
        """A device has died under it."""
        self._until_s[job.pair] = self._clock.now_s() + MOST_S

    def wanted(self, job: Job) -> Known | None:
        """When to ask again; None: it may run."""
        if not self.waits(job):
            return None
        if self._known is None or self._known.done():
            loop = asyncio.get_running_loop()
            self._known = loop.create_future()
            loop.call_later(LOOK_S, end, self._known)
        return self._known

    def waits(self, job: Job) -> bool:
        """Whether it is to."""
        if job.pair not in self._until_s:
            return False
        spared = [device for device in self._devices if device.spec.spare and device.place.spare]
        may = [device for device in spared if self.expected(device)]
        guarded = all(device.alive and device.stands_by for device in may)
        if guarded or self._clock.now_s() >= self._until_s[job.pair]:
            del self._until_s[job.pair]
        return job.pair in self._until_s
