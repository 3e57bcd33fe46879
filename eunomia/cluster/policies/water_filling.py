"""Water filling: max-min fairness, then the next least, and so on; also over a hierarchy of entities."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eunomia.cluster.policies.programmes import AS_SOLVED, ProgrammePolicy, as_allocation, fair_norm
from eunomia.cluster.solver.programme import Bools, ShareProgramme, ShareSolution, programme
from eunomia.contract.allocation import Allocation, ClusterView, Note
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

SLACK = 1e-8  # a job may lose this part of what it gained in later passes
TIGHT = 1e-6
LEAST = 1e-6  # of what a job would reach alone: less is nothing
SHARING = ("none", "fairness", "fifo")


@dataclass(frozen=True)
class WaterFilling(ProgrammePolicy):
    """Lexicographic max-min of normalised throughput; Gavel, OSDI 2020, section 4.3.

    Each pass raises the level of the jobs that are not saturated; what was gained before is kept. Who is saturated
    then follows from the multipliers: a positive one proves a row tight at every optimum. They sum to 1, so each pass
    saturates somebody; an interior-point solution shows all such rows at once. (Gavel finds them with a mixed-integer
    programme.) Should no multiplier be clear, jobs are tested one by one: can its own term still rise?

    ``within``: how an entity (a tenant) deals its weight to its jobs: ``none`` (jobs' own weights, no entities),
    ``fairness`` (split over its unsaturated jobs by their weights) or ``fifo`` (all to its first unsaturated job).
    Weights then change from pass to pass, so a pass maximises what is added: min (term - gained) / weight.
    Levels say how much time a job gets. An agnostic policy cannot say on which type: as far as room allows, each job's
    time is spread over the types in proportion to their devices (``simplex`` and ``as_gavel`` keep their own choice).
    Needs up to one programme per distinct level: slow with thousands of distinct rows.
    """

    solver: str = "interior_point"  # clear multipliers say who is saturated
    within: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.within not in SHARING:
            raise ConfigError(f"within is '{self.within}'; choose one of: {', '.join(SHARING)}")
        if self.split != 1:
            raise ConfigError("water filling cannot be split: its levels are levels of the whole cluster")

    def decide(self, view: ClusterView) -> Allocation:
        """Objective: the first (least) level."""
        speed = self.speeds(view)
        unweighted = fair_norm(view, speed) * view.weight
        base = programme(
            speed,
            view.scale,
            view.capacity,
            kind=view.row,
            beside=view.beside if self.packed else None,
            reward=1.0,
        )
        size = len(view)
        frozen, gained = (
            np.zeros(size, bool),
            np.zeros(size),
        )  # gained: normalised throughput, weights left out
        levels: list[float] = []
        said: list[str] = []  # why passes were not solved as they should be
        solved: ShareSolution | None = None
        while not frozen.all():
            weight = self._weights(view, frozen)
            rising = ~frozen & (weight > 0.0)
            problem = replace(
                base,
                norm=unweighted,
                rise=np.where(rising, weight, 0.0),
                floor=gained * (1.0 - SLACK),
                rowed=rising | (gained > 0.0),
            )
            # those served last often find nothing left: a vertex shows that, while no interior is left to go through
            by = replace(self, solver="simplex") if levels and self.within == "fifo" else self
            solved = by.solve(problem)
            tight = self._saturated(problem, solved, rising, said)
            keeps = tight if self.within == "none" else rising  # weights that stay: levels count from 0
            gained[keeps] += weight[keeps] * solved.level
            frozen |= tight
            levels.append(solved.level)
            said += [solved.report.fallback] if solved.report.fallback else []
        assert solved is not None
        text = f"{len(levels)} passes, the first level {levels[0]:.6g}, the last {levels[-1]:.6g}"
        notes: tuple[Note, ...] = (Note("info", text),)
        if said:
            notes = (Note("fallback", f"{len(said)} of {len(levels)} passes: {said[0]}"), *notes)
        shares = solved.shares if self.aware or self.solver in AS_SOLVED else spread(view, solved.shares)
        solved = replace(solved, shares=shares, report=replace(solved.report, fallback=""))
        return as_allocation(view, solved, levels[0], notes)

    def _weights(self, view: ClusterView, frozen: Bools) -> Floats:
        """Weight of each job now; 0 = it does not rise in this pass."""
        if self.within == "none":
            return view.weight
        entity = np.asarray(view.tenant_weight)[view.tenant]
        if self.within == "fifo":
            return np.where(_first_of_each(view.tenant, ~frozen), entity, 0.0)
        total = np.bincount(view.tenant, np.where(frozen, 0.0, view.weight), len(view.tenant_weight))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(frozen, 0.0, entity * view.weight / total[view.tenant])

    def _saturated(
        self, problem: ShareProgramme, solved: ShareSolution, rising: Bools, said: list[str]
    ) -> Bools:
        """Rising rows that are tight at every optimum; at least one."""
        target = problem.floor + problem.rise * solved.level
        unit = np.maximum(target, LEAST * problem.norm * problem.speed.max(axis=1))  # where a row got nothing
        slack = (problem.norm * solved.throughput(problem) - target) / unit
        weight = solved.multiplier * problem.rise  # per job; sums to 1 over all rising jobs
        share = weight * rising.sum()
        tight = np.asarray(rising & (share > TIGHT) & (slack < np.maximum(share, TIGHT) * 1e-2))
        if not tight.any():
            near = rising & (slack < 1e-4)
            tight = self._by_trial(problem, target, unit, near if near.any() else rising)
            said.append("no clear multiplier; saturated jobs were found by raising each alone")
        return tight

    def _by_trial(self, problem: ShareProgramme, target: Floats, unit: Floats, near: Bools) -> Bools:
        """Jobs whose term cannot exceed their target while all others keep theirs."""
        tight = np.zeros(len(near), bool)
        for m in np.flatnonzero(near).tolist():
            alone = np.zeros(len(near))
            alone[m] = problem.norm[m]
            trial = replace(
                problem, floor=target * (1.0 - SLACK), rise=np.zeros(len(near)), reward=0.0, value=alone
            )
            reached = problem.norm[m] * float(self.solve(trial).throughput(trial)[m])
            tight[m] = reached <= target[m] + 1e-6 * unit[m]
        return tight if tight.any() else near


def spread(view: ClusterView, shares: Floats) -> Floats:
    """The same time for each job, over types in proportion to their devices as far as there is room for that."""
    room = np.where(view.usable, np.asarray(view.capacity, np.float64), 0.0)
    even = shares.sum(axis=1, keepdims=True) * room / room.sum(axis=1, keepdims=True)
    used, wanted = view.scale @ shares, view.scale @ even
    over = wanted > np.maximum(view.capacity, used)
    part = ((view.capacity - used)[over] / (wanted - used)[over]).min(initial=1.0)
    return np.asarray(shares + max(part, 0.0) * (even - shares))


def _first_of_each(entity: Ints, free: Bools) -> Bools:
    """The first free row of each entity."""
    rows = np.flatnonzero(free)
    _, first = np.unique(entity[rows], return_index=True)
    chosen = np.zeros(len(free), bool)
    chosen[rows[first]] = True
    return chosen
