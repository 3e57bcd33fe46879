"""A server in a process of its own, started by its command, and a few words with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.serving.tenants.grants import hash_key
from tests import children
from tests.patience import PATIENCE_S
from tests.ports import free_port
from tests.serving.live import ADMIN, GOLD, PROMISED_S, SIDE, SILVER, small

IMAGE = np.random.default_rng(0).random((1, 3, SIDE, SIDE), np.float32)


@dataclass
class Process:
    """A running server."""

    process: subprocess.Popen[str]
    url: str
    grpc: str

    def ask(
        self, path: str, content: Any = None, key: str | None = ADMIN, method: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:  # fmt: skip
        """Status and JSON."""
        data = None if content is None else json.dumps(content).encode()
        sent = {**({"authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"{self.url}{path}", data, sent, method=method), timeout=PATIENCE_S
            ) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def infer(self, slo_ms: float = PROMISED_S * 1e3) -> int:
        """One picture of gold's; returns the status."""
        raw = IMAGE.tobytes()
        head = json.dumps({"parameters": {"slo_ms": slo_ms}, "inputs": [
            {"name": "image", "datatype": "FP32", "shape": list(IMAGE.shape),
             "parameters": {"binary_data_size": len(raw)}}]}).encode()  # fmt: skip
        headers = {"authorization": f"Bearer {GOLD}", "Inference-Header-Content-Length": str(len(head))}
        request = urllib.request.Request(f"{self.url}/v2/models/small/infer", head + raw, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    @contextmanager
    def under_load(self, threads: int = 3) -> Iterator[list[int]]:
        """Requests all the time, in threads; the statuses seen."""
        seen: list[int] = []
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                seen.append(self.infer())

        crowd = [threading.Thread(target=work) for _ in range(threads)]
        for one in crowd:
            one.start()
        try:
            yield seen
        finally:
            stop.set()
            for one in crowd:
                one.join(PATIENCE_S)


def write_server(folder: Path, **changes: Any) -> Path:
    """A server file: gold, silver and an administrator, one small network."""
    (folder / "small.onnx").write_bytes(small())
    table = {
        "http_port": 0, "grpc_port": 0, "cache_dir": str(folder / "cache"), "policy": "fcfs", "arena_mib": 16.0,
        **changes,
    }  # fmt: skip
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    text += f"""
[[device]]
name = "cpu"
[[network]]
name = "small"
onnx = {json.dumps(str(folder / "small.onnx"))}
[[tenant]]
name = "gold"
key_sha256 = ["{hash_key(GOLD)}"]
objectives = [{{ model = "*", deadline_ms = {PROMISED_S * 1e3}, slo = {{ hit_rate = 0.9 }} }}]
[[tenant]]
name = "silver"
key_sha256 = ["{hash_key(SILVER)}"]
[[tenant]]
name = "root"
role = "admin"
key_sha256 = ["{hash_key(ADMIN)}"]
"""
    path = folder / "server.toml"
    path.write_text(text)
    return path


@contextmanager
def process(
    path: Path, errors: Path | None = None, environment: Mapping[str, str] | None = None,
    ignoring: Sequence[signal.Signals] = (), module: str = "eunomia", cwd: Path = children.ROOT,
    more: Sequence[str] = (),
) -> Iterator[Process]:  # fmt: skip
    """``eunomia serve FILE``, ended by SIGTERM after the block; ``errors``: where its stderr goes.

    ``module``: another one with the same command line; ``cwd``: of another checkout; ``more``: further words.
    """
    with (
        open(errors or os.devnull, "ab") as log,
        children.started(
            children.python("-m", module, "serve", path, "--json", *more), env=environment, ignoring=ignoring, cwd=cwd,
            stdout=subprocess.PIPE, stderr=log,
        ) as child,
    ):  # fmt: skip
        try:
            ready = json.loads(children.first_line(child))
            yield Process(child, ready["http"], ready["grpc"])
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(PATIENCE_S)


def ports() -> dict[str, int]:
    """Two that nobody uses."""
    return {"http_port": free_port(), "grpc_port": free_port()}


def slow_down(pid: int, share: float, period_us: int = 5000) -> None:
    """A quota of the kernel (cgroup v1; needs root): a process gets this share of a core, in a group below our own."""
    mine = Path("/proc/self/cgroup").read_text().partition(":cpu:/")[2].split("\n")[0]
    group = Path("/sys/fs/cgroup/cpu") / mine / "eunomia-slow"
    group.mkdir(exist_ok=True)
    (group / "cpu.cfs_period_us").write_text(str(period_us))
    (group / "cpu.cfs_quota_us").write_text(str(int(share * period_us)))
    (group / "cgroup.procs").write_text(str(pid))
