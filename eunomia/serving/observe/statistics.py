"""The statistics extension: counts and times of each network, in Triton's shape."""

from __future__ import annotations

from dataclasses import dataclass, field

from eunomia.core.data import Json
from eunomia.serving.models.entry import named
from eunomia.serving.observe.retired import Retired

NANOSECONDS = 1e9
KINDS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")


@dataclass
class _Sum:
    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.seconds += seconds

    def join(self, other: _Sum) -> None:
        """Those of another sum, too."""
        self.count += other.count
        self.seconds += other.seconds

    def content(self) -> dict[str, int]:
        """In the protocol's words."""
        return {"count": self.count, "ns": int(self.seconds * NANOSECONDS)}


@dataclass
class ModelStatistics:
    """Of one network and tenant since the server started."""

    inferences: int = 0
    executions: int = 0
    last_ms: int = 0
    sums: dict[str, _Sum] = field(default_factory=lambda: {name: _Sum() for name in KINDS})

    def retired(self, request: Retired, wall_s: float) -> None:
        """Count one request."""
        self.last_ms = int(wall_s * 1e3)
        if not request.answered:
            self.sums["fail"].add(request.response_s)
            return
        self.inferences += request.batch
        self.executions += 1
        self.sums["success"].add(request.response_s)
        self.sums["queue"].add(request.queue_s)
        self.sums["compute_input"].add(0.0)  # devices read tensors where they lie: part of the queue's time
        self.sums["compute_infer"].add(request.service_s)
        self.sums["compute_output"].add(request.answer_s)

    def refused(self) -> None:
        """Count one that was not accepted: it has failed, in no time."""
        self.sums["fail"].add(0.0)

    def join(self, other: ModelStatistics) -> None:
        """Those of another tenant, too."""
        self.inferences += other.inferences
        self.executions += other.executions
        self.last_ms = max(self.last_ms, other.last_ms)
        for kind, total in self.sums.items():
            total.join(other.sums[kind])

    def content(self, key: str) -> Json:
        """In the protocol's words."""
        name, version = named(key)
        none = {"count": 0, "ns": 0}
        return {
            "name": name,
            "version": version,
            "last_inference": self.last_ms,
            "inference_count": self.inferences,
            "execution_count": self.executions,
            "batch_stats": [],
            "inference_stats": {
                **{key: total.content() for key, total in self.sums.items()},
                "cache_hit": none,
                "cache_miss": none,
            },
        }
