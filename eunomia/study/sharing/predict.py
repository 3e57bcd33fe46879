"""Errors of interference predictors on jobs that they have never seen, and how fast the online one learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.metrics.metric import Metric
from eunomia.sharing.interference import BACK_ENDS, BY_TREES, Completed, CoRun, Online, Predictor, predictor
from eunomia.study.cluster.worlds import Figures, Worlds

METRICS = {
    "error": Metric("mean relative error of the slowdown", "error", "share", "lower"),
    "rank": Metric("rank correlation with the measured slowdown", "rank corr.", "ratio", "higher"),
}
STEPS = (0, 5, 10, 25, 50)
MOST_TESTED = 25  # co-runs of an unseen job that are kept for the test of the online predictor
ONLINE_METRICS = {
    f"after_{n}": Metric(f"error after {n} observed co-runs", f"after {n}", "share", "lower") for n in STEPS
}


@dataclass(frozen=True)
class Evidence:
    """What was measured, and what is known of the jobs."""

    rows: Sequence[CoRun]
    features: Mapping[str, Floats] | None = None
    utilisation: Mapping[str, float] | None = None
    kinds: Mapping[str, Floats] = field(default_factory=dict)

    def back_ends(self) -> list[str]:
        """Those for which everything is known."""
        lacks = set() if self.features else {"linear", *BY_TREES}
        lacks |= set() if find_spec("sklearn") else set(BY_TREES)
        lacks |= set() if self.utilisation else {"utilisation_sum"}
        return [name for name in BACK_ENDS if name not in lacks and name != "online"]

    def fitted(self, name: str, rows: Sequence[CoRun]) -> Predictor:
        """A back end that has seen these rows."""
        made = predictor(name, self.features, self.utilisation, self.kinds)
        made.fit(rows)
        return made

    def jobs(self) -> list[str]:
        """All targets; ConfigError if leaving one out leaves nothing."""
        names = sorted({row.target for row in self.rows})
        if len(names) < 3:
            raise ConfigError(f"co-runs of {len(names)} jobs; leaving one out needs at least 3")
        return names


def leave_one_job_out(evidence: Evidence) -> Worlds:
    """Each job in turn is unknown, as target and as neighbour; one figure per job, like a seed."""
    jobs = evidence.jobs()
    figures: dict[str, list[Figures]] = {name: [] for name in evidence.back_ends()}
    for job in jobs:
        known = [row for row in evidence.rows if job not in (row.target, *row.neighbours)]
        asked = [row for row in evidence.rows if row.target == job]
        for name in figures:
            figures[name].append(errors_of(evidence.fitted(name, known), asked))
    found = {name: tuple(runs) for name, runs in figures.items()}
    return Worlds("interference, unseen jobs", tuple(range(len(jobs))), found, "error", METRICS)


def learn_online(evidence: Evidence, bases: Sequence[str] = ("mean", "factorised"), seed: int = 0) -> Worlds:
    """Error on co-runs of an unseen job that are never shown, after some of its others were observed.

    The first row learns nothing. Jobs with too few co-runs are left out.
    """
    names = [*(f"online, {base}" for base in bases), "completed"]
    figures: dict[str, list[Figures]] = {name: [] for name in (bases[0], *names)}
    for number, job in enumerate(evidence.jobs()):
        known = [row for row in evidence.rows if job not in (row.target, *row.neighbours)]
        mine = [row for row in evidence.rows if row.target == job]
        order = np.random.default_rng([seed, number]).permutation(len(mine)).tolist()
        tested = [mine[i] for i in order[: min(MOST_TESTED, len(mine) // 2)]]
        stream = [mine[i] for i in order[len(tested) :]]
        if not tested or len(stream) < STEPS[1]:
            continue
        models: dict[str, Online | Completed] = {
            f"online, {base}": Online(evidence.fitted(base, known)) for base in bases
        }
        models["completed"] = Completed()
        models["completed"].fit(known)
        fixed = errors_of(evidence.fitted(bases[0], known), tested)["error"]
        figures[bases[0]].append({f"after_{n}": fixed for n in STEPS})
        for name, model in models.items():
            figures[name].append(_learning(model, stream, tested))
    runs = {name: tuple(found) for name, found in figures.items()}
    tried = len(runs[bases[0]])
    if not tried:
        raise ConfigError(f"no job has {2 * STEPS[1]} co-runs; the online predictor cannot be tested")
    return Worlds(
        "interference, learned online", tuple(range(tried)), runs, f"after_{STEPS[-1]}", ONLINE_METRICS
    )


def _learning(model: Online | Completed, stream: Sequence[CoRun], tested: Sequence[CoRun]) -> Figures:
    """Errors after each step of the stream, which starts anew where it ends."""
    found, shown = {}, 0
    for step in STEPS:
        for i in range(shown, step):
            model.observe(stream[i % len(stream)])
        shown = step
        found[f"after_{step}"] = errors_of(model, tested)["error"]
    return found


def errors_of(model: Predictor, rows: Sequence[CoRun]) -> Figures:
    """Mean |predicted / measured - 1|, and rank correlation (0 for a constant prediction)."""
    guess = np.array([model.predict(row.target, row.neighbours, row.kind)[0] for row in rows])
    truth = np.array([row.slowdown for row in rows])
    ranks = [np.argsort(np.argsort(values)).astype(float) for values in (guess, truth)]
    constant = np.ptp(guess) < 1e-12 or len(rows) < 2
    return {
        "error": float(np.mean(np.abs(guess / truth - 1.0))),
        "rank": 0.0 if constant else float(np.corrcoef(ranks)[0, 1]),
    }
