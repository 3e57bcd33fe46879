"""Run, compare, sweep: the one place that wires networks, hardware, requests, policies and metrics together."""

from eunomia.study.compare import CompareResult, compare
from eunomia.study.run import RunResult, run
from eunomia.study.sweep import SweepResult, sweep

__all__ = ["CompareResult", "RunResult", "SweepResult", "compare", "run", "sweep"]
