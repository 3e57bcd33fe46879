"""One platform in the simulator: policies raced over seeds, all on the same requests."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.core.data import Data
from eunomia.engines.processes import Cell
from eunomia.engines.store import content_key
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.simulate import simulate_problem
from eunomia.study.files import file_stamps, program_hash
from eunomia.study.inference.policy import resolve_policy
from eunomia.study.plan.ground import ground_of, needed
from eunomia.study.run import blame
from eunomia.workload.requests import RequestTable

UNUSED = ("cli", "report", "serving", "cluster", "sharing")  # packages that no trial depends on


@dataclass(frozen=True)
class Order:
    """What to try. ``race``: a policy that cannot keep its promises any more is stopped, the first that does wins."""

    plan: str  # plan_table as JSON
    counts: tuple[int, ...]
    memory: int
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    factor: float = 1.0  # on all arrival rates
    error: float = 0.0  # of costs; draw k goes with seed k
    slower: float = 1.0  # all run times
    race: bool = True

    def cell(self, name: str) -> Cell:
        """With the hash of all that decides the result."""
        facts = asdict(self)
        identity = {
            "order": facts,
            "program": program_hash(UNUSED),
            "files": file_stamps(json.loads(self.plan)),
        }
        return Cell(content_key(identity), name, self)


@dataclass(frozen=True, eq=False)
class Tally:
    """Hits of a platform under one policy: rows are seeds, columns are pairs."""

    policy: str
    hits: Ints  # (seeds that ran, pairs)
    asked: Ints  # (seeds that ran, pairs)
    energy_j: float  # of layers
    busy: Floats  # (types of the catalogue,) share of time, mean over seeds; 0 where there is none
    saturated: float  # share of time in which the memory was the limit
    duration_s: float  # simulated, all seeds

    def margin(self, targets: Floats) -> float:
        """The worst promise: its hit rate over the seeds minus its target."""
        return float(np.nanmin(self.rates() - targets))

    def rates(self) -> Floats:
        """(pairs,) hit rate over all seeds; 1 where nothing was asked."""
        asked = self.asked.sum(axis=0)
        return np.where(asked > 0, self.hits.sum(axis=0) / np.maximum(asked, 1), 1.0)

    def kept(self, targets: Floats) -> bool:
        """Whether every promise holds over the seeds together."""
        return bool((self.hits.sum(axis=0) >= needed(self.asked.sum(axis=0), targets)).all())

    def worst(self, targets: Floats) -> int:
        """The pair whose promise has the least margin."""
        return int(np.nanargmin(self.rates() - targets))

    @property
    def requests(self) -> int:
        """Measured requests of all seeds."""
        return int(self.asked.sum())


def run_order(order: Order) -> Data:
    """The policy that keeps the promises, or the one that comes nearest: its tally, and how many runs it took."""
    race = _Race(order)
    if not order.race:
        for policy in order.policies:
            race.run(policy, len(order.seeds))
        return race.told(max(order.policies, key=race.slack))
    for policy in order.policies:
        race.run(policy, 1)
    for policy in sorted(order.policies, key=race.slack, reverse=True):
        race.run(policy, len(order.seeds))
        if race.slack(policy) >= 0.0:
            return race.told(policy)
    return race.told(max(order.policies, key=race.slack))


def tally(result: Data) -> Tally:
    """What ``run_order`` found, as arrays."""
    return Tally(
        result["policy"],
        np.array(result["hits"], np.int64),
        np.array(result["asked"], np.int64),
        result["energy_j"],
        np.array(result["busy"]),
        result["saturated"],
        result["duration_s"],
    )


class _Race:
    """Policies by name, and what each did on the first seeds."""

    def __init__(self, order: Order) -> None:
        self.order, self.on = order, ground_of(order.plan)
        self.tables = [self.on.requests(seed, order.factor) for seed in order.seeds]
        self.asked = np.array([self._counts(table, self.on.measured(table)) for table in self.tables])
        self.needs = needed(self.asked.sum(axis=0), self.on.targets)
        self.machine = self.on.machine(order.counts, order.memory)
        self.done: dict[str, list[Data]] = {policy: [] for policy in order.policies}

    def run(self, policy: str, seeds: int) -> None:
        """Go on to so many seeds; in a race no further than the promises can still be kept."""
        while len(self.done[policy]) < seeds and not (self.order.race and self.slack(policy) < 0.0):
            self.done[policy].append(self._simulated(policy, len(self.done[policy])))

    def slack(self, policy: str) -> float:
        """Of the worst promise: misses that are still allowed over all seeds, as a share of its requests."""
        runs, total = self.done[policy], self.asked.sum(axis=0)
        hits = np.sum([run["hits"] for run in runs], axis=0) if runs else 0
        missed = self.asked[: len(runs)].sum(axis=0) - hits
        left = (total - self.needs - missed) / np.maximum(total, 1)
        return float(left[self.needs > 0].min(initial=1.0))

    def told(self, policy: str) -> Data:
        """What is kept of it."""
        runs = self.done[policy]
        return {
            "policy": policy,
            "kept": self.slack(policy) >= 0.0,
            "runs": sum(map(len, self.done.values())),
            "hits": [run["hits"] for run in runs],
            "asked": self.asked[: len(runs)].tolist(),
            "energy_j": sum(run["energy_j"] for run in runs),
            "busy": np.mean([run["busy"] for run in runs], axis=0).tolist(),
            "saturated": float(np.mean([run["saturated"] for run in runs])),
            "duration_s": len(runs) * self.on.measured_s,
        }

    def _simulated(self, policy: str, number: int) -> Data:
        """One policy on one seed."""
        order, table, seed = self.order, self.tables[number], self.order.seeds[number]
        costs = self.on.costs(order.error, seed, order.slower)
        with blame(policy):
            problem = self.on.problem(self.machine, table, costs, seed)
            outcome = simulate_problem(problem, resolve_policy(policy), self.on.options(seed))
        measured = self.on.measured(table)
        busy_s, present = np.zeros(len(order.counts)), np.flatnonzero(order.counts)
        np.add.at(busy_s, present[self.machine.type_of], outcome.busy_s)
        end_s = max(outcome.end_s, 1e-12)
        return {
            "hits": self._counts(table, measured & (outcome.results["outcome"] == HIT)).tolist(),
            "energy_j": float(outcome.results["energy_j"][measured].sum()),
            "busy": (busy_s / end_s / np.maximum(order.counts, 1)).tolist(),
            "saturated": outcome.saturated_s / end_s,
        }

    def _counts(self, table: RequestTable, rows: Flags) -> Ints:
        """(pairs,) how many of these requests each pair has."""
        return np.bincount(table.pair[rows], minlength=len(table.agreements))
