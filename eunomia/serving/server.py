"""One running server: devices, service and both protocols in one event loop, from start to drained stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from eunomia.contract.guard import Guarded
from eunomia.contract.traits import COUNTS, title
from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError, ModelError, OutputError
from eunomia.inference.policies import load_policy
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.devices.memory import keep_freed_memory
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.dispatch.clock import WallClock
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.dispatch.shelf import Placed, PolicyShelf
from eunomia.serving.dispatch.warm import warm_up
from eunomia.serving.fronts.connections import ConnectionLimits, Connections, room_for
from eunomia.serving.fronts.http import HttpFront
from eunomia.serving.models.repository import Entry, Repository
from eunomia.serving.observe.ledger import Ledger
from eunomia.serving.observe.tracing import TraceOptions, Tracing
from eunomia.serving.protocol.errors import BadRequest, Unavailable
from eunomia.serving.protocol.regions import Regions
from eunomia.serving.service import Service
from eunomia.serving.tenants.following import FOLLOW_S, Shared, follow
from eunomia.serving.tenants.grants import Directory
from eunomia.serving.tenants.limits import Limits

log = logging.getLogger("eunomia.serving")
BACKLOG = 1024  # connections that wait to be accepted


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
    policy: str | Callable[[View], Sequence[Assign]] = "edf+f"
    policy_label: str = ""  # what it is called; "" = its own name
    fallback: str = "edf+f"
    dispatch: DispatchOptions = DispatchOptions(ahead_s=3e-3, starve_s=1.0, calm_s=10.0)
    block_s: float = 1.5e-3
    arena_bytes: int = 256 * 1024**2
    max_body_bytes: int = 64 * 1024**2
    drain_s: float = 10.0
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    shared_memory: bool = True
    models_dir: Path | None = None
    policy_dir: Path | None = None  # policies that were put in while it ran; None = forgotten at the end
    ledger_dir: Path | None = None  # None = usage is counted in memory alone
    follow_s: float = FOLLOW_S  # between two looks at what other servers have changed in a shared directory
    traces: TraceOptions | None = None
    device_watts: float = 0.0  # for the energy estimate: device seconds x watts
    tls: tuple[Path, Path] | None = None  # certificate, key


class Server:
    """``async with Server(options)``: ready inside the block, drained and stopped after it.

    ``left``: requests that had no answer when draining ended.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        policy, fallback = load_policy(options.policy), load_policy(options.fallback)
        warm_up(policy, fallback)
        self.guard = Guarded(policy, fallback)
        clock = WallClock()
        self.pool = DevicePool(
            options.devices,
            clock,
            self.guard,
            options.dispatch,
            cache=options.cache,
            arena_bytes=options.arena_bytes,
            target_s=options.block_s,
        )
        self.service = Service(
            clock,
            self.pool,
            Repository(self.pool, options.models_dir, options.networks),
            options.directory,
            Limits(clock),
            anonymous=options.anonymous,
            min_deadline_s=options.min_deadline_s,
            regions=Regions(offered=options.shared_memory),
        )
        named = options.policy if isinstance(options.policy, str) else policy_label(policy)
        self.service.policy_name = options.policy_label or named
        self.service.fallbacks = lambda: self.guard.counts
        self.service.guards = lambda: COUNTS.of(self.guard.policy)
        self.service.tracing = Tracing(options.traces) if options.traces is not None else None
        self.service.shelf = self._shelf(self.service.policy_name)
        self.http_port, self.grpc_port = options.http_port, options.grpc_port
        self.left = 0
        self._runner: web.AppRunner | None = None
        self._grpc: Any = None
        self._keeper: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None

    def _shelf(self, label: str) -> PolicyShelf:
        """Other policies may take over while the server runs; with a folder, they are remembered."""
        kept = self.options.policy_dir
        folder = kept or self.options.cache / "policies"
        shelf = PolicyShelf(self.guard, Placed(label, label), folder, remember=kept is not None)
        shelf.on_change = lambda name: setattr(self.service, "policy_name", name)
        shelf.resume()
        return shelf

    async def __aenter__(self) -> Server:
        """Start devices, load the networks, open the ports; raises ConfigError, ModelError or OutputError."""
        keep_freed_memory()
        try:
            if self.options.ledger_dir is not None:
                self.service.ledger = Ledger(self.options.ledger_dir, self.options.device_watts)
                self._keeper = asyncio.create_task(self._keep_ledger(self.service.ledger))
            try:
                await self.pool.start()
            except Unavailable as error:
                raise OutputError(f"the server cannot start: {error}") from None
            for entry in self.options.networks:
                try:
                    await self.service.repository.load(entry.name)
                except BadRequest as error:
                    raise ModelError(str(error)) from None
            if isinstance(self.options.directory, Shared):
                self._follower = asyncio.create_task(
                    follow(self.options.directory, self.options.follow_s, self._forget_the_gone)
                )
            await self._open_http()
            if self.options.grpc_port is not None:
                await self._open_grpc()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """No new requests; those inside get up to ``drain_s`` to finish; then everything stops."""
        self.service.draining = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._drained(), self.options.drain_s)
        self.left = self.inside
        await self._stop()

    @property
    def inside(self) -> int:
        """Requests that have no answer yet."""
        return sum(self.service.limits.active(grant.name) for grant in self.options.directory.all())

    async def _drained(self) -> None:
        while self.pool.busy:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # the last answers are on their way

    async def _stop(self) -> None:
        self.service.draining = True
        if self._grpc is not None:
            await self._grpc.stop(0.5)
        await self.pool.close()
        if self._runner is not None:
            await self._runner.cleanup()
        for task in (self._keeper, self._watcher, self._follower):
            if task is not None:
                task.cancel()
        if self.service.ledger is not None:
            self.service.ledger.close()
        if self.service.tracing is not None:
            await asyncio.to_thread(self.service.tracing.close)

    async def _keep_ledger(self, ledger: Ledger) -> None:
        """Sync every second, off the event loop, and retry what a full disk refused."""
        while True:
            await asyncio.sleep(1.0)
            ledger.flush()
            with contextlib.suppress(OSError):
                await asyncio.to_thread(ledger.sync)

    def _forget_the_gone(self) -> None:
        """Tenants that were removed through another server hold no memory here either."""
        self.service.regions.keep({grant.name for grant in self.options.directory.all()})

    async def _open_http(self) -> None:
        limits = self.options.connections
        connections = Connections(replace(limits, most=room_for(limits.most)))
        front = HttpFront(self.service, self.options.max_body_bytes, connections)
        self._runner = web.AppRunner(  # cancellation: a client that goes away is served no further
            front.application(), access_log=None, shutdown_timeout=1.0, handler_cancellation=True
        )
        await self._runner.setup()
        assert self._runner.server is not None, "set up above"
        self._watcher = asyncio.create_task(connections.watch(self._runner.server))
        self.service.connections = connections
        site = web.TCPSite(
            self._runner, self.options.host, self.options.http_port, ssl_context=self._tls(), backlog=BACKLOG
        )
        try:
            await site.start()
        except OSError:
            raise OutputError(self._closed("http_port", self.options.http_port)) from None
        self.http_port = self._runner.addresses[0][1]

    async def _open_grpc(self) -> None:
        import grpc
        from tritonclient.grpc import service_pb2_grpc as stubs

        from eunomia.serving.fronts.grpc import GrpcFront

        largest = self.options.max_body_bytes
        self._grpc = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", largest),
                ("grpc.max_send_message_length", largest),
                ("grpc.max_metadata_size", 16384),
                ("grpc.so_reuseport", 0),
                ("grpc.server_handshake_timeout_ms", int(self.options.connections.head_s * 1e3)),
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.max_concurrent_streams", 1000),
            ]
        )
        stubs.add_GRPCInferenceServiceServicer_to_server(GrpcFront(self.service), self._grpc)
        address = f"{self.options.host}:{self.options.grpc_port}"
        try:
            if self.options.tls is None:
                port = self._grpc.add_insecure_port(address)
            else:
                certificate, key = (path.read_bytes() for path in self.options.tls)
                port = self._grpc.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
        except RuntimeError:
            raise OutputError(self._closed("grpc_port", self.options.grpc_port or 0)) from None
        self.grpc_port = port
        await self._grpc.start()

    def _closed(self, key: str, port: int) -> str:
        """Why a port cannot be opened: asked of the system, for libraries say it in many words or not at all."""
        why = "no reason is given"
        try:
            socket.create_server((self.options.host, port)).close()
        except OSError as error:
            why = error.strerror or str(error)
        return f"{key} = {port} on '{self.options.host}' cannot be opened: {why}"

    def _tls(self) -> ssl.SSLContext | None:
        if self.options.tls is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(*self.options.tls)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the TLS certificate cannot be used: {error}") from None
        return context


def policy_label(policy: object) -> str:
    """What to call a policy that was given as an object."""
    return title(policy)
