"""Whether a network runs inputs that are empty is found out by a trial, before any device runs them.

Some of the runtime's kernels die of an empty input, and with them the process that all tenants of a device share. So
a made-up input of the same sizes runs first in a process of its own (``empty_trial``), beside traffic, and the request
waits for that. What ran holds for all: inputs of this content may be empty along these axes. What failed holds for its
sizes and its tenant, whose other sizes may fit. Clients choose sizes, so tries are few: one at a time, and after each
of a tenant's a pause, twice as long each time. ``empty`` of a network settles it without a trial: all are allowed, or
none.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TypeVar

from eunomia.core.errors import ModelError
from eunomia.serving.devices.axes import Empty, empty_axes
from eunomia.serving.devices.climbs import Known, end
from eunomia.serving.devices.cutting import Away, content_of
from eunomia.serving.devices.empty_trial import try_empty
from eunomia.serving.devices.loading import LoadedModel, Loading
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.jobs import Job, Shapes
from eunomia.serving.protocol.errors import BadRequest, Unavailable

log = logging.getLogger("eunomia.serving")
T = TypeVar("T")
U = TypeVar("U")
PAUSE_S, LONGEST_PAUSE_S = 0.5, 3600.0
LATE_S = 10.0  # who comes in a longer pause does not wait for its end
MOST = 64  # sets of axes of a network, and sizes of a tenant, that are remembered


@dataclass
class _Tries:
    """Of one tenant with one network. ``known``: done once the trial, or the pause after it, is over."""

    count: int = 0
    due_s: float = -math.inf
    known: Known | None = None
    failed: dict[Shapes, str] = field(default_factory=dict)


class Empties:
    """One trial at a time. ``memory``: bytes that a device may take, 0 = any.

    ``spawn``: a task that ends with the pool.
    """

    def __init__(self, loading: Loading, clock: Clock, cache: str, memory: int) -> None:
        self._loading, self._clock, self._cache, self._memory = loading, clock, cache, memory
        self.spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]] = asyncio.ensure_future
        self._ran: dict[str, dict[Empty, None]] = {}  # by content
        self._tries: dict[tuple[str, str], _Tries] = {}  # by tenant and content
        self._door = asyncio.Lock()

    def check(self, tenant: str, job: Job) -> Known | None:
        """None: it may run. Else ask again then. Raises BadRequest where a trial failed, and Unavailable."""
        model = self._loading.models.get(job.network.name)
        if model is None:
            return None  # others say so
        content, axes = content_of(model.key), empty_axes(job.shapes)
        if axes in self._ran.get(content, ()):
            return None
        tries = self._tries.get((tenant, content)) or self._new(tenant, content)
        if tries.known is not None and not tries.known.done():
            return tries.known
        left_s = tries.due_s - self._clock.now_s()
        if left_s > 0.0:
            if (why := tries.failed.get(job.shapes)) is not None:
                raise BadRequest(_refusal(job, axes, why))
            if left_s > LATE_S:
                text = f"the server tries other empty inputs of '{job.network.name}' after a pause only"
                raise Unavailable(f"{text}; empty = true in {job.hollow} allows them", retry_after_s=left_s)
            tries.known = known = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(left_s, end, known)
            return known
        tries.known = known = asyncio.get_running_loop().create_future()
        self.spawn(self._try(tries, model, axes, job)).add_done_callback(lambda _: end(known))
        return known

    def _new(self, tenant: str, content: str) -> _Tries:
        """What was found of networks that are gone is forgotten."""
        served = {content_of(model.key) for model in self._loading.models.values()}
        self._tries = {key: tries for key, tries in self._tries.items() if key[1] in served}
        self._ran = {key: ran for key, ran in self._ran.items() if key in served}
        self._tries[tenant, content] = tries = _Tries()
        return tries

    async def _try(self, tries: _Tries, model: LoadedModel, axes: Empty, job: Job) -> None:
        name, content = job.network.name, content_of(model.key)
        order = {
            "name": model.key,
            "cache": self._cache,
            "target_s": self._loading.target_s,
            "shapes": {name: [*sizes] for name, sizes in job.shapes},
            "memory": self._memory,
        }
        try:
            async with self._door:
                if axes in self._ran.setdefault(content, {}):  # another tenant's, meanwhile
                    return
                await try_empty(order)
        except (ModelError, OSError) as error:
            log.warning("a trial of '%s' with inputs that are empty failed: %s", name, error)
            if not isinstance(error, Away):
                tries.failed[job.shapes] = str(error)
                _bounded(tries.failed)
        else:
            log.info("'%s' runs with inputs that are empty: %s", name, _named(axes))
            self._ran.setdefault(content, {})[axes] = None
            _bounded(self._ran[content])
        finally:
            tries.due_s = self._clock.now_s() + min(PAUSE_S * 2.0**tries.count, LONGEST_PAUSE_S)
            tries.count += 1


def _bounded(known: dict[T, U]) -> None:
    if len(known) > MOST:
        del known[next(iter(known))]


def _named(axes: Empty) -> str:
    return ", ".join(f"axis {axis} of '{name}'" for name, axis in sorted(axes))


def _refusal(job: Job, axes: Empty, why: str) -> str:
    sizes = dict(job.shapes)
    given = ", ".join(
        f"'{name}' has shape {list(sizes[name])}" for name in sorted({name for name, _ in axes})[:3]
    )
    return (
        f"input {given}: it is empty, and a trial with such sizes failed: {why}; if they run all the same, "
        f"empty = true in {job.hollow} allows them"
    )
