"""The simulator on the same trace, so that the dispatcher's decisions can be compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from eunomia.inference.options import EngineOptions
from eunomia.inference.policies import load_policy
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo
from tests.metrics.tiny import tiny


def starts(
    policy: str, latency_s: np.ndarray, blocks: list[int], requests: list[Any]
) -> list[tuple[float, int, int, int]]:
    """(time, request, block, device) of every start, in order."""
    first = np.concatenate([[0], np.cumsum(blocks)])
    rows = [latency_s[first[m] : first[m + 1]].tolist() for m in range(len(blocks))]
    case = tiny(rows, [(m, a, d - a) for a, m, d, _ in requests], list(range(latency_s.shape[1])))
    pairs = tuple(Agreement(f"t{m}", f"net{m}", Slo(0.9, window_requests=10)) for m in range(len(blocks)))
    plain = case.request_table
    table = RequestTable(pairs, plain.pair, plain.arrival_s, plain.relative_deadline_s)
    options = EngineOptions(late="last")
    outcome = simulate_problem(
        build_problem(table, case.table, case.platform, options), load_policy(policy), options
    )
    return [
        (float(d["time_s"]), int(d["request"]), int(d["layer"]), int(d["accelerator"]))
        for d in outcome.decisions
    ]
