"""Networks with free sizes are cut anew for the sizes that clients send, beside traffic.

A network is cut by its trial. Where nobody gives ``shapes``, each free axis has one element there, or few. Inputs of
usual sizes may then hold a device for too long, and are refused while others were promised an answer soon
(``tenants.holding``). The first of them has the network cut and loaded once more, by a made-up input of its size. All
that are too long wait for the end of that, and then run on what came of it; what ran before runs on. Its
blocks may take a quarter of what others can wait for: with more of them, small inputs would pay for large ones.

One network is cut at a time, and tenants take turns. Clients choose these sizes, so tries are few: ``MOST`` of a
network by one tenant until it is loaded again. After each is a pause, twice as long each time, so that the next is by
much larger sizes; who sends such waits for its end. None is made of a network whose operator gave ``shapes``, nor of a
size of which one row takes longer than ``LONGEST_S``. A file that was replaced since it was loaded is not taken. Nor is
a cut of which a block is still too long, as its first run would hold the device. One by half the elements is, or by so
few that this block may be short enough. That goes on up to ``HALVINGS`` times, and not once it has taken ``LATE_S``:
administrators wait for it. What such a block took is known then, and no request of its size runs to find that out.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from operator import ge

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.long import LongBlock
from eunomia.serving.devices.axes import Shapes, are_empty
from eunomia.serving.devices.climbs import Known, end
from eunomia.serving.devices.cutting import Away
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.ladder import (
    between,
    first_axes,
    furthest,
    grown,
    liked,
    linked,
    sizes_tried,
    with_rows_of,
)
from eunomia.serving.devices.loading import LoadedModel, Loading, stays
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.shapes import STEEPEST
from eunomia.serving.protocol.errors import Unavailable

log = logging.getLogger("eunomia.serving")
MOST, HALVINGS, LATE_S = 4, 3, 10.0
TURN_S = 0.25  # for the next tenant to begin: all who wait look one after the other
MOST_LONG = 16  # cuts whose longest block is remembered
PAUSE_S, LONGEST_PAUSE_S, AGAIN_S = 1.0, 3600.0, 60.0
LONGEST_S, LONGER = 2.0, 2.0  # of processor time; than what it was cut by, so that noise is no reason
Load = Callable[[LoadedModel, Shapes, float], Coroutine[object, object, None]]


@dataclass
class _Tries:
    """Of one network, since somebody loaded it; ``label``: as which it serves now.

    ``failed``: by tenant, sizes that were too large for a cut, until then. ``long``: sizes, the longest block of
    their cut, and how long that counts.
    """

    label: str
    count: Counter[str] = field(default_factory=Counter)  # by tenant
    away: int = 0  # in a row that failed by no fault of their sizes, and do not count
    due_s: float = 0.0
    ended: Known | None = None  # of its cut, while that is under way
    failed: dict[str, tuple[Shapes, float]] = field(default_factory=dict)
    long: deque[tuple[Shapes, float, float]] = field(default_factory=lambda: deque(maxlen=MOST_LONG))
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
        self._circle = dict[str, None]()  # tenants who wait for their turn
        self._next, self._next_s = "", 0.0  # who goes first then, and for how long others wait for that

    def wanted(self, tenant: str, job: Job, bound_s: float) -> Known | None:
        """A request is too long in a block: have its network cut by its size; done then. None: that would not help.

        Raises Unavailable where cuts fail by no fault of their sizes.
        """
        model = self._loading.models.get(job.network.name)
        if model is None:
            return None
        tries = self._tries_of(model)
        if self.longest_s(job) > bound_s:  # with any cut
            return None
        if tries.ended is not None and model.network is job.network:  # what it takes then is known better
            return tries.ended
        shapes = None if self._rows_do(job, bound_s) else self._larger(tenant, tries, model, job)
        if shapes is None:
            return None
        if (left_s := tries.due_s - self._clock.now_s()) > 0.0:
            if tries.away and left_s > PAUSE_S:
                raise Unavailable(
                    "the server cannot get ready for inputs of this size now", retry_after_s=left_s
                )
            return _rest(tries, left_s) if left_s <= LATE_S else None
        if (turn := self._turn(tenant)) is not None:
            return turn
        tries.count[tenant] += 1
        self._ended = tries.ended = asyncio.get_running_loop().create_future()
        cut = self._cut(tenant, tries, model, shapes, bound_s)
        self.spawn(cut).add_done_callback(lambda _: self._over(tries, tenant))
        return self._ended

    def _turn(self, tenant: str) -> Known | None:
        """What it waits for while another network is cut, or another tenant goes first; None = it may begin."""
        turn, left_s = self._ended, self._next_s - self._clock.now_s()
        if turn is None and self._next not in ("", tenant) and left_s > 0.0:
            turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(left_s, end, turn)
        if turn is not None:
            self._circle[tenant] = None
        else:
            self._next = ""
        return turn

    def helps(self, tenant: str, job: Job) -> bool:
        """Whether its network is being cut anew, or may be for its size, now or after a pause."""
        model = self._loading.models.get(job.network.name)
        if model is None:
            return False
        tries = self._tries_of(model)
        under_way = tries.ended is not None and model.network is job.network
        return under_way or self._larger(tenant, tries, model, job) is not None

    def longest_s(self, job: Job) -> float:
        """The longest block of a cut by such sizes, or by none that is larger anywhere; 0 = none was timed of late."""
        model, tries = self._loading.models.get(job.network.name), self._tries.get(job.network.name)
        if model is None or tries is None or tries.label != model.label:
            return 0.0
        wanted, now_s = dict(job.shapes), self._clock.now_s()
        found = [
            longest_s
            for shapes, longest_s, until_s in tries.long
            if now_s < until_s and _no_smaller(wanted, shapes)
        ]
        return max(found, default=0.0)

    def _is_long(self, tries: _Tries, shapes: Shapes, longest_s: float) -> None:
        """Who waits with such sizes need not wait for a cut by smaller ones; the others do."""
        tries.long.append((shapes, longest_s, self._clock.now_s() + AGAIN_S))
        before, self._ended = tries.ended, asyncio.get_running_loop().create_future()
        tries.ended = self._ended
        end(before)

    def _over(self, tries: _Tries, tenant: str) -> None:
        self._circle.pop(tenant, None)
        self._next, self._next_s = next(iter(self._circle), ""), self._clock.now_s() + TURN_S
        self._circle.pop(self._next, None)
        end(tries.ended)
        self._ended = tries.ended = None
        pause_s = PAUSE_S * 2.0 ** min((tries.away or tries.count.total()) - 1, 20)
        tries.due_s = self._clock.now_s() + min(pause_s, AGAIN_S if tries.away else LONGEST_PAUSE_S)

    def close(self) -> None:
        """Who waits for a pause waits no longer."""
        for tries in self._tries.values():
            end(tries.rested)

    def follow(self, job: Job) -> None:
        """One that has waited runs on what came of its network, unless somebody has loaded or unloaded that since."""
        model, usual = self._loading.models.get(job.network.name), self._costs.usual
        if model is None or model.network is job.network:
            return
        first, own = (usual.get(one.index, one.index) for one in (model.network, job.network))
        if first == own:
            job.network = model.network
            job.cost_row = job.network.first_row

    def _tries_of(self, model: LoadedModel) -> _Tries:
        tries = self._tries.get(model.network.name)
        if tries is None or tries.label != model.label:
            tries = self._tries[model.network.name] = _Tries(model.label)
        return tries

    def _rows_do(self, job: Job, bound_s: float) -> bool:
        """Whether single rows are short, and all that has more can run row by row."""
        costs = self._costs
        row = job.row_of_one(costs) if job.divides(costs) else None
        return row is not None and costs.evident(row) and costs.longest_s(job.network, row) <= bound_s

    def _may(self, model: LoadedModel, job: Job) -> bool:
        """Whether this is a network with sizes that nobody gave, which can be cut here for a row of this input."""
        there = model.network is job.network and not job.network.untried and bool(model.key)
        ours = there and not model.given and all(stays(device) for device in self._devices)
        return ours and self._costs.least_s(job.network, job.cost_row) <= LONGEST_S

    def _larger(self, tenant: str, tries: _Tries, model: LoadedModel, job: Job) -> Shapes | None:
        """Its sizes, with fewer rows where all take too long; None where a cut was by no smaller ones, or failed so.

        Nor where there may be none. Of axes that differ in cost, a tenant may have had it cut for long ones that are
        cheap: time counts, too.
        """
        if tries.count[tenant] >= MOST or not self._may(model, job):
            return None
        tried, shapes = sizes_tried(model), {name: [*sizes] for name, sizes in job.shapes}
        takes_s, tried_s = (
            rows * self._costs.least_s(job.network, first_row)
            for rows, first_row in ((job.rows, job.cost_row), (job.network.rows, job.network.first_row))
        )
        if takes_s > LONGEST_S or job.divides(self._costs):
            leading = first_axes(model.ports["inputs"]) - linked(model.ports, tried, shapes)[1]
            shapes, takes_s = with_rows_of(tried, shapes, leading), takes_s * job.network.rows / job.rows
        larger = grown(tried, shapes) > 1.0 or takes_s > LONGER * tried_s
        failed, until_s = tries.failed.get(tenant, (shapes, 0.0))
        vain = self._clock.now_s() < until_s and _no_smaller(shapes, failed)
        return shapes if larger and shapes != tried and not vain else None

    async def _cut(
        self, tenant: str, tries: _Tries, model: LoadedModel, shapes: Shapes, bound_s: float
    ) -> None:
        name, away, tries.away = model.network.name, tries.away, 0
        try:
            async with self.turn():
                if self._loading.models.get(name) is model:
                    shapes = await self._by_most(tenant, tries, model, shapes, bound_s)
                    tries.label = self._loading.models[name].label
                    self._tries[name] = tries  # whoever looked between its load and now has begun anew
                    log.warning(
                        "'%s' is cut anew for inputs as its clients send them; to have that from the start, write in "
                        "its [[network]], or of models_dir in NAME.toml or NAME/config.toml: %s",
                        name,
                        in_toml(shapes) + "; and empty = true" * are_empty(shapes.items()),
                    )
        except Away as error:
            tries.count[tenant] -= 1
            tries.away = away + 1
            log.warning("'%s' is not cut for larger inputs yet: %s", name, error)
        except ModelError as error:
            log.warning("'%s' is not cut for larger inputs: %s", name, error)

    async def _by_most(
        self, tenant: str, tries: _Tries, model: LoadedModel, wanted: Shapes, bound_s: float
    ) -> Shapes:
        """The largest sizes by which it could be cut and loaded; raises ModelError."""
        shapes, tried = wanted, sizes_tried(model)
        fit = liked(tried, wanted, linked(model.ports, tried, wanted)[0])
        late_s = self._clock.now_s() + LATE_S
        for halved in range(HALVINGS + 1):
            fewer = 2.0
            try:
                await self._load(model, shapes, bound_s)
                break
            except Away:
                raise
            except ModelError as error:
                if isinstance(error, LongBlock):
                    self._is_long(tries, shapes, error.longest_s)
                    fewer = max(fewer, (error.longest_s / bound_s) ** (1.0 / STEEPEST))
                tries.failed[tenant] = shapes, self._clock.now_s() + AGAIN_S
                part = furthest(tried, wanted, 0.0, grown(tried, shapes) / fewer, fit)
                if halved == HALVINGS or self._clock.now_s() > late_s or not 0.0 < part < 1.0:
                    raise
                shapes = between(tried, wanted, part, fit)
        return shapes


def in_toml(shapes: Shapes) -> str:
    """A line for a server file."""
    pairs = (f"{json.dumps(name, ensure_ascii=False)} = {sizes}" for name, sizes in shapes.items())
    return f"shapes = {{ {', '.join(pairs)} }}"


def _no_smaller(shapes: Mapping[str, Sequence[int]], others: Shapes) -> bool:
    """Whether no size is smaller than that of the others."""
    return all(all(map(ge, sizes, others[name])) for name, sizes in shapes.items())


def _rest(tries: _Tries, pause_s: float) -> Known:
    """Done when it is over."""
    if tries.rested is None or tries.rested.done():
        loop = asyncio.get_running_loop()
        tries.rested = rested = loop.create_future()
        loop.call_later(pause_s, end, rested)
    return tries.rested
