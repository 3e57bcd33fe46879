"""What every reader of cluster traces returns: one row per job, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import TraceError
from eunomia.workload.traces.format import Format

Codes = npt.NDArray[np.int32]
Texts = npt.NDArray[np.object_]

# what else a trace may say of its jobs; nan and "" = not of this one
NUMBERS = {
    "wait_s": "how long it waited under the scheduler of the log",
    "time_limit_s": "the user's limit of its run time",
    "priority": "of its class; more goes first (Kueue)",
    "partition_factor": "priority of its partition over the highest (Slurm)",
    "qos_factor": "priority of its quality of service over the highest (Slurm)",
}
TEXTS = {
    "device": "device types that it may run on, separated by commas; empty = any",
    "ran_on": "the device type of its run time",
    "partition": "queue of the batch system",
    "qos": "quality of service of the batch system",
}
_ROWS = ("arrival_s", "gpus", "tenant", "job_type", "steps", "duration_s", "weight", "slo")


@dataclass(frozen=True, eq=False)
class JobTrace:
    """Jobs as they were submitted, by arrival; ties keep the order of the file.

    A trace gives ``steps`` (with a job type) or ``duration_s`` (run time on the cluster it was taken
    from); what it does not give is nan. ``to_jobs`` turns one into the other by a stated rule.
    """

    format: str
    path: str
    ids: tuple[str, ...]
    arrival_s: Floats  # (n,) ascending, at least 0
    gpus: Ints  # (n,) devices asked for, at least 1
    tenants: tuple[str, ...]
    tenant: Codes  # (n,) index into tenants
    job_types: tuple[str, ...]
    job_type: Codes  # (n,) index into job_types, -1 = not named
    steps: Floats  # (n,) whole numbers of at least 1, nan = not given
    duration_s: Floats  # (n,) nan = not given
    weight: Floats  # (n,) above 0
    slo: Floats  # (n,) allowed completion time as a multiple of the time alone; nan = none
    source: str = ""
    licence: str = ""
    notes: tuple[str, ...] = ()  # what the reader left out or assumed
    more: Mapping[str, Floats | Texts] = field(default_factory=dict)  # (n,) each, see NUMBERS and TEXTS

    def __len__(self) -> int:
        return len(self.arrival_s)

    def select(self, rows: npt.NDArray[np.bool_] | Ints | slice) -> JobTrace:
        """Some of the rows; times are kept."""
        numbers = np.arange(len(self))[rows]
        kept = {name: getattr(self, name)[rows] for name in _ROWS}
        more = {name: values[rows] for name, values in self.more.items()}
        return replace(self, ids=tuple(self.ids[number] for number in numbers), more=more, **kept)

    def with_notes(self, *notes: str) -> JobTrace:
        """The same trace with more remarks; empty ones are left out."""
        return replace(self, notes=(*self.notes, *(note for note in notes if note)))


@dataclass(frozen=True, slots=True)
class JobTraceFormat(Format[JobTrace]):
    """One entry of ``eunomia.job_traces``."""


def by_arrival(trace: JobTrace, from_zero: bool = True) -> JobTrace:
    """Rows in order of arrival, ties in order of the file; ``from_zero`` moves the first to time 0."""
    order = np.argsort(trace.arrival_s, kind="stable")
    ordered = trace.select(order) if (np.diff(order) < 0).any() else trace
    shift = float(ordered.arrival_s[0]) if from_zero and len(trace) else 0.0
    return replace(ordered, arrival_s=ordered.arrival_s - shift)


def require_unique(path: Path, ids: Sequence[str], line: Callable[[int], int | None]) -> None:
    """Raise TraceError for the first id that stood on an earlier row; ``line`` gives the line of a row."""
    if len(set(ids)) == len(ids):
        return
    seen: dict[str, int] = {}
    for row, name in enumerate(ids):
        if name in seen:
            raise TraceError(f"job '{name}' was already on line {line(seen[name])}", path, line(row), "job")
        seen[name] = row


def numbered(count: int) -> tuple[str, ...]:
    """Ids of jobs that have no name of their own: their row, from 0."""
    return tuple(map(str, range(count)))


def no_value(count: int) -> Floats:
    """A column that the trace does not give."""
    return np.full(count, np.nan)


class Told(TypedDict, total=False):
    """What a reader may tell of a trace besides. Left out: rows are numbered, and nothing is known of its origin."""

    ids: tuple[str, ...]
    source: str
    licence: str
    notes: tuple[str, ...]
    more: Mapping[str, Floats | Texts]


def of_durations(
    format: str,
    path: Path,
    arrival_s: Floats,
    gpus: Ints,
    duration_s: Floats,
    tenants: tuple[str, ...],
    tenant: Codes,
    **told: Unpack[Told],
) -> JobTrace:
    """A trace that names no networks and gives run times: sorted by arrival, from time 0."""
    count = len(arrival_s)
    return by_arrival(
        JobTrace(
            format,
            str(path),
            told.get("ids") or numbered(count),
            np.asarray(arrival_s, np.float64),
            gpus,
            tenants,
            tenant,
            (),
            np.full(count, -1, np.int32),
            no_value(count),
            np.asarray(duration_s, np.float64),
            np.ones(count),
            no_value(count),
            told.get("source", ""),
            told.get("licence", ""),
            told.get("notes", ()),
            told.get("more", {}),
        )
    )
