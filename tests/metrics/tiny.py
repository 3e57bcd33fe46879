"""Tiny scheduling problems, and their exact optima by two independent ways."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

import numpy as np

from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement, Slo
from tests import children
from tests.inference.strategies import ToyPlatform, layers, toy_table

EPS = 1e-9


@dataclass(frozen=True)
class Tiny:
    """A problem as plain numbers: rows of (types,) times and demands per layer, requests (model, arrival, window)."""

    latency_s: list[list[list[float]]]  # model, layer, type
    demand: list[list[list[float]]]
    edges: list[list[tuple[int, int]]]
    requests: list[tuple[int, float, float]]
    type_of: list[int]
    bandwidth: float = np.inf
    contention: str = "none"
    slo: tuple[float, ...] = ()

    @property
    def platform(self) -> ToyPlatform:
        types = tuple(f"type{t}" for t in range(len(self.latency_s[0][0])))
        return ToyPlatform(types, np.array(self.type_of), self.bandwidth, self.contention)

    @property
    def table(self):  # type: ignore[no-untyped-def]
        nets = [
            DnnModel(f"net{m}", layers(len(rows)), tuple(self.edges[m]))
            for m, rows in enumerate(self.latency_s)
        ]
        latency = np.array([row for rows in self.latency_s for row in rows], float)
        demand = np.array([row for rows in self.demand for row in rows], float)
        dram = np.where(np.isfinite(latency), demand * np.where(np.isfinite(latency), latency, 0.0), 0.0)
        return toy_table(nets, self.platform.types, latency, dram)

    @property
    def request_table(self) -> RequestTable:
        pairs = tuple(
            Agreement(f"tenant{m}", f"net{m}", Slo(self.slo[m]) if self.slo else None)
            for m in range(len(self.latency_s))
        )
        ordered = sorted(self.requests, key=lambda r: r[1])
        return RequestTable(pairs, np.array([r[0] for r in ordered], np.int64), np.array([r[1] for r in ordered]),
                            np.array([r[2] for r in ordered]))  # fmt: skip


def tiny(
    latency_s: list[list[list[float]]],
    requests: list[tuple[int, float, float]],
    type_of: list[int],
    demand: list[list[list[float]]] | None = None,
    edges: list[list[tuple[int, int]]] | None = None,
    **more: object,
) -> Tiny:
    """Chains that ask for no bandwidth, unless said otherwise."""
    chains = [[(i, i + 1) for i in range(len(rows) - 1)] for rows in latency_s]
    none = [[[0.0] * len(row) for row in rows] for rows in latency_s]
    return Tiny(latency_s, demand or none, edges or chains, requests, type_of, **more)  # type: ignore[arg-type]


def rates(demands: list[float], bandwidth: float, contention: str) -> list[float]:
    """Speed of each running layer."""
    total = sum(demands)
    if contention == "none" or total <= bandwidth:
        return [1.0] * len(demands)
    if contention == "proportional":
        return [bandwidth / total] * len(demands)
    assert contention == "max_min"
    grants, left = {}, bandwidth
    by_demand = sorted(range(len(demands)), key=lambda j: demands[j])
    for place, j in enumerate(by_demand):
        grants[j] = min(demands[j], left / (len(demands) - place))
        left -= grants[j]
    return [grants[j] / d if d > 0 else 1.0 for j, d in enumerate(demands)]


def exhaustive(case: Tiny) -> int:
    """Most hits over all ways to start layers at arrivals and ends of layers, holding included."""
    jobs = sorted(case.requests, key=lambda r: r[1])
    before = [[{a for a, b in case.edges[m] if b == i} for i in range(len(case.latency_s[m]))] for m in
              range(len(case.latency_s))]  # fmt: skip
    best = 0

    def go(
        now: float, done: list[set[int]], started: list[set[int]], running: list[tuple], hits: int
    ) -> None:
        nonlocal best
        alive = [
            k
            for k, (m, a, w) in enumerate(jobs)
            if len(done[k]) < len(case.latency_s[m]) and now < a + w - EPS
        ]
        best = max(best, hits)
        if hits + len(alive) <= best:
            return
        ready = [
            (k, i)
            for k in alive if jobs[k][1] <= now + EPS
            for i in range(len(case.latency_s[jobs[k][0]]))
            if i not in started[k] and before[jobs[k][0]][i] <= done[k]
        ]  # fmt: skip
        idle = [s for s in range(len(case.type_of)) if all(s != lane for _, _, lane, _ in running)]
        for count in range(min(len(ready), len(idle)), -1, -1):
            for chosen in itertools.combinations(ready, count):
                for lanes in itertools.permutations(idle, count):
                    new = []
                    for (k, i), s in zip(chosen, lanes, strict=True):
                        time_s = case.latency_s[jobs[k][0]][i][case.type_of[s]]
                        if not np.isfinite(time_s):
                            break
                        new.append((k, i, s, time_s))
                    else:
                        begun = [set(x) for x in started]
                        for k, i, _, _ in new:
                            begun[k].add(i)
                        step(now, done, begun, [*running, *new], hits)

    def step(
        now: float, done: list[set[int]], started: list[set[int]], running: list[tuple], hits: int
    ) -> None:
        coming = [a - now for _, a, _ in jobs if a > now + EPS]
        demands = [case.demand[jobs[k][0]][i][case.type_of[s]] for k, i, s, _ in running]
        speed = rates(demands, case.bandwidth, case.contention)
        ends = [left / v for (_, _, _, left), v in zip(running, speed, strict=True)]
        if not ends and not coming:
            return
        wait = min([*ends, *coming])
        done, kept = [set(x) for x in done], []
        for (k, i, s, left), v in zip(running, speed, strict=True):
            if left - v * wait > EPS:
                kept.append((k, i, s, left - v * wait))
                continue
            done[k].add(i)
            m, a, w = jobs[k]
            hits += len(done[k]) == len(case.latency_s[m]) and now + wait <= a + w + EPS
        go(now + wait, done, started, kept, hits)

    go(0.0, [set() for _ in jobs], [set() for _ in jobs], [], 0)
    return best


SOLVER = """
import json, sys
from ortools.sat.python import cp_model
case = json.load(sys.stdin)
model = cp_model.CpModel()
horizon = max(a + w for _, a, w in case["requests"])
lanes = [[] for _ in case["type_of"]]
served = []
for m, arrival, window in case["requests"]:
    y = model.new_bool_var("")
    served.append(y)
    ends = []
    for row in case["latency"][m]:
        start, end = model.new_int_var(arrival, horizon, ""), model.new_int_var(0, arrival + window, "")
        picks = []
        for s, t in enumerate(case["type_of"]):
            if row[t] is None:
                continue
            pick = model.new_bool_var("")
            lanes[s].append(model.new_optional_interval_var(start, row[t], end, pick, ""))
            picks.append(pick)
        model.add(sum(picks) == y)
        ends.append((start, end))
    for a, b in case["edges"][m]:
        model.add(ends[b][0] >= ends[a][1]).only_enforce_if(y)
for intervals in lanes:
    model.add_no_overlap(intervals)
model.maximize(sum(served))
solver = cp_model.CpSolver()
solver.parameters.num_workers = 1
assert solver.solve(model) == cp_model.OPTIMAL
print(json.dumps(round(solver.objective_value)))
"""


def by_cp_sat(case: Tiny) -> int:
    """Most hits without contention, times in whole numbers: CP-SAT in a process of its own."""
    times = [[[int(x) if np.isfinite(x) else None for x in row] for row in rows] for rows in case.latency_s]
    text = json.dumps(
        {
            "latency": times,
            "edges": case.edges,
            "type_of": case.type_of,
            "requests": [[m, int(a), int(w)] for m, a, w in case.requests],
        }
    )
    with_pandas = {"PYTHONPATH": str(children.ROOT)}  # OR-Tools imports it
    answer = children.run(children.python("-c", SOLVER), input=text, check=True, env=with_pandas)
    return int(json.loads(answer.stdout))
