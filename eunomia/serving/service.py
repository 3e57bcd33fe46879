"""What the server does with a request, whichever protocol brought it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from eunomia.core.arrays import Tensor
from eunomia.core.data import Json
from eunomia.serving.devices.answers import Elsewhere, Inputs
from eunomia.serving.devices.arena import ArenaFull
from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.dispatch.clock import Clock
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.shelf import PolicyShelf
from eunomia.serving.fronts.connections import Connections
from eunomia.serving.models.repository import Repository
from eunomia.serving.observe.history import History, Run
from eunomia.serving.observe.ledger import Ledger
from eunomia.serving.observe.metrics import NO_MODEL, Telemetry
from eunomia.serving.observe.recording import Recording
from eunomia.serving.observe.retired import Retired
from eunomia.serving.observe.statistics import ModelStatistics
from eunomia.serving.observe.tracing import Tracing
from eunomia.serving.protocol.checks import check_inputs, check_outputs, duration_s, whole_number
from eunomia.serving.protocol.errors import (
    Forbidden,
    Hopeless,
    Refused,
    ServingError,
    Unauthenticated,
    Unavailable,
)
from eunomia.serving.protocol.infer import InferRequest, InputTensor, SharedRegion
from eunomia.serving.protocol.regions import Regions
from eunomia.serving.tenants.deadlines import Claim, deadline_s
from eunomia.serving.tenants.grants import DEFAULT_TENANT, Directory, Grant
from eunomia.serving.tenants.limits import Limits
from eunomia.workload.tenant import Agreement

MICROSECOND = 1e-6
Answer = asyncio.Future[dict[str, Tensor]]


@dataclass(frozen=True)
class Caller:
    """A caller as a protocol shows it: the API key, names in headers, and the time that is left."""

    key: str | None = None
    fairness_id: str | None = None
    tenant_id: str | None = None
    deadline_s: float = math.inf  # seconds from now, from the transport
    traceparent: str | None = None


@dataclass
class Service:
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
    regions: Regions = field(default_factory=lambda: Regions(offered=False))
    ledger: Ledger | None = None
    fallbacks: Callable[[], Mapping[str, int]] = dict
    guards: Callable[[], Mapping[str, int]] = dict
    policy_name: str = ""
    shelf: PolicyShelf | None = None
    tracing: Tracing | None = None
    connections: Connections | None = None
    history: History = field(default_factory=History)
    recording: Recording = field(default_factory=Recording)
    telemetry: Telemetry = field(default_factory=Telemetry)
    statistics: dict[str, ModelStatistics] = field(default_factory=dict)
    draining: bool = False
    _pairs: dict[tuple[str, str], tuple[int, Grant]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pool.answers.on_retired = self._retired
        self.pool.on_run = self._ran

    @property
    def ready(self) -> bool:
        """Whether requests are welcome: a device lives and every wanted network is loaded."""
        return not self.draining and any(lane.alive for lane in self.pool.dispatcher.lanes)

    async def metrics_page(self) -> bytes:
        """What Prometheus reads: the counters, and how things stand now."""
        ready = [entry.name for entry in self.repository.entries(ready_only=True)]
        self.telemetry.show_devices(self.pool, ready, self.clock.now_s())
        if self.connections is not None:
            self.telemetry.show_connections(len(self.connections), self.connections.ended)
        self.telemetry.show_fallbacks(self.fallbacks())
        self.telemetry.show_guards(self.guards())
        return await self.telemetry.page()

    # --- who asks --------------------------------------------------------------------------------------

    def identify(self, caller: Caller, parameters: Mapping[str, object] | None = None) -> Grant:
        """The caller's grant; raises Unauthenticated."""
        if caller.key is not None:
            grant = self.directory.by_key(caller.key)
            if grant is None:
                raise Unauthenticated("the API key is not valid")
            return grant
        if not self.anonymous:
            raise Unauthenticated("an API key is needed: Authorization: Bearer <key>")
        named = (parameters or {}).get("tenant")
        for name in (
            caller.fairness_id,
            caller.tenant_id,
            named if isinstance(named, str) else None,
            DEFAULT_TENANT,
        ):
            grant = self.directory.by_name(name) if name else None
            if grant is not None:
                return grant
        raise Unauthenticated("no such tenant, and the server has no default tenant")

    def require_admin(self, caller: Caller) -> Grant:
        """For what changes the server: a key with the role, never a name alone. Raises Unauthenticated or Forbidden."""
        if caller.key is None:
            raise Unauthenticated("an administrator's API key is needed: Authorization: Bearer <key>")
        grant = self.identify(caller)
        if grant.role != "admin":
            raise Forbidden(f"tenant '{grant.name}' is no administrator")
        return grant

    def model_statistics(self, grant: Grant, name: str = "", version: str = "") -> list[Json]:
        """Of one network or of all that are ready; raises NotFound."""
        networks = self.repository
        found = (
            [networks.entry_for(grant, name, version)]
            if name
            else networks.entries_for(grant, ready_only=True)
        )
        return [self.statistics.get(e.name, ModelStatistics()).content(e.name) for e in found]

    # --- inference -------------------------------------------------------------------------------------

    async def infer(
        self, request: InferRequest, caller: Caller
    ) -> tuple[dict[str, Tensor], dict[str, SharedRegion]]:
        """All outputs of the network, and those that were put into the client's memory; raises ServingError."""
        grant = self.identify(caller, request.parameters)
        with ExitStack() as held:
            try:
                job, answer = self._accept(grant, request, caller, held)
            except ServingError as error:
                self._refused(grant, request.model, error)
                raise
            try:
                outputs = await asyncio.shield(answer)
            except asyncio.CancelledError:
                self.pool.cancel(job)
                raise
        return outputs, self.regions.write(grant.name, request, outputs)

    def _accept(
        self, grant: Grant, request: InferRequest, caller: Caller, held: ExitStack
    ) -> tuple[Job, Answer]:
        """Everything before the dispatcher has it; ``held``: gives back what counts as long as it is inside."""
        if self.draining:
            raise Unavailable("the server is draining", retry_after_s=1.0)
        if self.ledger is not None and not self.ledger.writable:
            raise Unavailable("usage cannot be written down: the disk refuses", retry_after_s=1.0)
        if not grant.may_use(request.model):  # not even an administrator
            raise self.repository.unknown(grant, request.model)
        ports = self.repository.ports_for(grant, request.model, request.version)
        self.limits.check_size(grant, request.tensor_bytes, self.pool.arena.room_bytes)
        inputs = {t.name: self._array(grant, t) for t in request.inputs}
        batch = check_inputs(request.model, ports, inputs)
        check_outputs(ports, request)
        self.regions.check(grant.name, request)
        size = sum(array.nbytes for array in inputs.values())
        self.limits.enter(grant, batch)
        held.callback(self.limits.exit, grant)
        self.limits.hold(grant, size, self.pool.arena.free_bytes)
        held.callback(self.limits.let_go, grant, size)
        job = self._job(grant, request, caller, inputs, batch)
        self._admit(grant, job)
        if self.tracing is not None:
            self.tracing.begin(job, grant.name, caller.traceparent)
        try:
            return job, self._submit(job, inputs)
        except BaseException as error:
            if self.tracing is not None:
                reason = error.reason if isinstance(error, ServingError) else ServingError.reason
                self.tracing.end(job, reason, self.clock.now_s())
            raise

    def _submit(self, job: Job, inputs: Inputs) -> Answer:
        try:
            return self.pool.submit(job, inputs)
        except ArenaFull as error:
            raise Refused(f"the server's memory for tensors is full: {error}", retry_after_s=0.1) from None

    def _job(
        self,
        grant: Grant,
        request: InferRequest,
        caller: Caller,
        inputs: Inputs,
        batch: int,
    ) -> Job:
        """With the deadline that its client claims, as far as it was granted, and the client's own timeout."""
        now_s = self.clock.now_s()
        network = self.pool.models[request.model].network
        claim = Claim(
            duration_s(request.parameters, "slo_ms", 1e-3),
            duration_s(request.parameters, "timeout", MICROSECOND),
            caller.deadline_s,
        )
        due_s = now_s + deadline_s(claim, grant.promise(request.model), self.min_deadline_s)
        shapes = tuple((name, a.shape[1:]) for name, a in sorted(inputs.items()))
        return Job(
            self._pair(grant, request.model), network, now_s, due_s, now_s + claim.limit_s, batch,
            group=(request.model, shapes), urgency=1.0 / max(whole_number(request.parameters, "priority"), 1),
        )  # fmt: skip

    def _admit(self, grant: Grant, job: Job) -> None:
        """Refuse at once what cannot be served: no device time, no memory is spent on it."""
        best_s = self.pool.costs.rest_s(job.network)[0][0] * job.batch
        if not math.isfinite(best_s):
            raise Unavailable(f"no device can run '{job.network.name}' now", retry_after_s=1.0)
        left_s = min(job.deadline_s, job.hard_timeout_s) - job.arrival_s
        if best_s > left_s:
            what = "timeout" if job.hard_timeout_s < job.deadline_s else "deadline"
            raise Hopeless(
                f"the network alone takes {best_s * 1e3:.1f} ms and the {what} is {left_s * 1e3:.1f} ms away"
            )  # to ask again would not help
        if self.limits.active(grant.name) > grant.max_queue:
            raise Refused(
                f"tenant '{grant.name}' has {grant.max_queue} requests in the queue", retry_after_s=0.1
            )

    def _pair(self, grant: Grant, model: str) -> int:
        """Its number; the dispatcher learns of a new pair, and of what administrators have changed."""
        key = (grant.name, model)
        pair, known = self._pairs.get(key, (-1, None))
        if known is not grant:
            promise, dispatcher = grant.promise(model), self.pool.dispatcher
            slo, priority = (promise.slo, promise.priority) if promise else (None, 1.0)
            agreement = Agreement(grant.name, model, slo, priority, grant.weight)
            if pair < 0:
                pair = dispatcher.add_pair(agreement)
            else:
                dispatcher.change_pair(pair, agreement)
            self._pairs[key] = pair, grant
        return pair

    def _array(self, grant: Grant, tensor: InputTensor) -> Tensor | Elsewhere:
        if isinstance(tensor.data, SharedRegion):
            return self.regions.tensor(grant.name, tensor)
        return tensor.data

    def _refused(self, grant: Grant, model: str, error: ServingError) -> None:
        """Count a request that was not accepted: a name that no network has must not become a label."""
        known = self.repository.has(model)
        self.telemetry.refused(grant.name, model if known else NO_MODEL, error.reason)
        if known:
            self.statistics.setdefault(model, ModelStatistics()).refused()

    def _retired(self, job: Job, outcome: str) -> None:
        agreement, now_s = self.pool.dispatcher.agreements[job.pair], self.clock.now_s()
        queue_s = (job.start_s if math.isfinite(job.start_s) else now_s) - job.arrival_s
        retired = Retired(
            agreement.tenant, agreement.model, outcome, now_s - job.arrival_s, queue_s, job.attained_s,
            job.batch, job.preemptions, job.deadline_s - job.arrival_s, job.reach_s, job.answer_s,
        )  # fmt: skip
        wall_s = time.time()
        if self.ledger is not None:
            self.ledger.record(retired, wall_s)
        if self.tracing is not None:
            self.tracing.end(job, outcome, now_s)
        self.telemetry.retired(retired)
        self.history.retired(retired, now_s)
        self.recording.retired(retired, now_s)
        self.statistics.setdefault(agreement.model, ModelStatistics()).retired(retired, wall_s)

    def _ran(self, device: int, job: Job, span_s: tuple[float, float], preempted: bool) -> None:
        agreement, (start_s, end_s) = self.pool.dispatcher.agreements[job.pair], span_s
        if self.tracing is not None:
            self.tracing.ran(
                self.pool.devices[device].spec.name, [job, *job.together], start_s, end_s, preempted
            )
        self.history.runs.append(Run(device, agreement.tenant, agreement.model, start_s, end_s, preempted))
