"""MAGMA online: a genetic search maps the next layers of all live requests, anew whenever a request arrives.

Source: Kao and Krishna, "MAGMA: An Optimization Framework for Mapping Multiple DNNs on Multiple Accelerator
Cores", HPCA 2022, arXiv 2104.13997; code: maestro-project/magma. The search is in genetic.py.

A plan gives each layer an accelerator and a priority. An idle accelerator starts the ready layer of least
priority among its own. A new plan is made for a new request, or when an accelerator is idle and a ready layer
has no plan. Fitness: predicted hits, then makespan [s], under proportional sharing of bandwidth.

``magma_10k``: 10,000 samples per plan, free of charge, an upper bound of what the search could do.
``magma``: as many samples as fit into ``budget_s`` [s] at EVENT_S per job and sample (measured: 0.09 us with
8 accelerators), and no more jobs than it can take LEAST samples of, running ones included: budget_s / (2 EVENT_S), 100
for 20 us. The time is charged to the layers that start with the plan; it never exceeds ``budget_s``. Where
``charge_measured`` is set, measured time is charged instead, in both.

Does badly: bursts of arrivals (every one costs a search); with few samples it is its starting plan, earliest
deadline first, with noise; where the budget pays for hardly more jobs than run, most of what waits has no plan; blind
to requests to come; other ways of sharing than proportional.

Deviations: (1) published for groups of independent jobs known beforehand; here over unfinished layers of live
requests with their dependences, the next ``jobs`` / R of each of the R most urgent requests, hopeless ones last; (2)
the first genomes are not all random: the plan in force, the list schedule by earliest deadline on the fastest idle
accelerator, mutants of the former up to half the population; (3) parents are drawn with a chance linear in their cost;
(4) the population is at most a quarter of the samples; (5) an estimator that learns (``ewma``) is seen as it began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import PolicyError
from eunomia.inference.kernel.setup import STEP, Rules
from eunomia.inference.policies.choosing import gated_name
from eunomia.inference.policies.gathering import Frontier, Gathered, free_jobs, gather
from eunomia.inference.policies.genetic import MUTATION, POPULATION, evolve, first_fit
from eunomia.inference.policies.group import Group
from eunomia.inference.policies.knowledge import Knowledge

EVENT_S = 1e-7  # scheduler time per job and sample
LEAST = 2  # samples: the plan in force and the list schedule
Key = tuple[int, int]  # request, layer


@dataclass
class Magma:
    """A policy that keeps its plan; it is called from Python, its search is compiled."""

    name: str
    samples: int  # most per plan
    budget_s: float  # scheduler time per plan, charged; inf = ``samples`` always, free of charge
    jobs: int  # to map
    gate: float = math.inf
    charge_s: float = 0.0  # of the last answer
    _knowledge: Knowledge | None = None
    _seed: int = 0
    _plans: int = 0
    _plan: dict[Key, tuple[int, float]] = field(default_factory=dict)
    _seen: dict[int, tuple[int, float]] = field(default_factory=dict)  # request -> model, deadline

    @property
    def rules(self) -> Rules:
        """Asked step by step: the plan is kept in Python."""
        return Rules(STEP)

    def prepare(self, knowledge: Knowledge) -> None:
        """Networks and platform: without them the plan ends with the layers that are ready."""
        self._knowledge = knowledge

    def reset(self, seed: int) -> None:
        """Forget all plans."""
        self._seed, self._plans, self.charge_s = seed, 0, 0.0
        self._plan, self._seen = {}, {}

    def __call__(self, view: View) -> list[Assign]:
        """Start what the plan says, after planning anew if need be; at a tick, queue it."""
        self.charge_s = 0.0
        if not len(view):
            return []
        ticks = bool(view.system["period_s"] > 0.0)
        if not ticks and view.system["demand_bytes_s"] > self.gate * view.system["bandwidth_bytes_s"]:
            return []
        requests = view.ready["request"].tolist()
        keys = list(zip(requests, view.ready["layer"].tolist(), strict=True))
        newcomers = not self._seen.keys() >= set(requests)
        if newcomers or ticks:
            self._make_plan(view)
        if ticks:
            return self._queue(view, keys)
        answer = self._start(view, keys)
        if not answer and not newcomers and not self._plan.keys() >= set(keys):
            self._make_plan(view)
            answer = self._start(view, keys)
        return answer

    def _start(self, view: View, keys: list[Key]) -> list[Assign]:
        """The first planned sub-job of every idle accelerator, while the gate is open."""
        first: dict[int, tuple[float, int]] = {}  # accelerator -> priority, row
        for i, key in enumerate(keys):
            s, rank = self._plan.get(key, (-1, 0.0))
            first[s] = min(first.get(s, (math.inf, i)), (rank, i))
        hold = self.gate * float(view.system["bandwidth_bytes_s"])
        demand, answer = float(view.system["demand_bytes_s"]), []
        for s in view.idle.tolist():
            if s in first and demand <= hold:
                answer.append(view.assign(first[s][1], s))
                demand += float(view.demand_bytes_s[first[s][1], s])
        return answer

    def _queue(self, view: View, keys: list[Key]) -> list[Assign]:
        planned = [(i, self._plan.get(key)) for i, key in enumerate(keys)]
        return [view.assign(i, found[0], -found[1]) for i, found in planned if found is not None]

    def _make_plan(self, view: View) -> None:
        order = np.argsort(view.ready["sequence"], kind="stable")
        knowledge = self._knowledge if self._knowledge is not None else _of_view(view, order)
        frontier, requests = self._frontier(view, order)
        jobs = gather(knowledge, frontier, free_jobs(frontier, self.jobs, self._most_jobs))
        group = _group(view, knowledge, jobs, self.gate)
        samples = self._samples(len(jobs.row))
        population = max(2, min(POPULATION, samples // 4))
        layers = jobs.layer if self._knowledge is not None else view.ready["layer"][order[jobs.layer]]
        keys = [(requests[r], int(i)) for r, i in zip(jobs.request, layers, strict=True)][: jobs.genes]
        rng = np.random.default_rng([self._seed, self._plans])
        start = self._first_genomes(group, keys, max(2, population // 2), rng)
        seed = int(rng.integers(0, 2**62))
        found = evolve(group, samples, seed, population, start)
        self._plan = {
            key: (int(s), float(p)) for key, s, p in zip(keys, found.accelerator, found.priority, strict=True)
        }
        self._plans += 1
        if math.isfinite(self.budget_s):
            self.charge_s += samples * len(jobs.row) * EVENT_S

    @property
    def _most_jobs(self) -> int | None:
        """Jobs that the budget can take LEAST samples of; None = no limit."""
        return affordable(self.budget_s) // LEAST if math.isfinite(self.budget_s) else None

    def _samples(self, jobs: int) -> int:
        if not math.isfinite(self.budget_s):
            return self.samples
        return min(self.samples, affordable(self.budget_s) // jobs)

    def _frontier(self, view: View, order: Ints) -> tuple[Frontier, list[int]]:
        """The most urgent requests with their ready and running layers; everything else is forgotten."""
        entries: dict[int, list[tuple[int, int]]] = {}
        seen: dict[int, tuple[int, float]] = {}
        late: set[int] = set()
        ready, blind = view.ready[order], self._knowledge is None
        facts = (ready[name].tolist() for name in ("request", "layer", "model", "deadline_s", "late"))
        for n, (request, layer, model, deadline_s, is_late) in enumerate(zip(*facts, strict=True)):
            entries.setdefault(request, []).append((n if blind else layer, -1))
            seen[request] = (0 if blind else model), deadline_s
            if is_late and view.system["late_last"]:
                late.add(request)
        lanes = zip(view.accelerators["request"].tolist(), view.accelerators["layer"].tolist(), strict=True)
        for s, (request, layer) in enumerate(lanes):
            if request in self._seen and not blind:
                entries.setdefault(request, []).append((layer, s))
                seen.setdefault(request, self._seen[request])
        self._seen = seen
        urgent = sorted(entries, key=lambda r: (r in late, seen[r][1], r))[: self.jobs]
        if self._most_jobs is not None:
            urgent = _within(urgent, entries, self._most_jobs)
        flat = [entry for request in urgent for entry in entries[request]]
        start = np.cumsum([0, *(len(entries[request]) for request in urgent)], dtype=np.int64)
        now_s = view.now_s
        return (
            Frontier(
                start,
                np.array([layer for layer, _ in flat], np.int64),
                np.array([s for _, s in flat], np.int64),
                np.array([seen[request][0] for request in urgent], np.int64),
                np.array([seen[request][1] - now_s for request in urgent]),
            ),
            urgent,
        )

    def _first_genomes(
        self, group: Group, keys: list[Key], count: int, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """The plan in force, the schedule of earliest deadlines, and mutants of the former."""
        lanes, ranks = np.empty((count, group.genes), np.int64), np.empty((count, group.genes))
        lanes[1], ranks[1] = first_fit(group)
        known = [self._plan.get(key) for key in keys]
        lanes[0] = [lanes[1, j] if found is None else found[0] for j, found in enumerate(known)]
        ranks[0] = [ranks[1, j] if found is None else found[1] for j, found in enumerate(known)]
        lanes[2:], ranks[2:] = lanes[0], ranks[0]
        drawn = rng.integers(0, len(group.running), lanes[2:].shape)
        able = np.isfinite(group.latency_s[np.arange(group.genes), drawn])
        lanes[2:] = np.where((rng.random(drawn.shape) < MUTATION) & able, drawn, lanes[2:])
        ranks[2:] = np.where(rng.random(drawn.shape) < MUTATION, rng.random(drawn.shape), ranks[2:])
        return lanes, ranks


def affordable(budget_s: float) -> int:
    """Jobs times samples that ``budget_s`` pays for."""
    return math.floor(budget_s / EVENT_S * (1.0 + 1e-12))  # 100 samples of 2 jobs, not 99, for 20 us


def _within(urgent: list[int], entries: dict[int, list[tuple[int, int]]], limit: int) -> list[int]:
    """The requests, most urgent first, whose ready and running layers, and one free layer of each, fit into ``limit``.

    Those with ready layers come before those that only run. Where the first alone has too many, the last ones of it
    are taken out of ``entries``, running ones first.
    """
    waits = {request: any(s < 0 for _, s in entries[request]) for request in urgent}
    ranked = sorted(urgent, key=lambda request: not waits[request])
    entries[ranked[0]] = sorted(entries[ranked[0]], key=lambda entry: entry[1] >= 0)[:limit]
    kept, total = set(), 0
    for request in ranked:
        total += len(entries[request]) + (not waits[request])
        if total > limit:
            break
        kept.add(request)
    return [request for request in urgent if request in kept]


def _of_view(view: View, order: Ints) -> Knowledge:
    """Each ready layer as a network of one layer: all that is known without ``prepare``."""
    best_s = view.latency_s.min(axis=1)[order]
    after_s = np.maximum(view.ready["path_best_s"][order] - best_s, 0.0)
    rows = np.arange(len(view) + 1)
    return Knowledge(
        np.ascontiguousarray(view.latency_s[order]),
        np.ascontiguousarray(view.demand_bytes_s[order]),
        after_s,
        np.array([0, len(view)]),
        np.zeros(len(rows), np.int64),
        np.empty(0, np.int64),
    )


def _group(view: View, knowledge: Knowledge, jobs: Gathered, gate: float) -> Group:
    running = np.full(len(view.accelerators), -1, np.int64)
    fixed = np.flatnonzero(jobs.lane >= 0)
    running[jobs.lane[fixed]] = fixed
    bandwidth = float(view.system["bandwidth_bytes_s"])
    busy = view.accelerators["request"] >= 0
    return Group(
        np.ascontiguousarray(knowledge.latency_s[jobs.row]),
        np.ascontiguousarray(knowledge.demand_bytes_s[jobs.row]),
        jobs.indegree,
        jobs.successor_start,
        jobs.successor,
        jobs.request,
        jobs.deadline_s,
        running,
        np.where(busy, np.maximum(view.accelerators["free_in_s"], 1e-12), 0.0),
        np.where(busy, view.accelerators["demand_bytes_s"], 0.0),
        bandwidth,
        gate * bandwidth,
        int(jobs.genes),
    )


def magma(budget_s: float = 20e-6, samples: int = 10_000, jobs: int = 100, gate: float = math.inf) -> Magma:
    """Genetic mapping in real time: as much search as fits into its budget, which is charged (MAGMA, HPCA 2022)."""
    _check(budget_s, samples, jobs, gate)
    return Magma(gated_name("magma", gate), samples, budget_s, jobs, gate)


def magma_10k(samples: int = 10_000, jobs: int = 1000, gate: float = math.inf) -> Magma:
    """Genetic mapping with 10,000 samples per plan, free of charge: an upper bound of MAGMA (HPCA 2022)."""
    _check(math.inf, samples, jobs, gate)
    return Magma(gated_name("magma_10k", gate), samples, math.inf, jobs, gate)


def _check(budget_s: float, samples: int, jobs: int, gate: float) -> None:
    if not budget_s > 0.0 or samples < 2 or jobs < 1:
        raise PolicyError(
            f"MAGMA's budget_s {budget_s}, samples {samples}, jobs {jobs}: the budget must be positive, with at "
            "least 2 samples and 1 job"
        )
    if math.isfinite(budget_s) and affordable(budget_s) < LEAST:
        raise PolicyError(
            f"MAGMA's budget_s {budget_s:g} does not pay for {LEAST} samples of a job at {EVENT_S:g} s each: "
            f"give at least {LEAST * EVENT_S:g}"
        )
    if not gate > 0.0:
        raise PolicyError(f"bandwidth gate is {gate}; it must be positive, such as 0.9, or be left out")
