"""Run, compare, sweep: the one place that wires networks, hardware, requests, policies and metrics together."""

from eunomia.experiment.compare import CompareResult, compare
from eunomia.experiment.run import RunResult, run
from eunomia.experiment.sweep import SweepResult, sweep

__all__ = ["CompareResult", "RunResult", "SweepResult", "compare", "run", "sweep"]
