"""A comparison of cluster policies; seeds that draw nothing are one sample, whatever their number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from eunomia.config.cluster import ClusterConfig
from eunomia.metrics.cluster import nothing_drawn
from eunomia.metrics.statistics import Estimate
from eunomia.report.cluster.verdict import drawn_note
from eunomia.study.compare import CompareResult


@dataclass(frozen=True, repr=False, kw_only=True)
class ClusterComparison(CompareResult[ClusterConfig]):
    """Metrics of every allocator on every seed."""

    @cached_property
    def alike(self) -> list[str]:
        """The policies of which all seeds gave the same, so that no interval can be had from them."""
        each = {p: [found for (name, _), found in self.metrics.items() if name == p] for p in self.policies}
        return [policy for policy, seeds in each.items() if nothing_drawn(seeds)]

    def estimate(self, policy: str, metric: str) -> Estimate:
        """Mean over seeds with its 95 % interval; without one where the seeds draw nothing."""
        found = super().estimate(policy, metric)
        return found.alone if policy in self.alike else found

    def difference(self, policy: str, rival: str, metric: str) -> Estimate:
        """Mean of policy - rival over the same seeds; without an interval where they draw nothing for both."""
        found = super().difference(policy, rival, metric)
        return found.alone if {policy, rival} <= set(self.alike) else found

    def samples(self) -> list[str]:
        """How many samples stand behind the numbers; of which policies they are one."""
        said = super().samples()
        if not self.alike:
            return said
        note = drawn_note(len(self.seeds), self.alike, len(self.finished))
        return [note] if len(self.alike) == len(self.finished) else [*said, note]
