"""A server, gold's steady load on it, and bronze beside them; what gold saw while bronze attacked."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import re
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from eunomia.serving.tenants.grants import hash_key
from tests import children
from tests.certificates import self_signed
from tests.hostile.bronze import BRONZE
from tests.hostile.networks import write_all
from tests.patience import PATIENCE_S
from tests.serving.live import ADMIN, GOLD, SIDE
from tests.serving.process import Process, process

PACE_S = 0.04  # gold sends that often
CALM = 8  # hits in a row after which gold has recovered
PATIENT_S = 10.0  # for them
HELD = r'eunomia_loop_held_seconds_bucket\{le="([^"]+)"\} (\S+)'
MANY = 100  # networks in a folder
LINES = 300  # connections that the server takes


@dataclass(frozen=True)
class Seen:
    """By gold, while bronze did what it did; ``told``: bronze, by status, and a sentence with each.

    ``turns``: of the server's event loop meanwhile, by the least edge [s] that they do not exceed.
    """

    sent: int
    hits: int
    worst_s: float
    recovery_s: float
    growth_bytes: int
    left_bytes: int
    turns: dict[float, int] = field(default_factory=dict)
    told: list[dict[str, Any]] = field(default_factory=list)

    @property
    def held_s(self) -> float:
        """What no turn of the server's event loop exceeded, by its own processor time."""
        return max((edge for edge, count in self.turns.items() if count), default=0.0)

    def above(self, seconds: float) -> int:
        """Turns that took more."""
        return sum(count for edge, count in self.turns.items() if edge > seconds)

    @property
    def share(self) -> float:
        """Of gold's requests inside their deadline."""
        return self.hits / max(self.sent, 1)


