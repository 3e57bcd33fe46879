"""One running server: devices, service and both protocols in one event loop, from start to drained stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web

from eunomia.contract.guard import Guarded
from eunomia.contract.traits import COUNTS, title
from eunomia.core.errors import ConfigError, OutputError
from eunomia.inference.policies import load_policy
from eunomia.serving.blocks.external import environment_of
from eunomia.serving.devices.memory import Young
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.devices.unused import give_back_as_usual, give_back_unused, keep_freed_in_one_heap
from eunomia.serving.devices.walking import walk_compiled
from eunomia.serving.dispatch.clock import WallClock
from eunomia.serving.dispatch.shelf import Placed, PolicyShelf
from eunomia.serving.dispatch.warm import warm_up_beside
from eunomia.serving.fronts.address import in_url
from eunomia.serving.fronts.certificate import tls_context
from eunomia.serving.fronts.connections import Connections, room_for
from eunomia.serving.fronts.exchange import Inference
from eunomia.serving.fronts.hearing import Hearing
from eunomia.serving.fronts.http import HttpFront
from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.fronts.lane import Lane
from eunomia.serving.fronts.reception import Reception, sockets_at
from eunomia.serving.models.remembered import Remembered
from eunomia.serving.models.repository import Repository
from eunomia.serving.models.starting import Starting
from eunomia.serving.observe.audit import Audit
from eunomia.serving.observe.co_runs import neighbours_of, write_co_runs
from eunomia.serving.observe.ledger import Ledger
from eunomia.serving.observe.tracing import Tracing
from eunomia.serving.options import ServerOptions
from eunomia.serving.protocol.errors import Unavailable
from eunomia.serving.protocol.regions import Regions
from eunomia.serving.replicas.fleet import Fleet, HasBoard
from eunomia.serving.replicas.rule import ReplicaOptions
from eunomia.serving.service import Service
from eunomia.serving.takeover.line import Estate
from eunomia.serving.takeover.sockets import why_taken
from eunomia.serving.takeover.succession import HANDSHAKE_S, NOBODY, Succession
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.following import Shared, follow
from eunomia.serving.tenants.limits import Limits

if TYPE_CHECKING:
    from eunomia.serving.rpc.opening import RpcPort

log = logging.getLogger("eunomia.serving")


class Server:
    """``async with Server(options)``: ready inside the block, drained and stopped after it.

    ``left``: requests that had no answer when draining ended.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self._tls = tls_context(options.tls) if options.tls else None
        policy, fallback = self._to_ask = load_policy(options.policy), load_policy(options.fallback)
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
        for device in self.pool.devices:
            device.environment = environment_of(options.models_dir)
        if options.placement != "policy" or options.co_runs is not None:
            places = options.placement == "least_degradation"
            self.pool.dispatcher.neighbours = neighbours_of(options.devices, options.co_runs, places=places)
        if options.harvest is not None:
            self.pool.harvest(options.harvest)
        kept = Remembered(options.cache, f"{options.host}:{options.http_port}", options.models_dir)
        files = options.models_dir, options.networks, options.versions, options.beside
        self.service = Service(
            clock,
            self.pool,
            Repository(self.pool, *files, kept=None if options.load_all else kept),
            options.directory,
            Limits(clock),
            anonymous=options.anonymous,
            min_deadline_s=options.min_deadline_s,
            bodies=Bodies(options.connections.buffered_bytes),
            regions=Regions(offered=options.shared_memory, owned=not options.anonymous),
        )
        self.pool.loading.on_away = self.service.repository.away
        (holding := self.service.holding).most_s = options.max_block_s
        holding.explore, holding.helped = self.pool.explore, self.pool.by_size.helps
        holding.hollow, holding.being_cut = self.pool.hollow, self.pool.by_request.wanted
        holding.unguarded, self.service.unsized.unguarded = (
            self.pool.unguarded.wanted,
            self.pool.unguarded.waits,
        )
        self.pool.by_request.patience_s = holding.patience_s
        self.pool.watching.patience_s = self.pool.dispatcher.patience_s = holding.patience_s
        named = options.policy if isinstance(options.policy, str) else title(policy)
        self.service.policy_name = options.policy_label or named
        self.service.fallbacks = lambda: self.guard.counts
        self.service.guards = lambda: COUNTS.of(self.guard.policy)
        self.service.tracing = Tracing(options.traces) if options.traces is not None else None
        self.service.shelf = self._shelf(self.service.policy_name)
        self.http_port, self.grpc_port, self.left = options.http_port, options.grpc_port, 0
        self._runner: web.AppRunner | None = None
        self.listening: Sequence[socket.socket] = ()
        self.listening_rpc: Sequence[socket.socket] = ()
        self._receptions: list[Reception] = []
        self.succession = Succession(self, options.host)
        self._json: JsonProcess | None = None
        self._inference: Inference | None = None
        self._audit: Audit | None = None
        self._grpc: RpcPort | None = None
        self._watchers: list[asyncio.Task[None]] = []
        self._exchange: asyncio.Task[None] | None = None

    def _shelf(self, label: str) -> PolicyShelf:
        """Other policies may take over while the server runs; with a folder, they are remembered."""
        kept = self.options.policy_dir
        folder = kept or self.options.cache / "policies"
        shelf = PolicyShelf(self.guard, Placed(label, label), folder, remember=kept is not None)
        shelf.on_change = lambda name: setattr(self.service, "policy_name", name)
        shelf.resume()
        return shelf

    async def __aenter__(self) -> Server:
        """Open the ports, start devices, load the networks; raises ConfigError, ModelError or OutputError."""
        keep_freed_in_one_heap()
        self.service.books.turns.worked = Young().worked
        try:
            if not self.options.takeover:
                await self._begin()
            await warm_up_beside(*self._to_ask)
            await asyncio.to_thread(walk_compiled)
            if self.options.audit_dir is not None:
                self._audit = Audit(self.options.audit_dir, whole=self.options.audit_whole)
                self.service.note = self._audit.record
            before = await self.succession.find() if self.options.takeover else None
            if self.options.takeover and before is None:  # else that one serves until this one does
                await self._begin()
            try:
                await self.pool.start()
            except Unavailable as error:
                raise OutputError(f"the server cannot start: {error}") from None
            await self.service.repository.load_listed()
            await self.succession.load(before.models if before is not None else (), self.options.load_all)
            if before is not None:
                self._open_ledger(before.lock)
            self.service.pairs.recall(self.options.directory, self.service.repository.has)
            if isinstance(self.options.directory, Shared):
                following = follow(self.options.directory, self.options.follow_s, self._forget_the_gone)
                self._watchers.append(asyncio.create_task(following))
            if before is not None:
                await self._open(before)
            await self.succession.begin()
            self.service.starting = str
            for work in (self.service.books.front.keep(), give_back_unused(self.service.books.turns.begin)):
                self._watchers.append(asyncio.create_task(work))
            if self.options.replicas is not None:
                self._exchange = asyncio.create_task(self._join(self.options.replicas).keep())
        except BaseException:
            await self._stop()
            raise
        return self

    async def _begin(self) -> None:
        """Nobody else serves here: who asks hears how far the start is."""
        self._open_ledger()
        starting = Starting(self.service.repository, everything=self.options.load_all)
        self.service.starting = starting.how_far
        await self._open(None)

    async def __aexit__(self, *_: object) -> None:
        """No new requests; those inside get up to ``drain_s`` to finish; then everything stops."""
        self.service.draining = True
        if self._grpc is not None:
            self._grpc.leave()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._drained(), self.options.drain_s)
        self.left = self.inside
        await self._stop()

    def _open_ledger(self, lock: int | None = None) -> None:
        """``lock``: of a server that still serves."""
        if self.options.ledger_dir is not None:
            today = self.service.limits.today
            self.service.ledger = Ledger(self.options.ledger_dir, self.options.device_watts, today, lock)
            self._watchers.append(asyncio.create_task(self._keep_ledger(self.service.ledger)))

    @property
    def inside(self) -> int:
        """Requests that have no answer yet."""
        return sum(self.service.limits.active(grant.name) for grant in self.options.directory.all())

    async def _drained(self) -> None:
        while self.pool.busy or self.service.bodies.awaited or (self._inference and self._inference.making):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # the last answers are on their way

    async def _stop(self) -> None:
        self.service.draining = True
        await self.pool.close()
        for reception in self._receptions:
            reception.close()
        if self._runner is not None:
            await self._runner.cleanup()
        for reception in self._receptions:
            reception.end()
        if self._json is not None:
            self._json.close()
        for task in (*self._watchers, self._exchange):
            if task is not None:
                task.cancel()
        give_back_as_usual()
        self.pool.dispatcher.later.settle()
        near = self.pool.dispatcher.neighbours
        if near is not None and self.options.co_runs is not None:
            try:
                write_co_runs(near, self.options.co_runs)
            except OutputError as error:
                log.error("what networks do to each other is lost: %s", error)
        if self.service.ledger is not None:
            self.service.ledger.close()
        if self._audit is not None:
            self._audit.close()
        self.succession.close()
        if self.service.tracing is not None:
            await asyncio.to_thread(self.service.tracing.close)

    async def _keep_ledger(self, ledger: Ledger) -> None:
        """Sync every second, off the event loop, and retry what a full disk refused."""
        while True:
            await asyncio.sleep(1.0)
            ledger.flush()
            await asyncio.to_thread(ledger.sync)

    def _forget_the_gone(self) -> None:
        """Tenants that were removed through another server hold no memory here either."""
        self.service.regions.keep({grant.name for grant in self.options.directory.all()})

    def _join(self, options: ReplicaOptions) -> Fleet:
        """Promises are kept together with the other servers on this database; raises ConfigError."""
        directory, service = self.options.directory, self.service
        if not isinstance(directory, HasBoard):
            raise ConfigError("replicas need tenants in a database, and these are in the server file")
        own = replace(options, name=options.name or f"{socket.gethostname()}:{self.http_port}")
        fleet = Fleet(
            own, directory.board(), self.pool.dispatcher, directory, service.limits, service.books.use
        )
        fleet.address = f"{in_url(self.options.host)}:{self.http_port}"
        self.pool.dispatcher.elsewhere, service.fleet = fleet.charge, fleet
        return fleet

    async def last(self) -> None:
        """After another process has taken over: until nobody is connected any more, or it takes too long."""
        limits = self.options.connections
        most_s = limits.idle_s + self.options.drain_s
        await self.succession.last(most_s, limits.head_s if self.options.tls else HANDSHAKE_S)

    def stop_listening(self) -> None:
        """Another process serves: no new connections, and those over HTTP end with their next answer."""
        for reception in self._receptions:
            reception.close()
        self.service.leaving = True
        if self._grpc is not None:
            self._grpc.leave()
        if self._exchange is not None:
            self._exchange.cancel()

    @property
    def connected(self) -> int:
        """Connections, of both protocols."""
        return sum(len(reception.connections) for reception in self._receptions)

    async def _open(self, before: Estate | None) -> None:
        """Both ports."""
        await self._open_http(before)
        if self.options.grpc_port is not None:
            await self._open_grpc(self.options.grpc_port, before)
        elif before is not None:
            before.rpc_at(None)

    async def _open_http(self, before: Estate | None) -> None:
        limits, ports = self.options.connections, 1 if self.options.grpc_port is None else 2
        connections = Connections(replace(limits, most=room_for(limits.most, ports)))
        front = HttpFront(self.service, self.options.max_body_bytes, connections, self.options.max_json_bytes)
        self._json, self.service.most_text_bytes = front.json, self.options.max_json_bytes
        self._runner = web.AppRunner(  # cancellation: a client that goes away is served no further
            front.application(), access_log=None, shutdown_timeout=1.0, handler_cancellation=True
        )
        await self._runner.setup()
        rest = self._runner.server
        assert rest is not None, "set up above"
        self._watchers.append(asyncio.create_task(connections.watch()))
        self.service.connections = connections
        most = self.options.max_body_bytes
        self._inference = inference = Inference(self.service, front.json, most, connections)
        try:
            if before is not None:
                self.listening = [socket.socket(fileno=n) for n in before.listening]
            else:
                self.listening = await sockets_at(self.options.host, self.options.http_port)
        except OSError:
            why = self._closed("http_port", self.options.http_port)
            raise OutputError(why + NOBODY * self.options.takeover) from None
        self.http_port = self.listening[0].getsockname()[1]
        connections.hearing = hearing = Hearing(self.service.rota.begin)
        made = self.listening, connections, lambda: Lane(rest, inference)
        self._receptions.append(Reception(*made, self.service.rota, hearing, self._tls))

    async def _open_grpc(self, port: int, before: Estate | None) -> None:
        from eunomia.serving.rpc.opening import RpcPort

        assert self._inference is not None, "HTTP is open already"
        try:
            handed = before.rpc_at(port) if before is not None else []
            self.listening_rpc = handed or await sockets_at(self.options.host, port)
        except OSError:
            raise OutputError(self._closed("grpc_port", port)) from None
        self.grpc_port = self.listening_rpc[0].getsockname()[1]
        tls = tls_context(self.options.tls, protocol="h2") if self.options.tls else None
        self._grpc = RpcPort(self._inference, self.listening_rpc, tls)
        self._watchers.append(asyncio.create_task(self._grpc.connections.watch()))
        self._receptions.append(self._grpc.reception)

    def _closed(self, key: str, port: int) -> str:
        """Why a port cannot be opened: asked of the system, for libraries say it in many words or not at all."""
        why = why_taken(self.options.host, port) or "no reason is given"
        return f"{key} = {port} on '{self.options.host}' cannot be opened: {why}"
