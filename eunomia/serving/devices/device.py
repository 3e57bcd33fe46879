"""The front end's side of a device: starts its process, speaks with it, notices when it dies or hangs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eunomia.serving.devices import aside
from eunomia.serving.devices.arena import Arena, Slot
from eunomia.serving.devices.memory import out_of_memory_kills
from eunomia.serving.devices.messages import Message, pair, receive, send
from eunomia.serving.devices.places import PLACES
from eunomia.serving.protocol.errors import Unavailable

log = logging.getLogger("eunomia.serving")
TICKS = os.sysconf("SC_CLK_TCK")
OUTSIDE = tuple(
    -sent for sent in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
)
BURIALS, BURIAL_S = 10, 0.005  # looks at how a process ended, and the pause between two


@dataclass(frozen=True)
class DeviceSpec:
    """One device: its name, the type that profiles are kept by, and the cores that it runs on.

    ``spin_s``: with cores of its own, so long it looks for its next message before it sleeps. A core that has slept
    wakes up late and with cold caches: measured, a network of 4.5 ms then takes 6. ``memory_bytes``: of its own that
    its process may have; 0 = as much as there is. ``place``: where it works, of ``PLACES``. ``address``: of a cluster;
    ``resource``: what its nodes of this kind have.
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


class Device:
    """One worker process. ``on_message`` and ``on_death`` are called in the event loop."""

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
        self._killed = False  # from here
        self._arena, self._cache = arena, cache
        self._on_message, self._on_death = on_message, on_death
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._aside: int | None = None  # a pipe: what does not wait for a run
        self._starved: int | None = None  # kills for want of memory on this machine, when its process began
        self._ready = False
        self._said: asyncio.Future[str] | None = None  # done once it is ready, or says why it never will be

    @property
    def alive(self) -> bool:
        """Whether its process answers."""
        return self._ready

    @property
    def pid(self) -> int:
        """Of its process; 0 before the first start."""
        return self._process.pid if self._process else 0

    async def start(self) -> None:
        """Start the process and wait until it is ready; raises TimeoutError, or Unavailable with its reason."""
        if self._line is not None:
            self._line.close()
        line, theirs = pair()
        self._line = line
        if self._aside is not None:
            os.close(self._aside)
            self._aside = None  # there may be no other to be had
        heard, self._aside = os.pipe()
        os.set_blocking(self._aside, False)
        self._starved = out_of_memory_kills()
        command = [
            sys.executable,
            "-m",
            self.place.worker,
            str(theirs.fileno()),
            str(self._arena.descriptor),
            str(self.index),
            ",".join(map(str, self.spec.cores)),
            str(self.spec.spin_s),
            str(self.spec.memory_bytes),
            self._cache,
            *self.place.arguments(self.spec.kind, self.spec.address, self.spec.resource, heard),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if self.spec.gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = str(self.spec.gpu)
        try:
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(), self._arena.descriptor, heard),
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        finally:
            theirs.close()
            os.close(heard)
        line.setblocking(False)
        self._ready, self.blameless, self._killed = False, False, False
        self._said = asyncio.get_running_loop().create_future()
        self.restarts += 1
        asyncio.get_running_loop().add_reader(line.fileno(), self._readable)
        if why := await asyncio.wait_for(self._said, self.place.start_s):
            raise Unavailable(f"device '{self.spec.name}': {why}")

    def tell(self, message: Message) -> bool:
        """Send one message; False when the process is gone, which ``on_death`` reports too."""
        if self._line is None:
            return False
        try:
            send(self._line, message)
        except OSError:
            return False
        return True

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
        if self._aside is not None:
            aside.order(self._aside, aside.END, number)

    def fetch(self, request: int, room: Slot) -> bool:
        """Ask for the tensors of a request that waits between two blocks; False when the process is gone."""
        if self._aside is not None and not self.place.far:
            if aside.order(self._aside, aside.FETCH, request, room.offset, room.size):
                return True
        return self.tell({"kind": "fetch", "request": request, "room": [room.offset, room.size]})

    @property
    def used_s(self) -> float:
        """Processor time of the thread that runs networks; in steps of 10 ms on some kernels, 0 where nobody says."""
        of_thread = Path(f"/proc/{self.pid}/task/{self.pid}")
        try:
            if used_ns := int((of_thread / "schedstat").read_text().split()[0]):  # 0 where it is not kept
                return used_ns / 1e9
        except (OSError, IndexError, ValueError):
            pass
        try:
            fields = (of_thread / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / TICKS

    def kill(self) -> None:
        """End a process that hangs; ``on_death`` follows."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def disconnect(self) -> None:
        """Tell the process to end; nothing is heard of it any more."""
        if self._process is not None:
            self._forget_line()
            self.tell({"kind": "stop"})
        if self._line is not None:
            self._line.close()
        if self._aside is not None:
            os.close(self._aside)
            self._aside = None

    def wait(self) -> None:
        """See that the process ends, by force if need be; may take 2 s."""
        if self._process is None:
            return
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _readable(self) -> None:
        while self._line is not None:
            try:
                message = receive(self._line)
            except BlockingIOError:
                return
            if message is None:
                self._forget_line()
                self._bury(BURIALS)
                return
            if message["kind"] == "ready":
                self._ready = True
                self._starts("")
            elif message["kind"] == "unable":
                self._starts(message["why"])
            elif message["kind"] == "lost":
                self.blameless = not message["blame"]
                log.warning("device '%s': %s", self.spec.name, message["why"])
            else:
                self._on_message(self.index, message)

    def _bury(self, tries: int) -> None:
        """Find out how it died: a moment after its line has closed."""
        code = None if self._process is None else self._process.poll()
        if code is None and tries:
            asyncio.get_running_loop().call_later(BURIAL_S, self._bury, tries - 1)
            return
        if code is None and self._process is not None:
            self._process.kill()
            self._process.wait()
        elif not self._killed and code in OUTSIDE and (code != -signal.SIGKILL or not self._may_starve()):
            log.warning("device '%s' was ended from outside, by signal %d", self.spec.name, -code)
            self.blameless = True
        self._on_death(self.index)

    def _may_starve(self) -> bool:
        """Whether the kernel may have ended it for want of memory: others may be the cause, but nobody says."""
        kills = out_of_memory_kills()
        return kills is None or kills != self._starved

    def _starts(self, why: str) -> None:
        if self._said is not None and not self._said.done():
            self._said.set_result(why)

    def _forget_line(self) -> None:
        self._ready = False
        if self._line is None:
            return
        with contextlib.suppress(ValueError, OSError):
            asyncio.get_running_loop().remove_reader(self._line.fileno())
