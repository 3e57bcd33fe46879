"""The realistic mode with hyperparameter searches that stop trials while they run."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from eunomia.cluster.engine import Engine
from eunomia.cluster.live_search import REACHED, LiveSearch, Mask
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.problem import ClusterProblem
from eunomia.cluster.realistic_mode import RealisticMode
from eunomia.cluster.simulate import ClusterRun
from eunomia.contract.allocation import Allocation, Allocator, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

FULL_LEFT = "full_left"  # steps that a trial's budget leaves: some trial of each search runs them all


@dataclass(frozen=True, eq=False)
class TunedRun:
    """A run, which of its jobs the search ended, and how many steps each job did."""

    run: ClusterRun
    stopped: Mask  # (N,)
    steps_done: Floats  # (N,)


def simulate_tuned(
    problem: ClusterProblem,
    allocator: Allocator,
    search: LiveSearch,
    options: SimulationOptions | None = None,
    name: str = "policy",
) -> TunedRun:
    """As :func:`simulate_cluster`, with jobs' full budgets as ``total_steps`` and a search that ends some earlier.

    A trial that is stopped counts as finished at that moment: jobs in = finished + unfinished. Policies see the
    expected work left instead of the full budget. Raises ConfigError for modes other than realistic.
    """
    chosen = options or SimulationOptions()
    if chosen.mode != "realistic":
        raise ConfigError(f"searches stop trials in realistic mode only; mode is '{chosen.mode}'")
    began = time.perf_counter()
    search.reset(problem, chosen.seed)
    engine = Engine(problem, Expecting(allocator, search), chosen, name)
    mode = TunedMode(engine, search)
    end_s = mode.run()
    steps = np.where(search.stopped, mode.stopped_after, problem.total_steps - engine.ledger.steps_left)
    run = ClusterRun(
        problem, chosen, name, engine.ledger, engine.recorder, end_s, time.perf_counter() - began
    )
    return TunedRun(run, search.stopped.copy(), steps)


@dataclass
class Expecting:
    """An allocator that sees the steps which trials are expected to run; what their budgets leave is a trait."""

    inner: Allocator
    search: LiveSearch

    @property
    def needs(self) -> Needs:
        """What the allocator asks for."""
        return self.inner.needs

    def reset(self, seed: int) -> None:
        """The allocator forgets."""
        self.inner.reset(seed)

    def allocate(self, view: ClusterView) -> Allocation:
        """The allocator's answer."""
        done = view.steps_done
        left = self.search.expected_left(view.key, done)
        traits = {**view.traits, FULL_LEFT: view.steps_left}
        return self.inner.allocate(replace(view, steps_left=left, total_steps=done + left, traits=traits))


class TunedMode(RealisticMode):
    """Rounds in which trials report at rungs, exactly when they get there, and may be ended by it."""

    def __init__(self, engine: Engine, search: LiveSearch) -> None:
        super().__init__(engine)
        self.search = search
        self.stopped_after = np.zeros(len(engine.problem))

    def _done(self, keys: Ints) -> Floats:
        return np.asarray(self.engine.problem.total_steps[keys] - self.engine.ledger.steps_left[keys])

    def _report_s(self, now_s: float) -> float:
        """When a trial that runs reaches its next rung."""
        keys = self.members
        if not len(keys):
            return np.inf
        left = self.search.until_report(keys, self._done(keys))
        return float((np.maximum(self.ready_s[keys], now_s) + left / self.rate[keys]).min())

    def _next_s(self, now_s: float, limit_s: float) -> float:
        return max(now_s, min(super()._next_s(now_s, limit_s), self._report_s(now_s)))

    def _round_end_s(self, now_s: float) -> float:
        end_s = super()._round_end_s(now_s)
        if not np.isfinite(end_s):
            return end_s
        round_s = self.engine.options.round_s
        rounds = np.ceil(max(self._report_s(now_s) - now_s, 1e-9) / round_s)
        return float(min(end_s, now_s + rounds * round_s))

    def _advance(self, now_s: float, next_s: float) -> bool:
        keys = self.members
        happened = super()._advance(now_s, next_s)
        keys = keys[self.engine.among(keys, self.engine.active)]
        reports = self.search.until_report(keys, self._done(keys) * (1.0 + REACHED)) <= 0.0
        if not reports.any():
            return happened
        hopeless = self.search.review(keys, self._done(keys))
        hopeless = hopeless[self.engine.among(hopeless, self.engine.active)]
        if len(hopeless):
            self._stop(hopeless, next_s)
        return True  # a report changes what is expected, so it is an event

    def _stop(self, keys: Ints, now_s: float) -> None:
        """These trials end here, whether they run or wait."""
        ledger = self.engine.ledger
        self.search.stopped[keys] = True
        self.stopped_after[keys] = self._done(keys)
        runs = self.engine.among(keys, self.members)
        if runs.any():
            self._finish(keys[runs], np.full(int(runs.sum()), now_s))
        waiting = keys[~runs]
        ledger.finish_s[waiting] = now_s
        ledger.close_isolated(waiting)
        self.engine.dismiss(waiting)
        self.queue.leave(waiting)
        ledger.steps_left[keys] = 0.0
        self.changed = True
