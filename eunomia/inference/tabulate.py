"""From the engine's arrays to the record tables of schema.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eunomia.core.schemas import ACCELERATORS, COSTS, DECISIONS, REQUESTS, SUBJOBS
from eunomia.inference.kernel.layout import OUTCOMES
from eunomia.inference.outcome import Outcome
from eunomia.inference.tabulate_reasons import reason_columns

Numbers: TypeAlias = npt.NDArray[np.float64 | np.int64 | np.bool_]
Column: TypeAlias = Numbers | pa.Array


def tabulate(outcome: Outcome) -> dict[str, pa.Table]:
    """All tables of a run. Requests that never arrived (horizon, closed loop) are left out."""
    tables = {
        "requests": _requests(outcome),
        "accelerators": _accelerators(outcome),
        "costs": _costs(outcome),
    }
    if outcome.options.record == "all":
        tables["subjobs"] = _subjobs(outcome)
        tables["decisions"] = _decisions(outcome)
    return tables


def _table(columns: Mapping[str, Column], schema: pa.Schema) -> pa.Table:
    arrays = [_column(columns[field.name], field.type) for field in schema]
    return pa.table(arrays, schema=schema)


def _column(values: Column, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if pa.types.is_floating(kind):  # nan = null
        return pa.array(values, kind, from_pandas=True)
    return pa.array(values, kind)


def _names(indices: Numbers, names: tuple[str, ...] | list[str]) -> pa.Array:
    """A dictionary column without going through Python strings row by row."""
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(names, pa.string()))


def _renumber(values: list[str]) -> tuple[Numbers, list[str]]:
    """Indices into the distinct values, which dictionaries must not repeat."""
    distinct = list(dict.fromkeys(values))
    return np.array([distinct.index(value) for value in values], np.int64), distinct


def _requests(outcome: Outcome) -> pa.Table:
    problem, results = outcome.problem, outcome.results
    arrived = np.flatnonzero(~np.isnan(results["arrival_s"]))
    rows, pairs = results[arrived], problem.jobs.pair[arrived]
    agreements = problem.requests.agreements
    tenant_of, tenants = _renumber([a.tenant for a in agreements])
    model_of, models = _renumber([a.model for a in agreements])
    isolated = np.add.reduceat(problem.costs.latency_s.min(axis=1), problem.graph.offset[:-1])
    columns = {name: rows[name] for name in rows.dtype.names or () if name not in ("outcome", "deadline_s")}
    columns |= {
        "request": arrived,
        "tenant": _names(tenant_of[pairs], tenants),
        "model": _names(model_of[pairs], models),
        "deadline_s": np.where(np.isfinite(rows["deadline_s"]), rows["deadline_s"], np.nan),
        "outcome": _names(rows["outcome"], OUTCOMES),
        "isolated_s": isolated[problem.jobs.model[arrived]],
        "priority": problem.jobs.priority[arrived],
    }
    return _table(columns, REQUESTS)


def _subjobs(outcome: Outcome) -> pa.Table:
    """Executed layers in order of their end, then those still running."""
    rows = outcome.subjobs
    columns = {name: rows[name] for name in rows.dtype.names or ()}
    return _table(columns, SUBJOBS)


def _decisions(outcome: Outcome) -> pa.Table:
    rows, free_in_s = outcome.decisions, outcome.free_in_s
    columns = {name: rows[name] for name in rows.dtype.names or ()}
    columns["decision"] = np.arange(len(rows))
    offsets = pa.array(np.arange(len(rows) + 1) * free_in_s.shape[1], pa.int32())
    columns["free_in_s"] = pa.ListArray.from_arrays(offsets, pa.array(free_in_s.ravel()))
    return _table({**columns, **reason_columns(outcome.reasons, len(rows))}, DECISIONS)


def _accelerators(outcome: Outcome) -> pa.Table:
    problem = outcome.problem
    types = [problem.table.types[column] for column in problem.columns]
    seen: dict[int, int] = {}
    names = []
    for kind in map(int, problem.type_of):
        names.append(f"{types[kind]}-{seen.setdefault(kind, 0)}")
        seen[kind] += 1
    columns = {
        "accelerator": np.arange(len(names)),
        "name": names,
        "type": _names(problem.type_of, types),
        "busy_s": outcome.busy_s,
        "work_s": outcome.lanes["isolated_sum_s"],
    }
    return _table(columns, ACCELERATORS)


def _costs(outcome: Outcome) -> pa.Table:
    """One row per layer and accelerator type that can run it; estimates as they were at the end of the run."""
    problem = outcome.problem
    table, costs = problem.table, problem.costs
    able = np.isfinite(costs.latency_s)
    row, kind = np.nonzero(able)
    model = np.searchsorted(table.offsets, row, side="right") - 1
    layer_names = np.array([layer.name for m in table.models for layer in m.layers], object)

    def pick(array: Numbers) -> Numbers:
        return array[row, kind]

    columns = {
        "model": _names(model, [m.name for m in table.models]),
        "layer": row - table.offsets[model],
        "layer_name": layer_names[row],
        "type": _names(kind, [table.types[column] for column in problem.columns]),
        "latency_s": pick(costs.latency_s),
        "estimate_s": pick(outcome.estimate_s),
        "demand_bytes_s": pick(costs.demand_bytes_s),
        "dram_bytes": pick(costs.dram_bytes),
        "energy_j": pick(costs.energy_j),
    }
    return _table(columns, COSTS)
