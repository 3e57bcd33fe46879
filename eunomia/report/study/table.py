"""The numbers of a study and what can be asked of them: means, paired gains, ratios, places in the bracket.

Every run of one replication has the same requests under all policies (common random numbers). So a mean over
several places is one number per replication, and its interval that of the replications.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from eunomia.core.data import Data
from eunomia.metrics.statistics import NO_DATA, Estimate, interval, paired_difference, paired_ratio


@dataclass(frozen=True)
class Where:
    """A place: which grid, and its coordinates."""

    grid: str
    workload: str
    qos: str
    load: float
    bandwidth_gb_s: float
    variation: str = ""

    def __str__(self) -> str:
        changed = f", {self.variation}" if self.variation else ""
        return f"{self.workload}, QoS-{self.qos.upper()}, load {self.load:g}, {self.bandwidth_gb_s:g} GB/s{changed}"


@dataclass(frozen=True)
class Row:
    """One policy at one place. Tuples hold one number per replication; ``hits`` one per window of the bracket."""

    where: Where
    policy: str  # as tables call it
    ran: str  # what was chosen for it, or the same name
    metrics: dict[str, tuple[float, ...]]
    tenants: dict[str, tuple[float, ...]]
    hits: tuple[int, ...] = ()


@dataclass(frozen=True)
class Limits:
    """The bracket of one place: hits of the best schedule found, bound and requests of each window."""

    where: Where
    found: tuple[float, ...]
    bound: tuple[float, ...]
    total: tuple[float, ...]


@dataclass(frozen=True)
class StudyTable:
    """Everything that was measured. The first grid is the main one."""

    name: str
    description: str
    reading: str
    policies: tuple[str, ...]  # in the order of the file
    rivals: dict[str, tuple[str, ...]]  # chosen rows and what they were chosen among
    grids: tuple[str, ...]
    rows: tuple[Row, ...]
    limits: tuple[Limits, ...] = ()
    champion: str | None = None
    claimed: tuple[str, ...] = ()  # over whom the champion's ratio is stated
    claim_grids: tuple[str, ...] = ()  # and on which grids; none = the main one
    facts: Data = field(default_factory=dict)

    @cached_property
    def _found(self) -> dict[tuple[Where, str], Row]:
        return {(row.where, row.policy): row for row in self.rows}

    @cached_property
    def _limits(self) -> dict[Where, Limits]:
        return {limits.where: limits for limits in self.limits}

    def places(self, grid: str | None = None) -> list[Where]:
        """Places of a grid (default: the main one), in the order of the file."""
        wanted = self.grids[0] if grid is None else grid
        return list(dict.fromkeys(row.where for row in self.rows if row.where.grid == wanted))

    def present(self, places: Iterable[Where]) -> list[str]:
        """Policies that ran at all of these places."""
        wanted = list(places)
        return [name for name in self.policies if wanted and all((w, name) in self._found for w in wanted)]

    def row(self, where: Where, policy: str) -> Row | None:
        """What a policy did at a place; None where it did not run."""
        return self._found.get((where, policy))

    def values(self, places: Sequence[Where], policy: str, metric: str) -> list[float]:
        """Mean of a metric over places, one number per replication; nan where a place has none."""
        rows = [self.row(where, policy) for where in places]
        found = [row.metrics[metric] for row in rows if row is not None and metric in row.metrics]
        if not found or len(found) < len(places):
            return []
        return [float(value) for value in np.mean(np.array(found, np.float64), axis=0)]

    def estimate(self, places: Sequence[Where], policy: str, metric: str = "hit_rate") -> Estimate:
        """Mean over places and replications with its interval."""
        return interval(self.values(places, policy, metric))

    def gain(self, places: Sequence[Where], policy: str, rival: str, metric: str = "hit_rate") -> Estimate:
        """Policy minus rival on the same requests, with the paired interval."""
        ours, theirs = self.values(places, policy, metric), self.values(places, rival, metric)
        return paired_difference(ours, theirs) if ours and theirs else NO_DATA

    def ratio(self, where: Where, policy: str, rival: str) -> Estimate:
        """Hit rate of a policy over that of a rival at one place: geometric mean over replications."""
        ours, theirs = self.values([where], policy, "hit_rate"), self.values([where], rival, "hit_rate")
        return paired_ratio(ours, theirs) if ours and theirs else NO_DATA

    def mean_ratio(self, places: Sequence[Where], policy: str, rival: str) -> Estimate:
        """Arithmetic mean over places of the ratio, per replication, with the interval over replications."""
        parts = []
        for where in places:
            ours, theirs = (np.array(self.values([where], name, "hit_rate")) for name in (policy, rival))
            parts.append(ours / np.where(theirs > 0.0, theirs, math.nan))  # there is no ratio to nothing
        return interval(np.mean(parts, axis=0)) if parts else NO_DATA

    def limit(self, where: Where) -> Limits | None:
        """The bracket of a place."""
        return self._limits.get(where)

    def bracketed(self, places: Iterable[Where]) -> list[Where]:
        """Places that have a bracket."""
        return [where for where in places if where in self._limits]

    def of_found(self, places: Sequence[Where], policy: str) -> Estimate:
        """Hits as a share of those of the best schedule found, mean over places, interval over windows."""
        return self._of(places, policy, "found")

    def of_bound(self, places: Sequence[Where], policy: str) -> Estimate:
        """Hits as a share of the bound."""
        return self._of(places, policy, "bound")

    def closed(self, places: Sequence[Where], policy: str, baseline: str) -> float:
        """Share of the gap between a baseline and the best schedule found that a policy closes, all windows "
        "pooled."""
        ours, theirs, best = 0.0, 0.0, 0.0
        for where in places:
            mine, base, limits = self.row(where, policy), self.row(where, baseline), self.limit(where)
            if mine is None or base is None or limits is None:
                return math.nan
            ours, theirs, best = ours + sum(mine.hits), theirs + sum(base.hits), best + sum(limits.found)
        return (ours - theirs) / (best - theirs) if best > theirs else math.nan

    def _of(self, places: Sequence[Where], policy: str, which: str) -> Estimate:
        shares = []
        for where in self.bracketed(places):
            row, limits = self.row(where, policy), self._limits[where]
            if row is None or len(row.hits) != len(limits.found):
                return NO_DATA
            most = np.array(getattr(limits, which), np.float64)
            shares.append(np.array(row.hits) / np.maximum(most, 1.0))
        return interval(np.mean(shares, axis=0)) if shares else NO_DATA

    def ranked(self, places: Sequence[Where], metric: str = "hit_rate", highest: bool = True) -> list[str]:
        """Policies that ran at all places, best mean first."""
        sign = -1.0 if highest else 1.0
        means = {name: self.estimate(places, name, metric).mean for name in self.present(places)}
        return sorted(means, key=lambda name: (math.isnan(means[name]), sign * means[name]))

    def standing(self, places: Sequence[Where], policy: str, rival: str) -> tuple[int, int, int]:
        """At how many places a policy is significantly above, not distinguishable from, or below a rival."""
        gains = [self.gain([where], policy, rival) for where in places]
        above = sum(gain.excludes_zero and gain.mean > 0.0 for gain in gains)
        below = sum(gain.excludes_zero and gain.mean < 0.0 for gain in gains)
        return above, len(gains) - above - below, below
