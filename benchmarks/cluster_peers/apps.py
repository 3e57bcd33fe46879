"""Apps for Themis' study: hyperparameter searches and single jobs, with placement sensitivity as measured or as set."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from eunomia.cluster.job import TrainingJob
from eunomia.cluster.policies.themis.tuner import SuccessiveHalving, tuned
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.simulate import ClusterRun
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.cluster import Cluster, DeviceType, Floats
from eunomia.metrics.fairness import jain

TRIALS = (1, 1, 1, 1, 2, 4, 8)  # drawn uniformly: 4 of 7 apps are single jobs
GANGS = (1, 2, 4)
HOURS = (0.5, 8.0)  # full length of a trial, log-uniform


@dataclass(frozen=True)
class Setting:
    """64 devices of one type, 4 per server, 4 servers per rack; ``load`` = offered device-hours over capacity.

    ``trials``, ``gangs``: drawn uniformly per app; ``hours``: full length of a trial, log-uniform. ``live``: searches
    stop trials while they run (:mod:`eunomia.cluster.live_search`); else their steps are cut beforehand.
    """

    apps: int = 80
    load: float = 1.0
    devices: int = 64
    per_server: int = 4
    servers_per_rack: int = 4
    claims: float = 1.0  # one app in ten says that its rho is this many times what it is
    bid_error: float = 0.0  # every app misjudges its rho by a factor of its own in [1 - error, 1 + error]
    trials: tuple[int, ...] = TRIALS
    gangs: tuple[int, ...] = GANGS
    hours: tuple[float, float] = HOURS
    live: bool = False


SEARCHES = Setting(apps=40, trials=(1, 4, 8, 16, 32), gangs=(1, 2, 4, 4, 4), hours=(0.5, 4.0), live=True)


def sensitive_table(share: float, slowdown: float = 2.0) -> ThroughputTable:
    """Ten models that scale perfectly; ``share`` of them run ``slowdown`` times slower if spread over servers."""
    names = [f"model {n}" for n in range(10)]
    keys = tuple((name, scale) for name in names for scale in (1, 2, 4))
    alone = np.array([[10.0 * scale] for _, scale in keys])
    suffers = np.array([names.index(name) < 10 * share and scale > 1 for name, scale in keys])
    spread = np.where(suffers[:, None], alone / slowdown, alone)
    return ThroughputTable(
        keys, ("v100",), alone, spread, source=f"{share:g} slowed {slowdown:g} times by spread"
    )


def problem(table: ThroughputTable, setting: Setting, seed: int) -> ClusterProblem:
    """Apps with Poisson arrivals at the given load; trials are cut by successive halving."""
    rng = np.random.default_rng([seed, 41])
    cluster = Cluster(
        (DeviceType("v100", setting.devices, setting.per_server, 0.0, None, setting.servers_per_rack),)
    )
    made = [_app(table, rng, a, seed, setting) for a in range(setting.apps)]
    work_s = sum(_work_s(table, app, setting) for app in made)
    gap_s = work_s / setting.load / setting.devices / setting.apps
    arrival_s = np.cumsum(rng.exponential(gap_s, setting.apps))
    errors = np.random.default_rng([seed, 43]).uniform(-1.0, 1.0, setting.apps)
    claims = (1.0 + setting.bid_error * errors) * np.where(
        np.arange(setting.apps) % 10 == 3, setting.claims, 1.0
    )
    jobs = [
        TrainingJob(
            job.job_id, job.job_type, job.total_steps, job.scale_factor, float(arrival_s[a]),
            app_id=job.app_id, traits={**job.traits, "claims": float(claims[a])},
        )
        for a, app in enumerate(made)
        for job in app
    ]  # fmt: skip
    return build_problem(jobs, cluster, table)


def _work_s(table: ThroughputTable, app: list[TrainingJob], setting: Setting) -> float:
    """Device-seconds that an app is expected to need; a live search as much as one that knows beforehand."""
    full = sum(job.total_steps / _speed(table, job)[0] * job.scale_factor for job in app)
    if not setting.live or len(app) == 1:
        return full
    rungs = [0.0, *SuccessiveHalving().rungs(len(app)), 1.0]
    return full * float(sum((b - a) * 0.5**r for r, (a, b) in enumerate(itertools.pairwise(rungs))))


def _app(
    table: ThroughputTable, rng: np.random.Generator, number: int, seed: int, setting: Setting
) -> list[TrainingJob]:
    gang = int(rng.choice(setting.gangs))
    kinds = [name for name in table.job_types if gang in table.scales(name)]
    kind = str(rng.choice(kinds))
    alone, spread = _speed(table, TrainingJob("probe", kind, 1.0, gang))
    hours = float(np.exp(rng.uniform(*np.log(setting.hours))))
    steps = max(1.0, round(hours * 3600.0 * alone))
    slow = max(1.0, alone / spread) if spread > 0.0 else 1.0
    traits = {"slowdown_rack": slow, "slowdown_cross": slow, "skew": float(slow > 1.3)}
    traits |= {"loss_a": float(np.exp(rng.uniform(np.log(3.0), np.log(30.0)))) / steps, "loss_b": 1.0}
    trials = int(rng.choice(setting.trials))
    jobs = [
        TrainingJob(f"{number}.{t}", kind, steps, gang, app_id=str(number), traits=traits)
        for t in range(trials)
    ]
    if trials == 1:
        return jobs
    if not setting.live:
        return tuned(jobs, SuccessiveHalving(), seed * 1000 + number)
    return [
        replace(job, traits={**job.traits, "loss_a": 9.0 / steps, "loss_c": float(c)})
        for job, c in zip(jobs, rng.random(trials), strict=True)
    ]


def _speed(table: ThroughputTable, job: TrainingJob) -> tuple[float, float]:
    row, column = table.row(job.job_type, job.scale_factor), table.types.index("v100")
    spread = table.spread[row, column] if table.spread is not None else np.nan
    alone = float(table.alone[row, column])
    return alone, alone if np.isnan(spread) else float(spread)


def completion_h(run: ClusterRun) -> tuple[float, float]:
    """Mean completion time of the apps that may lie (one in ten) and of the others, h."""
    p, g = run.problem, run.ledger
    finish, arrival = np.zeros(int(p.app.max()) + 1), np.zeros(int(p.app.max()) + 1)
    np.maximum.at(finish, p.app, g.finish_s)
    arrival[p.app] = p.arrival_s
    may = np.zeros(len(finish), bool)
    may[p.app] = [int(job.app_id or 0) % 10 == 3 for job in p.jobs]
    took = (finish - arrival) / 3600.0
    return float(took[may].mean()), float(took[~may].mean())


@dataclass(frozen=True)
class Fairness:
    """One run, by app."""

    max_rho: float
    p90_rho: float
    unfair: float  # share of apps with rho > 1.05
    above_one: float  # share of apps with rho > 1
    jain: float  # of rho
    completion_h: float  # mean over apps, arrival to last trial
    makespan_h: float
    efficiency: float  # device time that made lasting progress at consolidated speed, over device time held
    preemptions: float  # per job: preemptions and moves
    solve_ms: float  # mean per question


def fairness(run: ClusterRun, steps: Floats | None = None) -> Fairness:
    """rho = (finish - arrival) / T_id, T_id = time alone * max(1, N demand / C), N = mean apps over its life.

    ``steps`` (N,): what the time alone is of, where it is not the jobs' own steps.
    """
    p, g = run.problem, run.ledger
    assert not np.isnan(g.finish_s).any(), "an app did not finish"
    apps = int(p.app.max()) + 1
    arrival, finish, alone = np.zeros(apps), np.zeros(apps), np.zeros(apps)
    arrival[p.app] = p.arrival_s
    np.maximum.at(finish, p.app, g.finish_s)
    np.maximum.at(alone, p.app, (p.total_steps if steps is None else steps) / p.speed[:, 0])
    demand = np.bincount(p.app, p.scale, apps)
    both = np.minimum(finish[:, None], finish[None, :]) - np.maximum(arrival[:, None], arrival[None, :])
    crowd = np.maximum(both, 0.0).sum(axis=1) / (finish - arrival)
    gpus = float(p.cluster.counts.sum())
    rho = (finish - arrival) / (alone * np.maximum(1.0, crowd * demand / gpus))
    held = float(g.attained_s.sum())
    return Fairness(
        float(rho.max()), float(np.quantile(rho, 0.9)), float((rho > 1.05).mean()), float((rho > 1.0).mean()),
        jain(rho), float((finish - arrival).mean() / 3600.0), float((finish.max() - arrival.min()) / 3600.0),
        float(g.useful_s.sum()) / held, float((g.preemptions + g.moves).sum() / len(p)),
        1000.0 * float(np.mean([asked.solve_s for asked in run.recorder.asked])),
    )  # fmt: skip
