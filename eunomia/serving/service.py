"""What the server does with a request, whichever protocol brought it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from eunomia.core.data import Json
from eunomia.serving.callers import Callers
from eunomia.serving.devices.answers import Answer, Inputs
from eunomia.serving.devices.arena import ArenaFull
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.dispatch.admission import Admission
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.costs import Network
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.shelf import PolicyShelf
from eunomia.serving.fit import Fit, fit_of
from eunomia.serving.fronts.connections import Connections
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.models.entry import Entry, ports_of
from eunomia.serving.models.repository import Repository
from eunomia.serving.observe.books import Books
from eunomia.serving.observe.history import Run
from eunomia.serving.observe.ledger import Ledger
from eunomia.serving.observe.retired import retired_from
from eunomia.serving.observe.tracing import Tracing
from eunomia.serving.outward import Outward
from eunomia.serving.protocol.errors import (
    IN_VAIN,
    BadRequest,
    Cancelled,
    Refused,
    ServingError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from eunomia.serving.protocol.infer import InferRequest, SharedRegion
from eunomia.serving.protocol.regions import Regions
from eunomia.serving.protocol.reshape import as_the_network_has
from eunomia.serving.replicas.fleet import Fleet
from eunomia.serving.tenants.bodies import AGAIN_S, Bodies
from eunomia.serving.tenants.deadlines import Claim, claim_of, deadline_s
from eunomia.serving.tenants.grants import Directory, Grant, grant_of
from eunomia.serving.tenants.held_back import HeldBack
from eunomia.serving.tenants.holding import Holding
from eunomia.serving.tenants.limits import Limits
from eunomia.serving.tenants.pairs import Pairs
from eunomia.serving.tenants.unsized import Later, Unsized, Wait
from eunomia.serving.visit import Caller, Inside, Served

UNWRITTEN = "usage cannot be written down: the disk refuses"
NO_ROOM = "the answer to another request of tenant '{}' had no room: it takes its answers too slowly"


@dataclass
class Service(Callers):
    """Admission, the way to the dispatcher, and the answer.

    ``anonymous``: callers without a key are told apart by headers alone, and have the grant of the tenant
    they name, or that of ``default``. Otherwise a key is needed, and headers are not believed.
    ``min_deadline_s``: the shortest deadline that a client may claim where its tenant was promised nothing.
    """

    clock: Clock
    pool: DevicePool
    repository: Repository
    directory: Directory
    limits: Limits
    anonymous: bool = False
    min_deadline_s: float = 0.0
    bodies: Bodies = field(default_factory=lambda: Bodies(512 * 1024**2))
    most_text_bytes: int = 2**63  # of an answer as JSON
    regions: Regions = field(default_factory=lambda: Regions(offered=False))
    ledger: Ledger | None = None
    note: Callable[..., None] = lambda *_: None  # of the audit log
    fallbacks: Callable[[], Mapping[str, int]] = dict
    guards: Callable[[], Mapping[str, int]] = dict
    policy_name: str = ""
    shelf: PolicyShelf | None = None
    tracing: Tracing | None = None
    connections: Connections | None = None
    fleet: Fleet | None = None
    grpc_port: int = 0  # 0 = none
    draining: bool = False
    starting: Callable[[], str] = str  # why a start is not over; empty = it is
    leaving: bool = False  # another process has taken over: each connection ends with its next answer

    def __post_init__(self) -> None:
        self.pool.on_run, self.pool.answers.on_retired = self._ran, self._retired
        self.pool.answers.room = self.bodies.check_answer
        self.outward = Outward(self.bodies, self.regions, self.pool.answers)
        self.bodies.budget = lambda tenant: grant_of(self.directory, tenant).max_request_bytes
        dispatcher, by_request = self.pool.dispatcher, self.pool.by_request
        self.admission, self.holding = Admission(dispatcher), Holding(dispatcher, self.directory)
        self.pool.of_death = self.holding.died
        self.pairs = Pairs(dispatcher, lambda: self.ledger.usage if self.ledger else {})
        unproven, follow = self.holding.unproven, self.pool.by_size.follow
        unproven.missed, unproven.follow = dispatcher.missed, follow
        unproven.soon = lambda work: asyncio.get_running_loop().call_soon(work)
        self.unsized = Unsized(self.clock, self.bodies, self.pool.unsized, follow, unproven)
        HeldBack(self.pool, self.holding, self.directory, self.unsized)
        self.books = books = Books(dispatcher.later)
        self.rota = Rota(books.turns, waited=books.front.waited)
        by_request.keep, by_request.turn = self.limits.keep, self.repository.turn
        self.pool.begin, self.pool.answers.in_turn = books.turns.begin, self.rota.do

    @property
    def ready(self) -> bool:
        """Whether requests are welcome."""
        return not self.unready

    @property
    def unready(self) -> str:
        """Why no request is welcome now; empty = they are."""
        alive = any(lane.alive for lane in self.pool.dispatcher.lanes)
        return self.closed or ("" if alive else "no device answers")

    @property
    def closed(self) -> str:
        """Why none is accepted; empty = they are."""
        if why := "the server is draining" if self.draining else self.starting():
            return why
        return "" if self.ledger is None or self.ledger.writable else UNWRITTEN

    def readiness(self, caller: Caller, name: str, version: str) -> Entry:
        """Of a network that the caller may know of; without a valid key, as probes ask, of any. Raises NotFound."""
        try:
            grant = self.identify(caller)
        except Unauthenticated:
            return self.repository.entry(name, version)
        return self.repository.entry_for(grant, name, version)

    def most_bytes(self, grant: Grant) -> int:
        """Of the tensors of one request."""
        return min(grant.max_request_bytes, self.pool.arena.most_bytes)

    async def metrics_page(self, accepts: str, *, triton: bool) -> tuple[bytes, str]:
        """What Prometheus reads, and its type: the counters, and how things stand now."""
        ready = [entry.key for entry in self.repository.entries(ready_only=True)]
        telemetry = self.books.telemetry
        telemetry.show_devices(self.pool, ready, self.clock.now_s())
        await telemetry.show_objectives(self.pool.dispatcher, self.clock.now_s(), self.rota.begin)
        if self.connections is not None:
            telemetry.show_connections(len(self.connections), self.connections.ended)
        telemetry.show_policy(self.fallbacks(), self.guards())
        if self.ledger is not None:
            telemetry.show_ledger(len(self.ledger.held), self.ledger.lost)
        if self.fleet is not None:
            telemetry.show_replicas(*self.fleet.standing())
        return await telemetry.page(accepts, triton=triton)

    async def model_statistics(self, grant: Grant, name: str = "", version: str = "") -> list[Json]:
        """The tenant's own, an administrator's of all, of one network or of all that are ready; raises NotFound."""
        networks = self.repository
        found = (
            [networks.entry_for(grant, name, version)]
            if name
            else networks.entries_for(grant, ready_only=True)
        )
        return await self.books.statistics_of([e.key for e in found], self.sees(grant), self.rota.begin)

    def knock(self, caller: Caller, model: str) -> str:
        """Before its body is read: the caller's tenant, if it may send one now. Raises ServingError."""
        name = self.tenant_of(caller)
        grant = self.directory.by_name(name) if name else None
        if grant is None:
            return name
        try:
            self.limits.knock(grant)
        except ServingError as error:
            self.refused(grant, model, error)
            raise
        return name

    def unreadable(self, tenant: str, model: str, error: ServingError) -> None:
        """A message that could not be read counts for its tenant's rate all the same."""
        grant = self.directory.by_name(tenant)
        if grant is not None and isinstance(error, BadRequest | TooLarge):
            self.limits.charge(grant)
            self.note(tenant, model, "", error.reason)
        elif grant is not None:
            self.refused(grant, model, error)

    async def infer(self, request: InferRequest, caller: Caller) -> Served:
        """The answer; raises ServingError."""
        inside = self.enter(request, caller)
        try:
            outputs = await inside.answer
        except asyncio.CancelledError:
            self.rota.do(inside.grant.name, partial(self.abandon, inside))
            raise
        except BaseException:
            self._give_back(inside.grant, inside.size)
            raise
        self._give_back(inside.grant, inside.size)
        served = self.outward.served(inside, outputs)
        return served if served.rest is None else await served.rest()

    def enter(self, request: InferRequest, caller: Caller) -> Inside:
        """Accept a request, and order its run; raises ServingError."""
        grant = self.identify(caller, request.parameters)
        try:
            return self._accept(grant, request, caller)
        except ServingError as error:
            self.refused(grant, request.model, error, request.request_id)
            raise

    def leave(self, inside: Inside) -> Served:
        """What ``infer`` returns, once the answer is there, or the ``rest`` of the way to it; raises ServingError."""
        self._give_back(inside.grant, inside.size)
        return self.outward.served(inside, inside.answer.result())

    def abandon(self, inside: Inside) -> None:
        """Its client has gone away."""
        self._give_back(inside.grant, inside.size)
        self.pool.cancel(inside.job)
        if inside.job.payload is not None:
            return
        inside.answer.cancel()  # it waits until it is known what its size takes
        if not inside.answer.done() or inside.answer.cancelled():
            gone = Cancelled("the client has gone away")
            self.refused(inside.grant, inside.request.model, gone, inside.request.request_id)

    def _give_back(self, grant: Grant, size: int) -> None:
        self.limits.let_go(grant, size)
        self.limits.exit(grant)

    def _accept(self, grant: Grant, request: InferRequest, caller: Caller) -> Inside:
        """Everything before the dispatcher has it."""
        if why := self.closed:
            raise Unavailable(why, retry_after_s=1.0)
        if not grant.may_use(request.model):  # not even an administrator
            raise self.repository.unknown(grant, request.model)
        entry = self.repository.entry_for(grant, request.model, request.version)
        ports, network = ports_of(entry), self.pool.models[entry.key].network
        if request.names_memory:
            self.neighbour(caller)
        self.limits.check_size(grant, request.tensor_bytes, self.pool.arena.most_bytes)
        inputs: Inputs = {
            t.name: self.regions.tensor(grant.name, t) if isinstance(t.data, SharedRegion) else t.data
            for t in request.inputs
        }
        fit, size = fit_of(request, entry, ports, inputs, self.most_text_bytes), 0
        inputs = as_the_network_has(ports, inputs)
        self.regions.check(grant.name, request)
        for array in inputs.values():
            size += array.nbytes
        self.limits.enter(grant, fit.batch)
        held = 0
        try:
            self.limits.hold(grant, size, self.pool.arena.free_bytes)
            held = size
            job = self._job(grant, request, claim_of(request.parameters, caller.deadline_s), network, fit)
            submit = partial(self._submit, grant, job, inputs, caller.traceparent)
            enter = partial(self._admit, grant, job, submit)
            refused = partial(self.refused, grant, request.model, request=request.request_id)
            answer = self.unsized.answer(Later(grant.name, job, size, enter, refused), enter())
            return Inside(grant, request, size, job, answer, ports)
        except BaseException:
            self._give_back(grant, held)
            raise

    def foresee(self, grant: Grant, request: InferRequest, caller: Caller, fit: Fit) -> None:
        """What its sizes alone say, before its tensors are here; raises ServingError."""
        entry = self.repository.entry_for(grant, request.model, request.version)
        network = self.pool.models[entry.key].network
        claim = claim_of(request.parameters, caller.deadline_s)
        if self.holding.watches(grant, network):
            job = self._job(grant, request, claim, network, fit)
            self.pool.dispatcher.classify(job)
            self.holding.foresee(grant, job)

    def _submit(self, grant: Grant, job: Job, inputs: Inputs, traceparent: str | None) -> Answer:
        if self.tracing is not None:
            self.tracing.begin(job, grant.name, traceparent)
        try:
            return self.pool.submit(job, inputs)
        except BaseException as error:
            full = isinstance(error, ArenaFull)
            if self.tracing is not None:
                reason = Refused.reason if full else getattr(error, "reason", ServingError.reason)
                self.tracing.end(job, reason, self.clock.now_s())
            if full:
                text = f"the server's memory for tensors is full: {error}"
                raise Refused(text, retry_after_s=0.1) from None
            raise

    def _job(self, grant: Grant, request: InferRequest, claim: Claim, network: Network, fit: Fit) -> Job:
        """With the deadline that its client claims, as far as it was granted, and the client's own timeout."""
        now_s = self.clock.now_s()
        due_s = now_s + deadline_s(claim, grant.promise(request.model), self.min_deadline_s)
        return Job(
            self.pairs.number(grant, request.model), network, now_s, due_s, now_s + claim.limit_s, fit.batch,
            group=(network.name, fit.alike), urgency=claim.urgency, sizes=fit.sizes, shapes=fit.shapes,
            request_id=request.request_id, hollow=fit.hollow,
        )  # fmt: skip

    def _admit(self, grant: Grant, job: Job, submit: Callable[[], Answer]) -> Answer | Wait:
        """Refuse at once what cannot be served: no device time, no memory is spent on it. ``Wait``: ask again then."""
        taken_s: float | None = None
        try:
            self.admission.check(job)
            if self.limits.active(grant.name) > grant.max_queue:
                text = f"tenant '{grant.name}' has {grant.max_queue} requests in the queue"
                raise Refused(text, retry_after_s=0.1)
            self.bodies.check_answer(grant.name, self.pool.answers.sizes.get((job.pair, job.cost_row), 0))
            known = self.holding.check(grant, job)
            if known is None:
                if job.later:  # what a few of its rows take is better known than what all do
                    self.admission.check(job)
                taken_s = self.admission.accept(job)
                return submit()
        except BaseException:
            self.admission.turn_away(job, taken_s)
            self.holding.retired(grant.name, job, answered=False)
            raise
        self.admission.turn_away(job)
        return Wait(known)

    def refused(self, grant: Grant, model: str, error: ServingError, request: str = "") -> None:
        """Count a request that was not accepted: a name that no network has must not become a label."""
        self.note(grant.name, model, request, error.reason)
        self.books.refused(grant.name, self.repository.key(model), error.reason)

    def _retired(self, job: Job, outcome: str) -> Unavailable | None:
        """Before its answer leaves: what must survive the server; the rest when there is time. Why it cannot leave."""
        agreement, now_s = self.pool.dispatcher.agreements[job.pair], self.clock.now_s()
        retired = retired_from(job, agreement.tenant, agreement.model, outcome, now_s)
        for pair in self.admission.retired(job, answered=retired.answered):
            self.pool.dispatcher.missed(pair)
        self.holding.retired(agreement.tenant, job, answered=retired.answered)
        if outcome in IN_VAIN and self.holding.in_vain(agreement.tenant, job):
            self.pool.give_up(job, self.holding.vain.why(agreement.tenant, job))
        elif outcome == Refused.reason:  # its answer: those of others like it would not have room either
            self.pool.give_up(job, Refused(NO_ROOM.format(agreement.tenant), retry_after_s=AGAIN_S))
        wall_s = time.time()
        if self.ledger is not None:
            retired = self.ledger.record(retired, wall_s)
        else:
            self.limits.today.add(agreement.tenant, job.attained_s, wall_s)
        self.note(agreement.tenant, agreement.model, job.request_id, retired.outcome, retired.response_s)
        if self.tracing is not None:
            self.tracing.end(job, retired.outcome, now_s)
        self.books.retired(retired, now_s, wall_s)
        return None if retired.outcome == outcome else Unavailable(UNWRITTEN, retry_after_s=1.0)

    def _ran(self, device: int, job: Job, span_s: tuple[float, float], preempted: bool) -> None:
        agreement, (start_s, end_s) = self.pool.dispatcher.agreements[job.pair], span_s
        if self.tracing is not None:
            spec = self.pool.devices[device].spec
            self.tracing.ran(spec.name, [job, *job.together], start_s, end_s, preempted)
        self.holding.ran(agreement.tenant, job, min(end_s - start_s, job.own_s))
        self.books.ran(Run(device, agreement.tenant, agreement.model, start_s, end_s, preempted))
