"""``eunomia serve``: the live server."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import signal
import tempfile
from collections import Counter
from collections.abc import Coroutine
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import counted, note, stderr
from eunomia.core.errors import ConfigError

if TYPE_CHECKING:
    from eunomia.config.server import NetworkConfig, ServedTenantConfig, ServerConfig
    from eunomia.serving.devices.device import DeviceSpec
    from eunomia.serving.models.repository import Entry
    from eunomia.serving.server import Server, ServerOptions
    from eunomia.serving.tenants.database import DatabaseDirectory
    from eunomia.serving.tenants.grants import Directory, Grant


@runtime_checkable
class Closes(Protocol):
    """A directory that holds a database."""

    def close(self) -> None:
        """Let go of it."""


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("serve")(serve)


def serve(
    what: Annotated[str, typer.Argument(metavar="SERVER.toml|demo|key", help="A server file; 'demo': networks built "
                                        "in code; 'key': make an API key.")],
    sets: opt.Set = None,
    policy: Annotated[str | None, typer.Option("--policy", "-p", metavar="NAME", help="Instead of the file's.")] = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:  # fmt: skip
    """Serve networks over the Open Inference Protocol, HTTP and gRPC, until Ctrl-C."""
    if what == "key":
        _make_key(as_json)
        return
    from eunomia.config.server import demo_server, load_server

    overrides = [*(sets or ()), *([f"policy={policy}"] if policy else ())]
    config = demo_server(overrides) if what == "demo" else load_server(what, overrides)
    options = server_options(config)
    try:
        _run(_serve(options, quiet, as_json))
    finally:  # no thread looks into the database any more
        _close(options.directory)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """On uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def _close(directory: Directory) -> None:
    """Let go of a database."""
    if isinstance(directory, Closes):
        directory.close()


def _make_key(as_json: bool) -> None:
    from eunomia.serving.tenants.grants import hash_key, new_key

    key = new_key()
    if as_json:
        typer.echo(json.dumps({"key": key, "key_sha256": hash_key(key)}))
        return
    typer.echo(f"key         {key}\nkey_sha256  {hash_key(key)}")
    stderr().print("give the key to the tenant, it is shown this once; put key_sha256 into the server file")


async def _serve(options: ServerOptions, quiet: bool, as_json: bool) -> None:
    from eunomia.serving.devices.memory import set_aside
    from eunomia.serving.server import Server

    stop = asyncio.Event()
    for number in _stopping():
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if not quiet and not as_json:
        stderr().print(
            f"loading {counted(len(options.networks), 'network')} on {counted(len(options.devices), 'device')}"
        )
    async with Server(options) as server:
        set_aside()
        _announce(server, quiet, as_json)
        await stop.wait()
        if not quiet and not as_json:
            stderr().print(f"draining: {counted(server.inside, 'request')} inside")
    if not quiet and not as_json:
        left = f"; {counted(server.left, 'request')} left without an answer" if server.left else ""
        stderr().print(f"stopped{left}")


def _stopping() -> list[signal.Signals]:
    """Signals that drain and stop the server.

    A parent that starts it with SIGINT ignored (``nohup``, the background of a shell) protects it from Ctrl-C in that
    terminal, as it does every Unix program. SIGTERM always counts: it is how supervisors stop a server.
    """
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    return [signal.SIGTERM] if ignored else [signal.SIGINT, signal.SIGTERM]


def _announce(server: Server, quiet: bool, as_json: bool) -> None:
    scheme = "https" if server.options.tls else "http"
    host = server.options.host
    ready = {
        "http": f"{scheme}://{host}:{server.http_port}",
        "grpc": f"{host}:{server.grpc_port}" if server.grpc_port is not None else None,
        "models": [entry.name for entry in server.service.repository.entries(ready_only=True)],
    }
    if as_json:
        typer.echo(json.dumps(ready))
        return
    typer.echo(f"ready: {ready['http']}" + (f", gRPC {ready['grpc']}" if ready["grpc"] else ""))
    if not quiet:
        typer.echo(f"models: {', '.join(ready['models'] or ['none'])}\nCtrl-C drains and stops")


def _devices(config: ServerConfig) -> list[DeviceSpec]:
    """Devices that share a core do not look for work while another might use it."""
    from eunomia.serving.devices.device import DeviceSpec

    users = Counter(core for d in config.device for core in set(d.cores))
    for core in sorted(core for core, count in users.items() if count > 1):
        note(f"core {core} belongs to {users[core]} devices, which will slow each other down")
    return [
        DeviceSpec(
            d.name,
            d.backend,
            tuple(d.cores),
            d.spin_ms * 1e-3 if all(users[c] == 1 for c in d.cores) else 0.0,
        )
        for d in config.device
    ]


