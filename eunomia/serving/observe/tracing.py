"""OpenTelemetry traces of requests, for those who ask: the server by a share, a client by its ``traceparent``.

One span per request covers arrival to answer. Below it are one for the wait and one for every run of blocks
on a device. Spans are handed over in a thread of their own, from a queue that drops when it is full: a slow
or missing collector costs traces and nothing else. With tracing off nothing here is imported or called.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from eunomia.core.errors import ConfigError
from eunomia.serving.dispatch.jobs import Job

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

NANOSECONDS = 1e9
EXPORT_S = 5.0


@dataclass(frozen=True)
class TraceOptions:
    """``endpoint``: where an OTLP collector takes traces over HTTP. ``sample``: share of requests that bring no
    ``traceparent``; one that brings it is traced as its sampled flag says. ``exporter``: in place of OTLP.
    """  # noqa: D205

    endpoint: str = "http://127.0.0.1:4318/v1/traces"
    sample: float = 0.0
    exporter: SpanExporter | None = None


@dataclass
class _Open:
    """A request that is traced, which came at ``arrival_s`` of the server, ``began_ns`` of the system's date.

    ``runs``: (device, start, end, stopped), in server seconds.
    """

    span: Span
    arrival_s: float
    began_ns: int
    runs: list[tuple[str, float, float, bool]] = field(default_factory=list)


class Tracing:
    """Spans of the requests inside; each is ended by its answer. Raises ConfigError without the library."""

    def __init__(self, options: TraceOptions) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise ConfigError(
                f"traces need {error.name}, which is not installed: pip install 'eunomia[tracing]'"
            ) from None
        exporter = options.exporter or _otlp(options.endpoint)
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(options.sample)),
            resource=Resource({"service.name": "eunomia"}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("eunomia.serving")
        self._trace, self._propagator = trace, TraceContextTextMapPropagator()
        self._open: dict[int, _Open] = {}

    def begin(self, job: Job, tenant: str, traceparent: str | None) -> None:
        """A request is accepted."""
        began_ns = time.time_ns()
        parent = self._propagator.extract({"traceparent": traceparent} if traceparent else {})
        span = self._tracer.start_span(
            f"infer {job.network.name}",
            parent,
            self._trace.SpanKind.SERVER,
            {"eunomia.tenant": tenant, "eunomia.model": job.network.name, "eunomia.batch": job.all_rows},
            start_time=began_ns,
        )
        if span.is_recording():
            self._open[job.number] = _Open(span, job.arrival_s, began_ns)

    def ran(self, device: str, jobs: Sequence[Job], start_s: float, end_s: float, stopped: bool) -> None:
        """A device has run blocks of a batch."""
        for job in jobs:
            held = self._open.get(job.number)
            if held is not None:
                held.runs.append((device, start_s, end_s, stopped))

    def end(self, job: Job, outcome: str, now_s: float) -> None:
        """A request has its answer; spans go out."""
        held = self._open.pop(job.number, None)
        if held is None:
            return

        def at(time_s: float) -> int:
            return held.began_ns + int((time_s - held.arrival_s) * NANOSECONDS)

        inside = self._trace.set_span_in_context(held.span)
        started_s = job.start_s if math.isfinite(job.start_s) else now_s
        self._child("wait", inside, at(held.arrival_s), at(started_s), {})
        for device, start_s, end_s, stopped in held.runs:
            facts: dict[str, str | bool] = {"eunomia.device": device, "eunomia.stopped": stopped}
            self._child("run", inside, at(start_s), at(end_s), facts)
        held.span.set_attributes({"eunomia.outcome": outcome, "eunomia.preemptions": job.preemptions})
        if math.isfinite(job.deadline_s):
            held.span.set_attribute("eunomia.deadline_ms", (job.deadline_s - job.arrival_s) * 1e3)
        if outcome not in ("hit", "late"):
            held.span.set_status(self._trace.StatusCode.ERROR, outcome)
        held.span.end(at(now_s))

    def close(self) -> None:
        """Send what is left; may take seconds when the collector does not answer."""
        self._provider.force_flush(int(EXPORT_S * 1e3))
        self._provider.shutdown()

    def _child(
        self, name: str, inside: Context, start: int, end: int, facts: Mapping[str, str | bool]
    ) -> None:
        span = self._tracer.start_span(name, inside, self._trace.SpanKind.INTERNAL, facts, start_time=start)
        span.end(end)


def _otlp(endpoint: str) -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ConfigError(
            f"traces need {error.name}, which is not installed: pip install 'eunomia[tracing]'"
        ) from None
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"the traces' endpoint is '{endpoint}'; it starts with http:// or https://")
    exporter: SpanExporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_S)
    return exporter
