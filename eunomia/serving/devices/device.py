"""The front end's side of a device: the process that stands for it now, and one that would take its place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from eunomia.serving.devices import aside
from eunomia.serving.devices.arena import Arena, Slot
from eunomia.serving.devices.memory import too_little
from eunomia.serving.devices.messages import Message
from eunomia.serving.devices.places import PLACES
from eunomia.serving.devices.process import DeviceProcess
from eunomia.serving.devices.spare import Spare

log = logging.getLogger("eunomia.serving")
SPARE_START_S = 3600.0  # so long may the start of a process take that comes after all others


@dataclass(frozen=True)
class DeviceSpec:
    """One device: its name, the type that profiles are kept by, and the cores that it runs on.

    ``spin_s``: with cores of its own, so long it looks for its next message before it sleeps. A core that has slept
    wakes up late and with cold caches: measured, a network of 4.5 ms then takes 6. ``memory_bytes``: of its own that
    its process may have; 0 = as much as there is. ``place``: where it works, of ``PLACES``. ``address``: of a cluster;
    ``resource``: what its nodes of this kind have. ``spare``: another process stands by with the same networks.
    """

    name: str
    kind: str = "cpu"
    cores: tuple[int, ...] = ()
    spin_s: float = 0.0
    memory_bytes: int = 0
    gpu: int | None = None  # the only one that its process sees
    place: str = "process"
    address: str = "auto"
    resource: str = ""
    spare: bool = False


class Device:
    """``on_message`` and ``on_death`` are called in the event loop, of the process that stands for it now.

    ``kept``: by label, networks that this process had loaded before it took the device's place, and nobody knows yet.
    """

    def __init__(
        self,
        index: int,
        spec: DeviceSpec,
        arena: Arena,
        cache: str,
        on_message: Callable[[int, Message], None],
        on_death: Callable[[int], None],
    ) -> None:
        self.index, self.spec = index, spec
        self.restarts = -1
        self.place = PLACES[spec.place]
        self.blameless = False  # it was lost with its machine or ended from outside, not by what it ran
        self.spare: Spare | None = None
        self.kept: dict[str, Message] = {}
        self.environment: dict[str, str] = {}  # of its processes, besides this one's
        self._arena, self._cache = arena, cache
        self._on_message, self._on_death = on_message, on_death
        self._process: DeviceProcess | None = None
        self._ending: list[DeviceProcess] = []

    @property
    def alive(self) -> bool:
        """Whether its process answers."""
        return self._process is not None and self._process.ready

    @property
    def pid(self) -> int:
        """Of its process; 0 before the first start."""
        return self._process.pid if self._process else 0

    @property
    def used_s(self) -> float:
        """Processor time of the thread that runs networks (``DeviceProcess``)."""
        return self._process.used_s if self._process else 0.0

    @property
    def stopped(self) -> bool:
        """Whether a signal from outside has stopped its process."""
        return self._process is not None and self._process.stopped

    @property
    def all_used_s(self) -> float:
        """Processor time of all its threads (``DeviceProcess``)."""
        return self._process.all_used_s if self._process else 0.0

    @property
    def stands_by(self) -> bool:
        """Whether another process can take its place at once, with all networks."""
        return self.spare is not None and self.spare.complete and self.spare.settled

    async def start(self) -> None:
        """A process that is ready; raises TimeoutError, or Unavailable with its reason."""
        if self._process is not None:
            self._process.close()
        self.blameless, self.kept, spare = False, {}, self.spare
        self.restarts += 1
        if spare is not None and spare.settled and not spare.process.stopped:
            spare.process.serves(self.spec.name)
            log.warning("device '%s': the process that stood by takes its place", self.spec.name)
            self._process, self.kept, self.spare = spare.process, spare.kept, None
            return
        self.dismiss()
        self._process = self._new(self.spec.name)
        await self._begin(self._process, self.place.worker, self.place.start_s)

    def another(self) -> Spare:
        """A process beside the one that stands for this device, not started yet."""
        self.spare = Spare(self._new(f"{self.spec.name}, standing by"))
        return self.spare

    async def stand_by(self, spare: Spare) -> None:
        """Start it; raises as ``start`` does."""
        await self._begin(spare.process, self.place.spare, SPARE_START_S)

    def dismiss(self) -> None:
        """Nothing stands by from now on."""
        spare, self.spare = self.spare, None
        if spare is not None:
            spare.end()
            self._ending = [*(one for one in self._ending if not one.gone), spare.process]

    def _new(self, name: str) -> DeviceProcess:
        bound = self.spec.memory_bytes // 2**20
        hint = f"; {too_little(bound)}" if bound else ""
        return DeviceProcess(name, hint, self._heard, self._ended)

    async def _begin(self, process: DeviceProcess, module: str, most_s: float) -> None:
        gpu = {} if self.spec.gpu is None else {"CUDA_VISIBLE_DEVICES": str(self.spec.gpu)}
        await process.start(
            partial(self._words, module), self._arena.descriptor, self.environment | gpu, most_s
        )

    def _words(self, module: str, line: int, pipe: int) -> Sequence[str]:
        spec = self.spec
        return [
            module,
            str(line),
            str(self._arena.descriptor),
            str(self.index),
            ",".join(map(str, spec.cores)),
            str(spec.spin_s),
            str(spec.memory_bytes),
            self._cache,
            *self.place.arguments(spec.kind, spec.address, spec.resource, pipe),
        ]

    def tell(self, message: Message) -> bool:
        """Send one message; False when the process is gone, which ``on_death`` reports too."""
        return self._process is not None and self._process.tell(message)

    def stop(self, ticket: int) -> None:
        """Ask it to stop the run with this ticket, and earlier ones, at the next block boundary."""
        self._arena.stop(self.index, ticket)
        if self.place.far:
            self.tell({"kind": "flags", "stop": ticket, "skip": 0})

    def skip(self, ticket: int) -> None:
        """Ask it not to start the run with this ticket."""
        self._arena.skip(self.index, ticket)
        if self.place.far:
            self.tell({"kind": "flags", "stop": 0, "skip": ticket})

    def end(self, number: int) -> None:
        """Ask it to end the run with this ticket in its midst; a trial of sizes has a number below zero."""
        if self._process is not None:
            self._process.order(aside.END, number)

    def heard(self, number: int) -> bool:
        """Whether it knows that it is to end that."""
        return self._arena.heard(self.index, number)

    def fetch(self, request: int, room: Slot) -> bool:
        """Ask for the tensors of a request that waits between two blocks; False when the process is gone."""
        if self._process is not None and not self.place.far:
            if self._process.order(aside.FETCH, request, room.offset, room.size):
                return True
        return self.tell({"kind": "fetch", "request": request, "room": [room.offset, room.size]})

    def kill(self) -> None:
        """End a process that hangs; ``on_death`` follows."""
        if self._process is not None:
            self._process.kill()

    def disconnect(self) -> None:
        """Tell the process to end; nothing is heard of it any more."""
        self.dismiss()
        if self._process is not None:
            self._process.disconnect()

    def wait(self) -> None:
        """See that its processes end, by force if need be; may take 2 s for each."""
        for process in (self._process, *self._ending):
            if process is not None:
                process.wait()

    def _heard(self, process: DeviceProcess, message: Message) -> None:
        if process is not self._process:
            if self.spare is not None and process is self.spare.process:
                self.spare.heard(message)
        elif message["kind"] == "lost":
            self.blameless = not message["blame"]
            log.warning("device '%s': %s", self.spec.name, message["why"])
        else:
            self._on_message(self.index, message)

    def _ended(self, process: DeviceProcess, outside: bool) -> None:
        if process is self._process:
            self.blameless |= outside
            if process.answered or self.restarts:  # else the server does not start, and says why
                self._on_death(self.index)
        elif self.spare is not None and process is self.spare.process:
            self.spare.outside = outside
            self.dismiss()
