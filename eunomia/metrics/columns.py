"""The record tables as NumPy columns: from Arrow tables or from mappings of arrays, nulls made explicit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import RecordError

Mask = npt.NDArray[np.bool_]
Table: TypeAlias = pa.Table | Mapping[str, Any]  # a table of eunomia.core.schemas, or its columns as arrays
Tables: TypeAlias = Mapping[str, Table]

OUTCOMES = ("hit", "late", "dropped", "unfinished")
HIT, LATE, DROPPED, UNFINISHED = range(4)


@dataclass(frozen=True)
class Names:
    """A column of names, as codes into ``names`` (sorted, so that the order of rows does not matter)."""

    codes: Ints  # (n,)
    names: tuple[str, ...]

    def __getitem__(self, rows: Any) -> Names:
        """The same names, fewer rows."""
        return Names(self.codes[rows], self.names)

    def code(self, name: str) -> int:
        """Index of a name; -1 when no row has it."""
        return self.names.index(name) if name in self.names else -1


@dataclass(frozen=True)
class Requests:
    """Columns of the requests table (eunomia/core/schemas.py), one row per request, times in seconds."""

    request: Ints
    tenant: Names
    model: Names
    arrival_s: Floats
    deadline_s: Floats  # absolute; inf = none
    finish_s: Floats  # end of the last layer, or the instant of the drop; nan = unfinished
    outcome: Ints  # HIT, LATE, DROPPED, UNFINISHED
    isolated_s: Floats  # iso of the model
    running_s: Floats  # time with at least one layer running
    work_s: Floats
    stretch_s: Floats
    switch_s: Floats
    energy_j: Floats
    priority: Floats

    @classmethod
    def read(cls, table: Table) -> Self:
        """Columns of a requests table; raises RecordError when a column or an outcome is unknown."""
        numbers = {name: _floats(table, name) for name in _NUMBERS}
        numbers["deadline_s"] = np.where(np.isnan(numbers["deadline_s"]), np.inf, numbers["deadline_s"])
        return cls(
            request=_ints(table, "request"),
            tenant=_names(table, "tenant"),
            model=_names(table, "model"),
            outcome=_outcomes(_names(table, "outcome")),
            **numbers,
        )

    def __len__(self) -> int:
        return len(self.request)

    def where(self, rows: Mask | Ints) -> Self:
        """The requests of these rows; tenants and models keep their codes."""
        return replace(self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @property
    def hit(self) -> Mask:
        """(n,) finished by the deadline."""
        return np.asarray(self.outcome == HIT)

    @property
    def finished(self) -> Mask:
        """(n,) ran to the end, in time or late."""
        return np.asarray(self.outcome <= LATE)

    @property
    def response_s(self) -> Floats:
        """(n,) finish - arrival; nan for dropped and unfinished requests."""
        return np.where(self.finished, self.finish_s - self.arrival_s, np.nan)


_NUMBERS = (
    "arrival_s",
    "deadline_s",
    "finish_s",
    "isolated_s",
    "running_s",
    "work_s",
    "stretch_s",
    "switch_s",
    "energy_j",
    "priority",
)


@dataclass(frozen=True)
class Subjobs:
    """Columns of the subjobs table, one row per started layer, with what the metrics need of the costs."""

    start_s: Floats  # layers that never started are left out
    end_s: Floats  # inf = still running when the run ended
    work_s: Floats  # isolated time, true
    demand_bytes_s: Floats  # true bandwidth demand; nan when costs are missing

    @classmethod
    def read(cls, tables: Tables) -> Self:
        """Layers that started, with the demand looked up in costs by (model, layer, type)."""
        table = tables["subjobs"]
        start_s, end_s = _floats(table, "start_s"), _floats(table, "end_s")
        started = np.flatnonzero(~np.isnan(start_s))
        return cls(
            start_s=start_s[started],
            end_s=np.where(np.isnan(end_s), np.inf, end_s)[started],
            work_s=_floats(table, "work_s")[started],
            demand_bytes_s=_demand_bytes_s(tables, started),
        )


@dataclass(frozen=True)
class Layers:
    """Layers that started, with what each takes alone on every accelerator."""

    request: Ints  # numbers of all requests, in the order of their table
    row: Ints  # of that table, for each layer
    ready_s: Floats
    start_s: Floats
    end_s: Floats  # inf = still running when the run ended
    accelerator: Ints
    isolated_s: Floats  # (layers, accelerators); inf = cannot run there, or unknown

    @classmethod
    def read(cls, tables: Tables) -> Self:
        """Needs the tables requests, subjobs, costs and accelerators."""
        table, costs = tables["subjobs"], Costs.read(tables["costs"])
        started = np.flatnonzero(~np.isnan(_floats(table, "start_s")))
        place = _places(tables, started, costs)
        dense = np.full(place.shape, np.inf)
        dense[place.cost_at] = np.where(np.isnan(costs.latency_s), np.inf, costs.latency_s)
        end_s = _floats(table, "end_s")[started]
        return cls(
            request=_ints(tables["requests"], "request"),
            row=place.row,
            ready_s=_floats(table, "ready_s")[started],
            start_s=_floats(table, "start_s")[started],
            end_s=np.where(np.isnan(end_s), np.inf, end_s),
            accelerator=_floats(table, "accelerator")[started].astype(np.int64),
            isolated_s=dense[place.model, place.layer][:, place.type_of],
        )


@dataclass(frozen=True)
class Costs:
    """Columns of the costs table: one row per (model, layer, accelerator type)."""

    model: Names
    layer: Ints
    type: Names
    latency_s: Floats
    demand_bytes_s: Floats
    energy_j: Floats

    @classmethod
    def read(cls, table: Table) -> Self:
        """Columns of a costs table."""
        return cls(
            model=_names(table, "model"),
            layer=_ints(table, "layer"),
            type=_names(table, "type"),
            latency_s=_floats(table, "latency_s"),
            demand_bytes_s=_floats(table, "demand_bytes_s"),
            energy_j=_floats(table, "energy_j"),
        )


def num_rows(table: Table) -> int:
    """Number of rows of a table."""
    return len(next(iter(table.values()), ())) if isinstance(table, Mapping) else int(table.num_rows)


def accelerators(table: Table) -> tuple[Names, Floats, Floats]:
    """Type, busy seconds and isolated work seconds of each accelerator, in order of its index."""
    order = np.argsort(_ints(table, "accelerator"), kind="stable")
    return _names(table, "type")[order], _floats(table, "busy_s")[order], _floats(table, "work_s")[order]


def decision_times_s(table: Table) -> Floats:
    """Instants of the decisions."""
    return _floats(table, "time_s")


def _demand_bytes_s(tables: Tables, started: Ints) -> Floats:
    """(started,) demand of every started layer on the type it ran on."""
    if "costs" not in tables or "accelerators" not in tables:
        return np.full(len(started), np.nan)
    costs = Costs.read(tables["costs"])
    place = _places(tables, started, costs)
    dense = np.full(place.shape, np.nan)
    dense[place.cost_at] = costs.demand_bytes_s
    ran_on = _floats(tables["subjobs"], "accelerator")[started].astype(
        np.int64
    )  # null where a layer never started
    return np.asarray(dense[place.model, place.layer, place.type_of[ran_on]])


@dataclass(frozen=True)
class _Places:
    """Where layers and costs stand in a dense table (models, layers, types)."""

    shape: tuple[int, int, int]
    cost_at: tuple[Ints, Ints, Ints]
    row: Ints  # of the requests table
    model: Ints
    layer: Ints
    type_of: Ints  # (accelerators,)


def _places(tables: Tables, started: Ints, costs: Costs) -> _Places:
    """Raises RecordError where a layer belongs to no request."""
    table = tables["subjobs"]
    layer = _ints(table, "layer")[started]
    request, model = _ints(tables["requests"], "request"), _names(tables["requests"], "model")
    order = np.argsort(request, kind="stable")
    asked = _ints(table, "request")[started]
    place = np.minimum(np.searchsorted(request, asked, sorter=order), max(len(order) - 1, 0))
    row = order[place] if len(order) else place
    if len(asked) and not (len(order) and np.array_equal(request[row], asked)):
        raise RecordError(
            "table 'subjobs' names a request that is not in table 'requests'; the run is damaged"
        )
    # dense (models, layers, types) table in the codes of the requests and accelerators tables
    kind = accelerators(tables["accelerators"])[0]
    layers = int(max(costs.layer.max(initial=-1), layer.max(initial=-1))) + 1
    return _Places(
        shape=(len(model.names) + 1, layers, len(kind.names) + 1),
        cost_at=(_translate(costs.model, model), costs.layer, _translate(costs.type, kind)),
        row=row,
        model=model.codes[row],
        layer=layer,
        type_of=kind.codes,
    )


def _translate(column: Names, other: Names) -> Ints:
    """Codes of ``column`` in the names of ``other``; -1 where it has no such name."""
    table = np.array([other.code(name) for name in column.names], np.int64)
    return table[column.codes] if len(table) else np.empty(0, np.int64)


def _column(table: Table, name: str) -> Any:
    known = table.column_names if isinstance(table, pa.Table) else table
    if name not in known:
        raise RecordError(f"the table has no column '{name}'; it has: {', '.join(known)}")
    return table[name]


def _floats(table: Table, name: str) -> Floats:
    column = _column(table, name)
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_null(column.type):
            return np.full(len(column), np.nan)
        column = column.to_numpy()
    return np.asarray(column, np.float64)


def _ints(table: Table, name: str) -> Ints:
    column = _column(table, name)
    return np.asarray(column.to_numpy() if isinstance(column, pa.ChunkedArray) else column, np.int64)


def _names(table: Table, name: str) -> Names:
    column = _column(table, name)
    array = (
        column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([pa.array(column, pa.string())])
    )
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    array = array.unify_dictionaries().combine_chunks()
    if array.null_count:
        raise RecordError(f"column '{name}' has {array.null_count} empty entries; each row needs a name")
    return _sorted_names(array.indices.to_numpy().astype(np.int64), array.dictionary.to_pylist())


def _sorted_names(codes: Ints, words: list[str]) -> Names:
    """Names in alphabetical order, without those that no row has."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(words)))
    order = sorted(used.tolist(), key=lambda code: words[code])
    rank = np.full(len(words), -1, np.int64)
    rank[order] = np.arange(len(order))
    return Names(rank[codes], tuple(words[code] for code in order))


def _outcomes(column: Names) -> Ints:
    unknown = [name for name in column.names if name not in OUTCOMES]
    if unknown:
        raise RecordError(f"unknown outcome '{unknown[0]}'; known: {', '.join(OUTCOMES)}")
    return _translate(column, Names(np.empty(0, np.int64), OUTCOMES))
