"""Additions of a foreign package: every form in which a table, an entry point or a file may hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from eunomia.cluster.traces import JobTrace
from eunomia.cluster.traces.job_trace import of_durations
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.contract.view import Assign, View
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.types import load_type
from eunomia.workload.model import DnnModel
from eunomia.workload.traces import Trace, TraceFormat
from eunomia.workload.zoo import load


def last_first(view: View, skip: int = 0) -> list[Assign]:
    """Start what became ready last, or ``skip`` places before it, on the first idle accelerator."""
    row = max(len(view) - 1 - skip, 0)
    return [view.assign(row, int(view.idle[0]))]


@dataclass
class Patient:
    """The same as a class that counts how often it was asked."""

    skip: int = 0
    asked: int = 0

    def reset(self, seed: int) -> None:
        """A run begins."""
        self.asked = 0

    def __call__(self, view: View) -> Sequence[Assign]:
        """One start."""
        self.asked += 1
        return last_first(view, self.skip)


def patient(skip: int = 0) -> Patient:
    """The same as a function that makes a policy."""
    return Patient(skip)


patience = Patient()


@dataclass(frozen=True)
class Equal:
    """Every job gets ``part`` of what ``isolated`` gives it."""

    part: float = 1.0
    needs: Needs = Needs(agnostic=True)

    def reset(self, seed: int) -> None:
        """Nothing to forget."""

    def allocate(self, view: ClusterView) -> Allocation:
        """Shares (M, J)."""
        from eunomia.cluster.shares import isolated_shares

        shares = isolated_shares(view.capacity, view.scale)
        return Allocation(shares=self.part * np.where(view.usable, shares, 0.0))


def equal(part: float = 1.0) -> Equal:
    """The same as a function that makes an allocator."""
    return Equal(part)


equality = Equal()


@dataclass(frozen=True)
class Metronome:
    """One request every ``gap_s``."""

    gap_s: float = 0.01

    @property
    def mean_rate_per_s(self) -> float:
        """Requests per second."""
        return 1.0 / self.gap_s

    def times(self, rng: np.random.Generator, duration_s: float) -> np.ndarray:
        """Arrival times."""
        return np.arange(0.0, duration_s, self.gap_s)


def metronome(gap_s: float = 0.01) -> Metronome:
    """The same as a function that makes a process."""
    return Metronome(gap_s)


def seconds(path: Path, max_rows: int = 1000) -> Trace:
    """Arrival times, one per line."""
    times_s = np.loadtxt(path)[:max_rows]
    nobody = np.zeros(len(times_s), np.int32)
    return Trace("seconds", str(path), times_s, ("me",), nobody, (), nobody - 1)


SECONDS = TraceFormat("seconds", "Arrival times, one per line.", (), seconds)


def durations(path: Path, max_rows: int = 1000) -> JobTrace:
    """Run times of one-device jobs, one per line, all submitted at once."""
    run_s = np.loadtxt(path)[:max_rows]
    none = np.zeros(len(run_s), np.int32)
    return of_durations("durations", path, 0.0 * run_s, none.astype(np.int64) + 1, run_s, ("me",), none)


def twin_of_kws() -> DnnModel:
    """A network under a name of its own."""
    return replace(load("kws-res8"), name="twin-of-kws")


def large_simba() -> AcceleratorType:
    """Simba with twice the buffer."""
    simba = load_type("simba")
    assert isinstance(simba, AcceleratorType)
    return replace(simba, name="large-simba", buffer_bytes=2 * simba.buffer_bytes)


def broken(view: View) -> list[Assign]:
    """An answer that is none."""
    return None  # type: ignore[return-value]
