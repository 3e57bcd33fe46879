"""How many deferrable runs fit into what on-demand requests leave over, for one who knows all; small cases.

Given when accelerators are busy, every run must lie in a gap of one accelerator and end by its deadline. Search over
which request comes next on which accelerator, each at its earliest: for a given order nothing is gained by starting
later. Contention is not modelled: compare on platforms without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
EPS = 1e-9
Gaps = Sequence[Sequence[tuple[float, float]]]


@dataclass(frozen=True, eq=False)
class Run:
    """A deferrable request: ``run_s`` (S,) on each accelerator, inf = cannot."""

    arrival_s: float
    deadline_s: float
    run_s: Floats


@dataclass(frozen=True)
class Plan:
    """``served``: how many end in time; ``wait_s``: sum of start - arrival, least among the best; None = not served."""

    served: int
    wait_s: float
    starts: tuple[tuple[int, float] | None, ...]  # (accelerator, start) of each request


def busy_times(subjobs: npt.NDArray[Any], lanes: int) -> list[list[tuple[float, float]]]:
    """When accelerators run, from an outcome's sub-jobs (record = "all"), in order of time."""
    return [
        sorted(zip(mine["start_s"].tolist(), mine["end_s"].tolist(), strict=True))
        for mine in (subjobs[subjobs["accelerator"] == s] for s in range(lanes))
    ]


def offline_optimum(runs: Sequence[Run], busy: Gaps) -> Plan:
    """The plan that serves most, and waits least among those; exponential in the number of requests."""
    known: dict[tuple[int, tuple[float, ...]], tuple[int, float, tuple[Any, ...]]] = {}

    def best(left: int, since: tuple[float, ...]) -> tuple[int, float, tuple[Any, ...]]:
        """(served, - wait, choices) from the requests in the bits of ``left``, accelerators free from ``since``."""
        if (left, since) in known:
            return known[left, since]
        found: tuple[int, float, tuple[Any, ...]] = (0, 0.0, ())
        for i in range(len(runs)):
            if not left >> i & 1:
                continue
            for s, run_s in enumerate(runs[i].run_s.tolist()):
                start_s = _earliest(busy[s], max(since[s], runs[i].arrival_s), run_s)
                if start_s + run_s > runs[i].deadline_s + EPS:
                    continue
                then = best(left & ~(1 << i), (*since[:s], start_s + run_s, *since[s + 1 :]))
                tried = (then[0] + 1, then[1] - (start_s - runs[i].arrival_s), ((i, s, start_s), *then[2]))
                found = max(found, tried, key=lambda plan: plan[:2])
        known[left, since] = found
        return found

    served, wait_s, choices = best((1 << len(runs)) - 1, (0.0,) * len(busy))
    starts: list[tuple[int, float] | None] = [None] * len(runs)
    for i, s, start_s in choices:
        starts[i] = (s, start_s)
    return Plan(served, -wait_s, tuple(starts))


def _earliest(busy: Sequence[tuple[float, float]], since_s: float, run_s: float) -> float:
    """First time from ``since_s`` on at which ``run_s`` fits between busy times."""
    at_s = since_s
    for start_s, end_s in busy:
        if at_s + run_s <= start_s + EPS:
            return at_s
        at_s = max(at_s, end_s)
    return at_s


def runs_of(problem: Any) -> list[Run]:
    """The deferrable requests of a problem, with the run times that the scheduler estimates."""
    jobs, graph, costs = problem.jobs, problem.graph, problem.costs
    latency_s = costs.estimate_s[:, problem.type_of]
    found = []
    for k in np.flatnonzero(jobs.deferrable).tolist():
        model = jobs.model_of[jobs.pair[k]]
        rows = slice(graph.offset[model], graph.offset[model + 1])
        arrival_s = float(jobs.arrival_s[k])
        deadline_s = arrival_s + float(jobs.relative_deadline_s[k])
        found.append(Run(arrival_s, deadline_s, np.asarray(latency_s[rows].sum(axis=0), np.float64)))
    return found
