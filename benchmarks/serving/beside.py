"""A network under the server's defaults, beside gold: a tenant that asks every 40 ms and was promised 50."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.serving.live import Live, serving
from benchmarks.serving.strange import packed
from eunomia.serving.models.convolutional import mobilenet_v2

REST_S, PERIOD_S, DEADLINE_MS, SIDE = 0.1, 0.04, 50.0, 96
TENANTS = {"gold": {"objectives": [{"model": "small", "deadline_ms": DEADLINE_MS}]}, "bronze": {}}
COLUMNS = "gold within 50 ms|.1%; its slowest, ms|.0f"
Asked = tuple[int, float]  # status (0: no answer), seconds


def asked(live: Live, tenant: str, model: str, port: str, picture: npt.NDArray[np.float32]) -> Asked:
    """One picture, on a connection of its own."""
    body, headers = packed(port, picture, raw=True)
    line, begun_s, status = HTTPConnection(live.http, timeout=60.0), time.monotonic(), 0
    with contextlib.closing(line), contextlib.suppress(OSError, HTTPException):
        line.request("POST", f"/v2/models/{model}/infer", body, {**headers, "X-Tenant-Id": tenant})
        answer = line.getresponse()
        answer.read()
        status = answer.status
    return status, time.monotonic() - begun_s


@contextlib.contextmanager
def beside_gold(path: Path, errors: Path | None = None) -> Iterator[tuple[Live, list[Asked]]]:
    """A server with an empty cache, one device and ``path`` as "strange"; what gold is told, once asked for a second.

    ``errors``: where the server's log goes.
    """
    with tempfile.TemporaryDirectory() as folder:
        (small := Path(folder) / "small.onnx").write_bytes(mobilenet_v2(SIDE))
        networks = [{"name": name, "onnx": str(p)} for name, p in (("strange", path), ("small", small))]
        with serving(TENANTS, {"errors": errors}, network=networks, cache_dir=folder) as live:
            gold, over, picture = list[Asked](), threading.Event(), np.zeros((1, 3, SIDE, SIDE), np.float32)

            def steady() -> None:
                while not over.is_set():
                    gold.append(now := asked(live, "gold", "small", "image", picture))
                    over.wait(PERIOD_S - now[1])

            (thread := threading.Thread(target=steady)).start()
            try:
                time.sleep(1.0)
                gold.clear()
                yield live, gold
            finally:
                over.set()
                thread.join()


def of_gold(told: Sequence[Asked]) -> list[float]:
    """The share within the deadline, and the slowest in ms; what was refused never came."""
    took_ms = np.array([s * 1e3 if status == 200 else np.inf for status, s in told])
    return [float(np.mean(took_ms <= DEADLINE_MS)), float(took_ms.max())]
