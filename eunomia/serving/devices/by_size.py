"""Networks with free sizes are cut anew for the sizes that clients send, beside traffic.

A network is cut by its trial. Where nobody gives ``shapes``, each free axis has one element there, or few. Inputs of
usual sizes may then hold a device for too long, and are refused while others were promised an answer soon
(``tenants.holding``). The first of them has the network cut and loaded once more, by a made-up input of its size; those
of its kind are refused for now meanwhile, and all that ran before runs on.

Clients choose these sizes, so tries are few: ``MOST`` of a network until it is loaded again, and after each a pause,
twice as long each time. None is made of a network whose operator gave ``shapes``, nor of a size whose whole run takes
longer than ``LONGEST_S``. A cut of which a block is still too long is not taken, as its first run would hold the
device: one by half the elements is, up to ``HALVINGS`` times.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from eunomia.core.errors import ModelError
from eunomia.serving.devices.axes import Shapes
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.ladder import between, elements, furthest, liked, linked, shapes_of
from eunomia.serving.devices.loading import Away, LoadedModel, Loading, stays, trial_shape
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import Unavailable

log = logging.getLogger("eunomia.serving")
MOST, PAUSE_S, HALVINGS = 4, 10.0, 3
LONGEST_S = 1.0  # of processor time, for one row
SOON_S = 1.0  # until somebody asks again who could not wait
Load = Callable[[LoadedModel, Shapes, float], Coroutine[object, object, None]]


@dataclass
class _Tries:
    """Of one network, since somebody loaded it; ``label``: as which it serves now."""

    label: str
    count: int = 0
    due_s: float = 0.0


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
        self._model: LoadedModel | None = None  # that is being cut

    def wanted(self, job: Job, bound_s: float) -> None:
        """A request is too long in a block: have its network cut by its size, if that may help.

        Raises Unavailable until that is done.
        """
        name = job.network.name
        model = self._loading.models.get(name)
        if self._model is not None and self._model.network.name == name:
            raise self._again(name)
        if model is None or self._model is not None or not self._may(model, job):
            return
        tries, now_s = self._tries_of(model), self._clock.now_s()
        shapes = self._larger(model, job)
        if shapes is None or tries.count >= MOST or now_s < tries.due_s:
            return
        tries.due_s = now_s + PAUSE_S * 2.0**tries.count
        tries.count += 1
        self._model = model
        self.spawn(self._cut(model, shapes, bound_s))
        raise self._again(name)

    def _again(self, name: str) -> Unavailable:
        text = (
            f"'{name}' is being cut for inputs of this size, which may hold a device for too long: again soon"
        )
        return Unavailable(text, retry_after_s=SOON_S)

    def _tries_of(self, model: LoadedModel) -> _Tries:
        tries = self._tries.get(model.network.name)
        if tries is None or tries.label != model.label:
            tries = self._tries[model.network.name] = _Tries(model.label)
        return tries

    def _may(self, model: LoadedModel, job: Job) -> bool:
        """Whether this is a network with sizes that nobody gave, which can be cut here for one row of this input."""
        ours = not model.given or self._tries_of(model).count > 0
        there = model.network is job.network and not job.network.untried and bool(model.key)
        takes_s = self._costs.rest_s(job.network, job.cost_row)[0][0]
        return ours and there and takes_s <= LONGEST_S and all(stays(device) for device in self._devices)

    def _larger(self, model: LoadedModel, job: Job) -> Shapes | None:
        """The sizes of one row of it; None where the last cut was by no smaller ones."""
        if not isinstance(job.group, tuple):
            return None
        ports = model.ports["inputs"]
        shapes = shapes_of(ports, 1, dict(job.group[1]))
        rows, sizes = trial_shape(ports, model.shapes)
        return shapes if elements(shapes) > rows * sum(sizes) else None

    async def _cut(self, model: LoadedModel, shapes: Shapes, bound_s: float) -> None:
        name = model.network.name
        try:
            async with self.turn():
                if self._loading.models.get(name) is model:
                    shapes = await self._by_most(model, shapes, bound_s)
                    self._tries[name].label = self._loading.models[name].label
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
        finally:
            self._model = None

    async def _by_most(self, model: LoadedModel, wanted: Shapes, bound_s: float) -> Shapes:
        """The largest sizes by which it could be cut and loaded; raises ModelError."""
        ports, shapes = model.ports["inputs"], wanted
        tried = {p["name"]: model.shapes.get(p["name"]) or [max(d, 1) for d in p["shape"]] for p in ports}
        fit = liked(tried, wanted, linked(model.ports, tried, wanted)[0])
        for halved in range(HALVINGS + 1):
            try:
                await self._load(model, shapes, bound_s)
                break
            except Away:
                raise
            except ModelError:
                larger = elements(wanted) / elements(tried) / 2.0 ** (halved + 1)
                part = furthest(tried, wanted, 0.0, larger, fit)
                if halved == HALVINGS or not 0.0 < part < 1.0:
                    raise
                shapes = between(tried, wanted, part, fit)
        return shapes
