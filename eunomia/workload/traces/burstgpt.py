"""BurstGPT: requests to ChatGPT and GPT-4 services over months, releases 1.1 and 2.0.

The first release lacks ``Session ID`` and ``Elapsed time``. Tenants are the log types (conversation,
API), models the called models. Failed requests have 0 response tokens; they did arrive, so they stay
unless ``drop_failed``.
"""

from __future__ import annotations

from pathlib import Path

from eunomia.core.errors import TraceError
from eunomia.workload.traces.exact import Column
from eunomia.workload.traces.format import TraceFormat
from eunomia.workload.traces.table import MAX_ROWS, read_columns
from eunomia.workload.traces.trace import Trace, sorted_from_zero

COLUMNS = (
    Column("Timestamp", "float", least=0),
    Column("Model", "text"),
    Column("Request tokens", "int", least=0),
    Column("Response tokens", "int", least=0),
    Column("Log Type", "text"),
    Column("Elapsed time", "float", optional=True, blank=True, least=0),
)


def read(path: Path, *, max_rows: int = MAX_ROWS, drop_failed: bool = False) -> Trace:
    """One row per request, sorted, shifted to start at 0."""
    values = read_columns(path, COLUMNS, max_rows)
    failed = values["Response tokens"] == 0
    trace = Trace(
        format="burstgpt",
        path=str(path),
        arrival_s=values["Timestamp"],
        tenants=values["Log Type"].names,
        tenant=values["Log Type"].codes,
        models=values["Model"].names,
        model=values["Model"].codes,
        duration_s=values.get("Elapsed time"),
        context_tokens=values["Request tokens"],
        generated_tokens=values["Response tokens"],
        source="HPMLL/BurstGPT, Wang et al. 2024 (arXiv 2401.17644)",
        licence="CC BY 4.0",
        notes=(f"{int(failed.sum())} failed requests {'left out' if drop_failed else 'kept'}",),
    )
    if drop_failed:
        trace = trace.select(~failed)
        if not len(trace):
            raise TraceError("all requests of this trace failed", path)
    return sorted_from_zero(trace)


FORMAT = TraceFormat(
    "burstgpt",
    "BurstGPT: one row per request, with model, token counts and log type",
    (frozenset(column.name for column in COLUMNS if not column.optional),),
    read,
    example=(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,API log\n"
        "45,GPT-4,10,2,12,API log\n"
    ),
)
