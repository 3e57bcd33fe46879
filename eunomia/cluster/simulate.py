"""Jobs on a cluster under a policy, from the first arrival to the last finish."""

from __future__ import annotations

import time
from dataclasses import dataclass

from eunomia.cluster.engine import Engine
from eunomia.cluster.ledger import Ledger
from eunomia.cluster.options import SimulationOptions
from eunomia.cluster.problem import ClusterProblem
from eunomia.cluster.recorder import Recorder
from eunomia.contract.allocation import Allocator
from eunomia.contract.traits import WARM_UP


@dataclass(frozen=True, eq=False)
class ClusterRun:
    """What happened: per-job facts by key, what was recorded, and when it ended."""

    problem: ClusterProblem
    options: SimulationOptions
    policy: str
    ledger: Ledger
    recorder: Recorder
    end_s: float
    wall_s: float


def simulate_cluster(
    problem: ClusterProblem,
    allocator: Allocator,
    options: SimulationOptions | None = None,
    name: str = "policy",
) -> ClusterRun:
    """Run a policy on a problem. Every job ends as finished, unfinished or, under Gavel's rule, dropped.

    An allocator with a method ``warm_up()`` is warmed up before any time is taken, so that solve times hold no
    compilation. Raises PolicyError for an illegal answer, ConfigError for options that do not go together.
    """
    chosen = options or SimulationOptions()
    warm_up = WARM_UP.of(allocator)
    if warm_up is not None:
        warm_up()
    began = time.perf_counter()
    engine = Engine(problem, allocator, chosen, name)
    end_s = _mode(engine)
    return ClusterRun(
        problem, chosen, name, engine.ledger, engine.recorder, end_s, time.perf_counter() - began
    )


def _mode(engine: Engine) -> float:
    if engine.options.mode == "gavel":
        from eunomia.cluster.gavel_mode import GavelMode

        return GavelMode(engine).run()
    if engine.options.mode == "ideal":
        from eunomia.cluster.ideal_mode import IdealMode

        return IdealMode(engine).run()
    from eunomia.cluster.realistic_mode import RealisticMode

    return RealisticMode(engine).run()
