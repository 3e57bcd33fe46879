"""What inputs of sizes that never ran will take: the server tries it itself, in short steps.

The first such request would otherwise be the trial, and hold the device for as long as it takes. A step makes up an
input between the largest that was tried and the request's. It is larger by so much that its longest block stays
inside the bound. That holds even if time grows with the square of the elements (in proportion to rows), and of the
input that grows most: a token may cost more than all of a large cache beside it. Axes that shrink do so first, as they
make up for none that grow. Fewer elements than ``FEW`` count as so many, as far as time that grows in proportion stays
inside, too. Its sizes are multiples of powers of two, up to ``LIKED``, if such a step is large enough: others do not
run on networks that halve pictures. Axes that the file names alike are alike in it, and sums of names follow, if that
is so in both inputs.

Orders come first; a device that is never idle gives it ``SHARE`` of its time all the same, a block at a time: no size
is locked out.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Sequence

from eunomia.serving.devices.axes import Axes, Shapes, elements
from eunomia.serving.devices.climbs import Climb, Climbs, Known
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.loading import LoadedModel, Loading, trial_shape
from eunomia.serving.devices.messages import Message, Port, Ports
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.dispatch.jobs import Job

log = logging.getLogger("eunomia.serving")
LEAST_STEP = 2**0.25  # classes of shapes are so far apart
FEW = 16  # elements: fewer may take no less, and from there the least step may be far
LIKED = 32  # networks that halve pictures some times over take multiples of up to this
PAUSE_S = 0.025  # between two messages about a step
BEHIND = 40  # so often may orders come before it, until one block runs first
SHARE = 0.05  # of a device that is never idle
ANSWER_S = 10.0
Fit = Callable[[Shapes], Shapes]


class InVain(Exception):
    """A step could not be made."""


class Ladder:
    """Climbs, one at a time, each step on the device with the least to do. ``queued``: how many runs that has."""

    def __init__(self, devices: Sequence[Device], loading: Loading, costs: CostBook, clock: Clock) -> None:
        self._devices, self._loading, self._costs, self._clock = devices, loading, costs, clock
        self.queued: Callable[[int], int] = lambda device: 0
        self._climbs = Climbs()
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[Message] | None = None
        self._number, self._device = 0, -1  # of the step that it answers, and who makes it
        self._behind = BEHIND  # so often may orders still come first
        self._open: dict[int, int] = {}  # device -> number of a step that it has not answered

    def towards(self, tenant: str, job: Job, bound_s: float) -> bool | Known:
        """What a request of this size takes: True = that is known, False = it was tried in vain.

        Else ask again once what comes back is done: its climb, or another one where its tenant has many.
        """
        if self._costs.evident(job.cost_row):
            return True
        climb = self._climbs.find(tenant, job, bound_s, self._clock.now_s())
        if climb is None:
            if (
                self._closed
                or job.network.untried
                or self._loading.models.get(job.network.name) is None
                or not job.shapes
            ):
                return False
            if (turn := self._climbs.full(tenant)) is not None:
                return turn
            climb = self._climbs.begin(tenant, job, bound_s)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._climb_all())
        return climb.found if climb.ended.done() else climb.ended

    def tries_on(self, device: int) -> int | None:
        """The number of the step that a device may be at; None = at none."""
        return self._open.get(device)

    def answered(self, device: int, message: Message) -> None:
        """A device has made a step, or has not."""
        if self._open.get(device) == message["number"]:
            del self._open[device]
        if self._answer is not None and not self._answer.done() and message["number"] == self._number:
            self._answer.set_result(message)

    def died(self, device: int) -> None:
        """A device will not answer any more."""
        self._open.pop(device, None)
        if self._answer is not None and not self._answer.done() and device == self._device:
            self._answer.set_exception(InVain("the device died"))

    def close(self) -> None:
        """Climb no further."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self._climbs.end_all(self._clock.now_s())

    def forget(self, network: Network) -> None:
        """It is not in service any more."""
        self._climbs.forget(network.index)

    async def _climb_all(self) -> None:
        while (climb := self._climbs.next()) is not None:
            found = False
            try:
                await self._climb(climb)
                found = True
            except (InVain, TimeoutError) as error:
                log.info("what '%s' takes with larger inputs is not found out: %s", climb.network.name, error)
            except Exception:  # the next climb is not to suffer
                log.exception("what '%s' takes with larger inputs is not found out", climb.network.name)
            finally:
                self._climbs.end(climb, self._clock.now_s(), found=found)

    async def _climb(self, climb: Climb) -> None:
        """From the trial's size to the wanted one, or to where a block holds a device for too long.

        First what shrinks; then all sizes that grow but the rows, with which time may grow with the square; then the
        rows. Sizes of which the time is known are not tried.
        """
        network, model = climb.network, self._loading.models.get(climb.network.name)
        self._behind = BEHIND
        if model is None or model.network is not network:
            raise InVain("the network is not in service any more")
        ports, wanted, tried = model.ports["inputs"], climb.shapes, sizes_tried(model)
        fit, bound = linked(model.ports, tried, wanted)
        leading = first_axes(ports) - bound
        first, few = with_rows_of(wanted, tried, leading), with_rows_of(tried, wanted, leading)
        if (least := fit(smaller(tried, wanted))) != first:
            try:
                first, took_s = least, await self._takes_s(climb, model, least)
            except InVain:
                await self._at_once(climb, model, tried)
                return
        else:
            rows, _ = trial_shape(ports, first)
            took_s = self._costs.longest_s(network, network.first_row) * rows
        for begin, end, power in ((first, few, 0.5), (few, wanted, 1.0)):
            part, shapes, growing = 0.0, begin, growing_most(begin, end)
            while begin != end and part < 1.0:
                here, longer = part, climb.bound_s / max(took_s, 1e-7)
                scale = max(1.0, FEW / sum(elements(shapes[name]) for name in growing))
                most = min(scale * longer**power, max(longer, FEW))
                for how in (liked(begin, end, fit), fit):
                    if (part := furthest(begin, end, here, most, how, shapes)) > 0.0:
                        break
                else:
                    return
                shapes = between(begin, end, part, how)
                took_s = await self._takes_s(climb, model, shapes)

    async def _at_once(self, climb: Climb, model: LoadedModel, tried: Shapes) -> None:
        """Nothing between runs, as axes hang together that no name tells: one step, where that can be no long one."""
        network, (rows, _) = climb.network, trial_shape(model.ports["inputs"], tried)
        grew = max(elements(to) / max(elements(tried[name]), 1) for name, to in climb.shapes.items())
        if self._costs.longest_s(network, network.first_row) * rows * max(grew, 1.0) ** 2 > climb.bound_s:
            raise InVain("inputs of sizes between do not run")
        await self._takes_s(climb, model, climb.shapes)

    async def _takes_s(self, climb: Climb, model: LoadedModel, shapes: Shapes) -> float:
        """Its longest block, as it is known or found out now; raises InVain or TimeoutError."""
        network, (rows, sizes) = climb.network, trial_shape(model.ports["inputs"], shapes)
        row = self._costs.row_of(network, rows, sizes, climb.pair)
        if self._costs.evident(row) and self._costs.fine(network, row):
            return self._costs.longest_s(network, row) * rows
        seconds = await self._step(model, shapes)
        self._costs.learn(network, self._device, 0, seconds, rows, row)
        return max(seconds)

    async def _step(self, model: LoadedModel, shapes: Shapes) -> list[float]:
        """Seconds of each block; raises InVain or TimeoutError."""
        device: Device | None = None
        while True:
            if device is None or not device.alive:  # what another has done of it is lost
                device = min(
                    (one for one in self._devices if one.alive),
                    key=lambda one: self.queued(one.index),
                    default=None,
                )
            answer = await self._asked(device, model, shapes)
            if answer["why"]:
                raise InVain(answer["why"])
            spent_s = float(answer["spent"])
            self._behind = math.ceil(spent_s / (SHARE * PAUSE_S)) if spent_s > 0.0 else self._behind - 1
            if answer["seconds"]:
                return list(answer["seconds"])
            await asyncio.sleep(PAUSE_S)

    async def _asked(self, device: Device | None, model: LoadedModel, shapes: Shapes) -> Message:
        """What a device says of a step, however far it has come with it; raises InVain or TimeoutError."""
        if device is None:
            raise InVain("no device is alive")
        self._answer = asyncio.get_running_loop().create_future()
        self._number, self._device = self._number + 1, device.index
        device.tell(
            {
                "kind": "try",
                "number": self._number,
                "model": model.label,
                "shapes": shapes,
                "one": self._behind <= 0,
            }
        )
        self._open[device.index] = self._number
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._answer
        except TimeoutError:
            device.end(-self._number)
            raise


