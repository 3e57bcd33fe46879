"""A process that stands for a device: how it is started, spoken with and ended, and how one knows why it ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from eunomia.core.workers import deaf_to_ctrl_c
from eunomia.serving.devices import aside
from eunomia.serving.devices.memory import end_no_sooner, out_of_memory_kills
from eunomia.serving.devices.messages import Message, pair, receive, send
from eunomia.serving.protocol.errors import Unavailable

log = logging.getLogger("eunomia.serving")
TICKS = os.sysconf("SC_CLK_TCK")
OUTSIDE = tuple(
    -sent for sent in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
)
BURIALS, BURIAL_S = 50, 0.001  # looks at how a process ended, and the pause between two
LOOK_S = 0.001  # between two looks at one that was killed
REAP_S = 0.01  # between two looks at one that has ended, until it is gone
OF_PROCESS = 2  # CPUCLOCK_SCHED of Linux: the clock of another process, by its number
EXITING = 0x4  # PF_EXITING of Linux: none of its code runs any more


class DeviceProcess:
    """``on_message`` hears what it says, ``on_end`` that it has ended, and whether an operator's signal ended it.

    ``hint``: why it may end at its start.

    Both are called in the event loop, and not after ``disconnect``.
    """

    def __init__(
        self,
        name: str,
        hint: str,
        on_message: Callable[[DeviceProcess, Message], None],
        on_end: Callable[[DeviceProcess, bool], None],
    ) -> None:
        self.ready = self.answered = False  # it answers; it did once
        self._name, self._hint = name, hint
        self._on_message, self._on_end = on_message, on_end
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._aside: int | None = None  # a pipe: what does not wait for a run
        self._killed = False  # from here
        self._over = False  # it has ended, or nobody wants to know
        self._starved: int | None = None  # kills for want of memory on this machine, when it began
        self._said: asyncio.Future[str] | None = None  # done once it is ready, or says why it never will be

    @property
    def pid(self) -> int:
        """0 before it was started."""
        return self._process.pid if self._process else 0

    async def start(
        self, words: Callable[[int, int], Sequence[str]], inherits: int, more: dict[str, str], most_s: float
    ) -> None:
        """Start it and wait until it is ready; raises TimeoutError, or Unavailable with its reason.

        ``words``: of the command, given the descriptors of its line and of its pipe. ``inherits``: another descriptor.
        ``more``: for its environment.
        """
        line, theirs = pair()
        self._line = line
        heard, self._aside = os.pipe()
        os.set_blocking(self._aside, False)
        self._starved = out_of_memory_kills()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **more}
        try:
            with deaf_to_ctrl_c():
                self._process = subprocess.Popen(
                    [sys.executable, "-m", *words(theirs.fileno(), heard)],
                    pass_fds=(theirs.fileno(), inherits, heard),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                )
        finally:
            theirs.close()
            os.close(heard)
        line.setblocking(False)
        self._said = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(line.fileno(), self._readable)
        async with asyncio.timeout(most_s):
            why = await self._said
        if why:
            raise Unavailable(f"device '{self._name}': {why}")

    def tell(self, message: Message) -> bool:
        """Send one message; False when it is gone, which ``on_end`` reports too."""
        if self._line is None:
            return False
        try:
            send(self._line, message)
        except OSError:
            return False
        return True

    def order(self, what: int, number: int, offset: int = 0, size: int = 0) -> bool:
        """What does not wait for its run (``aside``); False when it does not get there."""
        return self._aside is not None and aside.order(self._aside, what, number, offset, size)

    @property
    def runs(self) -> bool:
        """Whether it answers, and has not ended just now."""
        return self.ready and not self.gone

    @property
    def gone(self) -> bool:
        """Whether nothing is left of it."""
        return self._process is None or self._process.poll() is not None

    @property
    def stopped(self) -> bool:
        """Whether a signal from outside has stopped it."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return False
        return state == "T"

    def serves(self, name: str) -> None:
        """From now on it stands for a device; so far it stood by."""
        self._name, self._starved = name, out_of_memory_kills()
        end_no_sooner(self.pid)

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

    @property
    def all_used_s(self) -> float:
        """Processor time of all its threads, to the microsecond where the system keeps that; else as ``used_s``."""
        try:
            return time.clock_gettime((~self.pid << 3) | OF_PROCESS)
        except OSError:
            return self.used_s

    def kill(self) -> None:
        """End it where it hangs; ``on_end`` follows, before its memory is given back, which may take a while."""
        if self._process is not None:
            self._process.kill()
            if not self._killed:
                self._look_again()
        self._killed = True

    def _look_again(self) -> None:
        if self._over:
            return
        if _exits(self.pid):
            self._forget_line()
            self._end(False)
            self._reap()
        else:
            asyncio.get_running_loop().call_later(LOOK_S, self._look_again)

    def _end(self, outside: bool) -> None:
        if not self._over:
            self._over = True
            self._starts(f"its process ended at its start{self._hint}")
            self._on_end(self, outside)

    def disconnect(self) -> None:
        """Tell it to end; nothing is heard of it any more."""
        self._over = True
        if self._process is not None:
            self._forget_line()
            self.tell({"kind": "stop"})
        self.close()

    def discard(self) -> None:
        """End it at once; ``on_end`` does not follow."""
        self._over = True
        self.kill()
        self._forget_line()
        self.close()
        self._starts("it is not needed any more")
        self._reap()

    def _reap(self) -> None:
        if self._process is not None and self._process.poll() is None:
            asyncio.get_running_loop().call_later(REAP_S, self._reap)

    def close(self) -> None:
        """Give back the line to it."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._aside is not None:
            os.close(self._aside)
            self._aside = None

    def wait(self) -> None:
        """See that it ends, by force if need be; may take 2 s."""
        if self._process is None:
            return
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _readable(self) -> None:
        """Take one message up; the loop calls again in its next turn while there are others."""
        if self._line is None:
            return
        try:
            message = receive(self._line)
        except BlockingIOError:
            return
        if message is None:
            self._forget_line()
            self.bury(BURIALS)
        elif message["kind"] == "ready":
            self.ready = self.answered = True
            self._starts("")
        elif message["kind"] == "unable":
            self._starts(message["why"])
        else:
            self._on_message(self, message)

    def bury(self, tries: int) -> None:
        """Find out how it died: a moment after its line has closed."""
        code = None if self._process is None else self._process.poll()
        if code is None and tries:
            asyncio.get_running_loop().call_later(BURIAL_S, self.bury, tries - 1)
            return
        outside = False
        if code is None and self._process is not None:
            self._process.kill()
            self._reap()
        elif not self._killed and code in OUTSIDE and (code != -signal.SIGKILL or not self._may_starve()):
            log.warning("device '%s' was ended from outside, by signal %d", self._name, -code)
            outside = True
        self._end(outside)

    def _may_starve(self) -> bool:
        """Whether the kernel may have ended it for want of memory: others may be the cause, but nobody says."""
        kills = out_of_memory_kills()
        return kills is None or kills != self._starved

    def _starts(self, why: str) -> None:
        if self._said is not None and not self._said.done():
            self._said.set_result(why)

    def _forget_line(self) -> None:
        self.ready = False
        if self._line is None:
            return
        with contextlib.suppress(ValueError, OSError):
            asyncio.get_running_loop().remove_reader(self._line.fileno())


def _exits(pid: int) -> bool:
    """Whether a process that was killed has stopped in all its threads; False where the system does not say."""
    try:
        threads = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
        return all(int(text.rpartition(")")[2].split()[6]) & EXITING for text in threads)
    except (OSError, ValueError, IndexError):
        return False
