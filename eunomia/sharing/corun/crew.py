"""Workers on chosen cores: blocks of a case, alone and beside others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType

from eunomia.core.errors import EunomiaError
from eunomia.sharing.corun.design import ORDER, Block, Case
from eunomia.sharing.shares.program import LAUNCH, PYTHONPATH

LEAD_S = 0.03  # neighbours run so much earlier and longer than the target


class Crew:
    """One process per client and copy, started when it is first needed and kept."""

    def __init__(self, cores: Sequence[int]) -> None:
        self.cores = list(cores)
        self._workers: dict[tuple[str, int], subprocess.Popen[str]] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers.values():
            worker.kill()
            worker.communicate()

    def start(self, names: Sequence[str]) -> None:
        """Every client once, so that one that fails to load ends this before anything is measured. EunomiaError."""
        for name in names:
            self._worker(name, 0)

    def blocks(self, case: Case, block_s: float) -> list[Block]:
        """Alone, beside, beside, alone."""
        return [self._block(case, beside, block_s) for beside in ORDER]

    def _block(self, case: Case, beside: bool, block_s: float) -> Block:
        others = list(case.neighbours) if beside else []
        target = self._worker(case.target, 0)
        copies = [[case.target, *others[:n]].count(name) for n, name in enumerate(others)]
        workers = [self._worker(name, copy) for name, copy in zip(others, copies, strict=True)]
        places = self._places(case)
        before = busy_s(places)
        for worker, core in zip(workers, places[1:], strict=False):
            _ask(worker, core, block_s + 2.0 * LEAD_S)
        if workers:
            time.sleep(LEAD_S)
        _ask(target, places[0], block_s)
        mine = self._answer(target, case.target)
        theirs = [self._answer(worker, name) for worker, name in zip(workers, others, strict=True)]
        ours_s = mine["cpu_s"] + sum(one["cpu_s"] for one in theirs)
        lost_s = max(0.0, busy_s(places) - before - ours_s)
        length_s = len(set(places)) * max(one["wall_s"] for one in [mine, *theirs])
        return Block(
            beside, int(mine["iterations"]), mine["wall_s"], mine["cpu_s"], min(1.0, lost_s / length_s)
        )

    def _places(self, case: Case) -> list[int]:
        """The core of the target, then those of its neighbours."""
        count = 1 + len(case.neighbours)
        return [self.cores[-1]] * count if case.place == "same core" else self.cores[::-1][:count]

    def _worker(self, name: str, copy: int) -> subprocess.Popen[str]:
        if (name, copy) not in self._workers:
            module = [sys.executable, "-m", "eunomia.sharing.corun.worker", name]
            self._workers[name, copy] = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", LAUNCH, "-1", *module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "PYTHONPATH": PYTHONPATH},
            )
            self._answer(self._workers[name, copy], name)
        return self._workers[name, copy]

    def _answer(self, worker: subprocess.Popen[str], name: str) -> dict[str, float]:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if not line:
            raise EunomiaError(f"client '{name}' ended with status {worker.wait()}")
        answer: dict[str, float] = json.loads(line)
        if "error" in answer:
            raise EunomiaError(f"client '{name}': {answer['error']}")
        return answer


def busy_s(cores: Sequence[int]) -> float:
    """Seconds in which these cores were not idle since the system started, steal by other machines included."""
    wanted, total = {f"cpu{core}" for core in cores}, 0
    with open("/proc/stat", encoding="ascii") as file:
        for line in file:
            name, *ticks = line.split()
            if name in wanted:
                user, nice, system, _, _, interrupts, soft, stolen = map(int, ticks[:8])
                total += user + nice + system + interrupts + soft + stolen
    return total / os.sysconf("SC_CLK_TCK")


def _ask(worker: subprocess.Popen[str], core: int, seconds: float) -> None:
    assert worker.stdin is not None
    try:
        worker.stdin.write(json.dumps({"core": core, "seconds": seconds}) + "\n")
        worker.stdin.flush()
    except OSError:  # it has ended; its answer says so
        return
