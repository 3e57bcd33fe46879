"""A real server in a process of its own, from a table like a server file; what every serving benchmark stands on."""

from __future__ import annotations

import contextlib
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.serving.machine import cores
from eunomia.serving.tenants.grants import hash_key
from tests.serving.live import ADMIN
from tests.serving.process import Process, process

CACHE = Path(tempfile.gettempdir()) / "eunomia-serving-benchmark"
SMALL_NET, LARGE_NET = NETWORKS = ("mobilenet-v2", "resnet50")
OPERATOR = {"authorization": f"Bearer {ADMIN}"}


class Live(Process):
    """A running server, and what /proc, its metrics and its recording say of it."""

    @property
    def http(self) -> str:
        """Host and port."""
        return self.url.removeprefix("http://")

    @property
    def pid(self) -> int:
        """Of the front end, policy included."""
        return self.process.pid

    @property
    def workers(self) -> list[int]:
        """Process numbers of the devices, those that have one."""
        return [device["pid"] for device in self.ask("/v2/eunomia/state")[1]["devices"] if device["alive"]]

    def settle(self) -> None:
        """Wait a minute at most until a process stands by for each device: its start takes the device's core."""
        for _ in range(60):
            if all(d.get("stands_by", True) for d in self.ask("/v2/eunomia/state")[1]["devices"]):
                return
            time.sleep(1.0)
        print("no process stands by", flush=True)

    def metrics(self) -> dict[str, float]:
        """Every line of /metrics by its full name."""
        request = urllib.request.Request(f"{self.url}/metrics", headers=OPERATOR)
        with urllib.request.urlopen(request, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def recording(self) -> dict[str, Any]:
        """What the server has recorded of its requests, and its measured costs."""
        found: dict[str, Any] = self.ask("/v2/eunomia/twin")[1]
        return found


def write_server(path: Path, tenants: Mapping[str, Mapping[str, Any]], **changes: Any) -> None:
    """A server file: built-in networks, one device on its own core, these tenants and an operator (``ADMIN``)."""
    operator = {"role": "admin", "key_sha256": [hash_key(ADMIN)]}
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
def serving(
    tenants: Mapping[str, Mapping[str, Any]], how: Mapping[str, Any] | None = None, **changes: Any
) -> Iterator[Live]:
    """A server for anonymous clients, ready inside the block; the front end shares its core with this process.

    ``how``: it is started, as ``process`` takes it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.toml"
        write_server(path, tenants, anonymous=True, shared_memory=True, **changes)
        with started(path, **(how or {})) as live:
            yield live


@contextlib.contextmanager
def started(path: Path, environment: Mapping[str, str] | None = None, **more: Any) -> Iterator[Live]:
    """``eunomia serve FILE`` on the cores of this process, ready inside the block and ended after it."""
    with process(path, environment=environment, **more) as found:
        yield Live(found.process, found.url, found.grpc)
