"""The simulator's View, made of the server's tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import ACCELERATOR, READY, SYSTEM, View
from eunomia.core.arrays import Floats, Records
from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.indicators import Indicator
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.lanes import Lane
from eunomia.serving.dispatch.offer import compile_offer
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.dispatch.waiting import WaitingTable
from eunomia.workload.tenant import Agreement


class IndicatorTable:
    """Indicators of all pairs as columns, so that a view reads them without a loop."""

    def __init__(self) -> None:
        self.indicators: list[Indicator] = []
        self._columns = np.zeros((3, 0))  # sli, gap, count
        self._timed: list[int] = []  # those that change with time alone

    def add(self, indicator: Indicator) -> None:
        """One more pair."""
        self._columns = np.concatenate([self._columns, np.zeros((3, 1))], axis=1)
        self.indicators.append(indicator)
        self.replace(len(self.indicators) - 1, indicator)

    def replace(self, pair: int, indicator: Indicator) -> None:
        """Something else was promised: what was seen so far says nothing about it."""
        self.indicators[pair] = indicator
        self._timed = [
            n for n, i in enumerate(self.indicators) if i.slo is not None and i.slo.kind == "throughput"
        ]
        self.changed(pair)

    def changed(self, pair: int) -> None:
        """An indicator has moved."""
        indicator = self.indicators[pair]
        self._columns[:, pair] = indicator.sli, indicator.gap, indicator.count

    def columns(self, now_s: float) -> npt.NDArray[np.float64]:
        """(3, pairs): indicator, gap and number of requests in the window."""
        for pair in self._timed:
            self.indicators[pair].refresh(now_s)
            self.changed(pair)
        return self._columns


Facts = tuple[float, ...]  # fields of READY


class Owed(NamedTuple):
    """What a view would have shown of the only request and the only device, which is idle."""

    facts: Facts
    at_s: float
    latency_s: float
    last_request: int
    busy_s: float
    starts: int
    finished: int


def facts_of(
    job: Job, agreement: Agreement, tenant: int, costs: CostBook, now_s: float, device: int
) -> Facts:
    """The fields of READY, in its order; those that a view sets anew are 0 here."""
    best, mean = costs.rest_s(job.network, job.cost_row)
    n, network, rows = job.block, job.network, job.rows
    best_s, mean_s, all_rows = best[n] * rows, mean[n] * rows, rows + job.through + job.later
    if job.later:
        best_s, mean_s = best_s + best[0] * job.later, mean_s + mean[0] * job.later
    return (
        job.number,
        n,
        job.cost_row + n,
        network.index,
        tenant,
        job.pair,
        job.arrival_s,
        job.deadline_s,
        now_s,  # ready_s
        best_s,
        mean_s,
        best_s,
        mean_s,  # work and path: blocks form a chain
        best[0] * all_rows,
        mean[0] * all_rows,
        0.0,  # isolated time; bytes_left
        job.attained_s,
        now_s if n else job.arrival_s,
        agreement.priority * job.urgency,
        agreement.weight,
        agreement.slo.target if agreement.slo else math.nan,
        math.nan,
        0.0,
        0,  # sli, gap, sli_count
        n,
        network.blocks,
        0,
        0,
        0,
        device,
        -1,  # layers; deferrable, late, sequence; accelerator, bound
    )


class Views:
    """Makes views; arrays of a view are its own and read-only."""

    def __init__(
        self, waiting: WaitingTable, costs: CostBook, lanes: Sequence[Lane], options: DispatchOptions
    ) -> None:
        self._offer = compile_offer()
        self._served_s = np.zeros(0)  # of each tenant: when a request of it last started
        late_last = options.late == "last"
        self._starve_s = options.starve_s if late_last else math.inf
        self._waiting, self._costs, self._lanes = waiting, costs, lanes
        self._system = np.zeros(1, SYSTEM)
        self._system["bandwidth_bytes_s"] = options.bandwidth_bytes_s
        self._system["late_last"] = late_last

    def view(
        self,
        now_s: float,
        indicators: IndicatorTable,
        memory: npt.NDArray[np.float64],
        starts: int,
        finished: int,
    ) -> View:
        """Everything that may be offered, at ``now_s``."""
        table, block_s = self._waiting, self._costs.latency_s
        ready, latency_s = np.empty(len(table), READY), np.empty((len(table), len(self._lanes)))
        self._offer(
            table.records,
            table.rows_of_input,
            table.offered,
            table.end,
            table.ahead,
            indicators.columns(now_s),
            block_s,
            now_s,
            self._served_s,
            self._starve_s,
            ready,
            latency_s,
        )
        nothing = np.zeros(latency_s.shape)
        view = View(
            self._system_record(now_s, memory, starts, finished),
            ready,
            self._accelerators(now_s),
            latency_s,
            nothing,
            nothing,
        )
        for array in (ready, view.accelerators, latency_s, nothing):
            array.setflags(write=False)
        return view

    def of_owed(
        self, owed: Sequence[Owed], indicators: IndicatorTable
    ) -> tuple[Records, Records, Records, Floats]:
        """(n,) READY, ACCELERATOR and SYSTEM, and (n, 1) times of the device; indicators are those of now."""
        facts, at_s, latency_s, last_request, busy_s, starts, finished = zip(*owed, strict=True)
        ready, accelerators = np.array(list(facts), READY), np.zeros(len(owed), ACCELERATOR)
        ready["sli"], ready["gap"], ready["sli_count"] = indicators.columns(at_s[-1])[:, ready["pair"]]
        ready["late"] = ready["deadline_s"] < np.array(at_s) + ready["path_best_s"]
        accelerators["request"], accelerators["last_request"], accelerators["busy_s"] = (
            -1,
            last_request,
            busy_s,
        )
        systems, times_s = np.repeat(self._system, len(owed)), np.array(latency_s)[:, None]
        systems["now_s"], systems["starts"], systems["finished"], systems["live"] = at_s, starts, finished, 1
        for array in (ready, accelerators, times_s):
            array.setflags(write=False)
        return ready, accelerators, systems, times_s

    def served(self, tenant: int, now_s: float) -> None:
        """A request of this tenant has been started."""
        self._served_s[tenant] = now_s

    def know(self, tenants: int) -> None:
        """There are so many tenants."""
        self._served_s = np.concatenate([self._served_s, np.zeros(tenants - len(self._served_s))])

    def _accelerators(self, now_s: float) -> Records:
        table = np.zeros(len(self._lanes), ACCELERATOR)
        for device, lane in enumerate(self._lanes):
            job = lane.job
            if job is None:
                request, layer, free_in_s = (-1 if lane.alive else 0), 0, 0.0
            else:
                request, layer = job.number, lane.boundary(now_s) - 1
                free_in_s = max(lane.due_s[layer - lane.first] - now_s, 1e-6)
            table[device] = (device, request, layer, free_in_s, 0.0, lane.last_request, 0, 0.0, lane.busy_s)
        return table

    def _system_record(
        self, now_s: float, memory: npt.NDArray[np.float64], starts: int, finished: int
    ) -> np.void:
        record: np.void = self._system.copy()[0]
        record["now_s"], record["starts"], record["finished"] = now_s, starts, finished
        record["live"] = len(self._waiting) + sum(lane.job is not None for lane in self._lanes)
        record["memory"] = memory
        return record
