"""Azure Functions: calls per minute of 2019, and single calls of 2021.

2019: each row counts a function's calls in the 1,440 minutes of a day; each call is put at a uniform
time of its minute (seeded), so gaps within a minute are Poisson-like whatever they were. 2021: each
row is a call with its end and duration; it arrived at end - duration. Tenants are applications (or
owners, 2019), models are functions: map them with ``Trace.with_models`` or ``Trace.with_model``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ConfigError, TraceError
from eunomia.workload.traces.exact import Column, header, line_of
from eunomia.workload.traces.format import TraceFormat
from eunomia.workload.traces.table import MAX_ROWS, Names, read_columns
from eunomia.workload.traces.trace import Trace, sorted_from_zero

COUNTS = (Column("HashOwner", "text"), Column("HashApp", "text"), Column("HashFunction", "text"))
CALLS = (
    Column("app", "text"),
    Column("func", "text"),
    Column("end_timestamp", "float"),
    Column("duration", "float", least=0),
)
MINUTES = tuple(str(minute) for minute in range(1, 1441))


def read(
    path: Path,
    *,
    max_rows: int = MAX_ROWS,  # calls, not lines
    seed: int = 0,  # of the times within the minutes, 2019
    tenants: Literal["app", "owner"] = "app",
) -> Trace:
    """One row per call, sorted, from 0; the header names the release."""
    if tenants not in ("app", "owner"):
        raise ConfigError(f"azure-functions tenants is '{tenants}'; choose one of: app, owner")
    if "end_timestamp" in header(path):
        if tenants == "owner":
            raise ConfigError("the 2021 release of azure-functions names no owners; use tenants = app")
        return _calls(path, max_rows)
    return _counts(path, max_rows, seed, "HashApp" if tenants == "app" else "HashOwner")


def _counts(path: Path, max_rows: int, seed: int, tenant_column: str) -> Trace:
    minutes = [name for name in header(path) if name in set(MINUTES)]
    if not minutes:
        raise TraceError("no minute columns: a 2019 file has columns 1..1440 with calls per minute", path, 1)
    per_minute: list[npt.NDArray[np.int64]] = []
    total = 0

    def collect(batch: Any) -> None:
        nonlocal total
        counts = np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in minutes], axis=1)
        _check_counts(path, counts, minutes, sum(len(block) for block in per_minute))
        total += int(counts.sum())
        if total > max_rows:
            raise TraceError(
                f"more than {max_rows} calls; keep a part of the file, or open it in Python with a larger max_rows",
                path,
            )
        per_minute.append(counts.astype(np.int64))

    values = read_columns(path, COUNTS, max_rows, collect, extra=minutes)
    counts = np.concatenate(per_minute)  # (functions, minutes)
    if not total:
        raise TraceError("no calls in any minute of this file", path)
    function, minute = np.nonzero(counts)
    repeats = counts[function, minute]
    start_s = 60.0 * (np.array([int(name) for name in minutes]) - 1.0)
    within_s = np.random.default_rng(seed).uniform(0.0, 60.0, total)
    rows = np.repeat(function, repeats)
    return _trace(
        path,
        np.repeat(start_s[minute], repeats) + within_s,
        _of_rows(values[tenant_column], rows),
        _of_rows(values["HashFunction"], rows),
        None,
        ("calls are spread uniformly over their minute",),
        "Azure/AzurePublicDataset, Azure Functions 2019 (Shahrad et al., ATC 2020)",
    )


def _of_rows(names: Names, rows: npt.NDArray[np.int64]) -> Names:
    return Names(names.names, names.codes[rows])


def _check_counts(
    path: Path, counts: npt.NDArray[np.float64 | np.int64], minutes: list[str], rows_before: int
) -> None:
    wrong = ~(counts >= 0)  # blanks are nan here
    if wrong.any():
        row, column = (int(place[0]) for place in np.nonzero(wrong))
        line = line_of(path, rows_before + row)
        raise TraceError(
            "the number of calls must be a whole number of at least 0", path, line, minutes[column]
        )


def _calls(path: Path, max_rows: int) -> Trace:
    values = read_columns(path, CALLS, max_rows)
    return _trace(
        path,
        values["end_timestamp"] - values["duration"],
        values["app"],
        values["func"],
        values["duration"],
        ("a call arrives at its end minus its duration",),
        "Azure/AzurePublicDataset, Azure Functions 2021 (Zhang et al., SOSP 2021)",
    )


def _trace(
    path: Path,
    arrival_s: npt.NDArray[np.float64],
    tenant: Names,
    model: Names,
    duration_s: npt.NDArray[np.float64] | None,
    notes: tuple[str, ...],
    source: str,
) -> Trace:
    return sorted_from_zero(
        Trace(
            format="azure-functions",
            path=str(path),
            arrival_s=arrival_s,
            tenants=tenant.names,
            tenant=tenant.codes,
            models=model.names,
            model=model.codes,
            duration_s=duration_s,
            source=source,
            licence="CC BY 4.0",
            notes=notes,
        )
    )


FORMAT = TraceFormat(
    "azure-functions",
    "Azure Functions 2019 (calls per minute) and 2021 (one row per call)",
    (frozenset({"HashOwner", "HashApp", "HashFunction", "1"}), frozenset(column.name for column in CALLS)),
    read,
    example="app,func,end_timestamp,duration\na,f,49.5,9.5\nb,g,50.5,0.5\n",
)
