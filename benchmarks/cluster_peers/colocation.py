"""Horus and Co-scheML: predicting interference of Gavel's measured pairs, and placing by the prediction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.cluster_peers.report import cell, machine, table
from eunomia.cluster.job import TrainingJob
from eunomia.cluster.options import Restart, SimulationOptions
from eunomia.cluster.policies.interference import InterferencePlacement
from eunomia.cluster.problem import build_problem
from eunomia.cluster.simulate import simulate_cluster
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.cluster import Cluster, Floats
from eunomia.metrics.statistics import paired_ratio
from eunomia.sharing.interference import CoRun, Factorised, Predictor, predictor

SEEDS = range(5)
KNOWN = 0.3  # share of pairs that the placing predictors have seen
JOBS, DEVICES, LOAD = 200, 8, 1.5
KINDS = ("v100", "p100", "k80")


class Measured:
    """Gavel's single-device job types: co-runs as rows, features, and a proxy of utilisation."""

    def __init__(self, throughputs: ThroughputTable) -> None:
        self.table = throughputs
        self.rows_at = [r for r, (_, scale) in enumerate(throughputs.keys) if scale == 1]
        self.names = [throughputs.keys[r][0] for r in self.rows_at]
        self.columns = [throughputs.types.index(kind) for kind in KINDS]
        self.alone = throughputs.alone[self.rows_at][:, self.columns]
        assert throughputs.beside is not None
        self.beside = throughputs.beside[np.ix_(self.rows_at, self.rows_at, self.columns)]
        self.family = [name.split(" (")[0] for name in self.names]
        self.batch = np.array([float((re.search(r"(\d+)\)?$", n) or [0, 1])[1]) for n in self.names])
        self.rows = self._co_runs()

    def _co_runs(self) -> list[CoRun]:
        both = (self.beside > 0.0) & (self.beside.transpose(1, 0, 2) > 0.0)
        return [
            CoRun(self.names[a], (self.names[b],), KINDS[j], float(self.alone[a, j] / self.beside[a, b, j]))
            for a, b, j in np.argwhere(both).tolist()
        ]

    def features(self) -> dict[str, Floats]:
        """log batch, log steps/s on each kind, log items/s over the family's best on each kind."""
        logs = np.log(np.maximum(self.alone, 1e-6))
        share = np.log(np.maximum(self.saturation(), 1e-3))
        every = np.concatenate([np.log(self.batch)[:, None], logs, share], axis=1)
        return dict(zip(self.names, every, strict=True))

    def saturation(self) -> Floats:
        """(types, kinds) items/s over the best batch size of the same family: how full a device is, roughly."""
        items = self.alone * self.batch[:, None]
        best = np.array([
            items[[f == mine for f in self.family]].max(axis=0) for mine in self.family
        ])  # fmt: skip
        return np.asarray(items / np.maximum(best, 1e-9))

    def made(self, name: str) -> Predictor:
        """A back end with what it needs."""
        use = dict(zip(self.names, self.saturation().mean(axis=1).tolist(), strict=True))
        kinds = {kind: np.log(self.alone.mean(axis=0))[[j]] for j, kind in enumerate(KINDS)}
        return predictor(name, self.features(), use, kinds)


def _errors(model: Predictor, rows: Sequence[CoRun]) -> tuple[float, float]:
    """Mean relative error of the slowdown, and rank correlation with it."""
    guess = np.array([model.predict(r.target, r.neighbours, r.kind)[0] for r in rows])
    truth = np.array([r.slowdown for r in rows])
    ranks = [np.argsort(np.argsort(v)).astype(float) for v in (guess, truth)]
    same = np.ptp(guess) == 0.0
    return float(np.mean(np.abs(guess / truth - 1.0))), 0.0 if same else float(np.corrcoef(ranks)[0, 1])


BACK_ENDS = ("none", "mean", "utilisation_sum", "linear", "forest", "unified", "factorised")


def _unseen(measured: Measured) -> list[list[str]]:
    """Three ways of not having seen: pairs of known jobs; a whole family; a device kind."""
    lines = []
    for name in BACK_ENDS:
        cells = [name]
        rng = np.random.default_rng(0)
        folds = rng.integers(0, 5, len(measured.rows))
        pairs = [
            _split(measured, name, [r for r, f in zip(measured.rows, folds, strict=True) if f != k],
                   [r for r, f in zip(measured.rows, folds, strict=True) if f == k]) for k in range(5)
        ]  # fmt: skip
        families = []
        for family in dict.fromkeys(measured.family):
            mine = {n for n, f in zip(measured.names, measured.family, strict=True) if f == family}
            seen = [r for r in measured.rows if not mine & {r.target, *r.neighbours}]
            asked = [r for r in measured.rows if r.target in mine]
            families.append(_split(measured, name, seen, asked))
        kinds = [
            _split(measured, name, [r for r in measured.rows if r.kind != kind],
                   [r for r in measured.rows if r.kind == kind]) for kind in KINDS
        ]  # fmt: skip
        for results in (pairs, families, kinds):
            cells += [cell([e for e, _ in results], 1, True), cell([c for _, c in results], 2)]
        lines.append(cells)
    return lines


def _split(measured: Measured, name: str, seen: list[CoRun], asked: list[CoRun]) -> tuple[float, float]:
    model = measured.made(name)
    model.fit(seen)
    return _errors(model, asked)