def linked(ports: Ports, tried: Shapes, wanted: Shapes) -> tuple[Fit, set[str]]:
    """How sizes between the two are made to fit each other, and inputs whose first axis is named like another."""
    axes = Axes(ports, {}, ports.get("axes", {}))
    if axes.agreed(tried) == tried and axes.agreed(wanted) == wanted:
        return axes.agreed, axes.bound
    return dict, set()


def sizes_tried(model: LoadedModel) -> Shapes:
    """Of all inputs of its trial."""
    ports = model.ports["inputs"]
    return {p["name"]: model.shapes.get(p["name"]) or [max(d, 1) for d in p["shape"]] for p in ports}


def first_axes(ports: Sequence[Port]) -> set[str]:
    """Inputs whose first axis is free."""
    return {port["name"] for port in ports if port["shape"][:1] == [-1]}


def with_rows_of(tried: Shapes, wanted: Shapes, leading: Collection[str]) -> Shapes:
    """The wanted sizes, with no more rows than were tried of these inputs."""
    return {
        name: [min(tried[name][0], sizes[0]), *sizes[1:]] if name in leading else sizes
        for name, sizes in wanted.items()
    }


def smaller(tried: Shapes, wanted: Shapes) -> Shapes:
    """Of each size the smaller one."""
    return {name: [*map(min, sizes, wanted[name])] for name, sizes in tried.items()}


