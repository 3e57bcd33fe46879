"""Horus and Co-scheML: predicting interference of Gavel's measured pairs, and placing by the prediction.

Parts: unseen (error for unseen pairs, families and device kinds), probes (by the number of a new job's co-runs that
are measured), placement. Needs the shared data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks.cluster.scenes import KINDS, throughputs
from benchmarks.table import Cell, Options, Table, table
from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.interference import InterferencePlacement
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.contract.cluster import Cluster
from eunomia.core.arrays import Floats
from eunomia.metrics.statistics import interval, paired_ratio
from eunomia.sharing.interference import CoRun, Factorised, Predictor, predictor

KNOWN = 0.3  # share of pairs that the placing predictors have seen
JOBS, DEVICES, LOAD = 200, 8, 1.5
BACK_ENDS = ("none", "mean", "utilisation_sum", "linear", "forest", "unified", "factorised")


class Measured:
    """Gavel's single-device job types: co-runs as rows, features, and a proxy of utilisation."""

    def __init__(self) -> None:
        self.table = throughputs()
        self.rows_at = [r for r, (_, scale) in enumerate(self.table.keys) if scale == 1]
        self.names = [self.table.keys[r][0] for r in self.rows_at]
        columns = [self.table.types.index(kind) for kind in KINDS]
        self.alone = self.table.alone[self.rows_at][:, columns]
        assert self.table.beside is not None
        beside = self.table.beside[np.ix_(self.rows_at, self.rows_at, columns)]
        self.family = dict(zip(self.names, (name.split(" (")[0] for name in self.names), strict=True))
        self.batch = np.array([float((re.search(r"(\d+)\)?$", n) or [0, 1])[1]) for n in self.names])
        both = (beside > 0.0) & (beside.transpose(1, 0, 2) > 0.0)
        self.rows = [
            CoRun(self.names[a], (self.names[b],), KINDS[j], float(self.alone[a, j] / beside[a, b, j]))
            for a, b, j in np.argwhere(both).tolist()
        ]
        self.use = dict(zip(self.names, self.saturation().mean(axis=1).tolist(), strict=True))

    def features(self) -> dict[str, Floats]:
        """log batch, log steps/s on each kind, log items/s over the family's best on each kind."""
        logs = np.log(np.maximum(self.alone, 1e-6))
        share = np.log(np.maximum(self.saturation(), 1e-3))
        every = np.concatenate([np.log(self.batch)[:, None], logs, share], axis=1)
        return dict(zip(self.names, every, strict=True))

    def saturation(self) -> Floats:
        """(types, kinds) items/s over the best batch size of the same family: how full a device is, roughly."""
        items, families = self.alone * self.batch[:, None], np.array(list(self.family.values()))
        best = np.array([items[families == mine].max(axis=0) for mine in families])
        return np.asarray(items / np.maximum(best, 1e-9))

    def kinds(self) -> dict[str, Floats]:
        """Log mean speed of each kind."""
        return {kind: np.log(self.alone.mean(axis=0))[[j]] for j, kind in enumerate(KINDS)}

    def fitted(self, name: str, seen: Sequence[CoRun]) -> Predictor:
        """A back end with what it needs, fitted."""
        made = predictor(name, self.features(), self.use, self.kinds())
        made.fit(list(seen))
        return made

    def relative(self, model: Predictor) -> Floats:
        """(R, R, J) predicted relative speed over all rows of the table."""
        size = len(self.table.keys)
        array = np.zeros((size, size, len(KINDS)))
        for a, name in zip(self.rows_at, self.names, strict=True):
            for b, other in zip(self.rows_at, self.names, strict=True):
                for j, kind in enumerate(KINDS):
                    array[a, b, j] = 1.0 / model.predict(name, [other], kind)[0]
        return array

    def problem(self, seed: int) -> ClusterProblem:
        """Jobs of random types and lengths with Poisson arrivals."""
        rng = np.random.default_rng([seed, 77])
        hours = np.exp(rng.uniform(np.log(0.3), np.log(4.0), JOBS))
        arrival = np.cumsum(rng.exponential(hours.sum() * 3600.0 / LOAD / (3 * DEVICES) / JOBS, JOBS))
        mean = dict(zip(self.names, self.alone.mean(axis=1).tolist(), strict=True))
        jobs = []
        names = rng.choice(self.names, JOBS).tolist()
        for i, (n, h, at) in enumerate(zip(names, hours, arrival, strict=True)):
            steps = max(1.0, round(h * 3600.0 * mean[n]))
            jobs.append(TrainingJob(f"{i}", str(n), steps, 1, float(at), traits={"utilisation": self.use[n]}))
        return build_problem(jobs, Cluster.of(dict.fromkeys(KINDS, DEVICES), 4), self.table)


