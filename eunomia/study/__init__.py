"""Run, compare, sweep: the one place that wires networks, hardware, requests, policies and metrics together."""

from eunomia.study.compare import CompareResult
from eunomia.study.inference.compare import compare, sweep
from eunomia.study.inference.run import run
from eunomia.study.result import RunResult
from eunomia.study.sweep import SweepResult

__all__ = ["CompareResult", "RunResult", "SweepResult", "compare", "run", "sweep"]
