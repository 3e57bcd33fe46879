"""Public cluster traces as jobs: one reader per format, found by name or by the file's first line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat
from eunomia.core.errors import ConfigError, TraceError
from eunomia.core.registry import Registry
from eunomia.workload.traces.format import Formats

__all__ = ["JOB_TRACES", "JobTrace", "JobTraceFormat", "detect", "read_jobs"]

JOB_TRACES = Registry(
    "job trace format",
    "eunomia.job_traces",
    {
        "canonical": "eunomia.cluster.traces.canonical:FORMAT",
        "gavel": "eunomia.cluster.traces.gavel:FORMAT",
        "philly": "eunomia.cluster.traces.philly:FORMAT",
        "helios": "eunomia.cluster.traces.helios:FORMAT",
        "acme": "eunomia.cluster.traces.acme:FORMAT",
        "alibaba-pai": "eunomia.cluster.traces.alibaba_pai:FORMAT",
        "sacct": "eunomia.cluster.traces.sacct:FORMAT",
        "kueue": "eunomia.cluster.traces.kueue:FORMAT",
        "openb": "eunomia.cluster.traces.openb:FORMAT",
        "gentd26": "eunomia.cluster.traces.gentd26:FORMAT",
        "columns": "eunomia.cluster.traces.columns:FORMAT",
        "swf": "eunomia.cluster.traces.swf:FORMAT",
    },
)

FORMATS = Formats(JOB_TRACES, JobTraceFormat)


def read_jobs(
    path: str | Path,
    format: str = "auto",
    max_rows: int = 20_000_000,
    columns: Mapping[str, str] | None = None,
) -> JobTrace:
    """Read a trace; ``format``: a registered name, ``FILE.py:NAME`` or ``auto``. Raises ConfigError, TraceError.

    ``columns``: what is wanted (:mod:`~eunomia.cluster.traces.columns`) -> the name of the file's column.
    """
    path = Path(path)
    if columns:
        from eunomia.cluster.traces.columns import read

        if format not in ("auto", "columns"):
            raise ConfigError(f"columns are mapped for format 'columns' only, not for '{format}'")
        return read(path, max_rows=max_rows, mapping=columns)
    return FORMATS.find(detect(path) if format == "auto" else format).read(path, max_rows=max_rows)


def detect(path: str | Path) -> str:
    """The format of a file by its first bytes; raises TraceError when none fits."""
    from eunomia.workload.traces.exact import header

    path = Path(path)
    found = FORMATS.beginning(path) or FORMATS.fitting(set(header(path)))
    if found is not None:
        return found
    raise TraceError(
        "no known job trace starts like this; say which columns of a CSV hold what, as in "
        '--column submit=when (in TOML: columns = { submit = "when" }), or name the format: '
        f"{', '.join(JOB_TRACES)}",
        path,
        1,
    )
