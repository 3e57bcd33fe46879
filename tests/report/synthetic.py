"""Small, consistent runs made by a plain event loop: tables as an engine would leave them.

Two accelerator types, four tenants, chains and one diamond, Greedy EDF or FCFS with ``any_idle`` or ``eft``
placement, proportional contention. Slow and simple on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eunomia.core.records import Comparison, RunRecords, conform

TYPES = ("simba", "eyeriss")
TYPE_OF = (0, 0, 1)
NAMES = ("simba-0", "simba-1", "eyeriss-0")
BANDWIDTH = 10e9
EDGES = {
    "tiny": [[0, 1]],
    "diamond": [[0, 1], [0, 2], [1, 3], [2, 3]],
    "long": [[i, i + 1] for i in range(5)],
}
LAYERS = {"tiny": 2, "diamond": 4, "long": 6}
# tenant, model, deadline factor over isolated, share of requests, SLO, priority
TENANTS = (
    ("gold", "tiny", 3.0, 0.35, 0.9),
    ("chat", "diamond", 4.0, 0.3, 0.8),
    ("<script>alert('x')</script>", "long", 5.0, 0.25, 0.7),
    ("batch", "long", None, 0.1, None),
)


def costs(seed: int = 7) -> dict[str, Any]:
    """latency_s and bytes per (model, layer, type); eyeriss cannot run layer 1 of ``tiny``."""
    rng = np.random.default_rng(seed)
    table: dict[str, Any] = {}
    for model, n in LAYERS.items():
        latency = rng.uniform(0.5e-3, 3e-3, (n, 2))
        if model == "tiny":
            latency[1, 1] = np.inf
        table[model] = (latency, rng.uniform(1e6, 12e6, (n, 2)))
    return table


@dataclass
class _Job:
    tenant: int
    arrival: float
    deadline: float
    model: str
    left: set[int]
    start: float | None = None
    finish: float | None = None
    spans: list[tuple[float, float]] = field(default_factory=list)
    work: float = 0.0
    switch: float = 0.0
    energy: float = 0.0


def run(
    policy: str = "edf",
    order: str = "edf",
    place: str = "eft",
    seed: int = 0,
    requests: int = 120,
    load: float = 0.9,
) -> RunRecords:
    """Simulate and return the records of one run."""
    table = costs()
    iso = {model: float(latency.min(axis=1).sum()) for model, (latency, _) in table.items()}
    rng = np.random.default_rng(seed)
    mean_work = sum(share * iso[model] for _, model, _, share, _ in TENANTS)
    arrivals = np.cumsum(rng.exponential(mean_work / len(TYPE_OF) / load, requests))
    who = rng.choice(len(TENANTS), requests, p=[share for *_, share, _ in TENANTS])
    jobs = []
    for t, u in zip(arrivals, who, strict=True):
        _, model, factor, _, _ = TENANTS[u]
        deadline = t + factor * iso[model] if factor else np.inf
        jobs.append(_Job(int(u), float(t), float(deadline), model, set(range(LAYERS[model]))))
    subjobs, decisions, busy = _loop(jobs, table, order, place)
    return _tables(jobs, subjobs, decisions, busy, table, iso, policy, order, place, seed)


def _loop(jobs: list[_Job], table: dict[str, Any], order: str, place: str) -> tuple[list, list, list[float]]:
    now, next_arrival, sequence, switch_s = 0.0, 0, 0, 20e-6
    waiting: list[tuple[int, int, float, int]] = []  # request, layer, ready, sequence
    running: dict[int, dict[str, Any]] = {}
    last = [-1] * len(TYPE_OF)
    subjobs: list[dict[str, Any]] = []
    decisions: list[dict[str, Any]] = []
    busy = [0.0] * len(TYPE_OF)
    where: dict[int, int] = {}
    while next_arrival < len(jobs) or waiting or running:
        demand = sum(r["demand"] for r in running.values())
        rate = 1.0 / max(1.0, demand / BANDWIDTH)
        ends = {s: now + r["left"] / rate for s, r in running.items()}
        arrival = jobs[next_arrival].arrival if next_arrival < len(jobs) else np.inf
        at = min([arrival, *ends.values()])
        for r in running.values():
            r["left"] -= (at - now) * rate
        now = at
        for s in sorted(s for s, end in ends.items() if end <= at + 1e-12):
            r = running.pop(s)
            r["row"]["end_s"] = now
            job = jobs[r["request"]]
            job.spans.append((r["row"]["start_s"], now))
            job.left.discard(r["layer"])
            busy[s] += now - r["row"]["start_s"]
            where[r["request"]] = s
            if not job.left:
                job.finish = now
            edges = EDGES[job.model]
            for a, b in edges:
                if a == r["layer"] and not any(x in job.left for x, y in edges if y == b):
                    waiting.append((r["request"], b, now, sequence))
                    sequence += 1
        while next_arrival < len(jobs) and jobs[next_arrival].arrival <= now + 1e-12:
            waiting.append((next_arrival, 0, now, sequence))
            sequence += 1
            next_arrival += 1
        while True:
            demand = sum(running[s]["demand"] for s in sorted(running))
            slow = max(1.0, demand / BANDWIDTH)
            best = None
            for place_in_list, (k, layer, _, seq) in enumerate(waiting):
                latency = table[jobs[k].model][0][layer]
                c = np.array([latency[t] for t in TYPE_OF])
                free = np.array([running[s]["left"] if s in running else 0.0 for s in range(len(TYPE_OF))])
                idle = np.array([s not in running for s in range(len(TYPE_OF))])
                score = np.where(idle, c, np.inf) if place == "any_idle" else (free + c) * slow
                s = int(np.argmin(np.where(np.isfinite(c), score, np.inf)))
                if not np.isfinite(score[s]) or not idle[s]:
                    continue
                key = jobs[k].deadline if order == "edf" else jobs[k].arrival
                if best is None or (key, seq) < best[:2]:
                    best = (key, seq, place_in_list, s, float(c[s]))
            if best is None:
                break
            key, _, index, s, c = best
            k, layer, ready, _ = waiting[index]
            free = [running[x]["left"] if x in running else 0.0 for x in range(len(TYPE_OF))]
            decisions.append({"decision": len(decisions), "time_s": now, "request": k, "layer": layer, "accelerator": s,
                              "waiting": len(waiting), "demand_bytes_s": demand, "free_in_s": free})  # fmt: skip
            del waiting[index]
            pays = switch_s if (last[s] not in (-1, k) or where.get(k, s) != s) else 0.0
            last[s] = k
            job = jobs[k]
            job.start = now if job.start is None else job.start
            job.work += c
            job.switch += pays
            job.energy += c * 0.5
            row = {"request": k, "layer": layer, "accelerator": s, "ready_s": ready, "start_s": now, "end_s": None,
                   "work_s": c, "switch_s": pays, "key": key, "decision": len(decisions) - 1}  # fmt: skip
            subjobs.append(row)
            running[s] = {"request": k, "layer": layer, "left": c + pays, "row": row,
                          "demand": table[job.model][1][layer][TYPE_OF[s]] / c}  # fmt: skip
    return subjobs, decisions, busy


def _union(spans: list[tuple[float, float]]) -> float:
    total, end = 0.0, -np.inf
    for a, b in sorted(spans):
        total += max(0.0, b - max(a, end))
        end = max(end, b)
    return total


def _tables(jobs, subjobs, decisions, busy, table, iso, policy, order, place, seed) -> RunRecords:  # type: ignore[no-untyped-def]
    rows = []
    for k, job in enumerate(jobs):
        due = job.deadline if np.isfinite(job.deadline) else None
        rows.append({"request": k, "tenant": TENANTS[job.tenant][0], "model": job.model, "arrival_s": job.arrival,
                     "deadline_s": due, "start_s": job.start, "finish_s": job.finish,
                     "outcome": "hit" if due is None or job.finish <= due else "late", "isolated_s": iso[job.model],
                     "running_s": _union(job.spans), "work_s": job.work, "switch_s": job.switch,
                     "stretch_s": max(0.0, sum(b - a for a, b in job.spans) - job.work - job.switch),
                     "energy_j": job.energy, "priority": 1.0})  # fmt: skip
    pairs = []
    for u, (tenant, model, _, _, slo) in enumerate(TENANTS):
        mine = [r for j, r in zip(jobs, rows, strict=True) if j.tenant == u]
        hits = sum(r["outcome"] == "hit" for r in mine)
        sli = hits / len(mine) if mine and slo is not None else None
        pairs.append({"tenant": tenant, "model": model, "slo_kind": "hit_rate" if slo else None, "slo_target": slo,
                      "sli": sli, "met": None if sli is None else sli >= slo,
                      "shortfall": None if sli is None else max(0.0, slo - sli), "arrived": len(mine), "hits": hits,
                      "late": len(mine) - hits, "dropped": 0, "unfinished": 0, "weight": 1.0,
                      "priority": 1.0})  # fmt: skip
    work = [sum(r["work_s"] for r in subjobs if r["accelerator"] == s) for s in range(len(TYPE_OF))]
    accelerators = [{"accelerator": s, "name": NAMES[s], "type": TYPES[TYPE_OF[s]], "busy_s": busy[s],
                     "work_s": work[s]}
                    for s in range(len(TYPE_OF))]  # fmt: skip
    cost_rows = [{"model": model, "layer": i, "layer_name": f"{model}/conv{i}", "type": name,
                  "latency_s": float(c[i, t]) if np.isfinite(c[i, t]) else None,
                  "estimate_s": float(c[i, t]) if np.isfinite(c[i, t]) else None,
                  "demand_bytes_s": float(v[i, t] / c[i, t]), "dram_bytes": float(v[i, t]),
                  "energy_j": float(c[i, t]) * 0.5}
                 for model, (c, v) in table.items() for i in range(len(c)) for t, name in enumerate(TYPES)]  # fmt: skip
    raw = {"requests": rows, "subjobs": subjobs, "decisions": decisions, "pairs": pairs,
           "accelerators": accelerators, "costs": cost_rows}  # fmt: skip
    tables = {name: conform(name, pa.Table.from_pylist(data)) for name, data in raw.items()}
    manifest = {
        "name": "synthetic", "seed": seed, "wall_s": 0.1,
        "policy": {"name": policy, "order": order, "place": place, "feasible": False, "gate": None},
        "engine": {"late": "run", "contention": "proportional", "bandwidth_bytes_s": BANDWIDTH, "period_s": None},
        "models": {model: {"edges": edges} for model, edges in EDGES.items()},
        "config": {"duration_s": 1.0, "tenants": [t[0] for t in TENANTS]},
    }  # fmt: skip
    return RunRecords(tables, manifest)


def comparison(seeds: int = 3, requests: int = 120) -> Comparison:
    """Three policies over some seeds."""
    policies = (("edf+eft", "edf", "eft"), ("edf", "edf", "any_idle"), ("fcfs", "fcfs", "any_idle"))
    runs = [
        run(name, order, place, seed, requests) for name, order, place in policies for seed in range(seeds)
    ]
    return Comparison(
        "synthetic tenants", tuple(runs), {"name": "synthetic tenants", "config": {"seeds": seeds}}
    )
