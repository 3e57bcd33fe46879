"""Networks on the devices of a server: loaded on all, again after a restart, forgotten when nobody needs them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.glance import must_be_utf8
from eunomia.serving.devices.axes import Shapes, elements
from eunomia.serving.devices.cutting import Away, refusal
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.messages import Message, Port, Ports
from eunomia.serving.devices.ports import has_texts
from eunomia.serving.devices.rows import TRIED_S, Word, first_axis_is_free, say_why_not
from eunomia.serving.dispatch.costs import CostBook, Network
from eunomia.serving.protocol.errors import Unavailable

log = logging.getLogger("eunomia.serving")
FIRST_ROOM = 64 * 1024  # for outputs of unknown size; a larger one costs one more message once
LOAD_S = 120.0
FATAL = 2  # deaths of a device by the load of a network
SUSPICIOUS = 2  # deaths while it loaded it and did more besides: then it loads it alone, which tells
AGAIN_S, LONGEST_AGAIN_S = 10.0, 3600.0  # before a network that did not load again is tried once more
COARSE = 0.25  # of the longest that a block may take: finer cuts cost inputs that are small
LOST = "the devices that had it died"


@dataclass
class LoadedModel:
    """A network on all devices. ``label``: what workers call it; a network that is loaded anew gets a new one.

    ``key``: the name of its cut, where it was cut. ``took_s``: with the input by which it was cut, 0 where that was
    made up or nobody knows. ``given``: whether who had it loaded gave ``shapes``; ``chosen``: clients chose the sizes
    by which it was cut. ``apart``: the operator's word on whether rows are answered one by one, if there is one.
    """

    network: Network
    label: str
    path: str
    shapes: Mapping[str, list[int]]
    ports: Ports
    key: str = ""
    room: int = FIRST_ROOM
    took_s: float = 0.0
    given: bool = False
    chosen: bool = False
    apart: Word = None


class Loading:
    """Loads, and the answers that they wait for. ``away``: networks, by number, that no device has, and why.

    ``on_away``: told of each such network, by name, and of its return, with an empty reason. ``on_lost``: of one whose
    cut the cache has lost, and what is there instead. ``batches``: whether requests may share a run: that is tried.
    """

    batches = False

    def __init__(self, devices: Sequence[Device], costs: CostBook, target_s: float, whole_s: float) -> None:
        self.models: dict[str, LoadedModel] = {}
        self.away: dict[int, str] = {}
        self.on_away: Callable[[str, str], None] = lambda name, why: None
        self.on_lost: Callable[[LoadedModel, str], None] = lambda model, cut: None
        self._labels: dict[int, str] = {}  # network number -> label, as long as a job may need it
        self._devices, self._costs, self.target_s = devices, costs, min(target_s, LOAD_S)
        self._whole_s = min(whole_s, LOAD_S)  # devices keep networks up to this length in one piece too
        self._last: dict[int, int] = {}  # network number -> ticket of its last run
        self._waiting: dict[tuple[int, str], asyncio.Future[Message]] = {}
        self._felled: Counter[tuple[int, str]] = Counter()  # deaths of a device by loading it, in a row
        self._suspected: Counter[tuple[int, str]] = Counter()  # that may have had another cause, in a row
        self._why: dict[str, str] = {}  # label -> why it did not load again
        self._old: dict[int, LoadedModel] = {}  # not in service any more, as long as a request needs it
        self._count = 0

    def label(self, network: Network, ticket: int) -> str:
        """What workers call a network that runs now."""
        self._last[network.index] = ticket
        return self._labels[network.index]

    async def load(
        self, name: str, path: str, shapes: Shapes, cut: str = "", most_s: float = 0.0, apart: Word = None
    ) -> Ports:
        """Load on every living device; returns the network's ports. Raises ModelError.

        The first device decides where the network is cut, unless that is known (``cut``); the others read its plan.
        ``most_s``: none runs it, not for a trial either, if a block of the plan takes longer; 0 = it may. ``apart``:
        whether rows are answered one by one; None = where that is proven.
        """
        must_be_utf8(path)
        self._count += 1
        label = f"{name}#{self._count}"
        alive = [device for device in self._devices if device.alive]
        if not alive:
            raise Away("no device is alive")
        target_s = max(self.target_s, COARSE * most_s)
        bound: Message = {"most_s": most_s, "target_s": target_s} if most_s else {}
        tried_s = LOAD_S if self.batches or apart else TRIED_S
        tried = {} if most_s or apart is False else {"rows_most_s": tried_s, "rows_apart": apart}
        first = {**self._order(alive[0], label, path, shapes, cut), **bound, **tried}
        told = await self._load_on(alive[0], first)
        given, shapes = bool(shapes), told.get("shapes") or shapes  # with those that it had to find
        asked, untried = told.get("asked", {}), bool(told.get("untried"))
        if untried:
            cut = told["key"]  # there may be another by now
        others = [(d, {**self._order(d, label, path, shapes, cut), **bound}) for d in alive[1:]]
        try:
            answers = [told, *await asyncio.gather(*(self._load_on(*each) for each in others))]
        except BaseException:  # those that have it would keep it for nothing
            for device in alive:
                device.tell({"kind": "unload", "model": label})
            raise
        ports: Ports = {"inputs": told["inputs"], "outputs": told["outputs"], "axes": told.get("axes", {})}
        ports["unranked"] = told.get("unranked", [])
        rows, sizes = trial_shape(ports["inputs"], asked or shapes)
        whole, blocks = all(answer["whole"] for answer in answers), len(told["block_s"])
        if untried and not asked:
            log.warning("'%s' is not cut; its first requests tell what it takes: %s", name, told["untried"])
        network = self._costs.add(name, blocks, whole=whole, rows=rows, sizes=sizes, untried=untried)
        model = LoadedModel(network, label, path, shapes, ports, told.get("key", ""), given=given)
        model.apart = apart
        if asked:
            model.took_s = sum(told["block_s"])
        for device, answer in zip(alive, answers, strict=True):
            self._costs.measured(network, device.index, _per_row(network, answer))
        self._labels[network.index] = label
        if found := told.get("rows_apart", False):
            self._costs.by_row.update([] if has_texts(ports) else [network.index])
        elif tried and first_axis_is_free(ports):
            say_why_not(name, told, loud=self.batches or bool(apart))
        if not (most_s or (self.batches and found)):  # else who loads it knows
            self._costs.apart.add(network.index)
        self.models[name] = model
        return ports

    async def load_again(self, device: Device, wanted: Collection[int]) -> AsyncIterator[str]:
        """Everything on a device that was started anew, name by name: these networks first, then the last used.

        One that the device died of comes last, and after ``FATAL`` deaths not at all: the others must be served. One
        that it may have died of ``SUSPICIOUS`` times comes before all, and the first name after it: nothing else runs
        meanwhile, so that another death says who it was.
        """

        def turn(item: tuple[str, LoadedModel]) -> tuple[bool, int, bool, int]:
            key, index = (device.index, item[1].label), item[1].network.index
            suspected, felled = self._suspected[key], self._felled[key]
            last = self._last.get(index, 0)
            return suspected >= SUSPICIOUS, -suspected - felled, index in wanted, last

        there = [*reversed(sorted(self.models.items(), key=turn))]
        fatal = {model.label for _, model in there if self._felled[device.index, model.label] >= FATAL}
        alone = {
            model.label for _, model in there if self._suspected[device.index, model.label] >= SUSPICIOUS
        }
        alone -= fatal
        for name, model in there:
            if model.label in fatal:
                log.error("network '%s' ends device '%s'; mend its file and load it", name, device.spec.name)
                continue
            loaded = await self._load_anew(device, model)
            alone.discard(model.label)
            if loaded and not alone:
                yield name

    def drop_rest(self, device: Device) -> None:
        """What its process had loaded while it stood by, and nobody needs any more."""
        for label in device.kept:
            device.tell({"kind": "unload", "model": label})
        device.kept = {}

    async def complete(self, device: Device) -> None:
        """What a device that has all others did not load: again, later and later, for as long as it is in service."""
        await asyncio.gather(
            *(self._later(device, model) for model in self.models.values() if not self.has(model, device))
        )

    def has(self, model: LoadedModel, device: Device | None = None) -> bool:
        """Whether this device, or any, can run it."""
        known_s = self._costs.latency_s[model.network.first_row]
        return bool((known_s if device is None else known_s[[device.index]]).min() < math.inf)

    def give_up(self) -> None:
        """Networks that no device has, though one has tried all: from now on their requests are refused."""
        for model in (*self.models.values(), *self._old.values()):
            network = model.network
            if network.index not in self.away and not self.has(model):
                self.away[network.index] = why = f"no device has it: {self._why.get(model.label, LOST)}"
                log.error("requests for network '%s' are refused: %s", network.name, why)
                if self.models.get(network.name) is model:
                    self.on_away(network.name, why)

    def check(self, network: Network) -> None:
        """Raises Unavailable where no device has it."""
        if network.index in self.away:
            text = f"model '{network.name}' is not ready: {self.away[network.index]}"
            raise Unavailable(text, retry_after_s=AGAIN_S)

    async def _later(self, device: Device, model: LoadedModel) -> None:
        for tries in count(self._felled[device.index, model.label]):
            await asyncio.sleep(again_s(tries))
            if self.models.get(model.network.name) is not model or await self._load_anew(device, model):
                return

    async def _load_anew(self, device: Device, model: LoadedModel) -> bool:
        """A network of this server on a device that lost it; whether it is there."""
        network = model.network
        try:
            answer = await self._load_on(device, self.again(device, model))
            if lost := stays(device) and answer.get("key", model.key) != model.key:
                self.on_lost(model, answer["key"])
            if lost or network.index not in self._labels:  # it was unloaded meanwhile
                device.tell({"kind": "unload", "model": model.label})
                return False
            if self._known_s(device, network):
                self._costs.back(network, device.index, answer["block_s"])
            else:
                self._costs.measured(network, device.index, _per_row(network, answer))
        except ModelError as error:
            self._why[model.label] = str(error)
            log.warning("network '%s' does not load again: %s", network.name, error)
            return False
        self._why.pop(model.label, None)
        if self.away.pop(network.index, None) is not None and self.models.get(network.name) is model:
            log.warning("requests for network '%s' are welcome again", network.name)
            self.on_away(network.name, "")
        return True

    def retire(
        self, model: LoadedModel, in_use: Callable[[Network], bool]
    ) -> Coroutine[object, object, None]:
        """Let workers forget a network once no request needs it."""
        self._old[model.network.index] = model
        return self._retire(model, in_use)

    async def _retire(self, model: LoadedModel, in_use: Callable[[Network], bool]) -> None:
        while in_use(model.network):
            await asyncio.sleep(0.1)
        for device in self._devices:
            device.tell({"kind": "unload", "model": model.label})
            if device.spare is not None:
                device.spare.forget(model.label)
            self._felled.pop((device.index, model.label), None)
            self._suspected.pop((device.index, model.label), None)
        self._why.pop(model.label, None)
        self._old.pop(model.network.index, None)
        self.away.pop(model.network.index, None)
        self._labels.pop(model.network.index, None)
        self._last.pop(model.network.index, None)
        self._costs.forget(model.network)

    def answered(self, device: int, message: Message) -> None:
        """A worker has loaded a network, or says why not."""
        key = device, message["model"]
        answer = self._waiting.get(key)
        if answer is None or answer.done():
            return
        self._suspected.pop(key, None)
        if message["kind"] == "loaded":
            self._felled.pop(key, None)
            answer.set_result(message)
        else:
            answer.set_exception(refusal(message))

    def died(self, device: int, *, busy: bool = False) -> None:
        """A worker died while it was loading. ``busy``: something ran there besides, which may be the cause.

        Then the load is suspected; it is charged where there was nothing else, or where the device died of it before.
        """
        loading = [
            (key, answer) for key, answer in self._waiting.items() if key[0] == device and not answer.done()
        ]
        for key, answer in loading:
            blameless = self._devices[device].blameless
            if blameless:
                why = "its device was ended from outside; load it again"
            elif self._felled[key] >= FATAL or not (busy or len(loading) > 1):
                self._charge(key)
                why = "it took its device down"
            else:
                self._suspected[key] += self._serves(key[1])
                why = "its device died of it, or of what else ran there; load it again"
            if self._serves(key[1]):
                self._why[key[1]] = why
            kind = Away if blameless else ModelError
            answer.set_exception(kind(f"network '{key[1].split('#')[0]}' did not load: {why}"))

    def _charge(self, key: tuple[int, str]) -> None:
        """A device has gone of this load; if it was loaded alone for that, no more is asked."""
        if self._serves(key[1]):
            self._felled[key] += FATAL if self._suspected[key] >= SUSPICIOUS else 1
        self._suspected.pop(key, None)

    def _serves(self, label: str) -> bool:
        return any(model.label == label for model in self.models.values())

    def again(self, device: Device, model: LoadedModel) -> Message:
        """The message that has a device load a network of this server once more: what is known is not tried again."""
        order = self._order(device, model.label, model.path, model.shapes, model.key)
        if known_s := self._known_s(device, model.network):
            order |= {"known_s": known_s, "whole_s": LOAD_S if model.network.whole else 0.0}
        return order

    def _known_s(self, device: Device, network: Network) -> list[float]:
        """What blocks take there, if that holds for the next process too."""
        return self._costs.known(network, device.index) if stays(device) else []

    def _order(
        self, device: Device, label: str, path: str, shapes: Mapping[str, list[int]], cut: str = ""
    ) -> Message:
        exact = {"key": cut} if cut and stays(device) else {}
        return exact | {
            "kind": "load",
            "model": label,
            "path": path,
            "shapes": dict(shapes),
            "target_s": self.target_s,
            "whole_s": self._whole_s,
            "backend": device.spec.kind,
        }

    async def _load_on(self, device: Device, order: Message) -> Message:
        label = order["model"]
        if (known := device.kept.pop(label, None)) is not None:  # its process stood by, and has it
            self._suspected.pop((device.index, label), None)
            self._felled.pop((device.index, label), None)
            return known
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[device.index, label] = answer
        try:
            if not device.tell(order):  # nobody would answer
                raise Away(f"device '{device.spec.name}' is away; try again when it is back")
            async with asyncio.timeout(LOAD_S):  # ``wait_for`` of Python 3.11 may swallow a cancellation
                return await answer
        except TimeoutError:
            self._charge((device.index, label))
            device.blameless = True  # whatever else is there has done nothing
            device.kill()
            raise ModelError(f"network '{label.split('#')[0]}' did not load within {LOAD_S:.0f} s") from None
        finally:
            if self._waiting.get((device.index, label)) is answer:
                del self._waiting[device.index, label]


def trial_shape(ports: Sequence[Port], shapes: Mapping[str, list[int]]) -> tuple[int, list[int]]:
    """Rows of the trial's input, and elements per row of each tensor, in order of name."""
    tried = {p["name"]: shapes.get(p["name"]) or [1 if d < 0 else d for d in p["shape"]] for p in ports}
    rows = max((tried[p["name"]][0] for p in ports if p["shape"] and p["shape"][0] < 0), default=1)
    return rows, [max(elements(shape) // rows, 1) for _, shape in sorted(tried.items())]


def _per_row(network: Network, answer: Message) -> list[float]:
    """Of each block, which was timed with all rows of the trial."""
    return [seconds / network.rows for seconds in answer["block_s"]]


def stays(device: Device) -> bool:
    """Whether its next process is on the same cores; others may be on another machine, or compile anew."""
    return device.spec.kind == "cpu" and not device.place.far


def again_s(tries: int) -> float:
    """Seconds before a network is tried once more that did not load so often."""
    return min(LONGEST_AGAIN_S, AGAIN_S * 2.0 ** min(tries, 20))
