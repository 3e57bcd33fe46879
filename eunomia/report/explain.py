"""Why one request took as long as it did: where the time went, what was chosen instead, what was missing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa

from eunomia.core.errors import ConfigError, RecordError
from eunomia.core.records import RunRecords, read_run
from eunomia.report.history import History
from eunomia.report.needs import needs
from eunomia.report.ranking import Rule
from eunomia.report.reasons import rehearsed
from eunomia.report.story import Explanation, LayerTime
from eunomia.report.unexplained import NO_REASON
from eunomia.report.waits import (
    Choice,
    Wait,
    decisions_during_waits,
    last_instant,
    request_held_s,
    waits_of,
)

__all__ = ["Choice", "Explanation", "LayerTime", "Wait", "explain"]


def explain(
    run: RunRecords | str | Path, request: str | int, waits: int = 3, choices: int = 4
) -> Explanation:
    """Explain one request of a run.

    ``waits`` is how many of its longest waits the text has, ``choices`` how many decisions per wait. All
    decisions taken while it waited are recomputed, or MAX_RECOMPUTED evenly spread ones if there are
    more. Raises ConfigError for an unknown request, RecordError for a run without recorded decisions.
    """
    records = run if isinstance(run, RunRecords) else read_run(run)
    number = _request_number(records, request)
    for table in ("subjobs", "decisions"):
        if table not in records.tables or records[table].num_rows == 0:
            place = f"run '{records.directory}'" if records.directory else "this run"
            raise RecordError(f"{place} has no recorded decisions to explain; run it with record = 'all'")
    history = History(records, _window(records, number))
    rule, reason = Rule.of(history)
    doubts = [] if rule is not None or history.reasons else [f"The decisions were not recomputed: {reason}."]
    if not history.graph_known:
        doubts.append("The manifest holds no graphs: layers are taken to be a chain.")
    row = history.row_of[number]
    told, total, checked, agreed = waits_of(history, rule, number, waits, choices)
    if rule is None and not history.reasons and total:
        doubts.append(NO_REASON)
    if rehearsal := rehearsed(records):
        doubts.insert(0, rehearsal)
    if history.reasons and total:
        during = "The reasons of the decisions taken while it waited come from the terms recorded with them."
        doubts += [during, history.reasons.who_decided(decisions_during_waits(history, number))]
    if agreed < checked:
        doubts.append(
            f"{checked - agreed} of {checked} decisions did not come out as recorded "
            "when the rule was applied to the records."
        )
    layers = tuple(_layer(history, r) for r in history.rows_of(number))
    deadline, finish = history.deadline_s[row], history.finish_s[row]
    parts = _parts(records, number)
    verdict, needed = needs(history, number, {**dict(parts), "holding": request_held_s(history, number)})
    return Explanation(
        request=number,
        tenant=history.tenant[row],
        model=history.model[row],
        policy=records.policy,
        seed=records.seed,
        outcome=history.outcome[row],
        arrival_s=float(history.arrival_s[row]),
        deadline_s=float(deadline) if np.isfinite(deadline) else None,
        finish_s=float(finish) if np.isfinite(finish) else None,
        parts=parts,
        layers=layers,
        waits=told,
        verdict=verdict,
        needed=needed,
        decisions=total,
        checked=checked,
        agreed=agreed,
        doubts=tuple(doubts),
    )


def _request_number(run: RunRecords, request: str | int) -> int:
    match = re.fullmatch(r"(?:req-)?(\d+)", str(request).strip())
    known = run["requests"]["request"].to_numpy()
    if not len(known):
        raise RecordError("this run has no requests")
    bounds = f"this run has req-{known.min()} to req-{known.max()}"
    if match is None:
        raise ConfigError(f"'{request}' is not a request; write it as req-1042; {bounds}")
    number = int(match.group(1))
    if number not in known:
        near = int(known[np.argmin(np.abs(known - min(number, 2**62)))])
        raise ConfigError(f"there is no request 'req-{number}'; {bounds}; the nearest is req-{near}")
    return number


def _window(run: RunRecords, number: int) -> tuple[float, float]:
    row = int(np.flatnonzero(run["requests"]["request"].to_numpy() == number)[0])
    facts = run["requests"].slice(row, 1).to_pylist()[0]
    arrival, finish = facts["arrival_s"], facts["finish_s"]
    if arrival is None:
        raise ConfigError(f"'req-{number}' had not arrived when the run ended: there is nothing to explain")
    return float(arrival), np.inf if finish is None else float(finish)


def _parts(run: RunRecords, number: int) -> tuple[tuple[str, float], ...]:
    row = int(np.flatnonzero(run["requests"]["request"].to_numpy() == number)[0])
    facts = run["requests"].slice(row, 1).to_pylist()[0]
    end = facts["finish_s"] if facts["finish_s"] is not None else _end_of_run(run)
    running, work = facts["running_s"] or 0.0, facts["work_s"] or 0.0
    queueing = max(0.0, end - facts["arrival_s"] - running)
    parts = [("queueing", queueing), ("service", work), ("contention", facts["stretch_s"] or 0.0),
             ("switching", facts["switch_s"] or 0.0)]  # fmt: skip
    return tuple(parts)


def _end_of_run(run: RunRecords) -> float:
    times = [run["requests"]["finish_s"], run["subjobs"]["end_s"], run["decisions"]["time_s"]]
    return max(float(value) for value in (_largest(column) for column in times) if value is not None)


def _largest(column: pa.ChunkedArray) -> float | None:
    import pyarrow.compute as pc

    value = pc.max(column).as_py()
    return None if value is None else float(value)


def _layer(history: History, row: int) -> LayerTime:
    s = history.subjobs
    started, ended = np.isfinite(s.start_s[row]), np.isfinite(s.end_s[row])
    until = s.start_s[row] if started else min(s.gone_s[row], last_instant(history))
    took = s.end_s[row] - s.start_s[row] if ended else np.nan
    stretch = max(0.0, took - s.work_s[row] - s.switch_s[row]) if ended else 0.0
    stretch = stretch if stretch > 1e-12 else 0.0  # rounding of the clock
    index = int(s.layer[row])
    return LayerTime(
        layer=index,
        name=history.network(int(s.request[row])).layers[index],
        accelerator=history.accelerators[s.accelerator[row]] if started else None,
        ready_s=float(s.ready_s[row]),
        wait_s=float(until - s.ready_s[row]),
        start_s=float(s.start_s[row]) if started else None,
        work_s=float(s.work_s[row]),
        stretch_s=float(stretch),
        switch_s=float(s.switch_s[row]),
    )
