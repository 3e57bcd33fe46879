"""A real server in a process of its own, from a table like a server file, and its stock clients."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.serving.machine import Cores

CACHE = Path(tempfile.gettempdir()) / "eunomia-serving-benchmark"
NETWORKS = ("mobilenet-v2", "resnet50")


@dataclass
class Live:
    """A running server. ``pid`` is the front end's."""

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

    def get(self, path: str) -> Any:
        """JSON from the HTTP side."""
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=30) as answer:
            return json.loads(answer.read())

    def metrics(self) -> dict[str, float]:
        """Every line of /metrics by its full name."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}


def server_table(cores: Cores, tenants: Mapping[str, Mapping[str, Any]], **changes: Any) -> dict[str, Any]:
    """A server file as a table: anonymous, both built-in networks, one device on its own core."""
    return {
        "anonymous": True, "http_port": 0, "grpc_port": 0, "cache_dir": str(CACHE),
        "device": [{"name": "core", "cores": [cores.device]}],
        "network": [{"name": name, "builtin": name} for name in NETWORKS],
        "tenant": [{"name": name, **facts} for name, facts in tenants.items()],
        **changes,
    }  # fmt: skip


@contextlib.contextmanager
def serving(table: Mapping[str, Any], core: int) -> Iterator[Live]:
    """Ready inside the block; the front end is kept on ``core``, devices on those of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.toml"
        path.write_text(toml(table))
        live = start(path, core)
        try:
            yield live
        finally:
            stop(live)


def start(path: Path, core: int, environment: Mapping[str, str] | None = None) -> Live:
    """Start ``eunomia serve FILE`` and wait until it is ready."""
    command = [
        sys.executable,
        "-c",
        "from eunomia.__main__ import main; main()",
        "serve",
        str(path),
        "--json",
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
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


def toml(table: Mapping[str, Any]) -> str:
    """A table as TOML, with inline tables below the first level."""
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_value(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
