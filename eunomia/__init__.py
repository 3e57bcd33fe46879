"""Eunomia: schedulers that give every tenant the service it was promised.

::

    import eunomia

    result = eunomia.run("scenario.toml", policy="edf+f+eft")
    print(result.summary())
    comparison = eunomia.compare("scenario.toml", policies=["fcfs", "edf", my_policy], seeds=5)

docs/api.md shows every name with an example. Each is imported when it is first used, so that ``import eunomia``
itself is quick and needs the standard library alone.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from eunomia.config import Scenario, demo_scenario, load_scenario
    from eunomia.config.cluster import ClusterConfig, load_cluster
    from eunomia.contract.allocation import Allocation, ClusterView
    from eunomia.contract.view import Assign, View
    from eunomia.core.errors import ConfigError, EunomiaError
    from eunomia.core.records import read_comparison, read_run
    from eunomia.core.version import __version__ as __version__
    from eunomia.report.explain import explain
    from eunomia.study.cluster.run import ClusterRunResult, run_cluster
    from eunomia.study.cluster.whatif import Change, WhatIf, what_if
    from eunomia.study.cluster.wing import compare_cluster, sweep_cluster
    from eunomia.study.compare import CompareResult
    from eunomia.study.grid.load import load_study
    from eunomia.study.grid.result import StudyResult
    from eunomia.study.grid.run import run_study
    from eunomia.study.inference.compare import compare, sweep
    from eunomia.study.inference.policy import resolve_policy as load_policy
    from eunomia.study.inference.run import run
    from eunomia.study.learning.distilling import distil_policy as distill
    from eunomia.study.learning.evaluation import evaluate
    from eunomia.study.learning.evolving import evolve
    from eunomia.study.learning.judging import evaluate_rule
    from eunomia.study.learning.train import train
    from eunomia.study.model import Model
    from eunomia.study.result import RunResult
    from eunomia.study.serving.load import send_load
    from eunomia.study.serving.server import serve
    from eunomia.study.sweep import SweepResult
    from eunomia.workload.model import DnnModel, Layer
    from eunomia.workload.onnx import read_onnx

_STUDY = "eunomia.study"
_WHERE = {  # name -> module, or module:name where it is called otherwise there
    # the lab
    "Assign": "eunomia.contract.view",
    "CompareResult": f"{_STUDY}.compare",
    "DnnModel": "eunomia.workload.model",
    "Layer": "eunomia.workload.model",
    "Model": f"{_STUDY}.model",
    "RunResult": f"{_STUDY}.result",
    "Scenario": "eunomia.config",
    "StudyResult": f"{_STUDY}.grid.result",
    "SweepResult": f"{_STUDY}.sweep",
    "View": "eunomia.contract.view",
    "compare": f"{_STUDY}.inference.compare",
    "demo_scenario": "eunomia.config",
    "explain": "eunomia.report.explain",
    "load_policy": f"{_STUDY}.inference.policy:resolve_policy",
    "load_scenario": "eunomia.config",
    "load_study": f"{_STUDY}.grid.load",
    "read_comparison": "eunomia.core.records",
    "read_onnx": "eunomia.workload.onnx",
    "read_run": "eunomia.core.records",
    "run": f"{_STUDY}.inference.run",
    "run_study": f"{_STUDY}.grid.run",
    "sweep": f"{_STUDY}.inference.compare",
    # the cluster
    "Allocation": "eunomia.contract.allocation",
    "Change": f"{_STUDY}.cluster.whatif",
    "ClusterConfig": "eunomia.config.cluster",
    "ClusterRunResult": f"{_STUDY}.cluster.run",
    "ClusterView": "eunomia.contract.allocation",
    "WhatIf": f"{_STUDY}.cluster.whatif",
    "compare_cluster": f"{_STUDY}.cluster.wing",
    "load_cluster": "eunomia.config.cluster",
    "run_cluster": f"{_STUDY}.cluster.run",
    "sweep_cluster": f"{_STUDY}.cluster.wing",
    "what_if": f"{_STUDY}.cluster.whatif",
    # learned policies
    "distill": f"{_STUDY}.learning.distilling:distil_policy",
    "evaluate": f"{_STUDY}.learning.evaluation",
    "evaluate_rule": f"{_STUDY}.learning.judging",
    "evolve": f"{_STUDY}.learning.evolving",
    "train": f"{_STUDY}.learning.train",
    # the server
    "send_load": f"{_STUDY}.serving.load",
    "serve": f"{_STUDY}.serving.server",
    "__version__": "eunomia.core.version",
    # what all raise
    "ConfigError": "eunomia.core.errors",
    "EunomiaError": "eunomia.core.errors",
}

__all__ = [
    "Allocation",
    "Assign",
    "Change",
    "ClusterConfig",
    "ClusterRunResult",
    "ClusterView",
    "CompareResult",
    "ConfigError",
    "DnnModel",
    "EunomiaError",
    "Layer",
    "Model",
    "RunResult",
    "Scenario",
    "StudyResult",
    "SweepResult",
    "View",
    "WhatIf",
    "compare",
    "compare_cluster",
    "demo_scenario",
    "distill",
    "evaluate",
    "evaluate_rule",
    "evolve",
    "explain",
    "load_cluster",
    "load_policy",
    "load_scenario",
    "load_study",
    "read_comparison",
    "read_onnx",
    "read_run",
    "run",
    "run_cluster",
    "run_study",
    "send_load",
    "serve",
    "sweep",
    "sweep_cluster",
    "train",
    "what_if",
]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'eunomia' has no attribute '{name}'")
    module, _, attribute = _WHERE[name].partition(":")
    return getattr(_importlib.import_module(module), attribute or name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
