"""A run that a device was ordered to make."""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.serving.devices.arena import FLAGS, Slot
from eunomia.serving.dispatch.jobs import Job

NO_ROOM = Slot(FLAGS, 0)
SUSPECT, SUSPECT_S = (
    2.0,
    5e-3,
)  # a run that takes so many times its estimate, and so long, may have to be ended
OFTEN_S, CLOSELY_S = 5e-3, 2e-3  # between two looks at it, and where another tenant waits for it


@dataclass
class Run:
    """A run that a device has been told of, and where its outputs may go."""

    job: Job
    first: int
    last: int
    ticket: int
    slot: Slot = NO_ROOM
    limit_s: float = float("inf")
    move_from: int = -1  # the device that still holds its tensors
    sent: bool = False
    behind: int | None = None  # the trial of sizes that its device was at when it was sent
    ended: bool = False  # it was to end in its midst
