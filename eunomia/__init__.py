"""Eunomia: schedulers that give every tenant the service it was promised.

::

    import eunomia

    result = eunomia.run("scenario.toml", policy="edf+f+eft")
    print(result.metrics["hit_rate"])
    comparison = eunomia.compare("scenario.toml", policies=["fcfs", "edf", my_policy], seeds=5)

The names below are imported when first used, so that ``import eunomia`` itself is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eunomia.config import Scenario, load_scenario
    from eunomia.contract.view import Assign, View
    from eunomia.core.records import read_comparison, read_run
    from eunomia.study.compare import CompareResult, compare
    from eunomia.study.run import RunResult, run
    from eunomia.study.sweep import SweepResult, sweep

__version__ = "0.1.0"

_WHERE = {
    "Assign": "eunomia.contract.view",
    "CompareResult": "eunomia.study",
    "RunResult": "eunomia.study",
    "Scenario": "eunomia.config",
    "SweepResult": "eunomia.study",
    "View": "eunomia.contract.view",
    "compare": "eunomia.study",
    "load_scenario": "eunomia.config",
    "read_comparison": "eunomia.core.records",
    "read_run": "eunomia.core.records",
    "run": "eunomia.study",
    "sweep": "eunomia.study",
}

__all__ = [
    "Assign", "CompareResult", "RunResult", "Scenario", "SweepResult", "View", "compare", "load_scenario",
    "read_comparison", "read_run", "run", "sweep",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'eunomia' has no attribute '{name}'")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
