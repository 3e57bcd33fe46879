"""From a server file to a server: ``serve`` for programs, ``eunomia serve`` for people."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import fields
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from eunomia.config.device import DeviceConfig
from eunomia.config.server import ServerConfig, demo_server, load_server
from eunomia.contract.traits import CHARGE_ELSEWHERE, NAME
from eunomia.core.caches import cache_home
from eunomia.core.errors import ConfigError, within
from eunomia.serving.devices.backends import must_be_installed
from eunomia.serving.devices.places import place_must_be_installed
from eunomia.study.serving.beforehand import check_files

if TYPE_CHECKING:
    from eunomia.config.server import NetworkConfig, ServedTenantConfig
    from eunomia.serving.devices.device import DeviceSpec
    from eunomia.serving.dispatch.harvest import HarvestOptions
    from eunomia.serving.models.beside import Beside
    from eunomia.serving.models.entry import Entry
    from eunomia.serving.options import ServerOptions
    from eunomia.serving.replicas.rule import ReplicaOptions
    from eunomia.serving.server import Server
    from eunomia.serving.tenants.database import DatabaseDirectory
    from eunomia.serving.tenants.grants import Directory, Grant

Tell = Callable[[str], None]
MACHINE_SHARE = 0.75  # of its memory: what devices have together that state no bound


def warn(remark: str) -> None:
    """A remark on a server file as a Python warning."""
    warnings.warn(remark, stacklevel=2)


@asynccontextmanager
async def serve(config: ServerConfig | str | Path, overrides: Iterable[str] = ()) -> AsyncIterator[Server]:
    """A running server of a file, or of ``"demo"``; it drains and stops at the end of the ``async with``.

    Inside, ``server.http_port`` and ``server.grpc_port`` say where it listens. Raises ConfigError.
    """
    from eunomia.serving.server import Server

    if not isinstance(config, ServerConfig):
        config = demo_server(overrides) if config == "demo" else load_server(config, overrides)
    check_files(config)
    options = server_options(config)
    try:
        async with Server(options) as server:
            yield server
    finally:
        close(options.directory)


@runtime_checkable
class Closes(Protocol):
    """A directory that holds a database."""

    def close(self) -> None:
        """Let go of it."""


def close(directory: Directory) -> None:
    """Let go of a directory's database, once no thread looks into it any more."""
    if isinstance(directory, Closes):
        directory.close()


def _devices(config: ServerConfig, tell: Tell) -> list[DeviceSpec]:
    """Devices that share a core do not look for work while another might use it."""
    from eunomia.serving.devices.device import DeviceSpec

    users = Counter(core for d in config.device for core in set(d.cores))
    unbound = sum(d.memory_mib is None and d.backend == "cpu" and d.on == "process" for d in config.device)
    for core in sorted(core for core, count in users.items() if count > 1):
        tell(f"core {core} belongs to {users[core]} devices, which will slow each other down")
    return [
        DeviceSpec(
            d.name,
            d.backend,
            tuple(d.cores),
            d.spin_ms * 1e-3 if all(users[c] == 1 for c in d.cores) else 0.0,
            _memory_bytes(d, unbound),
            d.gpu,
            d.on,
            d.address or "auto",
            d.resource or "",
            d.spare and d.backend == "cpu" and d.on == "process",
        )
        for d in config.device
    ]


def _memory_bytes(device: DeviceConfig, sharing: int) -> int:
    if device.on != "process":
        return 0
    return int(
        _default_bytes(device.backend, sharing) if device.memory_mib is None else device.memory_mib * 2**20
    )


def _default_bytes(backend: str, sharing: int) -> float:
    """Memory for each of so many devices that state no bound: what it may take without ending the others."""
    from eunomia.serving.devices.memory import machine_bytes

    return MACHINE_SHARE * machine_bytes() / sharing if backend == "cpu" else 0.0


