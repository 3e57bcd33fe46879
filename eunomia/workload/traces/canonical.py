"""Eunomia's own trace schema, CSV or Parquet: what every other trace can be turned into.

===================  ======  ========================================================================
column               type    meaning
===================  ======  ========================================================================
arrival_s            float   seconds, at least 0, ascending (or read with ``sort``)
tenant               text    may be missing: all rows belong to the tenant "trace"; never empty
model                text    may be missing or empty: the scenario chooses
deadline_s           float   absolute, after the arrival; empty = none
relative_deadline_s  float   after the arrival, positive; empty = none; not together with deadline_s
priority             float   higher is more urgent
duration_s           float   measured run time; empty = unknown
context_tokens       int
generated_tokens     int
gpus                 int
===================  ======  ========================================================================

Only ``arrival_s`` is required. A CSV file keeps the rows alone; a Parquet file keeps
source, licence and notes as well, in the key ``eunomia.trace`` of its metadata.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import Column
from eunomia.workload.traces.format import TraceFormat
from eunomia.workload.traces.parquet import is_parquet, read_parquet, require_order, write_table, wrong_row
from eunomia.workload.traces.table import MAX_ROWS, Names, Values, first, read_columns
from eunomia.workload.traces.trace import OPTIONAL, Trace

COLUMNS = (
    Column("arrival_s", "float", least=0),
    Column("tenant", "text", optional=True),
    Column("model", "text", optional=True, blank=True),
    Column("deadline_s", "float", optional=True, blank=True),
    Column("relative_deadline_s", "float", optional=True, blank=True),
    Column("priority", "float", optional=True),
    Column("duration_s", "float", optional=True, blank=True, least=0),
    Column("context_tokens", "int", optional=True, least=0),
    Column("generated_tokens", "int", optional=True, least=0),
    Column("gpus", "int", optional=True, least=0),
)
METADATA = b"eunomia.trace"
ONE_TENANT = "trace"  # of a file without tenants


def read(path: Path, *, max_rows: int = MAX_ROWS, sort: bool = False) -> Trace:
    """Read a canonical trace; times stay as they are. Unsorted rows are an error unless ``sort``."""
    if is_parquet(path):
        values, metadata = read_parquet(path, COLUMNS, max_rows)
        known = _about(metadata.get(METADATA))
    else:
        values, known = read_columns(path, COLUMNS, max_rows), About()
    if "deadline_s" in values and "relative_deadline_s" in values:
        raise TraceError("give either deadline_s or relative_deadline_s, not both", path, 1, "deadline_s")
    arrival_s = values["arrival_s"]
    if not sort:
        require_order(path, arrival_s, ", or open the file in Python with sort=True")
    values.setdefault("tenant", Names((ONE_TENANT,), np.zeros(len(arrival_s), np.int32)))
    models, model = _models(values)
    optional = {name: values[name] for name in OPTIONAL if name in values and name != "relative_deadline_s"}
    trace = Trace(
        "canonical",
        str(path),
        arrival_s,
        values["tenant"].names,
        values["tenant"].codes,
        models,
        model,
        relative_deadline_s=_relative(path, values),
        **optional,
        **known,
    )
    ordered = not sort or bool((np.diff(arrival_s) >= 0.0).all())
    return trace if ordered else trace.select(np.argsort(arrival_s, kind="stable"))


def write(trace: Trace, path: str | Path) -> Path:
    """Write a trace as CSV or Parquet, by the file's ending, whole or not at all; raises OutputError."""
    return write_table(_table(trace), path, "a trace")


class About(TypedDict, total=False):
    """Where a trace comes from, as a Parquet file keeps it."""

    source: str
    licence: str
    notes: tuple[str, ...]


def _about(stored: bytes | None) -> About:
    """Source, licence and notes that ``write`` left; anything else is not ours and is passed over."""
    try:
        known = json.loads(stored or b"{}")
        return {
            "source": str(known["source"]),
            "licence": str(known["licence"]),
            "notes": tuple(str(note) for note in known["notes"]),
        }
    except (ValueError, KeyError, TypeError):
        return About()


def _models(values: Values) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Names and codes of the models, where an empty name is code -1."""
    if "model" not in values:
        return (), np.full(len(values["arrival_s"]), -1, np.int32)
    found: Names = values["model"]
    names = tuple(name for name in found.names if name)
    codes = np.array([names.index(name) if name else -1 for name in found.names], np.int32)
    return names, codes[found.codes]


def _relative(path: Path, values: Values) -> npt.NDArray[np.float64] | None:
    """Deadlines after the arrival, inf = none; they must lie after it."""
    for name, start_s in (("deadline_s", values["arrival_s"]), ("relative_deadline_s", 0.0)):
        if name not in values:
            continue
        given = values[name]
        past = first(given <= start_s)
        if past is not None:
            raise wrong_row(path, past, name, f"the deadline {given[past]:g} is not after the arrival")
        return np.where(np.isnan(given), np.inf, given - start_s)
    return None


def _table(trace: Trace) -> pa.Table:
    columns: dict[str, pa.Array] = {
        "arrival_s": pa.array(trace.arrival_s),
        "tenant": pa.array(np.array(trace.tenants, object)[trace.tenant], pa.string()),
    }
    if trace.models:
        names = np.array([*trace.models, None], object)  # code -1 is the last: no model
        columns["model"] = pa.array(names[trace.model], pa.string())
    for name in OPTIONAL:
        values = getattr(trace, name)
        if values is not None:
            empty = ~np.isfinite(values)
            columns[name] = pa.array(values, mask=empty if empty.any() else None)
    about = {"source": trace.source, "licence": trace.licence, "notes": trace.notes}
    return pa.table(columns).replace_schema_metadata({METADATA: json.dumps(about)})


FORMAT = TraceFormat(
    "canonical",
    "Eunomia's own schema, CSV or Parquet: arrival_s and up to nine more columns",
    (frozenset({"arrival_s"}),),
    read,
    begins=is_parquet,
    example="arrival_s,tenant,model\n0.5,a,resnet50\n1.25,b,bert-small\n",
)
