"""What a server is made of, and the bounds within which it serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from eunomia.contract.view import Assign, View
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.dispatch.harvest import HarvestOptions
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.fronts.connections import ConnectionLimits
from eunomia.serving.models.beside import Reader, nothing
from eunomia.serving.models.entry import Entry
from eunomia.serving.observe.tracing import TraceOptions
from eunomia.serving.replicas.rule import ReplicaOptions
from eunomia.serving.tenants.following import FOLLOW_S
from eunomia.serving.tenants.grants import Directory


@dataclass(frozen=True)
class ServerOptions:
    """What a server needs to know; ``config/server.py`` says it in TOML."""

    devices: Sequence[DeviceSpec]
    networks: Sequence[Entry]
    directory: Directory
    cache: Path
    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int | None = 8001
    anonymous: bool = False
    min_deadline_s: float = 0.0  # the shortest that a client may claim where nothing was promised
    max_block_s: float | None = None  # that a request may hold a device; None = by what others were promised
    policy: str | Callable[[View], Sequence[Assign]] = "fair_edf"
    policy_label: str = ""  # what it is called; "" = its own name
    fallback: str = "edf+f"
    dispatch: DispatchOptions = DispatchOptions(ahead_s=3e-3, starve_s=1.0, calm_s=10.0)
    block_s: float = 1.5e-3
    arena_bytes: int = 256 * 1024**2
    max_body_bytes: int = 64 * 1024**2
    max_json_bytes: int = 32 * 1024**2  # of one message whose numbers are JSON
    drain_s: float = 10.0
    placement: Literal["policy", "least_degradation"] = "policy"
    co_runs: Path | None = None  # what networks do to each other: read at the start, written at the end
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    shared_memory: bool = False
    models_dir: Path | None = None
    beside: Reader = nothing  # the file beside a network of models_dir
    load_all: bool = False  # at the start, what is in models_dir
    versions: int = 1  # of a network in numbered folders, that are served at a time
    policy_dir: Path | None = None  # policies that were put in while it ran; None = forgotten at the end
    audit_dir: Path | None = None  # a line per request, kept; None = none
    audit_whole: bool = False  # each refusal, too
    ledger_dir: Path | None = None  # None = usage is counted in memory alone
    follow_s: float = FOLLOW_S  # between two looks at what other servers have changed in a shared directory
    harvest: HarvestOptions | None = None  # tenants who take what others leave
    takeover: bool = False  # from the server that serves at this host and port, if there is one
    replicas: ReplicaOptions | None = None  # others on the same database keep the same promises
    traces: TraceOptions | None = None
    device_watts: float = 0.0  # for the energy estimate: device seconds x watts
    tls: tuple[Path, Path] | None = None  # certificate, key
