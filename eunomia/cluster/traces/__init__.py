"""Public cluster traces as jobs: one reader per format, found by name or by the file's first line."""

from __future__ import annotations

from pathlib import Path

from eunomia.cluster.traces.job_trace import JobTrace, JobTraceFormat
from eunomia.core.errors import TraceError
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
        "alibaba-pai": "eunomia.cluster.traces.alibaba_pai:FORMAT",
        "swf": "eunomia.cluster.traces.swf:FORMAT",
    },
)

FORMATS = Formats(JOB_TRACES, JobTraceFormat)


def read_jobs(path: str | Path, format: str = "auto", max_rows: int = 20_000_000) -> JobTrace:
    """Read a trace; ``format``: a registered name, ``FILE.py:NAME`` or ``auto``. Raises ConfigError, TraceError."""
    path = Path(path)
    return FORMATS.find(detect(path) if format == "auto" else format).read(path, max_rows=max_rows)


def detect(path: str | Path) -> str:
    """The format of a file by its first bytes; raises TraceError when none fits."""
    from eunomia.workload.traces.exact import header

    path = Path(path)
    found = FORMATS.beginning(path) or FORMATS.fitting(set(header(path)))
    if found is not None:
        return found
    raise TraceError(
        f"no known job trace starts like this; name the format: {', '.join(JOB_TRACES)}", path, 1
    )