def _probes(measured: Measured) -> list[list[str]]:
    """Error for a job type never seen, by number of its own co-runs that are measured."""
    lines = []
    for number in (0, 1, 2, 4, 8, 16):
        errors = []
        for i, name in enumerate(measured.names):
            rng = np.random.default_rng(i)
            own = [r for r in measured.rows if name in (r.target, *r.neighbours)]
            picked = set(rng.permutation(len(own))[:number].tolist())
            seen = [r for r in measured.rows if name not in (r.target, *r.neighbours)]
            model = Factorised()
            model.fit(seen + [own[k] for k in picked])
            asked = [r for k, r in enumerate(own) if k not in picked and r.target == name]
            errors.append(_errors(model, asked)[0])
        lines.append([str(number), cell(errors, 1, True)])
    return lines


def _relative(measured: Measured, model: Predictor) -> Floats:
    """(R, R, J) predicted relative speed over all rows of the table."""
    size = len(measured.table.keys)
    array = np.zeros((size, size, len(KINDS)))
    for a, name in zip(measured.rows_at, measured.names, strict=True):
        for b, other in zip(measured.rows_at, measured.names, strict=True):
            for j, kind in enumerate(KINDS):
                array[a, b, j] = 1.0 / model.predict(name, [other], kind)[0]
    return array


def _placement(measured: Measured) -> list[list[str]]:
    rng = np.random.default_rng(1)
    seen = [row for row in measured.rows if rng.random() < KNOWN]
    policies = [("nobody shares", lambda: InterferencePlacement("alone")),
                ("random partners", lambda: InterferencePlacement("random")),
                ("Horus, cap 1.0", lambda: InterferencePlacement("horus")),
                ("Horus, cap 1.5", lambda: InterferencePlacement("horus", cap=1.5))]  # fmt: skip
    for name in ("mean", "utilisation_sum", "linear", "forest", "unified", "factorised"):
        model = measured.made(name)
        model.fit(seen)
        relative = _relative(measured, model)
        policies.append((
            f"Co-scheML's rule, {name}", lambda relative=relative: InterferencePlacement("coscheml", relative)
        ))  # fmt: skip
    policies.append(("Co-scheML's rule, measured pairs (oracle)", lambda: InterferencePlacement("coscheml")))
    problems = [_problem(measured, seed) for seed in SEEDS]
    options = SimulationOptions(restart=Restart(10.0, 10.0, 10.0), record="jobs")
    lines, base = [], []
    for label, build in policies:
        runs = [
            simulate_cluster(p, build(), options.with_seed(s), label)
            for s, p in zip(SEEDS, problems, strict=True)
        ]
        done = [float(np.mean(run.ledger.finish_s - run.problem.arrival_s)) / 3600.0 for run in runs]
        slow = [
            float(np.mean((r.ledger.finish_s - r.ledger.first_start_s) * r.problem.speed.max(axis=1)
                           / r.problem.total_steps)) for r in runs
        ]  # fmt: skip
        base = base or done
        ratio = paired_ratio(done, base)
        lines.append([
            label, cell(done), f"{ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]",
            cell([run.end_s / 3600.0 for run in runs], 1), cell(slow),
            str(sum(len(run.ledger.unfinished) for run in runs)),
        ])  # fmt: skip
    return lines


def _problem(measured: Measured, seed: int):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng([seed, 77])
    cluster = Cluster.of(dict.fromkeys(KINDS, DEVICES), 4)
    use = dict(zip(measured.names, measured.saturation().mean(axis=1).tolist(), strict=True))
    hours = np.exp(rng.uniform(np.log(0.3), np.log(4.0), JOBS))
    arrival = np.cumsum(rng.exponential(hours.sum() * 3600.0 / LOAD / (3 * DEVICES) / JOBS, JOBS))
    names = rng.choice(measured.names, JOBS)
    mean = dict(zip(measured.names, measured.alone.mean(axis=1).tolist(), strict=True))
    jobs = [
        TrainingJob(
            f"{i}", str(n), max(1.0, round(h * 3600.0 * mean[n])), 1, float(t), traits={"utilisation": use[n]}
        )
        for i, (n, h, t) in enumerate(zip(names.tolist(), hours, arrival, strict=True))
    ]
    return build_problem(jobs, cluster, measured.table)


def study(gavel_json: Path) -> str:
    """The whole part of the page."""
    measured = Measured(ThroughputTable.from_gavel_json(gavel_json))
    return TEXT.format(
        machine=machine(), rows=len(measured.rows), types=len(measured.names), jobs=JOBS, devices=DEVICES, load=LOAD,
        known=100 * KNOWN, seeds=len(SEEDS),
        unseen=table(("back end", "unseen pairs: error", "rank corr.", "unseen family: error", "rank corr.",
                      "unseen kind: error", "rank corr."), _unseen(measured)),
        probes=table(("co-runs of the new job measured", "error"), _probes(measured)),
        placement=table(("", "mean completion, h", "over nobody shares", "makespan, h",
                         "time from first start over alone", "unfinished"), _placement(measured)),
    )  # fmt: skip


TEXT = """## Horus and Co-scheML: placing by predicted interference

`python -m benchmarks.cluster_peers colocation --write` ({machine}). Data: {rows} co-runs of {types} single-device
job types on three device kinds, measured on GPUs by Gavel's authors (the table of `simulation_throughputs.json`);
slowdown = steps/s alone over steps/s beside. Features: batch size, steps/s alone on each kind, items/s over the
family's best batch size; the last, averaged, stands in for Horus' utilisation, which nobody measured here. Error:
mean of |predicted / true - 1|; intervals over 5 folds, over families, over kinds.

{unseen}

How many probes a new job needs (factorised, over all job types left out in turn):

{probes}

Placement, simulated: {jobs} jobs at load {load}, {devices} devices of each kind, {seeds} seeds, first come first
served, two jobs on a device at most; predictors have seen {known:.0f} % of the pairs. Pairs that do not fit
together are known to all.

{placement}
"""
