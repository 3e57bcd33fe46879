"""Which cores do what, and what processes used of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Cores:
    """``device`` runs the network; ``front`` the server's front end and the client, which share it."""

    front: int
    device: int


@cache
def cores() -> Cores:
    """The first two cores that this process may use at the first call; with one core, both are the same."""
    mine = sorted(os.sched_getaffinity(0))
    return Cores(mine[0], mine[-1] if len(mine) < 2 else mine[1])


def pin(core: int) -> None:
    """Keep this process on one core."""
    os.sched_setaffinity(0, {core})


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
