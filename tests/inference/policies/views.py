"""Views built by hand: waiting sub-jobs as keyword arguments, costs as nested lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eunomia.contract.constants import give_constants
from eunomia.contract.guard import Guarded
from eunomia.contract.view import ACCELERATOR, READY, SYSTEM, View
from eunomia.inference.policies import load_policy

DEFAULTS: dict[str, Any] = {
    "deadline_s": math.inf, "priority": 1.0, "weight": 1.0, "slo": math.nan, "sli": math.nan, "accelerator": -1,
    "bound": -1, "layers_total": 1, "work_best_s": 1.0, "iso_best_s": 1.0,
}  # fmt: skip


def job(**facts: Any) -> dict[str, Any]:
    """One waiting sub-job: unnamed times follow from ``work_best_s`` and ``arrival_s``."""
    full = {**DEFAULTS, **facts}
    full.setdefault("path_best_s", full["work_best_s"])
    full.setdefault("work_mean_s", full["work_best_s"])
    full.setdefault("path_mean_s", full["path_best_s"])
    full.setdefault("iso_mean_s", full["iso_best_s"])
    full.setdefault("last_run_s", full.get("arrival_s", 0.0))
    return full


def make_view(
    policy: Any,
    jobs: list[dict[str, Any]],
    latency_s: list[list[float]],
    *,
    now_s: float = 0.0,
    types: list[int] | None = None,
    free_in_s: list[float] | None = None,
    demand: list[list[float]] | None = None,
    energy: list[list[float]] | None = None,
    bandwidth: float = math.inf,
    running_demand: float = 0.0,
    **system: Any,
) -> View:
    """A View as the engine would show it: request and sequence count up, ``late`` by docs/engine.md.

    Accelerators with ``free_in_s`` > 0 are busy with request 99 and share ``running_demand``.
    """
    count, lanes = len(jobs), len(latency_s[0]) if latency_s else len(types or [0])
    ready = np.zeros(count, READY)
    for i, facts in enumerate(jobs):
        for name, value in {"request": i, "sequence": i, **facts}.items():
            ready[name][i] = value
        ready["late"][i] = ready["deadline_s"][i] + 1e-9 < now_s + ready["path_best_s"][i]
    accelerators = np.zeros(lanes, ACCELERATOR)
    free = np.array(free_in_s if free_in_s else [0.0] * lanes)
    accelerators["free_in_s"], accelerators["request"] = free, np.where(free > 0, 99, -1)
    accelerators["type"] = types if types else np.arange(lanes)
    accelerators["last_request"] = np.where(free > 0, 99, -1)
    table = np.zeros(1, SYSTEM)
    table["now_s"], table["bandwidth_bytes_s"], table["demand_bytes_s"] = now_s, bandwidth, running_demand
    table["live"], table["late_last"] = count, 1
    give_constants(policy, table)
    for name, value in system.items():
        table[name] = value
    shape = (count, lanes)
    arrays = [ready, accelerators, *(np.array(a, float).reshape(shape) for a in (
        latency_s, demand or np.zeros(shape), energy or np.ones(shape)))]  # fmt: skip
    for array in arrays:
        array.setflags(write=False)
    return View(table[0], *arrays)


def answer(policy: Any, view: View) -> list[tuple[int, int]]:
    """(request, accelerator) of each decision."""
    return [(assign.request, assign.accelerator) for assign in load_policy(policy)(view)]


def ask(
    policy: Any, jobs: list[dict[str, Any]], latency_s: list[list[float]], **facts: Any
) -> list[tuple[int, int]]:
    """What a policy answers to a View built from these facts."""
    return answer(policy, make_view(policy, jobs, latency_s, **facts))


def guarded(policy: str) -> Guarded:
    """As a server asks it: with its parameters in the View; never too slow for it here."""
    made = Guarded(load_policy(policy), load_policy("edf+f"))
    made.limit_s = math.inf
    return made
