"""A real server in a process of its own, from a table like a server file; what every serving benchmark stands on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.serving.machine import cores
from eunomia.serving.tenants.grants import hash_key

CACHE = Path(tempfile.gettempdir()) / "eunomia-serving-benchmark"
SMALL_NET, LARGE_NET = NETWORKS = ("mobilenet-v2", "resnet50")
KEY = "eun_benchmark-operator"
OPERATOR = {"authorization": f"Bearer {KEY}"}


@dataclass
class Live:
    """A running server. ``http``, ``grpc``: host and port; ``pid`` is the front end's, policy included."""

    process: subprocess.Popen[str]
    http: str
    grpc: str

    @property
    def pid(self) -> int:
        """Of the front end, policy included."""
        return self.process.pid

    @property
    def workers(self) -> list[int]:
        """Process numbers of the devices, in order of start."""
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(n) for n in path.read_text().split()]

    def call(self, path: str, content: Any = None, method: str | None = None) -> tuple[int, Any]:
        """Status and JSON of one request of the operator."""
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"http://{self.http}{path}", data, OPERATOR, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def metrics(self) -> dict[str, float]:
        """Every line of /metrics by its full name."""
        request = urllib.request.Request(f"http://{self.http}/metrics", headers=OPERATOR)
        with urllib.request.urlopen(request, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def recording(self) -> dict[str, Any]:
        """What the server has recorded of its requests, and its measured costs."""
        found: dict[str, Any] = self.call("/v2/eunomia/twin")[1]
        return found


def write_server(path: Path, tenants: Mapping[str, Mapping[str, Any]], **changes: Any) -> None:
    """A server file: built-in networks, one device on its own core, these tenants and an operator with ``KEY``."""
    operator = {"role": "admin", "key_sha256": [hash_key(KEY)]}
    table = {
        "http_port": 0,
        "grpc_port": 0,
        "cache_dir": str(CACHE),
        "device": [{"name": "core", "cores": [cores().device]}],
        "network": [{"name": name, "builtin": name} for name in NETWORKS],
        "tenant": [{"name": name, **facts} for name, facts in {**tenants, "operator": operator}.items()],
    }
    path.write_text(tomli_w.dumps(table | changes))


@contextlib.contextmanager
def serving(tenants: Mapping[str, Mapping[str, Any]], **changes: Any) -> Iterator[Live]:
    """A server for anonymous clients, ready inside the block; the front end shares its core with this process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.toml"
        write_server(path, tenants, anonymous=True, **changes)
        live = start(path)
        try:
            yield live
        finally:
            stop(live)


def start(path: Path, environment: Mapping[str, str] | None = None) -> Live:
    """Start ``eunomia serve FILE`` with its front end on a core, and wait until it is ready."""
    front = cores().front
    process = subprocess.Popen(
        [sys.executable, "-m", "eunomia", "serve", str(path), "--json"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {front}),
        env={**os.environ, **(environment or {})},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the server did not start: exit code {process.wait()}")
    ready = json.loads(line)
    return Live(process, ready["http"].partition("//")[2], ready["grpc"])


def stop(live: Live, number: int = signal.SIGTERM) -> None:
    """End it and wait."""
    if live.process.poll() is None:
        live.process.send_signal(number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        live.process.wait(20.0)
    live.process.kill()
    live.process.wait()
