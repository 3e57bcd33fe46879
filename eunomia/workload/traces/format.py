"""What a trace format is: a name, the headers that give it away, and a reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eunomia.workload.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One entry of ``eunomia.traces``.

    ``read(path, max_rows=..., **options) -> Trace`` raises TraceError for what it cannot read.
    ``headers``: sets of column names; a CSV file that has all names of one set is of this format.
    """

    name: str
    what: str  # one line for listings
    headers: tuple[frozenset[str], ...]
    read: Callable[..., Trace]
