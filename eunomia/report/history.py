"""A run as arrays: what waited, what ran and what was free at any recorded decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eunomia.core.data import Data
from eunomia.core.records import RunRecords
from eunomia.report.columns import Floats, Ints, floats, ints, words
from eunomia.report.network import Network, read_networks
from eunomia.report.reasons import Reasons

NEVER = np.iinfo(np.int64).max  # decision of a sub-job that was never chosen


def _matrix(column: pa.ChunkedArray, shape: tuple[int, int]) -> Floats:
    """A column of equally long lists as an array."""
    values = column.combine_chunks().flatten() if len(column) else pa.array([], pa.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64).reshape(shape)


@dataclass(frozen=True)
class Subjobs:
    """All sub-jobs that ever became ready, those that never started included."""

    request: Ints
    layer: Ints
    ready_s: Floats
    start_s: Floats  # inf = never
    end_s: Floats  # inf = not within the run
    accelerator: Ints  # -1 = none
    decision: Ints  # NEVER = none
    key: Floats  # as recorded; nan = none
    work_s: Floats
    switch_s: Floats
    gone_s: Floats  # when its request was dropped; inf = never
    rank: Ints  # order of becoming ready: the engine's ``sequence``, recomputed


class History:
    """Tables of one run, indexed. Needs the tables requests, subjobs, decisions, accelerators and costs.

    With ``window`` (two instants in seconds) only requests that were in the system between them are
    kept: long runs stay quick to explain. Decisions outside the window are then left out.
    """

    def __init__(self, run: RunRecords, window: tuple[float, float] | None = None) -> None:  # noqa: D107
        run = run if window is None else _within(run, *window)
        self.run = run
        self.accelerators: list[str] = words(run["accelerators"], "name")
        kinds = words(run["accelerators"], "type")
        self.types: list[str] = _type_order(run, kinds)
        self.type_of = np.array([self.types.index(kind) for kind in kinds], np.int64)
        self.networks, self.graph_known = read_networks(run, self.types)
        requests = run["requests"]
        self.tenant: list[str] = words(requests, "tenant")
        self.model: list[str] = words(requests, "model")
        self.outcome: list[str] = words(requests, "outcome")
        self.arrival_s = floats(requests, "arrival_s")
        self.deadline_s = floats(requests, "deadline_s", np.inf)
        self.finish_s = floats(requests, "finish_s", np.inf)
        self.priority = floats(requests, "priority", 0.0)
        self.row_of = {int(request): row for row, request in enumerate(ints(requests, "request"))}
        self.subjobs = self._subjobs()
        decisions = run["decisions"].sort_by("decision")
        self.decision = ints(decisions, "decision")
        self.decision_s = floats(decisions, "time_s")
        self.chosen_request = ints(decisions, "request")
        self.chosen_layer = ints(decisions, "layer")
        self.chosen_accelerator = ints(decisions, "accelerator")
        self.num_waiting = ints(decisions, "waiting")
        self.demand_bytes_s = floats(decisions, "demand_bytes_s", 0.0)
        self.reasons = Reasons(decisions)
        shape = (len(self.decision), len(self.accelerators))
        self.free_in_s = _matrix(
            decisions["free_in_s"], shape
        )  # (decisions, S) estimates, before each choice
        self.job_of = np.array([self.row_of[k] for k in self.subjobs.request.tolist()], np.int64)
        self.idle = self._idle()  # (decisions, S) before each choice
        self._by_rank = np.argsort(self.subjobs.rank, kind="stable")
        self._ready_by_rank = self.subjobs.ready_s[self._by_rank]
        self._waits_until = np.maximum.accumulate(self._last_decision()[self._by_rank])
        self._index = {
            (int(k), int(i)): row
            for row, (k, i) in enumerate(zip(self.subjobs.request, self.subjobs.layer, strict=True))
        }

    def network(self, request: int) -> Network:
        """The model of a request."""
        return self.networks[self.model[self.row_of[request]]]

    def subjob(self, request: int, layer: int) -> int:
        """Row of a sub-job."""
        return self._index[request, layer]

    def rows_of(self, request: int) -> list[int]:
        """Rows of all sub-jobs of a request, by layer."""
        rows = np.flatnonzero(self.subjobs.request == request)
        return [int(row) for row in rows[np.argsort(self.subjobs.layer[rows], kind="stable")]]

    def candidates(self, place: int) -> Ints:
        """Rows of the sub-jobs that waited just before decision ``place``, in order of becoming ready."""
        now, number, s = self.decision_s[place], self.decision[place], self.subjobs
        first = np.searchsorted(self._waits_until, number)  # all before it had left by then
        last = np.searchsorted(self._ready_by_rank, now, side="right")
        rows = self._by_rank[first:last]
        return np.asarray(rows[(s.decision[rows] >= number) & (s.gone_s[rows] > now)])

    def _last_decision(self) -> Ints:
        """(sub-jobs,) the last decision before which each may have waited."""
        gone = np.searchsorted(self.decision_s, self.subjobs.gone_s)
        known = np.append(self.decision, NEVER)[gone]
        return np.asarray(np.minimum(self.subjobs.decision, known))

    def _idle(self) -> npt.NDArray[np.bool_]:
        """(decisions, S) whether each accelerator ran nothing just before the decision."""
        idle = np.ones((len(self.decision), len(self.accelerators)), np.bool_)
        for lane in range(len(self.accelerators)):
            rows = np.flatnonzero(self.subjobs.accelerator == lane)
            rows = rows[np.argsort(self.subjobs.decision[rows], kind="stable")]
            if not len(rows):
                continue
            last = np.searchsorted(self.subjobs.decision[rows], self.decision) - 1
            idle[:, lane] = (last < 0) | (self.subjobs.end_s[rows][np.maximum(last, 0)] <= self.decision_s)
        return idle

    def ended_before_ready(self, row: int) -> npt.NDArray[np.bool_]:
        """(layers,) which layers of its request had ended when sub-job ``row`` became ready."""
        s, request = self.subjobs, int(self.subjobs.request[row])
        network = self.network(request)
        mine = self._of_request(request)
        ready = s.ready_s[row]
        done = np.zeros(len(network.layers), np.bool_)
        previous = [self._index[request, i] for i in network.before[int(s.layer[row])]]
        trigger = max((int(s.accelerator[p]) for p in previous if s.end_s[p] == ready), default=-1)
        for other in mine:  # ends of one instant are processed in order of accelerator
            end = s.end_s[other]
            if end < ready or (end == ready and s.accelerator[other] <= trigger):
                done[s.layer[other]] = True
        return done

    def _of_request(self, request: int) -> list[int]:
        layers = range(len(self.network(request).layers))
        return [self._index[request, i] for i in layers if (request, i) in self._index]

    def _subjobs(self) -> Subjobs:
        table = self.run["subjobs"]
        request, layer = ints(table, "request"), ints(table, "layer")
        start, end = floats(table, "start_s", np.inf), floats(table, "end_s", np.inf)
        extra = self._never_started(request, layer, end)
        n = len(extra)
        rows = np.array([self.row_of[int(k)] for k in [*request, *(k for k, _, _ in extra)]], np.int64)
        outcome = np.array(self.outcome)
        dropped = outcome[rows] == "dropped" if len(rows) else np.zeros(0, np.bool_)
        ready = [floats(table, "ready_s"), np.array([t for *_, t in extra], np.float64)]
        parts: Data = {
            "request": np.concatenate([request, np.array([k for k, _, _ in extra], np.int64)]),
            "layer": np.concatenate([layer, np.array([i for _, i, _ in extra], np.int64)]),
            "ready_s": np.concatenate(ready),
            "start_s": np.concatenate([start, np.full(n, np.inf)]),
            "end_s": np.concatenate([end, np.full(n, np.inf)]),
            "accelerator": np.concatenate([ints(table, "accelerator"), np.full(n, -1, np.int64)]),
            "decision": np.concatenate([ints(table, "decision", NEVER), np.full(n, NEVER, np.int64)]),
            "key": np.concatenate([floats(table, "key"), np.full(n, np.nan)]),
            "work_s": np.concatenate([floats(table, "work_s", 0.0), np.zeros(n)]),
            "switch_s": np.concatenate([floats(table, "switch_s", 0.0), np.zeros(n)]),
            "gone_s": np.where(dropped, self.finish_s[rows], np.inf) if len(rows) else np.zeros(0),
        }
        return Subjobs(**parts, rank=self._ranks(parts))

    def _never_started(self, request: Ints, layer: Ints, end_s: Floats) -> list[tuple[int, int, float]]:
        """(request, layer, ready_s) of sub-jobs that became ready and were dropped or left waiting."""
        known = {(int(k), int(i)): float(t) for k, i, t in zip(request, layer, end_s, strict=True)}
        found = []
        for k, row in self.row_of.items():
            if self.outcome[row] not in ("dropped", "unfinished") or not np.isfinite(self.arrival_s[row]):
                continue
            network = self.networks[self.model[row]]
            cut = self.finish_s[row]
            for i, before in enumerate(network.before):
                if (k, i) in known or any((k, p) not in known for p in before):
                    continue
                ready = max((known[k, p] for p in before), default=float(self.arrival_s[row]))
                if np.isfinite(ready) and ready <= cut:
                    found.append((k, i, ready))
        return found

    def _ranks(self, parts: Mapping[str, Floats | Ints]) -> Ints:
        """Order of becoming ready: time, then ends by accelerator, then arrivals by request, then layer."""
        request, layer, ready = parts["request"], parts["layer"], parts["ready_s"]
        ends = {
            (int(k), int(i)): (float(t), int(a))
            for k, i, t, a in zip(request, layer, parts["end_s"], parts["accelerator"], strict=True)
        }
        trigger = np.full(len(request), len(self.accelerators), np.int64)  # arrivals come after all ends
        arrived = np.zeros(len(request), np.int64)
        for row, (k, i, t) in enumerate(zip(request.tolist(), layer.tolist(), ready.tolist(), strict=True)):
            before = self.networks[self.model[self.row_of[k]]].before[i]
            if before:
                due = [ends[k, p] for p in before if (k, p) in ends]
                trigger[row] = max((a for end, a in due if end == t), default=0)
            else:
                arrived[row] = k
        order = np.lexsort((layer, arrived, trigger, ready))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank


def _within(run: RunRecords, from_s: float, to_s: float) -> RunRecords:
    """The run without the requests that were not in the system between two instants."""
    requests, subjobs, decisions = run["requests"], run["subjobs"], run["decisions"]
    here = pc.field("arrival_s") <= to_s
    alive = requests.filter(here & (pc.field("finish_s").is_null() | (pc.field("finish_s") >= from_s)))
    occupied = subjobs.filter(pc.field("end_s").is_null() | (pc.field("end_s") >= from_s))
    keep = pa.chunked_array([*alive["request"].chunks, *occupied["request"].chunks], pa.int64()).unique()
    mine = pc.field("request").isin(keep)
    within = (pc.field("time_s") >= from_s) & (pc.field("time_s") <= to_s)
    tables = {
        **run.tables,
        "requests": requests.filter(here & mine),
        "subjobs": subjobs.filter(mine & (pc.field("ready_s") <= to_s)),
        "decisions": decisions.filter(within),
    }
    return RunRecords(tables, run.manifest, run.directory)


def _type_order(run: RunRecords, kinds: list[str]) -> list[str]:
    """Accelerator types in the platform's order, which decides between equals; else by first instance."""
    listed = (run.manifest.get("platform") or {}).get("types") or []
    return list(dict.fromkeys([*(kind for kind in listed if kind in kinds), *kinds]))