@dataclass
class Gold(threading.Thread):
    """One picture every ``PACE_S``; times count from when it was to be sent.

    ``log``: that, what it took, and whether there was an answer.
    """

    url: str
    log: list[tuple[float, float, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        image = np.random.default_rng(0).random((1, 3, SIDE, SIDE), np.float32).tobytes()
        more = {"parameters": {"binary_data_size": len(image)}}
        tensor = {"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE], **more}
        head = json.dumps({"inputs": [tensor]}).encode()
        self._body = head + image
        self._headers = {"Authorization": f"Bearer {GOLD}", "Inference-Header-Content-Length": str(len(head))}

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Until ``ended``."""
        due_s, line = time.monotonic(), self._line()
        while not self.ended.is_set():
            time.sleep(max(0.0, due_s - time.monotonic()))
            try:
                line.request("POST", "/v2/models/small/infer", self._body, self._headers)
                answer = line.getresponse()
                answer.read()
                fine = answer.status == 200
            except (OSError, http.client.HTTPException):
                fine = False
                line.close()
                line = self._line()
            self.log.append((due_s, time.monotonic() - due_s, fine))
            due_s += PACE_S
        line.close()

    def _line(self) -> http.client.HTTPConnection:
        scheme, _, address = self.url.partition("://")
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        return kind(address, timeout=PATIENCE_S)


@dataclass
class Field:
    """``hit_s``: the deadline by which gold's answers count."""

    server: Process
    gold: Gold
    attacker: subprocess.Popen[str]
    hit_s: float

    def quiet(self, seconds: float) -> Seen:
        """Gold alone."""
        return self._seen(lambda: time.sleep(seconds))

    def attacked(self, names: Sequence[str], seconds: float) -> Seen:
        """Gold, while bronze does all this at once."""
        told: list[dict[str, Any]] = []

        def attack() -> None:
            assert self.attacker.stdin is not None
            assert self.attacker.stdout is not None
            self.attacker.stdin.write(json.dumps([list(names), seconds]) + "\n")
            self.attacker.stdin.flush()
            line = self.attacker.stdout.readline()
            assert line, f"the attacker has ended: {self.attacker.poll()}"
            told.extend(json.loads(line))

        return self._seen(attack, told)

    def _seen(self, act: Any, told: list[dict[str, Any]] | None = None) -> Seen:
        pid = self.server.process.pid
        before = memory(pid, "VmRSS")
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
        turns = self.turns()
        began_s = time.monotonic()
        act()
        ended_s = time.monotonic()
        turns = {edge: count - turns[edge] for edge, count in self.turns().items()}
        recovery_s = self._recovery_s(ended_s)
        during = [entry for entry in list(self.gold.log) if began_s <= entry[0] < ended_s]
        took, hits = [took_s for _, took_s, _ in during], sum(map(self._hit, during))
        growth, left = memory(pid, "VmHWM") - before, memory(pid, "VmRSS") - before
        worst_s = max(took, default=math.nan)
        return Seen(len(took), hits, worst_s, recovery_s, growth, left, turns, told or [])

    def turns(self) -> dict[float, int]:
        """Of the server's event loop so far, by the edges of its metric."""
        asked = urllib.request.Request(
            f"{self.server.url}/metrics", headers={"Authorization": f"Bearer {ADMIN}"}
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            page = answer.read().decode()
        below = [(float(edge), int(float(n))) for edge, n in re.findall(HELD, page)]
        return {edge: n - before for (edge, n), (_, before) in zip(below, [(0.0, 0), *below], strict=False)}

    def _recovery_s(self, ended_s: float) -> float:
        """From the end of the attack until ``CALM`` answers in a row are hits; inf after ``PATIENT_S``."""
        while time.monotonic() < ended_s + PATIENT_S:
            time.sleep(PACE_S)
            after = [entry for entry in list(self.gold.log) if entry[0] >= ended_s]
            if len(after) >= CALM and all(map(self._hit, after[-CALM:])):
                missed = [
                    due_s + took_s for due_s, took_s, fine in after if not self._hit((due_s, took_s, fine))
                ]
                return max(missed, default=ended_s) - ended_s
        return math.inf

    def _hit(self, entry: tuple[float, float, bool]) -> bool:
        return entry[2] and entry[1] <= self.hit_s


@contextmanager
def opened(
    hit_s: float = 0.05,
    deadline_s: float = 0.05,
    cores: Sequence[int] = (),
    *,
    secure: bool = False,
    **changes: Any,
) -> Iterator[Field]:
    """The server with its defaults, gold's load, and a bronze that waits for its orders.

    ``hit_s``: by when gold's answers count; ``deadline_s``: what the server promises gold. ``secure``: it has a
    certificate, which this process trusts meanwhile.
    """
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        if secure:
            changes["tls_cert"], changes["tls_key"] = map(str, self_signed(folder))
            patch.setenv("SSL_CERT_FILE", changes["tls_cert"])
        path = write_file(folder, deadline_s, cores, changes)
        with process(path, folder / "errors") as server, bronze(server) as attacker:
            gold = Gold(server.url)
            gold.start()
            try:
                yield Field(server, gold, attacker, hit_s)
            finally:
                gold.ended.set()
                gold.join(PATIENCE_S)


def write_file(folder: Path, deadline_s: float, cores: Sequence[int], changes: dict[str, Any]) -> Path:
    """The server's file: gold with a deadline and three times bronze's weight; an operator; ``changes``."""
    networks = [{"name": name, "onnx": str(path)} for name, path in write_all(folder).items()]
    objective = {"model": "*", "deadline_ms": deadline_s * 1e3, "slo": {"hit_rate": 0.99}}
    tenants = [
        {"name": "gold", "weight": 3.0, "objectives": [objective], "key_sha256": [hash_key(GOLD)]},
        {
            "name": "bronze",
            "objectives": [{"model": "*", "deadline_ms": 1000.0}],
            "key_sha256": [hash_key(BRONZE)],
        },
        {"name": "root", "role": "admin", "key_sha256": [hash_key(ADMIN)]},
    ]
    tenants[1] |= changes.pop("bronze", {})
    folder_of_many(folder / "models")
    table = {
        "http_port": 0,
        "grpc_port": 0,
        "cache_dir": str(folder / "cache"),
        "audit_dir": str(folder / "audit"),
        "ledger_dir": str(folder / "ledger"),
        "models_dir": str(folder / "models"),
        "arena_mib": 64.0,
        "max_connections": LINES,
        "shared_memory": True,
        "device": [{"name": "cpu", **({"cores": list(cores)} if cores else {})}],
        "network": networks,
        "tenant": tenants,
    }
    path = folder / "server.toml"
    path.write_text(tomli_w.dumps(table | changes))
    return path


def folder_of_many(folder: Path) -> None:
    """Networks that nobody loads: whoever asks for the index has them looked for."""
    for n in range(MANY):
        for version in ("1", "2"):
            path = folder / f"network{n}" / version
            path.mkdir(parents=True)
            (path / "model.onnx").write_bytes(b"")


@contextmanager
def bronze(server: Process) -> Iterator[subprocess.Popen[str]]:
    """The attacker's process, ready."""
    address = server.url.partition("://")[2]
    command = children.python("-m", "tests.hostile", address, server.grpc)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": None}
    with children.started(command, cwd=children.ROOT, **pipes) as attacker:
        assert children.first_line(attacker).strip() == "ready"
        yield attacker
        with contextlib.suppress(OSError):
            attacker.stdin.close()


def memory(pid: int, what: str) -> int:
    """Bytes of a process, by a line of its status."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{what}:")[2].split()[0]) * 1024