def server_options(config: ServerConfig) -> ServerOptions:
    """The file's words as the server's objects."""
    from eunomia.serving.dispatch.options import DispatchOptions
    from eunomia.serving.fronts.connections import ConnectionLimits
    from eunomia.serving.observe.tracing import TraceOptions
    from eunomia.serving.server import ServerOptions
    from eunomia.study.inference.policy import policy_name, resolve_policy

    for unknown in config.unknown:
        note(f"{unknown}, which must be loaded from {config.models_dir} first")
    cache = _usable(Path(config.cache_dir).expanduser() if config.cache_dir else default_cache())
    _must_have_torch(config)
    mib = 1024**2
    return ServerOptions(
        devices=_devices(config),
        networks=[_entry(n, cache) for n in config.network],
        cache=cache, host=config.host, http_port=config.http_port, grpc_port=config.grpc_port,
        anonymous=config.anonymous, min_deadline_s=config.min_deadline_ms * 1e-3,
        policy=resolve_policy(config.policy), fallback=config.fallback,
        policy_label=policy_name(config.policy),
        dispatch=DispatchOptions(
            config.lease_ms * 1e-3, config.late, config.max_batch, ahead_s=config.ahead_ms * 1e-3,
            starve_s=config.starve_ms * 1e-3 or float("inf"), calm_s=config.calm_ms * 1e-3 or float("inf"),
        ),
        block_s=config.block_ms * 1e-3, arena_bytes=int(config.arena_mib * mib),
        max_body_bytes=int(config.max_body_mib * mib), drain_s=config.drain_s, shared_memory=config.shared_memory,
        connections=ConnectionLimits(config.max_connections, config.head_s, config.idle_s, config.body_s),
        models_dir=Path(config.models_dir) if config.models_dir else None,
        policy_dir=Path(config.policy_dir).expanduser() if config.policy_dir else None,
        ledger_dir=Path(config.ledger_dir).expanduser() if config.ledger_dir else None,
        device_watts=config.device_watts,
        traces=TraceOptions(config.traces.endpoint, config.traces.sample) if config.traces else None,
        tls=(Path(config.tls_cert), Path(config.tls_key)) if config.tls_cert and config.tls_key else None,
        directory=_directory(config),  # last: nothing else that is wrong leaves a database behind
    )  # fmt: skip


def _usable(cache: Path) -> Path:
    """The folder, made; raises ConfigError when nothing can be written into it."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            return cache
    except OSError as error:
        raise ConfigError(f"cache_dir = '{cache}' cannot be written: {error.strerror}") from None


def _must_have_torch(config: ServerConfig) -> None:
    """Said here, for a device without it only ever fails to start; raises ConfigError."""
    for device in config.device:
        if device.backend == "torch" and importlib.util.find_spec("torch") is None:
            raise ConfigError(
                f"device '{device.name}': backend = \"torch\" needs PyTorch, which is not installed: "
                "pip install 'eunomia[learn]'"
            )


def default_cache() -> Path:
    """Where optimised networks are kept."""
    import os

    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "eunomia" / "serving"


def _directory(config: ServerConfig) -> Directory:
    """Tenants of the file; with a database, they are added to it unless it knows them already."""
    keys = {digest: tenant.name for tenant in config.tenant for digest in tenant.key_sha256}
    if config.database is None:
        from eunomia.serving.tenants.grants import StaticDirectory

        return StaticDirectory([_grant(t) for t in config.tenant], keys)
    from eunomia.serving.tenants.database import DatabaseDirectory

    directory = DatabaseDirectory(config.database)
    try:
        if directory.is_new:
            note(f"a new database for tenants and keys: {directory.place}")
        for tenant in config.tenant:
            _add(directory, _grant(tenant))
        for digest, name in keys.items():
            if not directory.adopt_key(name, digest):
                note(
                    f"the key_sha256 {digest[:8]}... of tenant '{name}' has ended (revoked, rotated out, expired or "
                    "deleted with its tenant) and stays so: take it out of the file"
                )
        _end_published(directory)
    except BaseException:
        directory.close()
        raise
    return directory


def _end_published(directory: DatabaseDirectory) -> None:
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
    note(f"the key '{PUBLISHED_KEY}' of an earlier example, known to everybody, has ended for good")


def _add(directory: DatabaseDirectory, grant: Grant) -> None:
    """A tenant of the file, unless it is known; what the database says otherwise is pointed out."""
    known = directory.by_name(grant.name)
    if known is None:
        directory.put(grant)
        return
    differ = [
        field.name for field in fields(grant) if getattr(known, field.name) != getattr(grant, field.name)
    ]
    if differ:
        note(
            f"tenant '{grant.name}' differs between file and database ({', '.join(differ)}); the database counts: "
            f"change it by PUT /v2/eunomia/tenants/{grant.name}"
        )


def _entry(network: NetworkConfig, cache: Path) -> Entry:
    from eunomia.serving.models.repository import Entry

    if network.onnx is not None:
        return Entry(network.name, Path(network.onnx), network.shapes)
    from eunomia.serving.models.builtin import builtin_file

    return Entry(network.name, builtin_file(network.builtin or "", cache), network.shapes)


def _grant(tenant: ServedTenantConfig) -> Grant:
    from eunomia.serving.tenants.grants import Grant, Promise

    promises = {
        p.model: Promise(
            p.deadline_ms * 1e-3, p.slo.slo if p.slo else None, p.priority,
            None if p.min_deadline_ms is None else p.min_deadline_ms * 1e-3,
        )
        for p in tenant.promise
    }  # fmt: skip
    return Grant(
        tenant.name, tenant.role, tenant.weight, tenant.rate_per_s or float("inf"), tenant.burst,
        tenant.max_concurrency, tenant.max_concurrency, int(tenant.max_request_mib * 1024**2),
        frozenset(tenant.models) if tenant.models is not None else None, promises,
    )  # fmt: skip
