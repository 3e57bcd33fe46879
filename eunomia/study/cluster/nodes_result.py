"""The answer to a plan of nodes: table, sentences, rows, chart."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eunomia.config.cluster_plan import ClusterPlanConfig
from eunomia.core.data import Data
from eunomia.metrics.cluster import CLUSTER_METRICS
from eunomia.report.table import Table
from eunomia.report.units import value_text
from eunomia.study.cluster.nodes_search import Counts
from eunomia.study.result import Result, Row

if TYPE_CHECKING:
    from eunomia.report.charts import Axes


NARROW = "lower most of a [[node]], or bounds.cost"


@dataclass(frozen=True)
class Looked:
    """Sets of nodes within the bounds. ``every``: these are all; else there are more."""

    within: int
    every: bool
    refuted: int


@dataclass(frozen=True)
class Left:
    """Sets cheaper than the answer that nobody tried. ``every``: these are all; else there are more."""

    sets: int
    every: bool


@dataclass(frozen=True)
class Replay:
    """What the best policy makes of the log on a set of nodes."""

    policy: str
    metrics: dict[str, float]
    kept: bool
    short: str  # the promise with the least margin
    margin: float  # of it: 0.1 = a tenth better than promised


@dataclass(frozen=True, repr=False, eq=False)
class NodesResult(Result):
    """The answer; ``counts`` is None where no set of nodes keeps the promises."""

    config: ClusterPlanConfig
    looked: Looked
    left: Left
    counts: Counts | None
    replays: dict[Counts, Replay]
    refuted: dict[Counts, str]
    carried: float = 1.0  # times the jobs per hour that the answer still carries
    hours: float = 0.0
    remarks: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The question and the nodes."""
        return f"{self.config.name}: {'no nodes' if self.counts is None else self.label(self.counts)}"

    def label(self, counts: Counts) -> str:
        """``2 a100 + 3 t4``."""
        return " + ".join(f"{n} {node.type}" for n, node in zip(counts, self.config.node, strict=True) if n)

    def rent(self, counts: Counts) -> float:
        """For the time of the log."""
        return self.hours * rent_per_h(self.config, counts)

    def money(self, counts: Counts) -> str:
        """The rent with its currency."""
        return f"{self.rent(counts):,.6g} {self.config.currency}"

    def table(self, short: bool = False) -> Table:
        """One row per promise: what was promised, what the answer gives."""
        header = ("promise", "promised", "replayed")
        if self.counts is None:
            return Table(header, ())
        found = self.replays[self.counts].metrics
        rows = [
            (
                CLUSTER_METRICS[name].label,
                value_text(CLUSTER_METRICS[name], value),
                value_text(CLUSTER_METRICS[name], found[name]),
            )
            for name, value in self.config.promise.items()
        ]
        return Table(header, tuple(rows))

    def footnotes(self) -> list[str]:
        """How to read it."""
        return [
            f"one log is one sample: rent for {self.hours:,.4g} h, jobs may run on any type",
            *self.remarks,
        ]

    def sentences(self) -> list[str]:
        """The answer in words."""
        missed = sum(not one.kept for one in self.replays.values())
        more = "" if self.looked.every else "more than "
        counted = (
            f"{more}{self.looked.within:,} sets of nodes within the bounds: {more}{self.looked.refuted:,} refuted "
            f"(nobody could), {len(self.replays):,} replayed, of which {missed:,} missed a promise{self._open()}"
        )
        if self.counts is None:
            return [self._nothing(), counted]
        best = self.replays[self.counts]
        said = [
            f"{self.label(self.counts)} under {best.policy} keeps every promise: {self.money(self.counts)}"
        ]
        said += [
            f"{100 * (self.carried - 1):.0f} % more jobs per hour keep them too; {best.short} is nearest to its limit"
        ]
        singles = [counts for counts, one in self.replays.items() if one.kept and sum(map(bool, counts)) == 1]
        if singles:
            least = min(singles, key=self.rent)
            if least != self.counts:
                said.append(f"of one kind: {self.label(least)}, {self.money(least)}")
        return [*said, counted]

    def _open(self) -> str:
        if not self.left.sets and self.left.every:
            return ""
        more = "" if self.left.every else "more than "
        than = "" if self.counts is None else "cheaper "
        if not self.left.sets:
            return f"; further {than}sets were not looked at: {NARROW}"
        return f"; {more}{self.left.sets:,} {than}sets were not tried: raise tries"

    def _nothing(self) -> str:
        every = not self.left.sets and self.left.every
        if not self.replays:
            largest = max(self.refuted, key=self.rent)
            head = "no nodes within the bounds" if every else "none of the sets looked at"
            return f"{head} can keep the promises, not even {self.label(largest)}: {self.refuted[largest]}"
        near = max(self.replays, key=lambda counts: self.replays[counts].margin)
        one = self.replays[near]
        metric = CLUSTER_METRICS[one.short]
        got, asked = (
            value_text(metric, one.metrics[one.short]),
            value_text(metric, self.config.promise[one.short]),
        )
        head = "no nodes within the bounds keep" if every else "none of the sets tried keeps"
        tail = "widen [bounds], or raise most of a [[node]]" if every else "raise tries"
        return (
            f"{head} the promises; nearest are {self.label(near)}: {metric.label} is {got} under {one.policy}, "
            f"{asked} are promised; {tail if self.left.sets or every else NARROW}"
        )

    def rows(self) -> list[Row]:
        """One row per set of nodes that was looked at."""
        found: list[Row] = []
        for counts in sorted(
            {*self.replays, *self.refuted}, key=lambda counts: (self.rent(counts), sum(counts), counts)
        ):
            one, why = self.replays.get(counts), self.refuted.get(counts, "")
            verdict = (
                "refuted"
                if why
                else "answer"
                if counts == self.counts
                else "keeps"
                if one and one.kept
                else "misses"
            )
            promised = {name: one.metrics[name] if one else None for name in self.config.promise}
            found.append(
                {
                    "nodes": self.label(counts),
                    "rent": self.rent(counts),
                    "verdict": verdict,
                    "why": why,
                    "policy": one.policy if one else None,
                    **promised,
                }
            )
        return found

    def csv_text(self) -> str:
        """The rows as CSV."""
        text = io.StringIO()
        rows = self.rows()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def answer(self) -> Data:
        """All of it as plain data."""
        names = [node.type for node in self.config.node]
        return {
            "plan": self.config.name,
            "nodes": None if self.counts is None else dict(zip(names, self.counts, strict=True)),
            "rent": None if self.counts is None else self.rent(self.counts),
            "policy": None if self.counts is None else self.replays[self.counts].policy,
            "said": self.sentences(),
            "carried": self.carried,
            "sets": self.rows(),
        }

    def draw(self, axes: Axes, metric: str | None) -> None:
        """Rent against the first promise, of every set that was replayed."""
        name = metric or next(iter(self.config.promise))
        axes.scatter([self.rent(c) for c in self.replays], [r.metrics[name] for r in self.replays.values()])
        axes.set_xlabel(f"rent, {self.config.currency}")
        axes.set_ylabel(CLUSTER_METRICS[name].label)


def rent_per_h(config: ClusterPlanConfig, counts: Counts) -> float:
    """Of a set of nodes."""
    return sum(n * node.rent_per_h for n, node in zip(counts, config.node, strict=True))
