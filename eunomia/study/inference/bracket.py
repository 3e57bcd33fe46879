"""The clairvoyant bracket: best schedule found .. bound that nobody can beat; always shown together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from eunomia.hardware.platform import PlatformLike
from eunomia.hardware.table import CostTable
from eunomia.inference.clairvoyant import Found, SearchOptions, search_schedule
from eunomia.inference.options import EngineOptions
from eunomia.metrics.bounds import Bound, BoundOptions, hit_bound
from eunomia.workload.requests import RequestTable


@dataclass(frozen=True)
class Bracket:
    """The best possible number of hits lies in [found.hits, bound.value]."""

    found: Found
    bound: Bound

    def place(self, hits: float) -> float:
        """Where a policy stands: its hits as a share of the best schedule found; above 1 = it beat the search."""
        return hits / self.found.hits if self.found.hits else 1.0

    def closed(self, hits: float, baseline_hits: float) -> float:
        """Share of the gap between a baseline and the best schedule found that a policy closes; 0 without a gap."""
        gap = self.found.hits - baseline_hits
        return (hits - baseline_hits) / gap if gap > 0.0 else 0.0

    def __str__(self) -> str:
        return (
            f"best schedule found {100.0 * self.found.share:.1f} % .. bound {100.0 * self.bound.share:.1f} % "
            f"of {len(self.found.admitted)} requests"
        )


def bracket(
    requests: RequestTable,
    table: CostTable,
    platform: PlatformLike,
    options: EngineOptions | None = None,
    search: SearchOptions | None = None,
    bounding: BoundOptions | None = None,
) -> Bracket:
    """Search and bound under one set of engine options.

    ``bounding`` says how tightly; contention, bandwidth and horizon are taken from ``options``. Raises what
    ``search_schedule`` and ``hit_bound`` raise.
    """
    options = options or EngineOptions()
    bounded = replace(
        bounding or BoundOptions(), contention=options.contention, horizon_s=options.horizon_s,
        bandwidth_bytes_s=options.bandwidth_bytes_s,
    )  # fmt: skip
    found = search_schedule(requests, table, platform, options, search)
    return Bracket(found, hit_bound(requests, table, platform, bounded))
