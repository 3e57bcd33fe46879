"""Hand-made tables: a few requests whose every number can be worked out on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from eunomia.core.records import conform
from eunomia.metrics.columns import Requests

DEFAULTS: dict[str, Any] = {
    "tenant": "a", "model": "m", "arrival_s": 0.0, "deadline_s": 10.0, "start_s": None, "finish_s": None,
    "outcome": "hit", "isolated_s": 1.0, "running_s": 0.0, "work_s": 0.0, "stretch_s": 0.0, "switch_s": 0.0,
    "energy_j": 0.0, "priority": 1.0,
}  # fmt: skip


def requests_table(*rows: dict[str, Any]) -> pa.Table:
    """A requests table; each row gives what differs from DEFAULTS."""
    full = [{"request": number, **DEFAULTS, **row} for number, row in enumerate(rows)]
    columns = {name: [row[name] for row in full] for name in ("request", *DEFAULTS)}
    return conform("requests", pa.table(columns)) if full else pa.schema([]).empty_table()


def requests(*rows: dict[str, Any]) -> Requests:
    """The same, read."""
    return Requests.read(requests_table(*rows))


def request(tenant: str, model: str, arrival: float, deadline: float | None, finish: float | None, outcome: str,
            **more: Any) -> dict[str, Any]:  # fmt: skip
    """One row in words."""
    facts = {"tenant": tenant, "model": model, "arrival_s": arrival, "deadline_s": deadline}
    return {**facts, "finish_s": finish, "outcome": outcome, **more}


def four() -> tuple[dict[str, Any], ...]:
    """Two tenants, two models; responses 2, 4, 6 (late) and a drop."""
    return (
        request("a", "m", 0.0, 3.0, 2.0, "hit", isolated_s=1.0, energy_j=1.0),
        request("a", "n", 1.0, 6.0, 5.0, "hit", isolated_s=2.0, energy_j=2.0),
        request("b", "m", 2.0, 7.0, 8.0, "late", isolated_s=1.0, energy_j=3.0),
        request("b", "m", 3.0, 9.0, 9.0, "dropped", isolated_s=1.0, energy_j=4.0),
    )


def platform(*types: str) -> pa.Table:
    """An accelerators table; each was busy for 4 s, of which 3 s of isolated work."""
    n = len(types)
    columns = {
        "accelerator": list(range(n)),
        "name": [f"{t}-{i}" for i, t in enumerate(types)],
        "type": list(types),
    }
    return conform("accelerators", pa.table({**columns, "busy_s": [4.0] * n, "work_s": [3.0] * n}))


def costs_table(*rows: tuple[str, int, str, float, float, float]) -> pa.Table:
    """Rows of (model, layer, type, latency_s, demand_bytes_s, energy_j)."""
    names = ("model", "layer", "type", "latency_s", "demand_bytes_s", "energy_j")
    return conform("costs", pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)}))


def subjobs_table(*rows: tuple[int, int, int | None, float | None, float | None, float]) -> pa.Table:
    """Rows of (request, layer, accelerator, start_s, end_s, work_s)."""
    names = ("request", "layer", "accelerator", "start_s", "end_s", "work_s")
    return conform("subjobs", pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)}))


def many(seed: int, n: int, tenants: int = 3, models: int = 2) -> dict[str, Any]:
    """Columns of n random requests, as arrays, every outcome among them."""
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.uniform(0.0, 50.0, n))
    isolated = rng.uniform(0.5, 2.0, n)
    allowed = isolated * rng.uniform(0.8, 4.0, n)
    response = isolated * (1.0 + rng.exponential(1.0, n))
    drop, open_end = rng.random(n) < 0.15, rng.random(n) < 0.1
    outcome = np.where(response <= allowed, "hit", "late").astype(object)
    outcome[drop], outcome[open_end] = "dropped", "unfinished"
    finish = arrival + np.where(drop, np.minimum(response, allowed), response)
    return {
        "request": np.arange(n), "tenant": [f"t{i}" for i in rng.integers(0, tenants, n)],
        "model": [f"m{i}" for i in rng.integers(0, models, n)], "arrival_s": arrival,
        "deadline_s": arrival + allowed, "finish_s": np.where(open_end, np.nan, finish), "outcome": outcome,
        "isolated_s": isolated, "running_s": isolated, "work_s": 0.7 * isolated, "stretch_s": 0.2 * isolated,
        "switch_s": 0.1 * isolated, "energy_j": rng.uniform(0.0, 1.0, n), "priority": np.ones(n),
    }  # fmt: skip
