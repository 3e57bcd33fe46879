"""Networks on the devices of a server: loaded on all, again after a restart, forgotten when nobody needs them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from eunomia.core.errors import ModelError
from eunomia.serving.devices.device import Device
from eunomia.serving.devices.messages import Message, Port, Ports
from eunomia.serving.dispatch.costs import CostBook, Network

log = logging.getLogger("eunomia.serving")
FIRST_ROOM = 64 * 1024  # for outputs of unknown size; a larger one costs one more message once
LOAD_S = 120.0
FATAL = 2  # deaths of a device while it loads a network


@dataclass
class LoadedModel:
    """A network on all devices. ``label``: what workers call it; a network that is loaded anew gets a new one."""

    network: Network
    label: str
    path: str
    shapes: Mapping[str, list[int]]
    ports: Ports
    room: int = FIRST_ROOM


class Loading:
    """Loads, and the answers that they wait for."""

    def __init__(self, devices: Sequence[Device], costs: CostBook, target_s: float, whole_s: float) -> None:
        self.models: dict[str, LoadedModel] = {}
        self._labels: dict[int, str] = {}  # network number -> label, as long as a job may need it
        self._devices, self._costs, self._target_s = devices, costs, min(target_s, LOAD_S)
        self._whole_s = min(whole_s, LOAD_S)  # devices keep networks up to this length in one piece too
        self._last: dict[int, int] = {}  # network number -> ticket of its last run
        self._waiting: dict[tuple[int, str], asyncio.Future[Message]] = {}
        self._felled: Counter[tuple[int, str]] = Counter()  # devices that died of loading it, in a row
        self._count = 0

    def label(self, network: Network, ticket: int) -> str:
        """What workers call a network that runs now."""
        self._last[network.index] = ticket
        return self._labels[network.index]

    async def load(self, name: str, path: str, shapes: Mapping[str, list[int]]) -> Ports:
        """Load on every living device; returns the network's ports. Raises ModelError.

        The first device decides where the network is cut; the others read its plan.
        """
        if not _is_utf8(path):
            raise ModelError(f"its path {path!r} is no UTF-8, which the runtime cannot open; rename it")
        self._count += 1
        label = f"{name}#{self._count}"
        alive = [device for device in self._devices if device.alive]
        if not alive:
            raise ModelError("no device is alive")
        answers = [await self._load_on(alive[0], label, path, shapes)]
        answers += await asyncio.gather(*(self._load_on(device, label, path, shapes) for device in alive[1:]))
        rows, sizes = trial_shape(answers[0]["inputs"], shapes)
        whole = all(answer["whole"] for answer in answers)
        network = self._costs.add(name, len(answers[0]["block_s"]), whole=whole, rows=rows, sizes=sizes)
        for device, answer in zip(alive, answers, strict=True):
            self._costs.measured(network, device.index, answer["block_s"])
        self._labels[network.index] = label
        ports: Ports = {"inputs": answers[0]["inputs"], "outputs": answers[0]["outputs"]}
        if not all(port["shape"][:1] == [-1] for port in (*ports["inputs"], *ports["outputs"])):
            self._costs.apart.add(
                network.index
            )  # rows are not the first axis of all that goes in and comes out
        self.models[name] = LoadedModel(network, label, path, shapes, ports)
        return ports

    async def load_again(self, device: Device, wanted: Collection[int]) -> AsyncIterator[str]:
        """Everything on a device that was started anew, name by name: these networks first, then the last used.

        One that the device died of comes last, and after ``FATAL`` deaths not at all: the others must be served.
        """

        def turn(item: tuple[str, LoadedModel]) -> tuple[int, bool, int]:
            index = item[1].network.index
            return -self._felled[device.index, item[1].label], index in wanted, self._last.get(index, 0)

        for name, model in reversed(sorted(self.models.items(), key=turn)):
            if self._felled[device.index, model.label] >= FATAL:
                log.error("network '%s' ends device '%s'; mend its file and load it", name, device.spec.name)
                continue
            try:
                answer = await self._load_on(device, model.label, model.path, model.shapes)
                self._costs.measured(model.network, device.index, answer["block_s"])
                yield name
            except ModelError as error:
                log.warning("network '%s' does not load again: %s", name, error)

    async def retire(self, model: LoadedModel, in_use: Callable[[Network], bool]) -> None:
        """Let workers forget a network once no request needs it."""
        while in_use(model.network):
            await asyncio.sleep(0.1)
        for device in self._devices:
            device.tell({"kind": "unload", "model": model.label})
        self._labels.pop(model.network.index, None)
        self._last.pop(model.network.index, None)
        self._costs.forget(model.network)

    def answered(self, device: int, message: Message) -> None:
        """A worker has loaded a network, or says why not."""
        answer = self._waiting.get((device, message["model"]))
        if answer is None or answer.done():
            return
        if message["kind"] == "loaded":
            answer.set_result(message)
        else:
            answer.set_exception(ModelError(message["why"]))

    def died(self, device: int) -> None:
        """A worker died while it was loading."""
        for (index, label), answer in self._waiting.items():
            if index == device and not answer.done():
                outside = self._devices[index].blameless
                self._felled[index, label] += not outside
                why = (
                    "its device was ended from outside; load it again"
                    if outside
                    else "it took its device down"
                )
                answer.set_exception(ModelError(f"network '{label.split('#')[0]}' did not load: {why}"))

    async def _load_on(
        self, device: Device, label: str, path: str, shapes: Mapping[str, list[int]]
    ) -> Message:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[device.index, label] = answer
        message = {
            "kind": "load",
            "model": label,
            "path": path,
            "shapes": dict(shapes),
            "target_s": self._target_s,
            "whole_s": self._whole_s,
            "backend": device.spec.kind,
        }
        try:
            if not device.tell(message):  # nobody would answer
                raise ModelError(f"device '{device.spec.name}' is away; try again when it is back")
            found = await asyncio.wait_for(answer, LOAD_S)
            self._felled.pop((device.index, label), None)
            return found
        except TimeoutError:
            device.kill()
            raise ModelError(f"network '{label.split('#')[0]}' did not load within {LOAD_S:.0f} s") from None
        finally:
            self._waiting.pop((device.index, label), None)


def trial_shape(ports: Sequence[Port], shapes: Mapping[str, list[int]]) -> tuple[int, list[int]]:
    """Rows of the trial's input, and elements per row of each tensor, in order of name."""
    tried = {p["name"]: shapes.get(p["name"]) or [1 if d < 0 else d for d in p["shape"]] for p in ports}
    rows = max((tried[p["name"]][0] for p in ports if p["shape"] and p["shape"][0] < 0), default=1)
    return rows, [max(math.prod(shape) // rows, 1) for _, shape in sorted(tried.items())]


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