def between(tried: Shapes, wanted: Shapes, part: float, fit: Fit = dict) -> Shapes:
    """Each size at this part of the way, by its logarithm, made to ``fit`` the others."""
    found = {
        name: [_size(a, b, part) for a, b in zip(sizes, wanted[name], strict=True)]
        for name, sizes in tried.items()
    }
    return fit(found) if 0.0 < part < 1.0 else found


def _size(tried: int, wanted: int, part: float) -> int:
    if not wanted or part in (0.0, 1.0):
        return wanted if part else tried
    return round(float(max(tried, 1) * (wanted / max(tried, 1)) ** part))


def liked(tried: Shapes, wanted: Shapes, fit: Fit) -> Fit:
    """Sizes between the two made multiples of powers of two, between them all the same, before they are to ``fit``."""

    def multiple(size: int, *ends: int) -> int:
        step = min(LIKED, 1 << max(size, 1).bit_length() - 1)
        return min(max(round(size / step) * step, min(ends)), max(ends))

    def fitted(shapes: Shapes) -> Shapes:
        return fit(
            {
                name: [multiple(*each) for each in zip(sizes, tried[name], wanted[name], strict=True)]
                for name, sizes in shapes.items()
            }
        )

    return fitted


def furthest(
    tried: Shapes, wanted: Shapes, part: float, most: float, fit: Fit = dict, last: Shapes | None = None
) -> float:
    """How far one may go in a step of at most so many times the ``last``; 0 = not far enough to be worth it.

    That was at this part of the way, at which it stands by default.
    """
    here = between(tried, wanted, part, fit)
    last = last or here
    if grown(last, wanted) <= max(most, 1.0):
        return 1.0
    low, high = part, 1.0
    for _ in range(30):
        middle = (low + high) / 2.0
        if grown(last, between(tried, wanted, middle, fit)) <= most:
            low = middle
        else:
            high = middle
    there = between(tried, wanted, low, fit)
    return low if grown(here, there) >= LEAST_STEP and grown(last, there) <= most else 0.0


def grown(tried: Shapes, wanted: Shapes) -> float:
    """How many times the elements of the input that grew most; 1 = none has."""
    return max((_grown(tried[name], sizes) for name, sizes in wanted.items()), default=1.0)


def growing_most(tried: Shapes, wanted: Shapes) -> list[str]:
    """Inputs that grow as much as any."""
    most = grown(tried, wanted)
    return [name for name, sizes in wanted.items() if _grown(tried[name], sizes) == most]


def _grown(tried: Sequence[int], wanted: Sequence[int]) -> float:
    """What shrinks elsewhere makes up for nothing."""
    return math.prod(max(now, 1, then) / max(then, 1) for then, now in zip(tried, wanted, strict=True))
