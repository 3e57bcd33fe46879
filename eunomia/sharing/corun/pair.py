"""Two workers of one kind that run at the same time, each on a core of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType

from eunomia.core.errors import EunomiaError
from eunomia.sharing.shares.program import LAUNCH, PYTHONPATH


class Pair:
    """``words``: of ``eunomia.sharing.corun.turns``; the processes end with the block."""

    def __init__(self, words: Sequence[str]) -> None:
        self._workers = [self._start(words) for _ in range(2)]

    def __enter__(self) -> Pair:
        try:
            for worker in self._workers:
                self._answer(worker)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.kill()
            worker.communicate()

    def run(self, cores: Sequence[int], asked: Mapping[str, object]) -> list[dict[str, float]]:
        """As many workers as cores, at once; their answers."""
        chosen = self._workers[: len(cores)]
        for worker, core in zip(chosen, cores, strict=True):
            assert worker.stdin is not None
            worker.stdin.write(json.dumps({**asked, "core": core}) + "\n")
            worker.stdin.flush()
        return [self._answer(worker) for worker in chosen]

    @staticmethod
    def _start(words: Sequence[str]) -> subprocess.Popen[str]:
        module = [sys.executable, "-m", "eunomia.sharing.corun.turns", *words]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCH, "-1", *module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
        )

    @staticmethod
    def _answer(worker: subprocess.Popen[str]) -> dict[str, float]:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if not line:
            raise EunomiaError(f"a worker ended with status {worker.wait()}")
        answer: dict[str, float] = json.loads(line)
        if "error" in answer:
            raise EunomiaError(f"a worker: {answer['error']}")
        return answer
