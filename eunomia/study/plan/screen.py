"""Platforms that nobody can run: refuted by what every schedule needs, a clairvoyant one included.

Two conditions, both necessary on the seeds of the search, for any policy:

path  a request whose deadline is shorter than its network's critical path, each layer on the fastest type present,
      is lost; a promise that such losses break is refuted with its tenant.
work  a linear program serves as many of the promised requests as devices and memory have time for, each layer on any
      type, without order or deadlines within a seed. Its multipliers are prices of device time and of bytes. By weak
      duality the same prices bound *every* platform of the catalogue: the bound is linear in the counts. One solved
      program so refutes all platforms below a plane (Benders' cut), and each multiplier's proof is recomputed here
      (``Program.proven``), whatever the solver's tolerance.

Both are monotone: with a platform they refute all that have no more of anything. They are loose where deadlines are
tight, as bursts within a seed are not seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.metrics.bounds.demand import ModelDemand, least_costs, model_demand
from eunomia.metrics.bounds.instance import UNLIMITED
from eunomia.metrics.bounds.program import Builder, Program
from eunomia.metrics.bounds.solver import solve
from eunomia.metrics.bounds.windows import CLOCK, GRACE_S
from eunomia.report.units import span
from eunomia.study.plan.catalogue import Catalogue
from eunomia.study.plan.ground import Ground, needed

MERGE = 0.1  # layers alike to this share count as one group: fewer columns, hardly looser
SURE = 1e-6  # promised shares that a proof must miss


@dataclass(frozen=True)
class Refutation:
    """Why nobody can run a platform: the pair that proves it, and the sentence."""

    pair: int
    sentence: str


@dataclass(frozen=True, eq=False)
class Cut:
    """A bound on the promises that any platform can keep together, in pairs: constant + per . counts + byte B."""

    constant: float
    per: Floats  # (types,)
    per_gb_s: float
    short: int  # the pair that misses most in the program that gave the cut

    def bound(self, counts: Ints, gb_s: Floats) -> Floats:
        """(platforms,) promises that can be kept, at most, of all."""
        return np.asarray(self.constant + counts @ self.per + self.per_gb_s * gb_s)


class Screen:
    """Refutations of a catalogue's platforms, found on demand."""

    def __init__(self, on: Ground, platforms: Catalogue, seeds: Sequence[int], factor: float) -> None:
        self.on, self.platforms = on, platforms
        self.gb_s = np.array(on.gb_s)[platforms.memory]
        self.why: dict[int, Refutation] = {}  # by number of the refutation
        self.by = np.full(
            len(platforms), -1, np.int64
        )  # (platforms,) number of the refutation; -1 = none yet
        tables = [on.requests(seed, factor) for seed in seeds]
        self._measured = [(table, on.measured(table)) for table in tables]
        pairs = len(on.agreements)
        self.asked = np.sum([np.bincount(t.pair[m], minlength=pairs) for t, m in self._measured], axis=0)
        self.needs = needed(self.asked, on.targets)
        self._demands = self._demand(self._latest())
        self._refute_paths()
        self._work = _Work(self)

    def refuted(self, row: int) -> Refutation | None:
        """Why nobody can run this platform; None = no proof. A proof is applied to all platforms at once."""
        if self.by[row] < 0:
            cut = self._work.cut(row)
            if cut is not None:
                self._apply(cut)
        return self.why[int(self.by[row])] if self.by[row] >= 0 else None

    @property
    def open(self) -> Flags:
        """(platforms,) not refuted so far."""
        return np.asarray(self.by < 0)

    def _apply(self, cut: Cut) -> None:
        promised = int((self.needs > 0).sum())
        bound = cut.bound(self.platforms.counts, self.gb_s)
        hit = (self.by < 0) & (bound < promised - SURE)
        if not hit.any():
            return
        agreement = self.on.agreements[cut.short]
        best = float(bound[hit].max())
        share = f"{100.0 * best / promised:.1f} % of the promised work"
        who = f"{agreement.tenant}/{agreement.model}"
        self._note(
            hit, cut.short, f"there is time for at most {share}, whoever schedules; {who} is short first"
        )

    def _note(self, rows: Flags, pair: int, sentence: str) -> None:
        number = len(self.why)
        self.why[number] = Refutation(pair, sentence)
        self.by[rows] = number

    def _latest(self) -> float:
        return max(
            float(
                np.max(
                    t.arrival_s[m] + t.relative_deadline_s[m],
                    initial=0.0,
                    where=np.isfinite(t.relative_deadline_s[m]),
                )
            )
            for t, m in self._measured
        )

    def _demand(self, latest_s: float) -> list[ModelDemand]:
        """Least work of each network on the types of the catalogue."""
        table = self.on.bench.machine.table
        columns = np.array([table.types.index(name) for name in self.on.names], np.int64)
        work_s, volume = least_costs(table, columns, CLOCK * max(1.0, latest_s))
        self._work_s, self.tolerance_s = work_s, CLOCK * max(1.0, latest_s)
        return [
            model_demand(
                model,
                work_s[table.offsets[m] : table.offsets[m + 1]],
                volume[table.offsets[m] : table.offsets[m + 1]],
                segments=1,
                merge=MERGE,
                count_bytes="typed",
            )
            for m, model in enumerate(table.models)
        ]

    def model_of(self) -> list[int]:
        """Index of each pair's network."""
        names = [model.name for model in self.on.bench.machine.table.models]
        return [names.index(agreement.model) for agreement in self.on.agreements]

    def _refute_paths(self) -> None:
        """Platforms whose set of types is too slow for a single request, or cannot run a layer."""
        models = self.model_of()
        present = self.platforms.counts > 0
        sets, which = np.unique(present, axis=0, return_inverse=True)
        for number, types in enumerate(sets):
            path_s = self._paths(types)
            for pair in np.flatnonzero(self.needs > 0):
                possible = sum(
                    int(
                        (
                            table.relative_deadline_s[mine] + GRACE_S + 2 * self.tolerance_s
                            >= path_s[models[pair]]
                        ).sum()
                    )
                    for table, measured in self._measured
                    for mine in [measured & (table.pair == pair)]
                )
                if possible < self.needs[pair]:
                    rows = (which.ravel() == number) & (self.by < 0)
                    self._note(rows, int(pair), self._too_slow(int(pair), path_s[models[pair]], types))
                    break

    def _paths(self, types: Flags) -> list[float]:
        """Critical path of each network with these types; inf = some layer cannot run."""
        table = self.on.bench.machine.table
        best_s = np.where(types[None, :], self._work_s, np.inf).min(axis=1)
        return [
            longest_path(model.predecessors, best_s[table.offsets[m] : table.offsets[m + 1]])
            for m, model in enumerate(table.models)
        ]

    def _too_slow(self, pair: int, path_s: float, types: Flags) -> str:
        agreement = self.on.agreements[pair]
        what = " and ".join(name for name, there in zip(self.on.names, types, strict=True) if there)
        who = f"{agreement.tenant}/{agreement.model}"
        if math.isinf(path_s):
            return f"{who} has a layer that {what} cannot run"
        return f"{who} takes {span(path_s)} on an idle platform of {what}, longer than its deadlines allow"


