"""Azure's LLM inference traces of 2023 (two files of an hour) and 2024 (two files of a week).

Rows name no model and no customer: one file is one tenant, and the scenario chooses the model, for all
rows or by context length (``Trace.with_model``, ``Trace.with_buckets``). Stamps have 7 fractional
digits in 2023 and 0 or 6 with an offset in 2024. The 2024 conversation file has 27.3 million rows:
raise ``max_rows``, and expect about 1 GB of memory.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eunomia.workload.traces.exact import Column
from eunomia.workload.traces.format import TraceFormat
from eunomia.workload.traces.table import MAX_ROWS, read_columns
from eunomia.workload.traces.trace import Trace, sorted_from_zero

COLUMNS = (
    Column("TIMESTAMP", "stamp"),
    Column("ContextTokens", "int", least=0),
    Column("GeneratedTokens", "int", least=0),
)


def read(path: Path, *, max_rows: int = MAX_ROWS, tenant: str = "azure-llm") -> Trace:
    """One row per request; ``tenant`` names the file's one tenant. Sorted by the reader."""
    values = read_columns(path, COLUMNS, max_rows)
    count = len(values["TIMESTAMP"])
    return sorted_from_zero(
        Trace(
            format="azure-llm",
            path=str(path),
            arrival_s=values["TIMESTAMP"],
            tenants=(tenant,),
            tenant=np.zeros(count, np.int32),
            models=(),
            model=np.full(count, -1, np.int32),
            context_tokens=values["ContextTokens"],
            generated_tokens=values["GeneratedTokens"],
            source="Azure/AzurePublicDataset, LLM inference trace (2023: Splitwise, ISCA 2024; 2024: DynamoLLM)",
            licence="CC BY 4.0",
            notes=("rows name no model: choose one for all, or by context tokens",),
        )
    )


FORMAT = TraceFormat(
    "azure-llm",
    "Azure LLM inference 2023 and 2024: one row per request, with token counts",
    (frozenset(column.name for column in COLUMNS),),
    read,
    example="TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,3,4\n2023-11-16 18:00:04.5,5,6\n",
)
