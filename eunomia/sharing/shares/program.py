"""A program as a client: started on one core, its iterations counted, its processor time read, stopped and let go."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path

from eunomia.core.errors import ConfigError, EunomiaError

PROC = Path("/proc")
PYTHONPATH = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))
EXPECTED = "a client keeps running and prints a line per iteration, or its running count"
ENDS_S = 1.0  # patience with a program that has closed its output
# becomes the program: ends with its parent (PR_SET_PDEATHSIG), stays on one core (-1: anywhere)
LAUNCH = """
import ctypes, os, sys
try:
    ctypes.CDLL(None).prctl(1, 9)
except (OSError, AttributeError):
    pass
if int(sys.argv[1]) >= 0:
    os.sched_setaffinity(0, {int(sys.argv[1])})
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Iterations:
    """When how many iterations were done, from lines of text.

    A line that is a whole number is the running count, or what the first group of ``pattern`` finds is; without a
    pattern any other line is one more iteration, with a pattern it counts nothing. A count that falls starts anew.
    """

    def __init__(self, pattern: re.Pattern[str] | None = None) -> None:
        self.pattern = pattern
        self.times_s: list[float] = []
        self.counts: list[int] = []
        self._last, self._rest = 0, b""
        self.line = ""  # the last one

    @property
    def count(self) -> int:
        """How many so far."""
        return self.counts[-1] if self.counts else 0

    def take(self, data: bytes, now_s: float) -> None:
        """Bytes of the program's output."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        said = [line.decode("utf-8", "replace").strip() for line in lines]
        self.line = said[-1] if said else self.line
        done = sum(map(self._of, said))
        if done:
            self.times_s.append(now_s)
            self.counts.append(self.count + done)

    def at(self, now_s: float) -> int:
        """How many were done by then."""
        place = bisect_right(self.times_s, now_s)
        return self.counts[place - 1] if place else 0

    def _of(self, line: str) -> int:
        if self.pattern is not None:
            found = self.pattern.search(line)
            line = found[1] if found else ""
            if not line.isdigit():
                return 0
        if not line.isdigit():
            return 1 if line else 0
        before, self._last = self._last, int(line)
        return self._last - before if self._last >= before else self._last


class Program:
    """A command line in a process group of its own, with a terminal as standard output so that lines come at once."""

    def __init__(self, name: str, command: Sequence[str], pattern: re.Pattern[str] | None = None) -> None:
        self.name, self.command = name, list(command)
        self.iterations = Iterations(pattern)
        self.ready = asyncio.Event()  # its first iteration is done, or it has ended
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed by kill
        self._process: subprocess.Popen[bytes] | None = None
        self._master = -1
        self._members: list[int] = []
        self._closed = False

    def start(self, core: int | None, more: Mapping[str, str]) -> None:
        """Start it; ``more``: variables of its environment. Raises ConfigError for a command that does not exist."""
        import pty

        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        words = [sys.executable, "-I", "-S", "-c", LAUNCH, str(-1 if core is None else core), *self.command]
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=slave,
                stderr=self._errors,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **more},
            )
        finally:
            os.close(slave)
        asyncio.get_running_loop().add_reader(self._master, self._read)

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._process is None or self._process.poll() is not None

    def why(self) -> str:
        """How it ended, in a sentence."""
        code = self._process.poll() if self._process is not None else None
        self._errors.seek(0)
        last = self._errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        said = f": {last[0][:200]}" if last else ""
        return f"client '{self.name}' ({' '.join(self.command)[:80]}) ended with status {code}{said}"

    def check(self) -> None:
        """Raise EunomiaError if it has ended, or has closed its output without an iteration."""
        if self._closed and not self.iterations.count and self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDS_S)
            self.end()
            self._process.wait()
        if self.ended:
            remedy = "" if self.iterations.count else f"; {EXPECTED}"
            raise EunomiaError(self.why() + remedy)

    def missing(self) -> str:
        """Why no iteration of it was counted, in a sentence."""
        pattern, line = self.iterations.pattern, self.iterations.line[:100]
        if not line:
            return f"client '{self.name}' printed no line; {EXPECTED}, and flushes its output"
        found = f"--count '{pattern.pattern}' finds no number in" if pattern else "nothing is counted in"
        return f"client '{self.name}': {found} its lines, the last of which is '{line}'"

    def stop(self) -> None:
        """Take the processor from all its processes."""
        self._signal(signal.SIGSTOP)

    def go(self) -> None:
        """Give it back."""
        self._signal(signal.SIGCONT)

    async def stopped(self) -> None:
        """Until no thread of it runs any more."""
        for _ in range(1000):
            if all(_state(pid) in "TtZX" for pid in self._members):
                return
            await asyncio.sleep(0.0005)

    def cpu_s(self) -> float:
        """Processor seconds of all its processes that live."""
        return sum(map(_cpu_s, self._members))

    def memory_bytes(self) -> int:
        """Resident bytes of all its processes; pages that they share count for each."""
        return sum(map(_resident, self._members))

    def look(self) -> None:
        """Find the processes of its group anew."""
        if self._process is not None:
            self._members = members_of(self._process.pid)

    def end(self) -> None:
        """Kill all its processes; its output so far stays."""
        self._signal(signal.SIGKILL)

    def kill(self) -> None:
        """End all of it, and forget it."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)
            self._master = -1
        self._errors.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _read(self) -> None:
        try:
            data = os.read(self._master, 65536)
        except BlockingIOError:
            return
        except OSError:  # the other end is closed
            data = b""
        if data:
            self.iterations.take(data, time.monotonic())
        else:
            self._closed = True
            asyncio.get_running_loop().remove_reader(self._master)
        if not data or self.iterations.count:
            self.ready.set()


def must_be_supported() -> None:
    """Raise ConfigError on systems without /proc: processes could not be watched."""
    if not (PROC / "self" / "schedstat").exists():
        raise ConfigError("sharing real processes needs Linux (/proc/PID/schedstat), which is not there")


def members_of(group: int) -> list[int]:
    """Processes of a group."""
    found = []
    for entry in os.listdir(PROC):
        if entry.isdigit() and (words := _stat(int(entry))) and int(words[2]) == group:
            found.append(int(entry))
    return found


def _stat(pid: int) -> list[str]:
    """What follows the name in /proc/PID/stat: state, parent, group, ..."""
    try:
        return (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _state(pid: int) -> str:
    words = _stat(pid)
    return words[0] if words else "X"


def _cpu_s(pid: int) -> float:
    total = 0
    with contextlib.suppress(OSError, ValueError):
        for thread in os.listdir(PROC / str(pid) / "task"):
            total += int((PROC / str(pid) / "task" / thread / "schedstat").read_text().split()[0])
    return total / 1e9


def _resident(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
