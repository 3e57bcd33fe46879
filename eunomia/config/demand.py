"""``[[tenant]]``: tenants, their networks, arrivals, deadlines and promises."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from eunomia.config.arrivals import ArrivalsConfig, Count
from eunomia.config.section import FilePath, Name, NameOrFile, NotNegative, Positive, Section, Share, wrong
from eunomia.workload.tenant import SliKind, Slo

INDICATORS: dict[str, tuple[SliKind, float, float]] = {  # key -> kind, to SI units, percentile
    "hit_rate": ("hit_rate", 1.0, 95.0),
    "drop_rate": ("drop_rate", 1.0, 95.0),
    "latency_p50_ms": ("latency_percentile", 1e-3, 50.0),
    "latency_p90_ms": ("latency_percentile", 1e-3, 90.0),
    "latency_p95_ms": ("latency_percentile", 1e-3, 95.0),
    "latency_p99_ms": ("latency_percentile", 1e-3, 99.0),
    "latency_mean_ms": ("latency_mean", 1e-3, 95.0),
    "throughput_per_s": ("throughput", 1.0, 95.0),
}

Qos = Literal["qos_h", "qos_m", "qos_l"]
DEADLINES = ("deadline", "deadline_ms", "deadline_factor")


class SloConfig(Section):
    """A service-level objective: exactly one indicator with its target, and the window it is read over."""

    hit_rate: Share | None = None
    drop_rate: Share | None = None
    latency_p50_ms: Positive | None = None
    latency_p90_ms: Positive | None = None
    latency_p95_ms: Positive | None = None
    latency_p99_ms: Positive | None = None
    latency_mean_ms: Positive | None = None
    throughput_per_s: Positive | None = None
    window_requests: Annotated[int, Field(ge=1, le=10_000)] = 100
    window_s: Positive = 10.0  # used by throughput_per_s alone

    @property
    def indicator(self) -> str:
        """The one key that is given."""
        return next(name for name in INDICATORS if getattr(self, name) is not None)

    @property
    def slo(self) -> Slo:
        """The objective in seconds."""
        kind, scale, percentile = INDICATORS[self.indicator]
        return Slo(
            target=getattr(self, self.indicator) * scale,
            kind=kind,
            percentile=percentile,
            window_requests=self.window_requests,
            window_s=self.window_s,
        )

    @model_validator(mode="after")
    def _one_indicator(self) -> Self:
        given = [name for name in INDICATORS if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(INDICATORS)
            raise wrong(f"an SLO has one indicator, this one has {len(given)}; choose one of: {known}")
        return self


TripCount = Annotated[int, Field(ge=0, le=1_000_000)]


class ModelConfig(Section):
    """A network of a tenant: from the zoo or from an ONNX file, its deadline and its promise."""

    model: NameOrFile | None = None
    onnx: FilePath | None = None
    name: Name | None = None  # what an ONNX network is called; default: the file's name
    batch: Annotated[int, Field(ge=1, le=4096)] | None = (
        None  # inputs per request; ONNX: the free batch dimension
    )
    dims: dict[str, Count] = Field(default_factory=dict)  # ONNX: values of other free dimensions
    branches: dict[str, Literal["then", "else"]] = Field(
        default_factory=dict
    )  # ONNX: what an If runs, by node
    trip_counts: dict[str, TripCount] = Field(default_factory=dict)  # ONNX: how often a Loop runs, by node
    draw: Positive = 1.0  # weight of this network among those of the tenant
    deadline: Qos | None = None
    deadline_set: Literal["moca", "aurora"] = "moca"
    deadline_ms: Positive | None = None
    deadline_factor: Positive | None = None  # times the isolated latency on the best type
    deadline_alpha: Positive | None = None  # with deadline: QoS level times alpha times isolated latency
    slo: SloConfig | None = None
    priority: NotNegative | None = None  # None = the tenant's

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if (self.model is None) == (self.onnx is None):
            raise wrong("give either model = a name in the zoo, or onnx = a file")
        given = [key for key in DEADLINES if getattr(self, key) is not None]
        if len(given) > 1:
            raise wrong(f"{' and '.join(given)} contradict each other; give one, or none for no deadline")
        if self.deadline_alpha is not None and self.deadline is None:
            raise wrong("deadline_alpha needs deadline = a QoS level, which it scales")
        if self.onnx is None and any((self.name, self.dims, self.branches, self.trip_counts)):
            raise wrong(
                "name, dims, branches and trip_counts belong to onnx networks; those of the zoo have fixed shapes"
            )
        return self


class TenantConfig(Section):
    """A tenant: networks, arrivals, and its share of the platform.

    Either ``models`` or a published ``model_set``, which brings draw weights, deadlines, priorities
    and, unless ``arrivals`` says otherwise, its own pacing.
    """

    name: Name
    weight: Positive = 1.0
    priority: NotNegative = 1.0  # higher is more urgent
    models: list[ModelConfig] | None = Field(default=None, min_length=1)
    model_set: Name | None = None  # moca-light, aurora-mixed, ...
    deadline: Qos | None = None  # of a set; None = qos_m
    deadline_alpha: Positive | None = None  # of a set
    slo: SloConfig | None = None  # of a set, for each of its models; or of models that have none of their own
    arrivals: ArrivalsConfig | None = None
    mix: Literal["requests", "work"] = "requests"  # what the draw weights are shares of
    defer_s: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = (
        None  # [shortest, longest] window
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.models is None) == (self.model_set is None):
            raise wrong("give either models = [...], or model_set = a published set of models")
        if self.model_set is None and (self.deadline is not None or self.deadline_alpha is not None):
            raise wrong(
                "deadline and deadline_alpha at tenant level belong to a model_set; put them into models"
            )
        if self.model_set is None and self.arrivals is None:
            raise wrong(
                'arrivals are missing; for example arrivals = { process = "poisson", rate_per_s = 10.0 }'
            )
        if self.defer_s is not None and self.defer_s[1] < self.defer_s[0]:
            raise wrong(f"defer_s is {self.defer_s}; write [shortest, longest] window in seconds")
        return self