def server_options(config: ServerConfig, tell: Tell = warn) -> ServerOptions:
    """The file's words as the server's objects; ``tell`` takes remarks on it. Raises ConfigError."""
    from eunomia.inference.policies.catalogue import load_policy
    from eunomia.serving.dispatch.options import DispatchOptions
    from eunomia.serving.fronts.connections import ConnectionLimits
    from eunomia.serving.observe.tracing import TraceOptions
    from eunomia.serving.options import ServerOptions
    from eunomia.study.inference.policy import policy_name, resolve_policy

    for unknown in config.unknown:
        tell(f"{unknown}, which must be loaded from {config.models_dir} first")
    if nobody_loads(config):
        tell(
            "nobody may load what is in models_dir: that is an administrator's, POST /v2/repository/models/NAME/load; "
            'give a tenant role = "admin" and key_sha256'
        )
    if config.anonymous and not _of_this_machine(config.host):
        tell(
            f"anonymous = true and host = '{config.host}': whoever reaches this machine may send requests, as any "
            "tenant; elsewhere than on a trusted network give each tenant a key"
        )
    policy = resolve_policy(config.policy)
    with within("fallback"):
        load_policy(config.fallback)
    cache = _usable(Path(config.cache_dir).expanduser() if config.cache_dir else default_cache())
    for device in config.device:
        place_must_be_installed(device.name, device.on)
        if device.on == "process":
            must_be_installed(device.name, device.backend)
    mib = 1024**2
    return ServerOptions(
        devices=_devices(config, tell),
        networks=[_entry(n, cache) for n in config.network],
        cache=cache, host=config.host, http_port=config.http_port, grpc_port=config.grpc_port,
        anonymous=config.anonymous, min_deadline_s=config.min_deadline_ms * 1e-3,
        max_block_s=None if config.max_block_ms is None else config.max_block_ms * 1e-3 or float("inf"),
        policy=policy, fallback=config.fallback,
        policy_label=policy_name(config.policy),
        dispatch=DispatchOptions(
            config.lease_ms * 1e-3, config.late, config.max_batch, ahead_s=config.ahead_ms * 1e-3,
            starve_s=config.starve_ms * 1e-3 or float("inf"), calm_s=config.calm_ms * 1e-3 or float("inf"),
        ),
        block_s=config.block_ms * 1e-3, arena_bytes=int(config.arena_mib * mib),
        max_body_bytes=int(config.max_body_mib * mib), max_json_bytes=int(config.max_json_mib * mib),
        placement=config.placement, co_runs=Path(config.co_runs) if config.co_runs else None,
        drain_s=config.drain_s, shared_memory=config.shared_memory,
        connections=ConnectionLimits(
            config.max_connections, config.head_s, config.idle_s, config.body_s
        ),
        models_dir=Path(config.models_dir) if config.models_dir else None, load_all=config.load_all,
        versions=config.versions, beside=_beside,
        policy_dir=Path(config.policy_dir).expanduser() if config.policy_dir else None,
        audit_dir=Path(config.audit_dir).expanduser() if config.audit_dir else None, audit_whole=config.audit_whole,
        ledger_dir=Path(config.ledger_dir).expanduser() if config.ledger_dir else None,
        device_watts=config.device_watts,
        replicas=_replicas(config, policy, tell), harvest=_harvest(config),
        traces=TraceOptions(config.traces.endpoint, config.traces.sample) if config.traces else None,
        tls=(Path(config.tls_cert), Path(config.tls_key)) if config.tls_cert and config.tls_key else None,
        directory=_directory(config, tell),  # last: nothing else that is wrong leaves a database behind
    )  # fmt: skip


def _of_this_machine(host: str) -> bool:
    """Whether only its own programs reach it there; names of other machines are not looked up."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def nobody_loads(config: ServerConfig) -> bool:
    """Whether networks wait in a folder for an administrator, and the file names none; a database may."""
    named = any(tenant.role == "admin" and tenant.key_sha256 for tenant in config.tenant)
    return config.models_dir is not None and not config.load_all and config.database is None and not named


def _replicas(config: ServerConfig, policy: object, tell: Tell) -> ReplicaOptions | None:
    from eunomia.serving.replicas.rule import ReplicaOptions

    if (told := config.replicas) is None:
        return None
    if remark := remark_on_shares(config.policy, policy):
        tell(remark)
    return ReplicaOptions(
        told.name,
        told.exchange_ms * 1e-3,
        told.hold_s,
        told.memory_s,
        told.group,
        told.between_ms * 1e-3,
    )


def remark_on_shares(label: str, policy: object) -> str | None:
    """What a policy does not keep over several servers, in a sentence; ``label``: as the file says it."""
    if CHARGE_ELSEWHERE.of(policy) is None:
        return (
            f"policy '{label}' does not count what other servers do for a tenant, so shares do not hold over replicas; "
            'policy = "weighted_fair" keeps them'
        )
    if NAME.of(policy) == "fair_edf":
        return (
            "policy 'fair_edf' serves requests with deadlines by deadline first, so in overload their tenants' weights "
            'do not hold over replicas; policy = "weighted_fair" keeps them'
        )
    return None


def _harvest(config: ServerConfig) -> HarvestOptions | None:
    from eunomia.serving.dispatch.harvest import HarvestOptions

    if (told := config.harvest) is None:
        return None
    return HarvestOptions(frozenset(told.tenants), told.forecast, told.step_ms * 1e-3, told.room)


def _usable(cache: Path) -> Path:
    """The folder, made; raises ConfigError when nothing can be written into it."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return cache
    except OSError as error:
        remedy = "set cache_dir in the server file, or XDG_CACHE_HOME, to a folder that this user may write"
        raise ConfigError(f"cache_dir = '{cache}' cannot be written: {error.strerror}; {remedy}") from None


