"""The loop to beat: ONNX Runtime alone on the device's core, same session options, no server at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from benchmarks.serving.live import CACHE
from benchmarks.serving.machine import cores, cpu_time, pin
from eunomia.serving.models.builtin import builtin_file


class Bare:
    """A process that runs a whole network as often as it can, when told to; ended after a ``with``."""

    def __init__(self, model: str) -> None:
        command = ["-m", "benchmarks.serving.bare", str(builtin_file(model, CACHE)), str(cores().device)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, *command], stdin=pipe, stdout=pipe, text=True)

    def measure(self, seconds: float, pause_s: float = 0.0) -> dict[str, Any]:
        """Runs, wall seconds, processor seconds, and every run's duration; ``pause_s``: before each one."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{seconds} {pause_s}\n")
        self._process.stdin.flush()
        result: dict[str, Any] = json.loads(self._process.stdout.readline())
        return result

    def __enter__(self) -> Bare:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def main(path: str, core: str) -> None:
    """Read seconds from standard input, answer with one line of JSON each."""
    pin(int(core))
    import numpy as np
    import onnxruntime as ort

    from eunomia.serving.blocks.optimise import session_options
    from eunomia.serving.devices.memory import set_aside

    session = ort.InferenceSession(path, session_options(), providers=["CPUExecutionProvider"])
    image = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)
    session.run(None, {"image": image})
    set_aside()
    for line in sys.stdin:
        (seconds, pause_s), durations = map(float, line.split()), list[float]()
        before, began = cpu_time(os.getpid()), time.perf_counter()
        while time.perf_counter() - began < seconds:
            if pause_s:
                time.sleep(pause_s)
            start = time.perf_counter()
            session.run(None, {"image": image})
            durations.append(time.perf_counter() - start)
        wall_s, used = time.perf_counter() - began, cpu_time(os.getpid()) - before
        result = {"runs": len(durations), "wall_s": wall_s, "cpu_s": used.ran_s, "durations_s": durations}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
