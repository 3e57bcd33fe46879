"""What Gavel's policies have in common: the speeds they look at, and how an answer becomes an allocation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np

from eunomia.cluster.shares import isolated_shares, proportional_share
from eunomia.cluster.solver.highs import SolverError
from eunomia.cluster.solver.pop import solve_split
from eunomia.cluster.solver.programme import ShareProgramme, ShareSolution
from eunomia.cluster.solver.solve import DEFAULT, LOST, SOLVERS, solve_shares, warm_up
from eunomia.cluster.solver.warm import WarmStart
from eunomia.contract.allocation import Allocation, ClusterView, Needs, Note, PairShares
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, UnknownNameError

AS_SOLVED = ("simplex", "as_gavel")  # solvers that keep their own choice among optima
LEAST_LEFT_S = 60.0  # nobody finishes sooner than that, as far as a preference goes


@dataclass(frozen=True)
class ProgrammePolicy(ABC):
    """Settings that all programmes share.

    ``aware``: looks at throughputs; otherwise every type counts as one and the same (where the job runs at all).
    ``packed``: jobs may share devices in pairs. ``solver``: see
    :func:`~eunomia.cluster.solver.solve.solve_shares`. ``split``: number of random parts (POP), 1 = exact.
    """

    aware: bool = True
    packed: bool = False
    solver: str = DEFAULT
    split: int = 1
    split_seed: int = 0
    _warm: WarmStart = field(default_factory=WarmStart, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise UnknownNameError("solver", str(self.solver), SOLVERS)
        if self.split < 1:
            raise ConfigError(f"split is {self.split}: a programme is split into 1 part (exact) or more")

    @property
    def needs(self) -> Needs:
        """Pairs if packed; types in random order if agnostic."""
        return Needs(pairs=self.packed, agnostic=not self.aware)

    def reset(self, seed: int) -> None:
        """Forget the last basis, which the simplex method begins with; nothing else is remembered."""
        self._warm.forget()

    def warm_up(self) -> None:
        """Load the solver, so that the first answer is timed like the others."""
        warm_up("simplex" if self.packed and self.solver != "as_gavel" else self.solver)

    def allocate(self, view: ClusterView) -> Allocation:
        """Shares for this moment."""
        if len(view) == 0:
            return Allocation(shares=np.zeros((0, len(view.cluster.types))))
        if self.packed and view.beside is None:
            raise ConfigError("a packed policy needs throughputs of pairs; this table has none")
        able = view.usable.any(axis=1)
        if able.all():
            return self._decided(view)
        return self._without(view, np.flatnonzero(able))

    def _without(self, view: ClusterView, rows: Ints) -> Allocation:
        """Jobs that fit nowhere while devices are down get nothing; the others share what works."""
        waiting = np.setdiff1d(np.arange(len(view)), rows)
        shares, answer = np.zeros(view.throughput.shape), Allocation()
        if len(rows):
            answer = self._decided(view.take(rows))
            assert answer.shares is not None
            shares[rows] = answer.shares
        pairs = answer.pairs
        if pairs is not None:
            pairs = replace(pairs, first=rows[pairs.first], second=rows[pairs.second])
        notes = tuple(
            replace(n, jobs=tuple(rows[list(n.jobs)].tolist())) if n.jobs else n for n in answer.notes
        )
        text = f"{len(waiting)} jobs fit on no type with the devices that work now"
        notes += (Note("info", text, tuple(waiting.tolist())),)
        return replace(answer, shares=shares, pairs=pairs, notes=notes)

    def _decided(self, view: ClusterView) -> Allocation:
        """The policy's answer; isolated shares, and a note that says so, if no solver finds an optimum."""
        try:
            return self.decide(view)
        except SolverError as error:
            shares = np.where(view.usable, isolated_shares(view.capacity, view.scale), 0.0)
            text = f"no solver found an optimum ({error}); isolated shares are used instead"
            return Allocation(shares=shares, notes=(Note("fallback", text),))

    @abstractmethod
    def decide(self, view: ClusterView) -> Allocation:
        """The policy itself; the view holds at least one job, each of which can run somewhere."""

    def speeds(self, view: ClusterView) -> Floats:
        """Steps/s, or 1 where the policy is agnostic; 0 where the job cannot run. Shape (M, J)."""
        runs = view.usable
        return np.where(runs, view.throughput if self.aware else 1.0, 0.0)

    def solve(self, problem: ShareProgramme) -> ShareSolution:
        """Solve as set."""
        return solve_split(problem, self.split, self.split_seed, self.solver, self._warm)

    def solve_sooner(self, problem: ShareProgramme, left_s: Floats | None = None) -> ShareSolution:
        """Solve, then :meth:`sooner`; with pairs the simplex method goes on from the first optimum."""
        if problem.beside is None or self.split > 1 or self.solver in AS_SOLVED:
            return self.sooner(problem, self.solve(problem), left_s)
        return solve_shares(problem, self.solver, warm=self._warm, then=_per_step(problem, left_s))

    def sooner(
        self, problem: ShareProgramme, solved: ShareSolution, left_s: Floats | None = None
    ) -> ShareSolution:
        """Of many optima the one that finishes jobs sooner: most jobs per second, sum_m thr_m / r_m.

        A second programme: every row keeps the level that the first one ``solved``. ``left_s`` (M,) is the time that
        each job needs alone on its fastest type; None: the policy does not know it, all count as if it were the same,
        and the most work per second is done. Jobs that are alike to the first programme count with their mean, so that
        they stay one row. ``simplex`` and ``as_gavel`` keep their own choice.
        """
        if self.solver in AS_SOLVED:
            return solved
        worth = _per_step(problem, left_s)
        floor = problem.floor + problem.rise * solved.level * (1.0 - LOST)
        second = replace(problem, floor=floor, rise=np.zeros(len(worth)), reward=0.0, value=worth)
        try:
            found = self.solve(second)
        except SolverError:  # the floors may lie within rounding of what is feasible
            return solved
        report = replace(solved.report, steps=solved.report.steps + found.report.steps)
        return replace(
            found, level=solved.level, multiplier=solved.multiplier, prices=solved.prices, report=report
        )


def _per_step(problem: ShareProgramme, left_s: Floats | None) -> Floats:
    """(M,) what a step of each row counts, as :meth:`ProgrammePolicy.sooner` says; the same for rows that are alike."""
    per_s = 1.0 / np.maximum(left_s, LEAST_LEFT_S) if left_s is not None else np.ones(len(problem.scale))
    worth = per_s / per_s.mean() / problem.speed.max(axis=1)
    _, group = problem.collapse()
    return np.asarray((np.bincount(group, worth) / np.bincount(group))[group])


def fair_norm(view: ClusterView, speed: Floats) -> Floats:
    """s_m / (w_m thr(m, Xprop)), shape (M,): what turns steps/s into Gavel's normalised throughput."""
    reference = speed @ proportional_share(view.cluster.counts)
    return np.asarray(view.scale / (view.weight * reference))


def as_allocation(
    view: ClusterView, solved: ShareSolution, objective: float | None = None, notes: tuple[Note, ...] = ()
) -> Allocation:
    """Shares, pairs with their speeds, and how the solve went."""
    pairs = None
    if len(solved.pair_first):
        first, second = solved.pair_first, solved.pair_second
        pairs = PairShares(first, second, solved.pair_shares, view.pair_speed(first, second))
    value = solved.report.objective if objective is None else objective
    return Allocation(shares=solved.shares, pairs=pairs, objective=value, notes=solved.report.notes() + notes)
