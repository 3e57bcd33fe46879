"""One run of the reference engine: the event loop, and the decider for a rule or for any callable."""

from __future__ import annotations

from eunomia.contract.view import Policy
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem
from eunomia.inference.reference.decide import make_decider
from eunomia.inference.reference.engine import Engine
from eunomia.inference.reference.records import Run
from eunomia.inference.reference.rules import Rule


def simulate(problem: Problem, policy: Rule | Policy, options: EngineOptions) -> Run:
    """Run a problem to its end (or its horizon) and return every event. Raises PolicyError for illegal answers.

    Takes time quadratic in the number of waiting sub-jobs: for tests, not for experiments.
    """
    engine = Engine(problem, options)
    engine.decider = make_decider(engine, policy)
    return engine.run()
