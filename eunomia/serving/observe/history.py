"""The last seconds of the server, for the live page: who ran where, and why requests missed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from eunomia.core.data import Json
from eunomia.serving.observe.busy import Busy
from eunomia.serving.observe.retired import Retired
from eunomia.serving.observe.strain import Strain
from eunomia.serving.protocol.errors import InputRefused

RUNS, MISSES, RATES = 2000, 50, 120


class Run(NamedTuple):
    """One run of blocks on one device."""

    device: int
    tenant: str
    model: str
    start_s: float
    end_s: float
    preempted: bool


@dataclass
class History:
    """Bounded, whatever the load."""

    strain: Strain
    runs: deque[Run] = field(default_factory=lambda: deque(maxlen=RUNS))
    misses: deque[Json] = field(default_factory=lambda: deque(maxlen=MISSES))
    busy: Busy = field(default_factory=Busy)
    seconds: deque[tuple[int, dict[str, list[int]]]] = field(
        default_factory=lambda: deque(maxlen=RATES)
    )  # each with hits and misses by tenant

    def ran(self, run: Run) -> None:
        """Note one run."""
        self.runs.append(run)
        self.busy.ran(run.tenant, run.start_s, run.end_s)

    def rates(self, only: str | None) -> list[list[int]]:
        """Of each second, hits and misses of one tenant, or of all."""
        return [[second, *_sum(tenants, only)] for second, tenants in self.seconds]

    def retired(self, request: Retired, now_s: float) -> None:
        """Note one answer, and why it was a miss if it was one."""
        second = int(now_s)
        if not self.seconds or self.seconds[-1][0] != second:
            self.seconds.append((second, {}))
        self.strain.note(request, now_s)
        hit = request.outcome == "hit"
        self.seconds[-1][1].setdefault(request.tenant, [0, 0])[0 if hit else 1] += 1
        if not hit and request.outcome != InputRefused.reason:  # a client could fill the page with those
            self.misses.append(
                {
                    "time_s": now_s,
                    "tenant": request.tenant,
                    "model": request.model,
                    "outcome": request.outcome,
                    "response_ms": request.response_s * 1e3,
                    "queue_ms": request.queue_s * 1e3,
                    "service_ms": request.service_s * 1e3,
                    "deadline_ms": request.deadline_s * 1e3,
                    "preemptions": request.preemptions,
                    "why": why(request, self.strain.of(request, now_s)),
                }
            )


def _sum(tenants: Mapping[str, Sequence[int]], only: str | None) -> list[int]:
    rows = [row for tenant, row in tenants.items() if only in (None, tenant)]
    return [sum(row[n] for row in rows) for n in range(2)]


def why(request: Retired, machine: str = "") -> str:
    """The largest part of the time that a miss took, in words, and what the ``machine`` had to do with it."""
    return f"{_largest(request)}; {machine}" if machine else _largest(request)


def _largest(request: Retired) -> str:
    if not request.answered:
        return {
            "hopeless": "given up: its deadline could no longer be met",
            "expired": "its own timeout passed while it waited",
            "cancelled": "the client went away",
            "model_failed": "the network failed",
            "bad_input": "the network refuses its input",
            "no_room": "its answer had no room",
            "too_long": "its run was ended",
        }.get(request.outcome, request.outcome)
    server_s = request.reach_s + request.answer_s
    between_s = request.response_s - request.queue_s - request.service_s - request.answer_s
    parts = {
        "it waited for its first block": request.queue_s - request.reach_s,
        "its own blocks took most of the time": request.service_s,
        f"it waited between blocks ({request.preemptions} times stopped for others)": between_s,
        "the server's own thread took most of the time, before its first block and after its last": server_s,
    }
    return max(parts, key=lambda name: parts[name])
