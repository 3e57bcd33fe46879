"""A comparison of cluster policies; seeds that draw nothing are one sample, whatever their number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from eunomia.config.cluster import ClusterConfig
from eunomia.metrics.cluster import nothing_drawn
from eunomia.metrics.statistics import Estimate, interval, paired_difference
from eunomia.study.compare import CompareResult


@dataclass(frozen=True, repr=False, kw_only=True)
class ClusterComparison(CompareResult[ClusterConfig]):
    """Metrics of every allocator on every seed."""

    @cached_property
    def alike(self) -> bool:
        """Whether all seeds gave the same, so that no interval can be had from them."""
        return nothing_drawn(
            [
                [answer["metrics"] for (name, _), answer in self.answers.items() if name == p]
                for p in self.policies
            ]
        )

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean over seeds with its 95 % interval; without one where the seeds draw nothing."""
        return interval(self.values(policy, metric)[: 1 if self.alike else None])

    def difference(self, policy: str, rival: str, metric: str) -> Estimate:
        """Mean of policy - rival over the same seeds; without an interval where the seeds draw nothing."""
        last = 1 if self.alike else None
        return paired_difference(self.values(policy, metric)[:last], self.values(rival, metric)[:last])

    def footnotes(self) -> list[str]:
        """How many samples stand behind the numbers, and remarks on single runs."""
        said = super().footnotes()
        if not self.alike:
            return said
        return [
            f"{len(self.seeds)} seeds, which draw nothing here: one set of jobs, so no intervals",
            *said[1:],
        ]
