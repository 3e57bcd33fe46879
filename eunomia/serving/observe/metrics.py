"""Metrics for Prometheus: our own with a capped tenant label, and apart from them Triton's names where they exist."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from eunomia.serving.devices.pool import DevicePool
from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.models.entry import named
from eunomia.serving.observe.front import FrontEnd
from eunomia.serving.observe.retired import Retired
from eunomia.serving.observe.turns import Turns

PAIRS = 100  # of tenant and network, in one turn: they take half a millisecond
MAX_TENANTS = 100  # labels; further tenants are counted under "other"
NO_MODEL = "(unknown)"  # label of all requests for networks that do not exist
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class _Answered(NamedTuple):
    """What an answer moves."""

    seconds: Histogram
    queue: Histogram
    success: Gauge
    inferences: Gauge
    executed: Gauge
    total_us: Gauge
    queue_us: Gauge
    infer_us: Gauge


class _Moved(NamedTuple):
    """What a request moves: either ``failed``, or all of ``answered``."""

    requests: Counter
    service: Counter
    failed: Gauge | None
    answered: _Answered | None


class Telemetry:
    """``retired`` after some requests, ``refused`` after each, ``page`` for each scrape."""

    def __init__(self) -> None:
        registry, triton = self._registry, self._triton = CollectorRegistry(), CollectorRegistry()
        self.turns, self.front = Turns(), FrontEnd()
        registry.register(self.turns)
        registry.register(self.front)
        model, both = ["model", "version"], ["tenant", "model"]
        self._tenants: set[str] = set()
        self._counters: dict[tuple[str, str, str, str], _Moved] = {}
        self._refusals: dict[tuple[str, str, str], tuple[Counter, Gauge]] = {}
        self._success = Gauge(
            "nv_inference_request_success", "Requests that were answered", model, registry=triton
        )
        self._failure = Gauge(
            "nv_inference_request_failure",
            "Requests that were not answered",
            [*model, "reason"],
            registry=triton,
        )
        self._count = Gauge(
            "nv_inference_count", "Inferences, each of a batch counted", model, registry=triton
        )
        self._exec = Gauge("nv_inference_exec_count", "Requests executed", model, registry=triton)
        self._durations = {
            name: Gauge(f"nv_inference_{name}_duration_us", f"Sum of {name} times", model, registry=triton)
            for name in ("request", "queue", "compute_infer")
        }
        self._pending = Gauge(
            "nv_inference_pending_request_count", "Requests that wait", model, registry=triton
        )
        self._waiting = Gauge("eunomia_requests_waiting", "Now, of all tenants", model, registry=registry)
        self._requests = Counter(
            "eunomia_requests", "Requests by outcome", [*both, "outcome"], registry=registry
        )
        self._seconds = Histogram(
            "eunomia_request_seconds", "From arrival to answer", both, registry=registry, buckets=SECONDS
        )
        self._queue = Histogram(
            "eunomia_request_queue_seconds", "Until the first block", both, registry=registry, buckets=SECONDS
        )
        self._preemptions = Counter(
            "eunomia_preemptions", "Runs stopped at a block boundary", both, registry=registry
        )
        self._service = Counter(
            "eunomia_tenant_service_seconds", "Device time", ["tenant"], registry=registry
        )
        self._attained = Gauge("eunomia_slo_attainment_ratio", "Measured indicator", both, registry=registry)
        self._target = Gauge("eunomia_slo_target_ratio", "Promised indicator", both, registry=registry)
        self._busy = Gauge("eunomia_device_busy_seconds", "Time spent running", ["device"], registry=registry)
        self._alive = Gauge("eunomia_device_alive", "1 = its process answers", ["device"], registry=registry)
        self._stands_by = Gauge(
            "eunomia_device_stands_by",
            "1 = a process can take its place at once",
            ["device"],
            registry=registry,
        )
        self._restarts = Gauge(
            "eunomia_device_restarts", "Processes lost so far", ["device"], registry=registry
        )
        self._memory = Gauge("eunomia_arena_free_bytes", "Room for tensors", registry=registry)
        self._connections = Gauge("eunomia_http_connections", "Open now", registry=registry)
        self._ended = Gauge(
            "eunomia_http_connections_ended",
            "Cut off by the server, by reason",
            ["reason"],
            registry=registry,
        )
        self._guard = Gauge(
            "eunomia_policy_fallbacks",
            "Answers not used: raised, illegal, held (no start while nothing ran), resting; slow: rests begun",
            ["reason"],
            registry=registry,
        )
        self._replicas = Gauge(
            "eunomia_replicas", "Servers that share the promises, this one included", registry=registry
        )
        self._news = Gauge(
            "eunomia_replicas_news_age_seconds", "Since the others were last read", registry=registry
        )
        self._ledger = Gauge(
            "eunomia_ledger_lines",
            "Of requests, that the disk refuses: waiting in memory (new requests get 503), and lost",
            ["what"],
            registry=registry,
        )
        self._harvest = Gauge(
            "eunomia_harvest",
            "Of tenants who take what others leave: requests taken and refused, room left, what others are to take",
            ["what"],
            registry=registry,
        )
        self._learned = Gauge(
            "eunomia_policy_guards",
            "Decisions of the learned policy in use, and how often each of its guards acted",
            ["what"],
            registry=registry,
        )

    def retired(self, requests: Sequence[Retired]) -> None:
        """Count some requests: each counter is moved once for all that move it."""
        alike: dict[tuple[str, str, str, str], list[Retired]] = {}
        for one in requests:
            alike.setdefault((one.tenant, one.model, one.version, one.outcome), []).append(one)
            if one.preemptions:
                self._preemptions.labels(self._tenant(one.tenant), one.model).inc(one.preemptions)
        for key, some in alike.items():
            counters = self._counters.get(key)
            if counters is None:
                counters = self._counters[key] = self._counters_of(some[0])
            service_s = sum([one.service_s for one in some])
            counters.requests.inc(len(some))
            counters.service.inc(service_s)
            if counters.failed is not None:
                counters.failed.inc(len(some))
            if (moved := counters.answered) is None:
                continue
            for one in some:
                moved.seconds.observe(one.response_s)
                moved.queue.observe(one.queue_s)
            moved.success.inc(len(some))
            moved.inferences.inc(sum([one.batch for one in some]))
            moved.executed.inc(len(some))
            moved.total_us.inc(sum([one.response_s for one in some]) * 1e6)
            moved.queue_us.inc(sum([one.queue_s for one in some]) * 1e6)
            moved.infer_us.inc(service_s * 1e6)

    def refused(self, tenant: str, network: str, reason: str) -> None:
        """Count one request that was not accepted; ``network``: its key, or NO_MODEL."""
        key, (model, version) = (tenant, network, reason), named(network)
        counters = self._refusals.get(key)
        if counters is None:
            counters = self._refusals[key] = (
                self._requests.labels(self._tenant(tenant), model, reason),
                self._failure.labels(model, version, reason),
            )
        for counter in counters:
            counter.inc()

    def _counters_of(self, request: Retired) -> _Moved:
        """What such a request moves, looked up once per tenant, network and outcome; unknown tenants share theirs."""
        tenant, model, version = self._tenant(request.tenant), request.model, request.version
        requests, service = (
            self._requests.labels(tenant, model, request.outcome),
            self._service.labels(tenant),
        )
        if not request.answered:
            return _Moved(requests, service, self._failure.labels(model, version, request.outcome), None)
        answered = _Answered(
            self._seconds.labels(tenant, model),
            self._queue.labels(tenant, model),
            self._success.labels(model, version),
            self._count.labels(model, version),
            self._exec.labels(model, version),
            self._durations["request"].labels(model, version),
            self._durations["queue"].labels(model, version),
            self._durations["compute_infer"].labels(model, version),
        )
        return _Moved(requests, service, None, answered)

    async def page(self, accepts: str = "", *, triton: bool = False) -> tuple[bytes, str]:
        """What a scrape gets, and its type: OpenMetrics, if it accepts that, or Prometheus' text.

        Written beside the event loop: with hundreds of tenants it takes 50 ms.
        """
        try:
            write, kind = choose_encoder(accepts)
        except (TypeError, ValueError):  # a version that is none
            write, kind = choose_encoder("")
        return await asyncio.to_thread(write, self._triton if triton else self._registry), kind

    def show_devices(self, pool: DevicePool, models: Iterable[str], now_s: float) -> None:
        """Set who waits for which of ``models``, and what the devices do."""
        dispatcher = pool.dispatcher
        waiting: dict[str, int] = dict.fromkeys(models, 0)
        for job in dispatcher.waiting.jobs():
            waiting[job.network.name] = waiting.get(job.network.name, 0) + 1
        for model, count in waiting.items():
            for gauge in (self._pending, self._waiting):
                gauge.labels(*named(model)).set(count)
        for device, lane in zip(pool.devices, dispatcher.lanes, strict=True):
            self._busy.labels(device.spec.name).set(lane.busy_s)
            self._alive.labels(device.spec.name).set(lane.alive)
            self._stands_by.labels(device.spec.name).set(device.stands_by)
            self._restarts.labels(device.spec.name).set(max(device.restarts, 0))
        self._memory.set(pool.arena.free_bytes)
        if dispatcher.harvest is not None:
            for what, value in dispatcher.harvest.shown(now_s).items():
                self._harvest.labels(what).set(value)

    async def show_objectives(self, dispatcher: Dispatcher, now_s: float, begin: Callable[[], None]) -> None:
        """Set which are met, some in each turn of the event loop; ``begin``: it has work."""
        pairs = [*zip(dispatcher.agreements, dispatcher.indicators, strict=True)]
        for n, (agreement, indicator) in enumerate(pairs, 1):
            indicator.refresh(now_s)
            if agreement.slo is not None and not math.isnan(indicator.sli):
                labels = self._tenant(agreement.tenant), agreement.model
                self._attained.labels(*labels).set(indicator.sli)
                self._target.labels(*labels).set(agreement.slo.target)
            if n % PAIRS == 0:
                await asyncio.sleep(0)
                begin()

    def show_connections(self, open_now: int, ended: Mapping[str, int]) -> None:
        """Set how many HTTP connections are open, and how many were ended by the server, by reason."""
        self._connections.set(open_now)
        for reason, count in ended.items():
            self._ended.labels(reason).set(count)

    def show_policy(self, fallbacks: Mapping[str, int], counts: Mapping[str, int]) -> None:
        """Set how often its guard took the fallback, by reason, and what a learned one counted; none = it is gone.

        That is: decisions, strange states, alarms, decisions by its base.
        """
        for reason, count in fallbacks.items():
            self._guard.labels(reason).set(count)
        self._learned.clear()
        for what, count in counts.items():
            self._learned.labels(what).set(count)

    def show_replicas(self, count: int, age_s: float) -> None:
        """Set how many servers share the promises, and how old the news of the others is."""
        self._replicas.set(count)
        self._news.set(age_s)

    def show_ledger(self, waiting: int, lost: int) -> None:
        """Set how many lines the disk refuses."""
        self._ledger.labels("waiting").set(waiting)
        self._ledger.labels("lost").set(lost)

    def _tenant(self, name: str) -> str:
        if name not in self._tenants:
            if len(self._tenants) >= MAX_TENANTS:
                return "other"
            self._tenants.add(name)
        return name
