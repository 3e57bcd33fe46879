"""A hyperparameter search that stops hopeless trials while they run, as their losses become known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eunomia.cluster.policies.themis.tuner import SuccessiveHalving
from eunomia.cluster.problem import ClusterProblem
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

NOISE_STREAM = 9
REACHED = 1e-6  # a trial that lacks this part of a rung has reached it
Mask = npt.NDArray[np.bool_]


@dataclass
class LiveSearch:
    """Successive halving without waiting: a trial runs on past a rung and is stopped when its fate is certain.

    Apps of several jobs are searches. Loss after k steps: 1 / (a k + b) + c by the traits ``loss_a``,
    ``loss_b``, ``loss_c``; A trial that reaches a rung shows it with a normal error of ``noise``, halved at
    each later rung. Errors are drawn beforehand per trial and rung, so they do not depend on time. At a rung
    that keeps K of its trials, one is hopeless as soon as K others that will surely get there have shown
    less. The same trials survive as if all were compared at each rung (:class:`SuccessiveHalving`); what
    depends on the scheduler is how far the others run before that is known.

    Schedulers see the expected work left: steps up to the next rung, and those behind n further
    rungs with probability eta^-n. Does badly when a scheduler runs the trials of an app one after the other: then
    losers run long before anybody beats them.
    """

    search: SuccessiveHalving = field(default_factory=SuccessiveHalving)
    noise: float = 0.02

    def __post_init__(self) -> None:
        if not self.noise >= 0.0:
            raise ConfigError(f"live search: noise is {self.noise}; an error of losses is 0 or more")

    def reset(self, problem: ClusterProblem, seed: int) -> None:
        """Draw what trials will show; forget all decisions. Raises ConfigError for a trial without a loss curve."""
        p = problem
        apps, self._app, trials = np.unique(p.app, return_inverse=True, return_counts=True)
        self._trials = [np.flatnonzero(self._app == a) for a in range(len(apps))]
        rungs = [self.search.rungs(int(n)) for n in trials]
        self._keeps = [_keeps(int(n), self.search.eta, len(r)) for n, r in zip(trials, rungs, strict=True)]
        most = max(len(r) for r in rungs)
        self._rung = np.full(
            (len(p), most + 1), np.inf
        )  # steps at which a rung is reached; inf = no such rung
        for key, app in enumerate(self._app.tolist()):
            self._rung[key, : len(rungs[app])] = rungs[app] * p.total_steps[key]
        self._will_show = self._losses(p, seed)
        self._shown = np.full(self._rung.shape, np.nan)
        self._next = np.zeros(len(p), np.int64)  # rung that a trial reaches next
        self._total = p.total_steps
        self.stopped = np.zeros(len(p), np.bool_)

    def _losses(self, p: ClusterProblem, seed: int) -> Floats:
        a, b, c = (p.traits.get(f"loss_{name}", np.full(len(p), np.nan)) for name in "abc")
        bare = np.flatnonzero((np.isnan(a) | np.isnan(b)) & np.isfinite(self._rung[:, 0]))
        if len(bare):
            raise ConfigError(
                f"job '{p.jobs[int(bare[0])].job_id}' is a trial of a search and has no loss curve; "
                "give the traits loss_a and loss_b"
            )
        steps = np.where(np.isfinite(self._rung), self._rung, 0.0)
        with np.errstate(divide="ignore"):
            loss = 1.0 / (a[:, None] * steps + b[:, None]) + np.nan_to_num(c)[:, None]
        errors = np.random.default_rng([seed, NOISE_STREAM]).normal(0.0, self.noise, self._rung.shape)
        return np.asarray(loss + errors * 0.5 ** np.arange(self._rung.shape[1]))

    def until_report(self, keys: Ints, done: Floats) -> Floats:
        """(n,) steps until each trial reaches its next rung; inf = it has none."""
        return np.asarray(np.maximum(self._rung[keys, self._next[keys]] - done, 0.0))

    def review(self, keys: Ints, done: Floats) -> Ints:
        """Enter what trials show at rungs they have reached; keys that need not run on and were not stopped."""
        new = np.flatnonzero(self._rung[keys, self._next[keys]] <= done * (1.0 + REACHED))
        for key in keys[new].tolist():
            self._shown[key, self._next[key]] = self._will_show[key, self._next[key]]
            self._next[key] += 1
        hopeless = [self._hopeless(app) for app in np.unique(self._app[keys[new]]).tolist()]
        found = np.concatenate([np.zeros(0, np.int64), *hopeless])
        return np.asarray(found[~self.stopped[found]], np.int64)

    def at_once(self) -> Floats:
        """(N,) part of its budget that each trial would run if all were compared whenever they reach a rung."""
        parts = np.ones(len(self._app))
        for trials in self._trials:
            parts[trials] = self.search.fractions(np.zeros(len(trials)), self._will_show[trials])
        return parts

    def _hopeless(self, app: int) -> Ints:
        """Trials of an app whose fate is certain and bad."""
        trials = self._trials[app]
        sure = np.ones(len(trials), np.bool_)  # will certainly compete at this rung
        out = np.zeros(len(trials), np.bool_)
        compete = len(trials)
        for rung, keep in enumerate(self._keeps[app]):
            shown = self._shown[trials, rung]
            better, worse = _counts(shown, sure)
            out |= better >= keep
            sure = sure & ~np.isnan(shown) & (worse >= compete - keep)
            compete = keep
        return np.asarray(trials[out])

    def expected_left(self, keys: Ints, done: Floats) -> Floats:
        """(n,) steps that trials are expected to run on."""
        end = np.minimum(
            np.where(np.isinf(self._rung[keys]), self._total[keys, None], self._rung[keys]), np.inf
        )
        start = np.concatenate([np.zeros((len(keys), 1)), end[:, :-1]], axis=1)
        length = np.maximum(end - np.maximum(start, done[:, None]), 0.0)
        behind = np.maximum(np.arange(end.shape[1]) - self._next[keys, None], 0)
        return np.asarray((length * float(self.search.eta) ** -behind).sum(axis=1))


def _keeps(trials: int, eta: int, rungs: int) -> list[int]:
    """How many trials each rung keeps."""
    kept = []
    for _ in range(rungs):
        trials = -(-trials // eta)
        kept.append(trials)
    return kept


def _counts(shown: Floats, sure: Mask) -> tuple[Ints, Ints]:
    """For each trial: how many of the ``sure`` ones have shown less, and more; ties go to the earlier trial."""
    order = np.lexsort((np.arange(len(shown)), shown))  # nan last
    rank = np.empty(len(shown), np.int64)
    rank[order] = np.arange(len(shown))
    known = ~np.isnan(shown)
    counted = known & sure
    less = (rank[None, :] < rank[:, None]) & counted[None, :] & known[:, None]
    more = (rank[None, :] > rank[:, None]) & counted[None, :] & known[:, None]
    return less.sum(axis=1), more.sum(axis=1)
