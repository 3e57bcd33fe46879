"""Published workload sets: MoCA's and AuRORA's light, heavy and mixed.

Draw weights, caps, base deadlines and priorities are those of the artifacts. Which of AuRORA's sets
holds which of its three added models is not known to us; ours: BERT-small and ResNet-18 are light,
BERT-base is heavy, mixed holds all (deviation). Its cap is a range, about 0.75..0.94; ours is 0.85.
"""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.core.errors import UnknownNameError
from eunomia.workload.deadlines import TABLES, DeadlineRule, Level, Qos, QosIsolated
from eunomia.workload.paced import AuroraStreams, MocaStreams
from eunomia.workload.processes import Arrivals
from eunomia.workload.stream import Draw, PriorityLevels, Stream
from eunomia.workload.tenant import Agreement, Slo

MOCA_PRIORITIES = PriorityLevels((0, 1, 2, 4, 6, 8, 9, 11), (15, 18, 10, 15, 15, 15, 10, 10))  # scale 0..11


@dataclass(frozen=True, slots=True)
class WorkloadSet:
    """A named mix: (model, draw weight) pairs, the cap that paces its streams, its deadline table."""

    name: str
    models: tuple[tuple[str, float], ...]
    cap: float
    table: str  # of base deadlines and QoS multipliers, see deadlines.TABLES
    priorities: PriorityLevels | None = None  # None: not stated, all requests alike

    @property
    def source(self) -> str:
        """Where the figures come from."""
        return TABLES[self.table].source

    def paced(self, limit: int | None = None) -> MocaStreams | AuroraStreams:
        """The artifact's own arrivals: four streams, paced by isolated times (runs of 200-250 requests)."""
        if self.table == "moca":
            return MocaStreams(self.cap, limit=limit)
        return AuroraStreams(self.cap, limit=limit)

    def draws(
        self, tenant: str, level: Level = "m", slo: Slo | None = None, alpha: float | None = None
    ) -> tuple[Draw, ...]:
        """The models with their weights and deadlines, for one tenant.

        Deadlines are the published ones times the level; with ``alpha``, level * alpha * isolated time.
        """
        rule: DeadlineRule = Qos(level, self.table)
        if alpha is not None:
            rule = QosIsolated(level, alpha, self.table)
        return tuple(Draw(Agreement(tenant, model, slo), weight, rule) for model, weight in self.models)

    def stream(
        self,
        tenant: str,
        level: Level = "m",
        slo: Slo | None = None,
        alpha: float | None = None,
        arrivals: Arrivals | None = None,
        limit: int | None = None,
    ) -> Stream:
        """A stream of this set.

        ``arrivals`` defaults to the artifact's own pacing, cut at ``limit`` requests.
        """
        process = self.paced(limit) if arrivals is None else arrivals
        return Stream(self.draws(tenant, level, slo, alpha), process, priorities=self.priorities)


_MOCA_LIGHT = (("squeezenet", 30.0), ("kws-res8", 21.0), ("yolo-lite", 25.0))
_MOCA_HEAVY = (("resnet50", 12.0), ("alexnet", 18.0), ("googlenet", 16.0), ("yolov2", 18.0))
_AURORA_LIGHT = tuple((m, 1.0) for m in ("squeezenet", "kws-res8", "yolo-lite", "bert-small", "resnet18"))
_AURORA_HEAVY = tuple((m, 1.0) for m in ("resnet50", "alexnet", "googlenet", "yolov2", "bert-base"))
_AURORA_CAP = 0.85

SETS: dict[str, WorkloadSet] = {
    made.name: made
    for made in (
        WorkloadSet("moca-light", _MOCA_LIGHT, 0.92, "moca", MOCA_PRIORITIES),
        WorkloadSet("moca-heavy", _MOCA_HEAVY, 1.42, "moca", MOCA_PRIORITIES),
        WorkloadSet("moca-mixed", _MOCA_LIGHT + _MOCA_HEAVY, 1.22, "moca", MOCA_PRIORITIES),
        WorkloadSet("aurora-light", _AURORA_LIGHT, _AURORA_CAP, "aurora"),
        WorkloadSet("aurora-heavy", _AURORA_HEAVY, _AURORA_CAP, "aurora"),
        WorkloadSet("aurora-mixed", _AURORA_LIGHT + _AURORA_HEAVY, _AURORA_CAP, "aurora"),
    )
}


def workload_set(name: str) -> WorkloadSet:
    """A published set by name; raises UnknownNameError."""
    if name not in SETS:
        raise UnknownNameError("workload set", name, SETS)
    return SETS[name]