def default_cache() -> Path:
    """Where optimised networks are kept."""
    return cache_home() / "eunomia" / "serving"


def _directory(config: ServerConfig, tell: Tell) -> Directory:
    """Tenants of the file; with a database, new ones are added to it."""
    keys = {digest: tenant.name for tenant in config.tenant for digest in tenant.key_sha256}
    if config.database is None:
        from eunomia.serving.tenants.grants import StaticDirectory

        return StaticDirectory([_grant(t) for t in config.tenant], keys)
    from eunomia.serving.tenants.database import DatabaseDirectory

    directory = DatabaseDirectory(config.database)
    try:
        if directory.is_new:
            tell(f"a new database for tenants and keys: {directory.place}")
        for tenant in config.tenant:
            _add(directory, _grant(tenant), tell)
        for digest, name in keys.items():
            if not directory.adopt_key(name, digest):
                tell(
                    f"the key_sha256 {digest[:8]}... of tenant '{name}' has ended (revoked, rotated out, expired or "
                    "deleted with its tenant) and stays so: take it out of the file"
                )
        _end_published(directory, tell)
    except BaseException:
        directory.close()
        raise
    return directory


def _end_published(directory: DatabaseDirectory, tell: Tell) -> None:
    """The key of an earlier example, if somebody has taken it over; raises ConfigError."""
    from eunomia.config.server import PUBLISHED, PUBLISHED_KEY

    if not directory.knows_hash(PUBLISHED):
        return
    try:
        directory.end_hash(PUBLISHED)
    except ConfigError:
        raise ConfigError(
            f"the only key of an administrator in the database is '{PUBLISHED_KEY}', which stood in an earlier example "
            "and is known to everybody: run `eunomia serve key` and put what it prints into the file, for a tenant of "
            "the role admin"
        ) from None
    tell(f"the key '{PUBLISHED_KEY}' of an earlier example, known to everybody, has ended for good")


def _add(directory: DatabaseDirectory, grant: Grant, tell: Tell) -> None:
    """A tenant of the file, unless it is known; what the database says otherwise is pointed out."""
    from eunomia.serving.tenants.content import MAX_NAME, is_name

    if not is_name(grant.name):
        tell(
            f"tenant '{grant.name}' cannot be changed over HTTP: letters, digits, '.', '_' and '-' make a name there, "
            f"at most {MAX_NAME}"
        )
    known = directory.by_name(grant.name)
    if known is None:
        directory.put(grant)
        return
    differ = [
        "objectives" if field.name == "promises" else field.name
        for field in fields(grant)
        if getattr(known, field.name) != getattr(grant, field.name)
    ]
    if differ:
        tell(
            f"tenant '{grant.name}' differs between file and database ({', '.join(differ)}); the database counts: "
            f"change it by PUT /v2/eunomia/tenants/{grant.name}"
        )


def _beside(path: Path) -> Beside:
    from eunomia.config.beside import beside_from
    from eunomia.serving.models.beside import Beside

    found = beside_from(path)
    return Beside(found.shapes, found.empty, found.labels, rows_apart=found.rows_apart)


def _entry(network: NetworkConfig, cache: Path) -> Entry:
    from eunomia.serving.models.builtin import builtin_file
    from eunomia.serving.models.entry import Entry

    onnx = builtin_file(network.builtin or "", cache) if network.onnx is None else Path(network.onnx)
    entry = Entry(network.name, onnx, network.shapes, empty=network.empty, labels=network.labels)
    entry.rows_apart = network.rows_apart
    return entry


def _grant(tenant: ServedTenantConfig) -> Grant:
    from eunomia.serving.tenants.grants import Grant, Promise

    promises = {
        p.model: Promise(
            p.deadline_ms * 1e-3, p.slo.slo if p.slo else None, p.priority,
            None if p.min_deadline_ms is None else p.min_deadline_ms * 1e-3,
        )
        for p in tenant.agreed
    }  # fmt: skip
    return Grant(
        tenant.name, tenant.role, tenant.weight, tenant.rate_per_s or float("inf"), tenant.burst,
        tenant.max_concurrency, tenant.max_concurrency, int(tenant.max_request_mib * 1024**2),
        frozenset(tenant.models) if tenant.models is not None else None, promises,
        None if tenant.max_block_ms is None else tenant.max_block_ms * 1e-3, tenant.device_s_per_day or float("inf"),
    )  # fmt: skip
