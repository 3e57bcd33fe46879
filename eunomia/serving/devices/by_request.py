"""Networks are cut by what requests bring, beside traffic, where no made-up input runs, or none tells what they take.

The input of a request that was answered, and took long enough to be worth it, is kept for a moment, on its tenant's
account. So is one whose run was ended, as it held its device for too long: in blocks it may not. A process of its own
times the network on it and cuts it (``asked``). Then the network takes its own place as a load would: those that wait
for a device run as before, later ones in blocks. What is too long meanwhile waits for that. What takes less has its
time remembered.

A first request may be unlike the others: one that takes ``UNUSUAL`` times as long has the network cut again.
Of a network that was tried, values may make far more work than those of the trial: of a mask, a length or a count. So
it is cut by such a request's input, if its size is known as short. Its run had to be ended, or its blocks held their
device for too long, and it took ``UNUSUAL`` times as long as was said. Blocks are as long then as those of a cut
``by_size``. Such a cut does not outlast its server.

Clients choose these inputs, so tries are few: ``MOST`` of a network, ``IN_VAIN`` of one tenant that failed, and after
each a pause, twice as long each time. One that finds nothing to cut, as another had the core, costs its pause alone.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from eunomia.core.errors import ModelError
from eunomia.serving.devices.answers import Payload
from eunomia.serving.devices.arena import Arena
from eunomia.serving.devices.asked import cut_beside, remember
from eunomia.serving.devices.axes import Shapes
from eunomia.serving.devices.climbs import Known, end
from eunomia.serving.devices.cutting import Away, content_of, drop_older, kept
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.loading import COARSE, LoadedModel, Loading, stays, trial_shape
from eunomia.serving.devices.messages import Placed
from eunomia.serving.devices.run import NO_ROOM
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import ServingError

log = logging.getLogger("eunomia.serving")
WORTH = 2.0  # blocks: what is shorter stays whole
UNUSUAL = 4.0
MOST, IN_VAIN = 8, 3
PAUSE_S, LONGEST_PAUSE_S = 10.0, 3600.0


@dataclass
class Tries:
    """Of one network's content. ``used``: those that failed, or had it cut; ``in_vain``: that failed, by tenant."""

    content: str
    count: int = 0
    used: int = 0
    due_s: float = -math.inf
    in_vain: Counter[str] = field(default_factory=Counter)
    of: Counter[str] = field(default_factory=Counter)  # by tenant, however they ended

    def may(self, tenant: str, now_s: float) -> bool:
        """Whether a request of this tenant may be used now."""
        few = self.in_vain[tenant] < IN_VAIN and self.of[tenant] < MOST // 2
        return few and self.used < MOST and now_s >= self.due_s

    def begins(self, now_s: float) -> None:
        """One more."""
        self.due_s = now_s + min(PAUSE_S * 2.0**self.count, LONGEST_PAUSE_S)
        self.count += 1