def errors(model: Predictor, rows: Sequence[CoRun]) -> tuple[float, float]:
    """Mean relative error of the slowdown, and rank correlation with it."""
    guess = np.array([model.predict(r.target, r.neighbours, r.kind)[0] for r in rows])
    truth = np.array([r.slowdown for r in rows])
    ranks = [np.argsort(np.argsort(v)).astype(float) for v in (guess, truth)]
    same = np.ptp(guess) == 0.0
    return float(np.mean(np.abs(guess / truth - 1.0))), 0.0 if same else float(np.corrcoef(ranks)[0, 1])


def unseen(of: Measured) -> Iterator[list[Cell]]:
    """Three ways of not having seen: pairs of known jobs; a whole family; a device kind."""
    folds = np.random.default_rng(0).integers(0, 5, len(of.rows)).tolist()
    places = list(zip(of.rows, folds, strict=True))
    ways = [[([r for r, f in places if f != k], [r for r, f in places if f == k]) for k in range(5)]]
    ways.append([])
    for family in dict.fromkeys(of.family.values()):
        mine = {name for name, own in of.family.items() if own == family}
        seen = [r for r in of.rows if not mine & {r.target, *r.neighbours}]
        ways[1].append((seen, [r for r in of.rows if r.target in mine]))
    ways.append([([r for r in of.rows if r.kind != k], [r for r in of.rows if r.kind == k]) for k in KINDS])
    for name in BACK_ENDS:
        found = [[errors(of.fitted(name, seen), asked) for seen, asked in way] for way in ways]
        yield [name, *(interval(list(part)) for way in found for part in zip(*way, strict=True))]


def probes(of: Measured) -> Iterator[list[Cell]]:
    """Error for a job type never seen, by number of its own co-runs that are measured."""
    for number in (0, 1, 2, 4, 8, 16):
        found = []
        for i, name in enumerate(of.names):
            own = [r for r in of.rows if name in (r.target, *r.neighbours)]
            picked = set(np.random.default_rng(i).permutation(len(own))[:number].tolist())
            seen = [r for r in of.rows if name not in (r.target, *r.neighbours)]
            model = Factorised()
            model.fit(seen + [own[k] for k in picked])
            asked = [r for k, r in enumerate(own) if k not in picked and r.target == name]
            found.append(errors(model, asked)[0])
        yield [str(number), interval(found)]


def placement(of: Measured, seeds: range) -> Iterator[list[Cell]]:
    """Mean completion times under each way to choose partners."""
    rng = np.random.default_rng(1)
    seen = [row for row in of.rows if rng.random() < KNOWN]
    made = InterferencePlacement
    policies: dict[str, Callable[[], InterferencePlacement]] = {
        "nobody shares": partial(made, "alone"),
        "random partners": partial(made, "random"),
        "Horus, cap 1.0": partial(made, "horus"),
        "Horus, cap 1.5": partial(made, "horus", cap=1.5),
    }
    for name in BACK_ENDS[1:]:
        policies[f"Co-scheML's rule, {name}"] = partial(made, "coscheml", of.relative(of.fitted(name, seen)))
    policies["Co-scheML's rule, measured pairs (oracle)"] = partial(made, "coscheml")
    problems, base = [(s, of.problem(s)) for s in seeds], []
    options = SimulationOptions(restart=Restart(10.0, 10.0, 10.0), record="jobs")
    for label, build in policies.items():
        runs = [simulate_cluster(p, build(), options.with_seed(s), label) for s, p in problems]
        done = [float(np.mean(run.ledger.finish_s - run.problem.arrival_s)) / 3600.0 for run in runs]
        slow = []
        for run in runs:
            alone_s = run.problem.total_steps / run.problem.speed.max(axis=1)
            slow.append(float(np.mean((run.ledger.finish_s - run.ledger.first_start_s) / alone_s)))
        base = base or done
        ends = [run.end_s / 3600.0 for run in runs]
        unfinished = sum(len(run.ledger.unfinished) for run in runs)
        yield [label, interval(done), paired_ratio(done, base), interval(ends), interval(slow), unfinished]


def measure(options: Options) -> Iterator[Table]:
    """All parts; the quick run leaves out all but the placement, with one seed."""
    of = Measured()
    about = f"{len(of.rows)} co-runs of {len(of.names)} single-device job types on three device kinds."
    if options.wants("unseen") and not options.quick:
        ways = (f"; unseen {what}: error|.1%; rank corr.|.2f" for what in ("pairs", "family", "kind"))
        yield table("unseen", f"back end{''.join(ways)}", unseen(of), [about])
    if options.wants("probes") and not options.quick:
        yield table("probes", "co-runs of the new job measured; error|.1%", probes(of))
    if options.wants("placement"):
        columns = (
            "; mean completion, h|.2f; over nobody shares|.3f; makespan, h|.1f; time from first start over alone|.2f; "
            "unfinished"
        )
        yield table("placement", columns, placement(of, options.seeds_or(5)))
