"""Two hundred seconds-long jobs for a private Slurm, and the same for the simulator. One second stands for a minute."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np

from benchmarks.slurm.private import GPUS
from eunomia.cluster.job import TrainingJob
from eunomia.cluster.problem import ClusterProblem, build_problem
from eunomia.cluster.throughput import ThroughputTable
from eunomia.contract.cluster import Cluster

WEIGHTS = {"gold": 2.0, "silver": 1.0, "bronze": 1.0}
STEP_S = {"t4": 1.0, "a100": 0.5}
GAP_S = 1.6
SCALES = (1, 2)


@dataclass(frozen=True)
class Asked:
    """One job; ``anywhere``: the daemon may choose the type. Under Slurm itself it asks for ``kind``."""

    number: int
    at_s: float
    account: str
    kind: str
    gpus: int
    anywhere: bool
    steps: int
    minutes: int  # its limit in Slurm, which counts in whole minutes


def made_up(count: int, seed: int) -> list[Asked]:
    """Accounts of weights 2 : 1 : 1 with equal streams of jobs, more than the GPUs can do while they arrive."""
    rng, at_s, found = random.Random(seed), 0.0, []
    for number in range(count):
        kind = rng.choice(("a100", "t4"))
        gpus, run_s = rng.choice((1, 1, 2)), min(max(rng.lognormvariate(2.4, 0.6), 4.0), 45.0)
        minutes = math.ceil(run_s / 60.0 * rng.choice((8.0, 15.0, 30.0)))
        steps = round(run_s / STEP_S[kind])
        account = sorted(WEIGHTS)[number % 3]
        found.append(Asked(number, at_s, account, kind, gpus, rng.random() < 0.4, steps, minutes))
        at_s += rng.expovariate(1.0 / GAP_S)
    return found


def problem(jobs: list[Asked], chooses: bool) -> ClusterProblem:
    """The simulator's. ``chooses``: who schedules may choose types."""
    types = tuple(GPUS)
    speed = {
        "any": [1.0 / STEP_S[kind] for kind in types],
        **{only: [1.0 / STEP_S[kind] if kind == only else 0.0 for kind in types] for only in types},
    }
    keys = tuple((name, scale) for name in speed for scale in SCALES)
    table = ThroughputTable(keys, types, np.array([speed[name] for name, _ in keys]))
    training = [
        TrainingJob(
            str(job.number),
            "any" if job.anywhere and chooses else job.kind,
            float(job.steps),
            job.gpus,
            job.at_s,
            WEIGHTS[job.account],
            job.account,
            traits={"time_limit_s": 60.0 * job.minutes},
        )
        for job in jobs
    ]
    return build_problem(training, Cluster.of(GPUS), table, WEIGHTS)