class ByRequest:
    """One network at a time. ``turn``: held while networks come and go.

    ``keep``: counts bytes of a tenant that stay beyond their request, and returns what counts them out; may raise
    ServingError. ``place``: puts a network in its own place, as this cut. ``spawn``: a task that ends with the pool.
    """

    def __init__(
        self, devices: Sequence[Device], loading: Loading, arena: Arena, clock: Clock, cache: str
    ) -> None:
        self._devices, self._loading, self._arena, self._clock = devices, loading, arena, clock
        self._cache = cache
        self.keep: Callable[[str, int, int], Callable[[], None]] = lambda tenant, size, free: lambda: None
        self.place: Callable[[LoadedModel, str], Coroutine[object, object, None]]
        self.timed: Callable[[Network, int, Sequence[int]], None]
        self.costs: CostBook
        self.patience_s: Callable[[Job], float] = lambda job: (
            math.inf
        )  # for how long others can wait for a block
        self.spawn: Callable[[Coroutine[object, object, None]], asyncio.Task[None]]
        self.turn = asyncio.Lock()
        self._tries: dict[str, Tries] = {}
        self._ran: dict[tuple[int, int], int] = {}  # by network and device: the process in which it has run
        self._task: asyncio.Task[None] | None = None
        self._cuts: LoadedModel | None = None  # what it cuts
        self._ended: Known | None = None  # of that, where somebody waits for it

    def wanted(self, job: Job) -> Known | None:
        """A request is too long in a block: its network is being cut by what another one brought; done then."""
        model, task = self._loading.models.get(job.network.name), self._task
        if task is None or task.done() or model is None or model is not self._cuts:
            return None
        if model.network is not job.network:
            return None
        if self._ended is None or self._ended.done():
            self._ended = known = asyncio.get_running_loop().create_future()
            task.add_done_callback(lambda _: end(known))
        return self._ended

    @property
    def idle(self) -> bool:
        """Whether no network is being cut, or its time written down."""
        return self._task is None or self._task.done()

    def offered(self, tenant: str, job: Job) -> None:
        """A request has run, or was ended, and its input is still there."""
        model, payload = self._loading.models.get(job.network.name), job.payload
        if model is None or model.network is not job.network:
            return
        if not job.network.untried:
            self._offered_of_tried(tenant, model, job)
            return
        first = self._first(model.network.index, job.worked_on)
        if not self.idle or not all(stays(device) for device in self._devices) or (first and model.took_s):
            return
        took_s = payload.took_s
        if took_s >= max(WORTH * self._loading.target_s, UNUSUAL * model.took_s):
            self._begin(tenant, model, job, self._loading.target_s)
        elif not model.took_s:
            model.took_s, self._cuts = took_s, None
            self._task = self.spawn(self._remember(model, payload.inputs))

    def _offered_of_tried(self, tenant: str, model: LoadedModel, job: Job) -> None:
        payload, may_s, said_s = job.payload, self.patience_s(job), job.said_s(self.costs)
        if payload.gathered is not None or may_s == math.inf or said_s > may_s * job.network.blocks:
            return
        held = payload.took_s > max(may_s * job.network.blocks, UNUSUAL * said_s)
        if (job.felled or held) and self.idle and all(stays(device) for device in self._devices):
            self._begin(tenant, model, job, max(self._loading.target_s, COARSE * may_s))

    def _first(self, network: int, device: int) -> bool:
        """Whether it is the first run since a process loaded it, which takes longer than later ones."""
        if device < 0:
            return False
        pid = self._devices[device].pid
        if first := self._ran.get((network, device)) != pid:
            there = {model.network.index for model in self._loading.models.values()}
            self._ran = {key: value for key, value in self._ran.items() if key[0] in there}
            self._ran[network, device] = pid
        return first

    def lost(self, model: LoadedModel, cut: str) -> None:
        """A device came back, and found ``cut`` instead in the cache: all take that."""
        self.spawn(self._instead(model, cut))

    async def _instead(self, model: LoadedModel, cut: str) -> None:
        name = model.network.name
        async with self.turn:
            if self._loading.models.get(name) is not model:
                return
            log.warning("the cache has lost the cut of '%s', which takes its own place", name)
            try:
                await self.place(model, cut)
            except ModelError as error:
                log.warning("'%s' does not take its own place: %s", name, error)
                return
            self._loading.on_away(name, "")

    def _begin(self, tenant: str, model: LoadedModel, job: Job, target_s: float) -> None:
        payload: Payload = job.payload
        name, content, now_s = model.network.name, content_of(model.key), self._clock.now_s()
        tries = self._tries.get(name)
        if tries is None or tries.content != content:
            tries = self._tries[name] = Tries(content)
        if not tries.may(tenant, now_s):
            return
        try:
            let_go = self.keep(tenant, payload.slot.size, self._arena.free_bytes)
        except ServingError:  # there is no room for it: another one will do
            return
        held = ExitStack()
        held.callback(let_go)
        if payload.slot.size:
            held.callback(self._arena.release, payload.slot)
        payload.slot = NO_ROOM
        tries.begins(now_s)
        tries.of[tenant] += 1
        self._cuts = model
        self._task = self.spawn(self._cut(tenant, model, job.pair, payload.inputs, target_s, held))

    async def _cut(
        self,
        tenant: str,
        model: LoadedModel,
        pair: int,
        inputs: list[Placed],
        target_s: float,
        held: ExitStack,
    ) -> None:
        name, tries = model.network.name, self._tries[model.network.name]
        sizes: Shapes = {tensor["name"]: [*tensor["shape"]] for tensor in inputs}
        try:
            order = {
                "name": model.key,
                "cache": self._cache,
                "target_s": target_s,
                "arena": self._arena.descriptor,
                "inputs": inputs,
                "memory": min((d.spec.memory_bytes for d in self._devices if d.spec.memory_bytes), default=0),
            }
            cut = await cut_beside(order, held.close)
            block_s = [seconds for *_, seconds in cut.blocks]
            model.took_s = sum(block_s)
            if len(cut.blocks) == 1:
                long = model.took_s >= WORTH * target_s
                log.log(
                    logging.WARNING if long else logging.INFO,
                    "'%s' stays whole: a request's input takes %.1f ms%s",
                    name,
                    1e3 * model.took_s,
                    ", and no pieces of it are shorter, run and find room" if long else "",
                )
            async with self.turn:
                now = self._loading.models.get(name)  # loaded anew, perhaps, and as this one was
                if now is not None and now.key == model.key != cut.name and len(cut.blocks) > 1:
                    await self.place(now, cut.name)
                    placed = self._loading.models[name]
                    self._knows(placed, *trial_shape(model.ports["inputs"], sizes), block_s, pair)
                    tries.used += 1
                    needed = {each.key for each in self._loading.models.values()}
                    await asyncio.to_thread(drop_older, cut, target_s, needed)
                    log.warning("'%s' is cut into %d blocks by a request's input", name, len(cut.blocks))
        except (Away, OSError) as error:
            log.warning("'%s' is not cut yet: %s", name, error)
        except ModelError as error:
            tries.used += 1
            tries.in_vain[tenant] += 1
            log.warning("'%s' is not cut by a request of tenant '%s': %s", name, tenant, error)
        finally:
            held.close()

    def _knows(
        self, model: LoadedModel, rows: int, sizes: Sequence[int], block_s: Sequence[float], pair: int
    ) -> None:
        """What the input takes by which it was cut."""
        if model.network.untried:
            self.timed(model.network, rows, sizes)
            return
        model.chosen, row = True, self.costs.row_of(model.network, rows, sizes, pair)
        for device in self._devices:
            if self._loading.has(model, device):
                self.costs.learn(model.network, device.index, 0, [*block_s], rows, row)

    async def _remember(self, model: LoadedModel, inputs: list[Placed]) -> None:
        """What a short network takes, for the next start."""
        sizes: Shapes = {tensor["name"]: [*tensor["shape"]] for tensor in inputs}
        target_s, took_s = self._loading.target_s, model.took_s
        cut = await asyncio.to_thread(kept, "", self._cache, {}, target_s, model.key)
        if cut is not None and len(cut.blocks) == 1:
            try:
                await asyncio.to_thread(remember, cut, target_s, sizes, took_s)
            except OSError as error:
                log.warning("what '%s' takes is not remembered: %s", model.network.name, error)
