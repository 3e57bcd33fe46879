"""Public traces as arrivals: one reader per format, found by name or by the file's header."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ConfigError, TraceError
from eunomia.core.registry import Registry
from eunomia.workload.traces.format import Formats, TraceFormat
from eunomia.workload.traces.trace import Trace

__all__ = ["TRACES", "Trace", "TraceFormat", "detect", "open", "read_arrivals"]

TRACES = Registry(
    "trace format",
    "eunomia.traces",
    {
        "canonical": "eunomia.workload.traces.canonical:FORMAT",
        "azure-llm": "eunomia.workload.traces.azure_llm:FORMAT",
        "azure-functions": "eunomia.workload.traces.azure_functions:FORMAT",
        "burstgpt": "eunomia.workload.traces.burstgpt:FORMAT",
        "philly": "eunomia.workload.traces.philly:FORMAT",
    },
)

FORMATS = Formats(TRACES, TraceFormat)


def open(format: str, path: str | Path, **options: Any) -> Trace:
    """Read a trace; ``format``: a registered name, ``FILE.py:NAME`` or ``auto``; ``options`` are the reader's own.

    All readers take ``max_rows``. Raises UnknownNameError for the format, ConfigError for an option
    that its reader does not have, TraceError for the file.
    """
    path = Path(path)
    chosen = FORMATS.find(detect(path) if format == "auto" else format)
    known = [name for name in inspect.signature(chosen.read).parameters if name != "path"]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ConfigError(
            f"trace format '{chosen.name}' has no option '{unknown[0]}'; it has: {', '.join(known)}"
        )
    return chosen.read(path, **options)


def read_arrivals(format: str, path: str | Path, **options: Any) -> npt.NDArray[np.float64]:
    """The arrival times of a trace alone, seconds, ascending: input of ``arrivals.Replay``."""
    return open(format, path, **options).arrival_s


def detect(path: str | Path) -> str:
    """The format of a file by its first bytes and header; raises TraceError when none fits."""
    from eunomia.workload.traces.exact import header

    path = Path(path)
    if (beginning := FORMATS.beginning(path)) is not None:
        return beginning
    names = set(header(path))
    if (fitting := FORMATS.fitting(names)) is not None:
        return fitting
    need, name = max(FORMATS.needs(), key=lambda entry: len(entry[0] & names) / len(entry[0]))
    lacks = ", ".join(sorted(need - names))
    raise TraceError(
        f"no known trace format has this header; the nearest is '{name}', which also needs {lacks}; "
        f"name the format: {', '.join(TRACES)}",
        path,
        1,
    )
