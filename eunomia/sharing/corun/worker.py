"""One client as a process: ``python -m eunomia.sharing.corun.worker NAME``; a request and an answer per line, JSON.

``{"core": C, "seconds": S}`` runs iterations on core C for S seconds; the answer has ``iterations``, ``wall_s``,
``cpu_s``. The first line that it writes is ``{"ready": NAME}`` or ``{"error": SENTENCE}``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

from eunomia.core.errors import EunomiaError
from eunomia.sharing.corun.stressors import stressor
from eunomia.sharing.shares.stress import network


def main(words: list[str]) -> int:
    """Entry point of the process."""
    (name,) = words
    try:
        work = network(name) if name.endswith(".onnx") else stressor(name)
    except EunomiaError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    work()
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        os.sched_setaffinity(0, {asked["core"]})
        print(json.dumps(measured(work, asked["seconds"])), flush=True)
    return 0


def measured(work: Callable[[], None], seconds: float) -> dict[str, float]:
    """Iterations that ended within ``seconds``, and their wall and processor time."""
    began_s, cpu_s, count = time.perf_counter(), time.process_time(), 0
    while (passed_s := time.perf_counter() - began_s) < seconds:
        work()
        count += 1
        wall_s, used_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    if not count:
        return {"iterations": 0, "wall_s": passed_s, "cpu_s": 0.0}
    return {"iterations": count, "wall_s": wall_s, "cpu_s": used_s}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
