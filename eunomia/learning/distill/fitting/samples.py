"""Training data: what the teacher would add, in states that a driver (teacher or rules) leads to.

Rows are weighted by how much they matter to decisions: in an ordering, the r-th of the teacher counts 1 / (1
+ r); a start counts the more the nearer the teacher's margin is to 0. Orderings and placements compare rows
of one group (one decision) only. So what all rows of a group have in common does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Floats, Ints
from eunomia.inference.policies.sharing import PROPORTIONAL
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.distill.fitting.teacher import ByTeacher, three_digits
from eunomia.learning.distill.inputs import NAMES, PARTS
from eunomia.learning.distill.plain import Log, Source, decide
from eunomia.learning.episodes import Episode
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import WAY

BINS = 32  # thresholds per feature
MOST = 24  # waiting sub-jobs kept of one decision: the teacher's first ones
PLACED = 3  # placements kept of one decision: the first ones
NEAR = 0.1  # margin, as a share of B, at which a start counts half


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of one part: ``inputs`` (n, NAMES), the formula's ``base`` and the teacher's ``target`` (n,)."""

    inputs: Floats
    base: Floats
    target: Floats
    weight: Floats
    group: Ints  # ascending from 0; all 0 apart for starts: every row is a group of its own

    @cached_property
    def bins(self) -> list[tuple[Floats, Ints]]:
        """Per column of ``inputs``: the thresholds that trees may ask for, and the bin of every row."""
        edges = [_edges_of(column) for column in self.inputs.T]
        both = zip(edges, self.inputs.T, strict=True)
        return [(e, np.searchsorted(e, column).astype(np.int64)) for e, column in both]

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.group.max(initial=-1)) + 1


def _edges_of(values: Floats) -> Floats:
    """Thresholds that a tree may ask for: quantiles between which something lies, three digits."""
    quantiles = np.quantile(values, np.linspace(0.0, 1.0, BINS + 1)[1:-1]) if len(values) else np.zeros(0)
    edges = np.unique([three_digits(float(v)) for v in quantiles])
    return edges[(edges < values.max()) & (edges >= values.min())] if len(values) else edges


def no_samples() -> Samples:
    """Nothing."""
    none = np.zeros(0)
    return Samples(np.zeros((0, len(NAMES))), none, none, none, np.zeros(0, np.int64))


def join(parts: Sequence[Samples]) -> Samples:
    """One after another; groups stay apart."""
    firsts = np.cumsum([0, *(part.groups for part in parts)])
    moved = [replace(part, group=part.group + first) for part, first in zip(parts, firsts[:-1], strict=True)]
    return Samples(*(np.concatenate([getattr(part, one.name) for part in moved]) for one in fields(Samples)))


class Recorder:
    """A policy in Python: the driver decides; at a share of decisions the questions are noted down."""

    def __init__(
        self, driver: LearnedPolicy, source: Source, teacher: ByTeacher, share: float, seed: int
    ) -> None:
        self._driver, self._source, self._teacher, self._share = driver, source, teacher, share
        self._rng = np.random.default_rng([seed, 0x7EE])
        self.blocks = driver.blocks
        self._way = PROPORTIONAL
        self.found: dict[str, list[Samples]] = {part: [] for part in PARTS}

    def attach(self, engine: Any) -> Any:
        """A run begins: how is bandwidth shared?"""
        kept = self._driver.attach(engine)
        self._way = int(self._driver.block[WAY])
        return kept

    def __call__(self, view: View) -> list[Assign]:
        """The driver's answer."""
        if len(view) and self._rng.random() < self._share:
            log = Log()
            decide(view, self._source, log, self._way)
            self._note(log)
        return self._driver(view)

    def _note(self, log: Log) -> None:
        order = self.found["order"]
        kept = np.flatnonzero(~log.late)
        if len(kept) > 1:
            target = self._teacher.correct("order", log.jobs, log.jobs)
            kept = kept[np.argsort(-(log.score + target)[kept], kind="stable")][:MOST]
            order.append(_ranked(log.jobs[kept], log.score[kept], target[kept]))
        for rows, worth in log.places[:PLACED]:
            if len(rows) > 1:
                target = self._teacher.correct("place", rows, log.jobs)
                first = np.argsort(-(worth + target), kind="stable")
                self.found["place"].append(_ranked(rows[first], worth[first], target[first]))
        for index, row, margin in log.starts:
            target = self._teacher.correct("start", row[None, :], log.jobs, index)
            weight = 1.0 / (1.0 + ((margin + float(target[0])) / NEAR) ** 2)
            facts = np.array([margin]), target, np.array([weight]), np.zeros(1, np.int64)
            self.found["start"].append(Samples(row[None, :], *facts))


def _ranked(rows: Floats, base: Floats, target: Floats) -> Samples:
    """Rows in the teacher's order, as one group of weight 1."""
    weight = 1.0 / (1.0 + np.arange(len(rows)))
    return Samples(rows, base, target, weight / weight.sum(), np.zeros(len(rows), np.int64))


def collect(
    teacher: ByTeacher,
    driver: LearnedPolicy,
    source: Source,
    episodes: Sequence[Episode],
    share: float,
    seed: int,
) -> dict[str, Samples]:
    """Samples of all parts from closed-loop runs of ``driver``, whose questions ``source`` asks in plain Python."""
    parts: dict[str, list[Samples]] = {part: [no_samples()] for part in PARTS}
    for number, episode in enumerate(episodes):
        recorder = Recorder(driver, source, teacher, share, seed + number)
        simulate_problem(episode.problem, recorder, episode.options)
        for part in PARTS:
            parts[part] += recorder.found[part]
    return {part: join(found) for part, found in parts.items()}
