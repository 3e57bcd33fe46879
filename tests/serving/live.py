"""A server in a thread of the test, on free ports, with small networks."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from eunomia.serving.devices.cutting import prepare
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.models.convolutional import mobilenet_v2
from eunomia.serving.models.entry import Entry
from eunomia.serving.options import ServerOptions
from eunomia.serving.server import Server
from eunomia.serving.tenants.grants import Grant, Promise, StaticDirectory, hash_key
from eunomia.workload.tenant import Slo
from tests.patience import PATIENCE_S

SIDE = 64
PROMISED_S = 60.0  # no answer on a busy machine takes as long
GOLD, SILVER, ADMIN = "eun_gold-key", "eun_silver-key", "eun_admin-key"


@cache
def small() -> bytes:
    """The network of all these servers."""
    return mobilenet_v2(side=SIDE, classes=10)


@cache
def cut() -> tempfile.TemporaryDirectory[str]:
    """A cache that knows it, as after an earlier start: to cut it takes a third of a server's time."""
    folder = tempfile.TemporaryDirectory(prefix="eunomia-small-")
    path, kept = Path(folder.name) / "small.onnx", Path(folder.name) / "cache"
    path.write_bytes(small())
    prepare(str(path), str(kept), {}, ServerOptions.block_s)
    return folder


def options(folder: Path) -> ServerOptions:
    """Three tenants with keys, one network of 64 x 64 pictures, which a first server here finds cut, one device."""
    path = folder / "small.onnx"
    path.write_bytes(small())
    if not (folder / "cache").exists():
        shutil.copytree(Path(cut().name) / "cache", folder / "cache")
    grants = [
        Grant("gold", weight=3.0, promises={"*": Promise(PROMISED_S, Slo(0.9))}),
        Grant("silver", max_concurrency=2, max_request_bytes=200_000, promises={"*": Promise(PROMISED_S)}),
        Grant("root", role="admin"),
    ]
    keys = {hash_key(GOLD): "gold", hash_key(SILVER): "silver", hash_key(ADMIN): "root"}
    return ServerOptions(
        [DeviceSpec("cpu")], [Entry("small", path)], StaticDirectory(grants, keys), folder / "cache",
        policy="edf+f", http_port=0, grpc_port=0, models_dir=folder,
        arena_bytes=16 * 1024**2, max_body_bytes=4 * 1024**2,
    )  # fmt: skip


@contextmanager
def running(
    folder: Path, run: Callable[[Coroutine[None, None, None]], None] = asyncio.run, **changes: object
) -> Iterator[Server]:
    """Ready inside the block; errors of the start are raised here. ``run``: its event loop."""
    found: list[Server] = []
    failed: list[BaseException] = []
    ready, stop = threading.Event(), threading.Event()

    async def main() -> None:
        try:
            async with Server(replace(options(folder), **changes)) as server:  # type: ignore[arg-type]
                server.guard.limit_s = math.inf  # on a busy machine any policy is slow now and then
                found.append(server)
                ready.set()
                await asyncio.to_thread(stop.wait)
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: run(main()))
    thread.start()
    ready.wait(PATIENCE_S)
    if failed:
        thread.join()
        raise failed[0]
    try:
        yield found[0]
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        if failed:
            raise failed[0]


def ask(server: Server, method: str, path: str, key: str, body: Any = None) -> tuple[int, Any]:
    """Status and JSON of one call over HTTP."""
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    try:
        sent = None if body is None else json.dumps(body)
        line.request(method, path, sent, {"Authorization": f"Bearer {key}"})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    finally:
        line.close()