def longest_path(predecessors: Sequence[Sequence[int]], time_s: Floats) -> float:
    """The longest chain of layers, each after those that it needs."""
    end = np.zeros(len(time_s))
    for layer, before in enumerate(predecessors):
        end[layer] = time_s[layer] + max((end[b] for b in before), default=0.0)
    return float(end.max(initial=0.0))


class _Work:
    """The program of the condition ``work``; only its right sides differ between platforms."""

    def __init__(self, screen: Screen) -> None:
        self.screen, on = screen, screen.on
        self.top_gb_s = float(max(on.gb_s))
        limited = on.bench.machine.contention not in UNLIMITED
        build, pairs = Builder(), np.flatnonzero(screen.needs > 0)
        self.pairs, models = pairs, screen.model_of()
        self.kept = build.columns(np.ones(len(pairs)), 1.0)
        spans = [
            _span_s(table.arrival_s[m], (table.arrival_s + table.relative_deadline_s)[m] + GRACE_S)
            for table, m in screen._measured
        ]
        types = len(on.names)
        self.rows = [build.rows(np.full(types, -np.inf), np.ones(types)) for _ in spans]
        self.memory = build.rows(np.full(len(spans), -np.inf), np.ones(len(spans))) if limited else None
        for column, pair in zip(self.kept, pairs, strict=True):
            demand, need = screen._demands[models[pair]], float(screen.needs[pair])
            groups, kinds = np.nonzero(np.isfinite(demand.work_s))
            tied = build.rows(np.zeros(len(demand.work_s)), np.zeros(len(demand.work_s)))
            build.put(tied, np.full(len(tied), column), -1.0)
            for s, (table, measured) in enumerate(screen._measured):
                there = int((measured & (table.pair == pair)).sum())
                share = build.columns(
                    np.full(len(groups), min(1.0, there / need))
                )  # of the promised requests
                build.put(tied[groups], share, 1.0)
                build.put(self.rows[s][kinds], share, need * demand.work_s[groups, kinds] / spans[s])
                if self.memory is not None:
                    volume = need * demand.dram_bytes[groups, kinds] / (self.top_gb_s * 1e9 * spans[s])
                    build.put(np.full(len(share), self.memory[s]), share, volume)
        self.program = build.program()

    def cut(self, row: int) -> Cut | None:
        """Prices under which this platform cannot keep all promises; None where it has the time."""
        counts = self.screen.platforms.counts[row].astype(np.float64)
        memory = float(self.screen.gb_s[row]) / self.top_gb_s
        program = self._sized(counts, memory)
        solution = solve(program)
        value = program.proven(solution.multipliers)
        if value >= len(self.pairs) - SURE:
            return None
        price = np.maximum(solution.multipliers, 0.0)
        per = np.sum([price[rows] for rows in self.rows], axis=0)
        byte = float(price[self.memory].sum()) if self.memory is not None else 0.0
        kept = solution.x[self.kept] if len(solution.x) else np.zeros(len(self.pairs))
        constant = value - float(counts @ per) - byte * memory
        constant += 1e-9 * (
            abs(value) + float(np.abs(per).sum()) * float(self.screen.platforms.counts.max()) + byte
        )
        return Cut(constant, per, byte / self.top_gb_s, int(self.pairs[int(kept.argmin())]))

    def _sized(self, counts: Floats, memory: float) -> Program:
        high = self.program.row_high.copy()
        for rows in self.rows:
            high[rows] = counts
        if self.memory is not None:
            high[self.memory] = memory
        return Program(
            self.program.gain,
            self.program.low,
            self.program.high,
            self.program.row_low,
            high,
            self.program.start,
            self.program.index,
            self.program.value,
        )


def _span_s(arrival_s: Floats, deadline_s: Floats) -> float:
    """From the first arrival that counts to the last deadline."""
    ends = deadline_s[np.isfinite(deadline_s)]
    if not len(ends):
        return 1.0
    return max(float(ends.max() - arrival_s.min()), 1e-9)
