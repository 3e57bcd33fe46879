"""A client that alternates two networks, the second perhaps behind a gate: ``python -m eunomia.sharing.corun.turns``.

Arguments: LIGHT.onnx HEAVY.onnx LOCK. A request and an answer per line, JSON. The request is
``{"core": C, "seconds": S, "what": "both"|"heavy", "gate": BOOL}``. Behind the gate, only who holds the lock of the
file LOCK runs HEAVY. The answer has ``iterations``, ``wall_s``, ``cpu_s``. The first line is ``{"ready": ""}`` or
``{"error": SENTENCE}``.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from eunomia.core.errors import EunomiaError
from eunomia.sharing.corun.worker import measured
from eunomia.sharing.shares.stress import network


def main(words: list[str]) -> int:
    """Entry point of the process."""
    light, heavy, lock = words
    try:
        first, second = network(light), network(heavy)
    except EunomiaError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    with Path(lock).open("w") as file:
        work = _works(first, second, file.fileno())
        for one in work.values():
            one()
        print(json.dumps({"ready": ""}), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            os.sched_setaffinity(0, {asked["core"]})
            print(json.dumps(measured(work[asked["what"], asked["gate"]], asked["seconds"])), flush=True)
    return 0


def _works(
    light: Callable[[], None], heavy: Callable[[], None], lock: int
) -> dict[tuple[str, bool], Callable[[], None]]:
    def gated() -> None:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            heavy()
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)

    def both() -> None:
        light()
        heavy()

    def both_gated() -> None:
        light()
        gated()

    return {
        ("both", False): both,
        ("both", True): both_gated,
        ("heavy", False): heavy,
        ("heavy", True): gated,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
