"""Which cores do what, what processes used of them, and how busy the machine was meanwhile."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CALM_LOAD = 1.0  # before a measurement that fills the machine itself
QUIET_LOAD = 3.0  # above this load average (1 minute) wall-clock figures are marked provisional


@dataclass(frozen=True)
class Cores:
    """``device`` runs the network; ``front`` the server's front end and the client, which share it."""

    front: int
    device: int


def cores() -> Cores:
    """The first two cores that this process may use; with one core, both are the same."""
    mine = sorted(os.sched_getaffinity(0))
    return Cores(mine[0], mine[-1] if len(mine) < 2 else mine[1])


def pin(core: int) -> None:
    """Keep this process on one core."""
    os.sched_setaffinity(0, {core})


def load_average() -> float:
    """Of the last minute."""
    return os.getloadavg()[0]


@dataclass(frozen=True)
class CpuTime:
    """Seconds a process ran, and seconds it was ready but had to wait for a core."""

    ran_s: float
    waited_s: float

    def __sub__(self, other: CpuTime) -> CpuTime:
        return CpuTime(self.ran_s - other.ran_s, self.waited_s - other.waited_s)


def cpu_time(pid: int) -> CpuTime:
    """Over all threads of a process, from /proc; does not depend on what else the machine does."""
    ran = waited = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            fields = path.read_text().split()
        except OSError:  # a thread that has just ended
            continue
        ran, waited = ran + int(fields[0]), waited + int(fields[1])
    return CpuTime(ran * 1e-9, waited * 1e-9)


def memory_bytes(pid: int) -> int:
    """Memory of a process that is its own (anonymous pages), 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


class Watch:
    """The largest load average seen, read whenever asked.

    ``crowded``: what is measured starts dozens of processes itself, so that only the load before it tells what else the
    machine did.
    """

    def __init__(self, *, crowded: bool = False) -> None:
        self.largest = self._before = load_average()
        self._crowded = crowded

    def look(self) -> None:
        """Read it once more."""
        self.largest = max(self.largest, load_average())

    @property
    def verdict(self) -> str:
        """For the page: how far wall-clock figures can be trusted."""
        self.look()
        if self._crowded and self._before < CALM_LOAD:
            return (
                f"Quiet machine: load average {self._before:.1f} on {os.cpu_count()} cores before the first server was "
                f"started; up to {self.largest:.1f} with the servers' own processes."
            )
        if self.largest < QUIET_LOAD:
            return f"Quiet machine: load average at most {self.largest:.1f} on {os.cpu_count()} cores."
        return (
            f"**Provisional**: the machine was busy with other work, load average up to {self.largest:.1f} on "
            f"{os.cpu_count()} cores. Times say little, counts hold; no comparison is claimed."
        )
