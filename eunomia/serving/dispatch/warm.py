"""Asking a policy once before the first request, so that no request waits for its compilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eunomia.contract.guard import asked
from eunomia.contract.view import ACCELERATOR, READY, SYSTEM, Assign, View


def warm_up(*policies: Callable[[View], Sequence[Assign]]) -> None:
    """Ask each policy about one waiting sub-job and one idle device; errors are left to the guard."""
    for policy in policies:
        try:
            asked(policy, small_view())
        except Exception:  # the guard will meet it again, count it and fall back
            continue


def small_view() -> View:
    """One waiting sub-job, one idle device."""
    ready, accelerators, system = np.zeros(1, READY), np.zeros(1, ACCELERATOR), np.zeros(1, SYSTEM)
    ready["deadline_s"], ready["layers_total"], ready["accelerator"], ready["bound"] = 1.0, 1, -1, -1
    for name in ("slo", "sli"):
        ready[name] = np.nan
    for name in ("work_best_s", "work_mean_s", "path_best_s", "path_mean_s", "iso_best_s", "iso_mean_s"):
        ready[name] = 1e-3
    ready["weight"], ready["priority"] = 1.0, 1.0
    accelerators["request"], accelerators["last_request"] = -1, -1
    system["bandwidth_bytes_s"], system["live"] = np.inf, 1
    costs = np.full((1, 1), 1e-3)
    for array in (ready, accelerators, costs):
        array.setflags(write=False)
    return View(system[0], ready, accelerators, costs, costs, costs)
