"""Whether a network runs inputs that are empty is found out by a trial, before any device runs them.

Some of the runtime's kernels die of an empty input, and with them the process that all tenants of a device share. So
a made-up input of the same sizes runs first in a process of its own (``empty_trial``), beside traffic, and the request
waits for that. What ran holds for all, of this content: for inputs that are empty along the same axes, have one element
along the same and more along the others. A device that dies of one all the same ends that. What failed holds for its
sizes and its tenant, whose other sizes may fit. Clients choose sizes, so each tenant has one trial at a time, and all
together one. A pause follows, ``SHARE`` times as long as the trial took; after failures twice as long each time.
``empty`` of a network settles it without a trial: all are allowed, or none. So are none where a device is no processor,
whose kernels are others.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from eunomia.core.errors import ModelError
from eunomia.serving.devices.climbs import Known, end
from eunomia.serving.devices.cutting import Away, content_of
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.empty_trial import try_empty
from eunomia.serving.devices.loading import LoadedModel, Loading
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.jobs import Job, Shapes
from eunomia.serving.protocol.errors import BadRequest, Unavailable

log = logging.getLogger("eunomia.serving")
T = TypeVar("T")
U = TypeVar("U")
PAUSE_S, LONGEST_PAUSE_S, SHARE = 0.5, 3600.0, 2.0
LATE_S = 10.0  # who comes in a longer pause does not wait for its end
MOST = 64  # forms of a network, and sizes of a tenant, that are remembered
MANY = 2  # elements: more are as good as these


def form_of(shapes: Shapes) -> Shapes:
    """What these sizes share with others that run as they do."""
    return tuple((name, tuple(min(size, MANY) for size in sizes)) for name, sizes in shapes)


@dataclass
class _Tries:
    """Of one tenant with one network. ``failed``: why, and for how long that counts."""

    count: int = 0  # that failed
    due_s: float = -math.inf
    failed: dict[Shapes, tuple[str, float]] = field(default_factory=dict)


class Empties:
    """``spawn``: a task that ends with the pool."""

    def __init__(self, loading: Loading, clock: Clock, cache: str, specs: Sequence[DeviceSpec]) -> None:
        self._loading, self._clock, self._cache = loading, clock, cache
        self._memory = min((spec.memory_bytes for spec in specs if spec.memory_bytes), default=0)
        self._offered = all(spec.kind == "cpu" for spec in specs)
        self.spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]] = asyncio.ensure_future
        self._ran: dict[str, dict[Shapes, None]] = {}  # forms by content
        self._deadly: dict[str, dict[Shapes, None]] = {}
        self._tries: dict[tuple[str, str], _Tries] = {}  # by tenant and content
        self._known: dict[str, Known] = {}  # by tenant: the end of a trial, or of a pause
        self._door = asyncio.Lock()

    def check(self, tenant: str, job: Job) -> Known | None:
        """None: it may run. Else ask again then. Raises BadRequest where a trial failed, and Unavailable."""
        model = self._loading.models.get(job.network.name)
        if model is None:
            return None  # others say so
        content, form = content_of(model.key), form_of(job.shapes)
        if form in self._deadly.get(content, ()):
            raise BadRequest(_refusal(job, "a device died of such an input"))
        if form in self._ran.get(content, ()):
            return None
        if not self._offered:
            raise BadRequest(_refusal(job, "nothing is tried for devices that are no processors"))
        tries, now_s = self._tries.get((tenant, content)) or self._new(tenant, content), self._clock.now_s()
        why, until_s = tries.failed.get(job.shapes, ("", 0.0))
        if now_s < until_s:
            raise BadRequest(_refusal(job, f"a trial with such sizes failed: {why}"))
        if (known := self._known.get(tenant)) is not None and not known.done():
            return known
        left_s = tries.due_s - now_s
        if left_s > LATE_S:
            text = f"the server tries other empty inputs of '{job.network.name}' after a pause only"
            raise Unavailable(f"{text}; empty = true in {job.hollow} allows them", retry_after_s=left_s)
        self._known[tenant] = known = asyncio.get_running_loop().create_future()
        if left_s > 0.0:
            asyncio.get_running_loop().call_later(left_s, end, known)
        else:
            self.spawn(self._try(tries, model, form, job)).add_done_callback(lambda _: end(known))
        return known

    def died(self, job: Job) -> None:
        """A device did under it."""
        model = self._loading.models.get(job.network.name)
        if job.hollow and model is not None:
            content, form = content_of(model.key), form_of(job.shapes)
            self._ran.get(content, {}).pop(form, None)
            deadly = self._deadly.setdefault(content, {})
            deadly[form] = None
            _bounded(deadly)

    def _new(self, tenant: str, content: str) -> _Tries:
        """What was found of networks that are gone is forgotten."""
        served = {content_of(model.key) for model in self._loading.models.values()}
        self._tries = {key: tries for key, tries in self._tries.items() if key[1] in served}
        self._ran = {key: ran for key, ran in self._ran.items() if key in served}
        self._deadly = {key: deadly for key, deadly in self._deadly.items() if key in served}
        self._known = {key: known for key, known in self._known.items() if not known.done()}
        self._tries[tenant, content] = tries = _Tries()
        return tries

    async def _try(self, tries: _Tries, model: LoadedModel, form: Shapes, job: Job) -> None:
        name, content = job.network.name, content_of(model.key)
        order = {
            "name": model.key,
            "cache": self._cache,
            "target_s": self._loading.target_s,
            "shapes": {name: [*sizes] for name, sizes in job.shapes},
            "memory": self._memory,
        }
        pause_s = PAUSE_S
        try:
            async with self._door:
                if form in self._ran.setdefault(content, {}):  # another tenant's, meanwhile
                    return
                begun_s = self._clock.now_s()
                try:
                    await try_empty(order)
                finally:
                    pause_s = max(PAUSE_S, SHARE * (self._clock.now_s() - begun_s))
        except (ModelError, OSError) as error:
            log.warning("a trial of '%s' with inputs that are empty failed: %s", name, error)
            pause_s = min(pause_s * 2.0**tries.count, LONGEST_PAUSE_S)
            tries.count += 1
            if not isinstance(error, Away):
                tries.failed[job.shapes] = str(error), self._clock.now_s() + max(pause_s, LATE_S)
                _bounded(tries.failed)
        else:
            log.info("'%s' runs with inputs that are empty: %s", name, dict(job.shapes))
            tries.count = 0
            self._ran.setdefault(content, {})[form] = None
            _bounded(self._ran[content])
        tries.due_s = self._clock.now_s() + pause_s


def _bounded(known: dict[T, U]) -> None:
    if len(known) > MOST:
        del known[next(iter(known))]


def _refusal(job: Job, why: str) -> str:
    empty = [f"'{name}' has shape {list(sizes)}" for name, sizes in job.shapes if 0 in sizes]
    return (
        f"input {', '.join(empty[:3])}: it is empty, and {why}; if such inputs run all the same, empty = true in "
        f"{job.hollow} allows them"
    )
