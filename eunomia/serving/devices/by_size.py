"""Networks with free sizes are cut anew for the sizes that clients send, beside traffic.

A network is cut by its trial. Where nobody gives ``shapes``, each free axis has one element there, or few. Inputs of
usual sizes may then hold a device for too long, and are refused while others were promised an answer soon
(``tenants.holding``). The first of them has the network cut and loaded once more, by a made-up input of its size. All
that are too long wait for the end of that, and then run on what came of it; what ran before runs on.

Clients choose these sizes, so tries are few: ``MOST`` of a network until it is loaded again. After each is a pause,
twice as long each time, so that the next is by much larger sizes; who sends such waits for its end. None is made of a
network whose operator gave ``shapes``, nor of a size of which one row takes longer than ``LONGEST_S``. A cut of which a
block is still too long is not taken, as its first run would hold the device: one by half the elements is, up to
``HALVINGS`` times.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from eunomia.core.errors import ModelError
from eunomia.serving.devices.axes import Shapes
from eunomia.serving.devices.climbs import Known
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.ladder import (
    between,
    elements,
    first_axes,
    furthest,
    liked,
    linked,
    sizes_tried,
    with_rows_of,
)
from eunomia.serving.devices.loading import Away, LoadedModel, Loading, stays
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.dispatch.jobs import Job

log = logging.getLogger("eunomia.serving")
MOST, PAUSE_S, HALVINGS, AGAIN_S = 4, 1.0, 3, 60.0
LONGEST_S = 1.0  # of processor time
Load = Callable[[LoadedModel, Shapes, float], Coroutine[object, object, None]]


@dataclass
class _Tries:
    """Of one network, since somebody loaded it; ``label``: as which it serves now.

    ``failed``: so many elements were too many for a cut, until ``again_s``.
    """

    label: str
    count: int = 0
    due_s: float = 0.0
    ended: Known | None = None  # of its cut, while that is under way
    failed: float = math.inf
    again_s: float = 0.0
    rested: Known | None = None  # of the pause after it, where somebody waits for that


class BySize:
    """One network at a time. ``load``: has it cut and loaded by these sizes, unless a block takes longer than that.

    ``turn``: held while networks come and go. ``spawn``: a task that ends with the pool.
    """

    def __init__(
        self, devices: Sequence[Device], loading: Loading, costs: CostBook, clock: Clock, load: Load
    ) -> None:
        self._devices, self._loading, self._costs = devices, loading, costs
        self._clock, self._load = clock, load
        self.turn: Callable[[], AbstractAsyncContextManager[object]] = asyncio.Lock
        self.spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]] = asyncio.ensure_future
        self._tries: dict[str, _Tries] = {}
        self._ended: Known | None = None  # of the cut that is under way
        self._after: dict[Network, Network] = {}  # what came of those that were cut anew

    def wanted(self, job: Job, bound_s: float) -> Known | None:
        """A request is too long in a block: have its network cut by its size; done then. None: that would not help."""
        model = self._loading.models.get(job.network.name)
        if model is None or not self.helps(job):
            return None
        tries, now_s = self._tries_of(model), self._clock.now_s()
        if tries.ended is not None:
            return tries.ended
        shapes = self._larger(model, job)
        if shapes is None:
            return None
        if now_s < tries.due_s:
            return _rest(tries, tries.due_s - now_s)
        if self._ended is not None:  # of another network: its turn comes
            return self._ended
        tries.count += 1
        self._ended = tries.ended = asyncio.get_running_loop().create_future()
        self.spawn(self._cut(model, shapes, bound_s)).add_done_callback(lambda _: self._over(tries))
        return self._ended

    def helps(self, job: Job) -> bool:
        """Whether its network is being cut anew, or may be for its size, now or after a pause."""
        model = self._loading.models.get(job.network.name)
        if model is None:
            return False
        tries = self._tries_of(model)
        if tries.ended is not None and model.network is job.network:  # what it takes then is known better
            return True
        return tries.count < MOST and self._may(model, job) and self._larger(model, job) is not None

    def _over(self, tries: _Tries) -> None:
        if self._ended is not None:
            _end(self._ended)
        self._ended = tries.ended = None
        tries.due_s = self._clock.now_s() + PAUSE_S * 2.0 ** (tries.count - 1)

    def follow(self, job: Job) -> None:
        """One that has waited runs on what came of its network."""
        if (anew := self._after.get(job.network)) is not None:
            job.network, job.cost_row = anew, anew.first_row

    def _follows(self, old: Network, anew: Network) -> None:
        """Whoever waits with the old one, or with one before it, runs on what is in service."""
        here = {one.network for one in self._loading.models.values()}
        after = {before: anew if one == old else one for before, one in self._after.items()}
        self._after = {before: one for before, one in after.items() if one in here} | {old: anew}

    def _tries_of(self, model: LoadedModel) -> _Tries:
        tries = self._tries.get(model.network.name)
        if tries is None or tries.label != model.label:
            tries = self._tries[model.network.name] = _Tries(model.label)
        return tries

    def _may(self, model: LoadedModel, job: Job) -> bool:
        """Whether this is a network with sizes that nobody gave, which can be cut here for a row of this input."""
        ours = not model.given or self._tries_of(model).count > 0
        there = model.network is job.network and not job.network.untried and bool(model.key)
        if not (ours and there and all(stays(device) for device in self._devices)):
            return False
        return self._costs.least_s(job.network, job.cost_row) <= LONGEST_S

    def _larger(self, model: LoadedModel, job: Job) -> Shapes | None:
        """Its sizes, with fewer rows where all take too long; None where a cut was by no smaller ones, or failed so."""
        tried, shapes = sizes_tried(model), {name: [*sizes] for name, sizes in job.shapes}
        if job.rows * self._costs.least_s(job.network, job.cost_row) > LONGEST_S:
            rows = first_axes(model.ports["inputs"]) - linked(model.ports, tried, shapes)[1]
            shapes = with_rows_of(tried, shapes, rows)
        tries = self._tries_of(model)
        most = tries.failed if self._clock.now_s() < tries.again_s else math.inf
        return shapes if elements(tried) < elements(shapes) < most else None

    async def _cut(self, model: LoadedModel, shapes: Shapes, bound_s: float) -> None:
        name = model.network.name
        try:
            async with self.turn():
                if self._loading.models.get(name) is model:
                    shapes = await self._by_most(model, shapes, bound_s)
                    anew = self._loading.models[name]
                    self._tries[name].label = anew.label
                    if anew.ports == model.ports:  # what was checked holds there, too
                        self._follows(model.network, anew.network)
                    log.warning(
                        "'%s' is cut anew for inputs as its clients send them; to have that from the start, give %s as "
                        "its shapes",
                        name,
                        shapes,
                    )
        except Away as error:
            log.warning("'%s' is not cut for larger inputs yet: %s", name, error)
        except ModelError as error:
            log.warning("'%s' is not cut for larger inputs: %s", name, error)

    async def _by_most(self, model: LoadedModel, wanted: Shapes, bound_s: float) -> Shapes:
        """The largest sizes by which it could be cut and loaded; raises ModelError."""
        shapes, tried = wanted, sizes_tried(model)
        fit = liked(tried, wanted, linked(model.ports, tried, wanted)[0])
        for halved in range(HALVINGS + 1):
            try:
                await self._load(model, shapes, bound_s)
                break
            except Away:
                raise
            except ModelError:
                tries = self._tries_of(model)
                tries.failed, tries.again_s = elements(shapes), self._clock.now_s() + AGAIN_S
                larger = elements(wanted) / elements(tried) / 2.0 ** (halved + 1)
                part = furthest(tried, wanted, 0.0, larger, fit)
                if halved == HALVINGS or not 0.0 < part < 1.0:
                    raise
                shapes = between(tried, wanted, part, fit)
        return shapes


def _rest(tries: _Tries, pause_s: float) -> Known:
    """Done when it is over."""
    if tries.rested is None or tries.rested.done():
        loop = asyncio.get_running_loop()
        tries.rested = rested = loop.create_future()
        loop.call_later(pause_s, _end, rested)
    return tries.rested


def _end(known: Known) -> None:
    if not known.done():
        known.set_result(None)
