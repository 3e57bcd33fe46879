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
from eunomia.contract.cluster import Cluster, DeviceType
from eunomia.core.arrays import Floats
from eunomia.metrics.fairness import jain


@dataclass(frozen=True)
class Setting:
    """64 devices of one type, 4 per server, 4 servers per rack; ``load`` = offered device-hours over capacity.

    ``trials``, ``gangs``: drawn uniformly per app; ``hours``: full length of a trial, log-uniform. ``live``: searches
    stop trials while they run (:mod:`eunomia.cluster.live_search`); else their steps are cut beforehand.
    """

    apps: int = 80
    load: float = 1.0
    devices: int = 64
    bid_error: float = 0.0  # every app misjudges its rho by a factor of its own in [1 - error, 1 + error]
    trials: tuple[int, ...] = (1, 1, 1, 1, 2, 4, 8)  # 4 of 7 apps are single jobs
    gangs: tuple[int, ...] = (1, 2, 4)
    hours: tuple[float, float] = (0.5, 8.0)
    live: bool = False


SEARCHES = Setting(apps=40, trials=(1, 4, 8, 16, 32), gangs=(1, 2, 4, 4, 4), hours=(0.5, 4.0), live=True)


def sensitive_table(share: float, slowdown: float = 2.0) -> ThroughputTable:
    """Ten models that scale perfectly; ``share`` of them run ``slowdown`` times slower if spread over servers."""
    names = [f"model {n}" for n in range(10)]
    keys = tuple((name, scale) for name in names for scale in (1, 2, 4))
    alone = np.array([[10.0 * scale] for _, scale in keys])
    suffers = np.array([names.index(name) < 10 * share and scale > 1 for name, scale in keys])
    spread = np.where(suffers[:, None], alone / slowdown, alone)
    source = f"{share:g} slowed {slowdown:g} times by spread"
    return ThroughputTable(keys, ("v100",), alone, spread, source=source)


def problem(table: ThroughputTable, setting: Setting, seed: int) -> ClusterProblem:
    """Apps with Poisson arrivals at the given load; trials are cut by successive halving."""
    rng = np.random.default_rng([seed, 41])
    cluster = Cluster((DeviceType("v100", setting.devices, 4, 0.0, None, 4),))
    made = [_app(table, rng, a, seed, setting) for a in range(setting.apps)]
    work_s = sum(_work_s(table, app, setting) for app in made)
    gap_s = work_s / setting.load / setting.devices / setting.apps
    arrival_s = np.cumsum(rng.exponential(gap_s, setting.apps))
    errors = np.random.default_rng([seed, 43]).uniform(-1.0, 1.0, setting.apps)
    jobs = []
    claimed = 1.0 + setting.bid_error * errors
    for app, at, claims in zip(made, arrival_s.tolist(), claimed, strict=True):
        jobs += [replace(job, arrival_s=at, traits={**job.traits, "claims": float(claims)}) for job in app]
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
    kind = str(rng.choice([name for name in table.job_types if gang in table.scales(name)]))
    alone, spread = _speed(table, TrainingJob("probe", kind, 1.0, gang))
    hours = float(np.exp(rng.uniform(*np.log(setting.hours))))
    steps = max(1.0, round(hours * 3600.0 * alone))
    slow = max(1.0, alone / spread) if spread > 0.0 else 1.0
    traits = {"slowdown_rack": slow, "slowdown_cross": slow, "skew": float(slow > 1.3)}
    traits |= {"loss_a": float(np.exp(rng.uniform(np.log(3.0), np.log(30.0)))) / steps, "loss_b": 1.0}
    trials, one = int(rng.choice(setting.trials)), {"app_id": str(number), "traits": traits}
    jobs = [TrainingJob(f"{number}.{t}", kind, steps, gang, **one) for t in range(trials)]  # type: ignore[arg-type]
    if trials == 1:
        return jobs
    if not setting.live:
        return tuned(jobs, SuccessiveHalving(), seed * 1000 + number)
    curves = [{**traits, "loss_a": 9.0 / steps, "loss_c": float(c)} for c in rng.random(trials)]
    return [replace(job, traits=curve) for job, curve in zip(jobs, curves, strict=True)]


def _speed(table: ThroughputTable, job: TrainingJob) -> tuple[float, float]:
    row, column = table.row(job.job_type, job.scale_factor), table.types.index("v100")
    spread = table.spread[row, column] if table.spread is not None else np.nan
    alone = float(table.alone[row, column])
    return alone, alone if np.isnan(spread) else float(spread)


def lives(run: ClusterRun) -> tuple[Floats, Floats]:
    """Arrival and end of each app, s."""
    p = run.problem
    arrival, finish = np.zeros((2, int(p.app.max()) + 1))
    arrival[p.app] = p.arrival_s
    np.maximum.at(finish, p.app, run.ledger.finish_s)
    return arrival, finish


def fairness(run: ClusterRun, steps: Floats | None = None) -> dict[str, float]:
    """Measures of one run, by app. Raises AssertionError when one did not finish.

    rho = (finish - arrival) / T_id, T_id = time alone * max(1, N demand / C), N = mean apps over its life, alone at the
    mean speed over all devices; ``steps`` (N,): what that time is of, where it is not the jobs' own steps.
    ``unfair``, ``above_one``: shares of apps with rho > 1.05 and > 1; ``efficiency``: device time that made lasting
    progress at consolidated speed, over device time held; ``moves``: preemptions and moves per job; ``solve_ms``:
    mean per question.
    """
    p, g = run.problem, run.ledger
    assert not np.isnan(g.finish_s).any(), "an app did not finish"
    arrival, finish = lives(run)
    alone = np.zeros(len(finish))
    speed = p.speed @ (p.cluster.counts / p.cluster.counts.sum())
    np.maximum.at(alone, p.app, (p.total_steps if steps is None else steps) / speed)
    demand = np.bincount(p.app, p.scale, len(finish))
    both = np.minimum(finish[:, None], finish[None, :]) - np.maximum(arrival[:, None], arrival[None, :])
    crowd = np.maximum(both, 0.0).sum(axis=1) / (finish - arrival)
    rho = (finish - arrival) / (alone * np.maximum(1.0, crowd * demand / float(p.cluster.counts.sum())))
    return {
        "max_rho": float(rho.max()),
        "p90_rho": float(np.quantile(rho, 0.9)),
        "unfair": float((rho > 1.05).mean()),
        "above_one": float((rho > 1.0).mean()),
        "jain": jain(rho),
        "completion_h": float((finish - arrival).mean() / 3600.0),
        "makespan_h": float((finish.max() - arrival.min()) / 3600.0),
        "efficiency": float(g.useful_s.sum()) / float(g.attained_s.sum()),
        "moves": float((g.preemptions + g.moves).sum() / len(p)),
        "solve_ms": 1000.0 * float(np.mean([asked.solve_s for asked in run.recorder.asked])),
    }
