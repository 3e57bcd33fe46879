"""One decision in plain Python over a View, with any source of corrections: rules or their teacher.

The obvious form that compiled rules are tested against, and the place where training data is noted down: every
question that a pass asks, in the order of asking.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.inference.policies.sharing import PROPORTIONAL, describe_share, lost_work
from eunomia.learning.distill.inputs import NAMES
from eunomia.learning.observation.plain import observe, pair_features
from eunomia.learning.observation.table import JOB
from eunomia.learning.policy.decide import TRIED
from eunomia.learning.policy.formula import GLOBAL_AT, PAIR_AT, SHARE_AT
from eunomia.learning.policy.weights import Weights


class Source(Protocol):
    """Rules, or their teacher."""

    @property
    def heuristic(self) -> Weights:
        """Formula, placement and gate."""

    def correct(self, part: str, inputs: Floats, everyone: Floats, index: int = 0) -> Floats:
        """Added to scores (``order``, all waiting sub-jobs), worth of accelerators (``place``) or the gate (``start``).

        ``inputs`` (n, NAMES), for ``start`` one row: sub-job ``index`` of ``everyone`` with its pair features.
        """


@dataclass
class Log:
    """What one pass asked: ``jobs`` (n, NAMES) with their base scores; per placed sub-job its alternatives; starts."""

    jobs: Floats = field(init=False)
    score: Floats = field(init=False)
    late: Flags = field(init=False)
    places: list[tuple[Floats, Floats]] = field(default_factory=list)  # (k, NAMES), (k,) base worth
    starts: list[tuple[int, Floats, float]] = field(default_factory=list)  # sub-job, (NAMES,), gate - D/B


def decide(view: View, source: Source, log: Log | None = None, way: int = PROPORTIONAL) -> list[Assign]:
    """Answer one View as the compiled pass does (without starvation bound and alarm), noting its questions.

    ``way`` of sharing bandwidth: a place in ``observation.sharing.WAYS``.
    """
    heuristic, bandwidth = source.heuristic, float(view.system["bandwidth_bytes_s"])
    everyone = all_inputs(view)
    base = everyone[:, : len(JOB)] @ heuristic.base
    score = base + source.correct("order", everyone, everyone)
    late = view.ready["late"]
    if log is not None:
        log.jobs, log.score, log.late = everyone, base, late == 1
    busy = view.accelerators["request"] >= 0
    free_s = np.where(busy, view.accelerators["free_in_s"], 0.0)
    lane_demand = np.where(busy, view.accelerators["demand_bytes_s"], 0.0)
    running = float(view.system["demand_bytes_s"])
    answers: list[Assign] = []
    held = 0
    for i in np.lexsort([view.ready["sequence"], -score, late == 1]).tolist():
        if busy.all() or held == TRIED:
            break
        candidates, worth, rows = _alternatives(view, i, free_s, busy, running, heuristic, everyone[i])
        if not len(candidates):
            continue
        if log is not None:
            log.places.append((rows, worth))
        total = worth + source.correct("place", rows, everyone)
        best = np.lexsort([candidates, busy[candidates], -total])[0]
        s = int(candidates[best])
        if busy[s]:
            continue
        margin = heuristic.gate - running / bandwidth
        _price(rows[best], way, lane_demand, float(view.demand_bytes_s[i, s]), bandwidth)
        if log is not None:
            log.starts.append((i, rows[best], margin))
        if margin + source.correct("start", rows[best][None, :], everyone, i)[0] < 0.0 and busy.any():
            held += 1
            continue
        answers.append(view.assign(i, s))
        busy[s], free_s[s], lane_demand[s] = True, view.latency_s[i, s], view.demand_bytes_s[i, s]
        running = float(sum(lane_demand.tolist()))
    return answers


def all_inputs(view: View) -> Floats:
    """(n, NAMES) rows of all waiting sub-jobs; pair and share features are 0."""
    jobs, overall = observe(view)
    rows = np.zeros((len(jobs), len(NAMES)))
    rows[:, : len(JOB)], rows[:, GLOBAL_AT:SHARE_AT] = jobs, overall
    return rows


def _price(row: Floats, way: int, lane_demand: Floats, extra: float, bandwidth: float) -> None:
    """Fill in the share features of a start of demand ``extra``."""
    scratch = np.empty(len(lane_demand) + 1)
    standing = lost_work(way, lane_demand, bandwidth, scratch)
    describe_share(way, lane_demand, standing, extra, bandwidth, scratch, row[SHARE_AT:])


def _alternatives(
    view: View, i: int, free_s: Floats, busy: Flags, running: float, heuristic: Weights, own: Floats
) -> tuple[Ints, Floats, Floats]:
    """Accelerators that may be named, minus finish over least finish on each, and their inputs."""
    bandwidth = float(view.system["bandwidth_bytes_s"])
    c, slow = view.latency_s[i], max(1.0, running / bandwidth)
    finish_s = (free_s + c) * slow
    worth_s = finish_s
    if heuristic.place == "any_idle":
        worth_s = c
    elif heuristic.place == "eft_ca":
        worth_s = free_s * slow + c * np.maximum(1.0, (running + view.demand_bytes_s[i]) / bandwidth)
    never = busy if heuristic.place == "any_idle" else np.zeros_like(busy)
    candidates = np.flatnonzero(np.isfinite(c) & ~never)
    if not len(candidates):
        return candidates, np.zeros(0), np.zeros((0, len(own)))
    lanes = view.accelerators.copy()
    lanes["free_in_s"] = free_s
    rows = np.repeat(own[None, :], len(candidates), axis=0)
    rows[:, PAIR_AT:GLOBAL_AT] = pair_features(replace(view, accelerators=lanes), i, running)[candidates]
    return candidates, -worth_s[candidates] / finish_s[np.isfinite(c)].min(), rows
