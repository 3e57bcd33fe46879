"""The timeline is a strict Chrome trace: one track per accelerator, nothing overlaps, every arrow ends."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from eunomia.core.errors import RecordError
from eunomia.core.records import RunRecords
from eunomia.report.timeline import write_timeline
from tests.report.synthetic import NAMES, run

PHASES = {"M", "X", "s", "t", "f", "C", "i"}
METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def check_trace(text: str) -> dict[str, list[dict[str, Any]]]:
    """Check a trace against the Trace Event Format and Perfetto's rules; returns its events by phase."""
    trace = json.loads(text, parse_float=Decimal)
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"} and trace["displayTimeUnit"] == "ms"
    assert all(isinstance(value, str) for value in trace["otherData"].values())
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        assert event["ph"] in PHASES and isinstance(event["name"], str)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["ph"] == "M" or event["ts"] >= 0
        events[event["ph"]].append(event)
    _check_names(events)
    _check_slices(events)
    _check_flows(events)
    _check_counters(events)
    return events


def _check_names(events: dict[str, list[dict[str, Any]]]) -> None:
    assert {e["name"] for e in events["M"]} <= METADATA
    named = {(e["pid"], e["tid"]) for e in events["M"] if e["name"] == "thread_name"}
    groups = {e["pid"] for e in events["M"] if e["name"] == "process_name"}
    for event in (*events["X"], *events["i"]):
        assert (event["pid"], event["tid"]) in named
    assert {e["pid"] for kind in events.values() for e in kind} <= groups


def _check_slices(events: dict[str, list[dict[str, Any]]]) -> None:
    tracks = defaultdict(list)
    for event in events["X"]:
        assert event["dur"] >= 0 and set(event) == {
            "ph",
            "pid",
            "tid",
            "name",
            "ts",
            "dur",
            "cat",
            "cname",
            "args",
        }
        tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        assert spans == sorted(spans)
        assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:], strict=False))


def _check_flows(events: dict[str, list[dict[str, Any]]]) -> None:
    """Per id: one start, steps, one finish, in order of time, each inside a slice of its track."""
    slices = defaultdict(list)
    for event in events["X"]:
        slices[event["pid"], event["tid"]].append(
            (event["ts"], event["ts"] + event["dur"], event["args"]["request"])
        )
    arrows = defaultdict(list)
    for event in (*events["s"], *events["t"], *events["f"]):
        assert event["cat"] == "request" and (event["ph"] == "s" or event["bp"] == "e")
        arrows[event["id"]].append(event)
    for number, steps in arrows.items():
        steps.sort(key=lambda e: e["ts"])
        phases = "".join(e["ph"] for e in steps)
        assert phases == "s" + "t" * (len(phases) - 2) + "f"
        for event in steps:
            inside = [r for a, b, r in slices[event["pid"], event["tid"]] if a <= event["ts"] < b]
            assert inside == [f"req-{number}"]


def _check_counters(events: dict[str, list[dict[str, Any]]]) -> None:
    series = defaultdict(list)
    for event in events["C"]:
        (value,) = event["args"].values()
        assert value >= 0
        series[event["name"]].append(event["ts"])
    for instants in series.values():
        assert instants == sorted(set(instants))
    assert {"layers waiting", "busy accelerators", "bandwidth demand"} <= set(series)


@pytest.fixture(scope="module")
def records() -> RunRecords:
    return run(requests=120, load=1.1)


def test_a_run_is_a_strict_trace(tmp_path: Path, records: RunRecords) -> None:
    shown = write_timeline(tmp_path / "timeline.json", records)
    events = check_trace((tmp_path / "timeline.json").read_text())
    assert shown == len(events["X"]) == records["subjobs"].num_rows
    lanes = [e["args"]["name"] for e in events["M"] if e["name"] == "thread_name" and e["pid"] == 1]
    assert lanes == list(NAMES)
    assert {e["name"] for e in events["C"]} >= {"bandwidth limit"}
    late = records["requests"]["outcome"].to_pylist().count("late")
    assert 0 < len(events["i"]) <= late


def test_times_and_facts_are_those_of_the_records(tmp_path: Path, records: RunRecords) -> None:
    write_timeline(tmp_path / "t.json", records)
    events = check_trace((tmp_path / "t.json").read_text())
    mine = [e for e in events["X"] if e["args"]["request"] == "req-5"]
    rows = [row for row in records["subjobs"].to_pylist() if row["request"] == 5]
    found = sorted((float(e["ts"]), float(e["dur"]), e["tid"] - 1) for e in mine)
    told = sorted((r["start_s"] * 1e6, (r["end_s"] - r["start_s"]) * 1e6, r["accelerator"]) for r in rows)
    assert len(found) == len(told)
    for ours, theirs in zip(found, told, strict=True):
        assert ours == pytest.approx(theirs, abs=1.1e-3)


def test_counters_follow_the_intervals(tmp_path: Path, records: RunRecords) -> None:
    write_timeline(tmp_path / "t.json", records)
    events = check_trace((tmp_path / "t.json").read_text())
    busy = [(float(e["ts"]), e["args"]["number"]) for e in events["C"] if e["name"] == "busy accelerators"]
    assert max(value for _, value in busy) == 3 and busy[-1][1] == 0
    at = busy[len(busy) // 2]
    running = sum(float(e["ts"]) <= at[0] < float(e["ts"] + e["dur"]) for e in events["X"])
    assert running == at[1]


def test_a_window_and_a_limit_leave_the_rest_out(tmp_path: Path, records: RunRecords) -> None:
    shown = write_timeline(tmp_path / "t.json", records, from_s=0.05, to_s=0.1)
    events = check_trace((tmp_path / "t.json").read_text())
    assert 0 < shown < records["subjobs"].num_rows
    assert all(float(e["ts"]) <= 0.1e6 and float(e["ts"] + e["dur"]) >= 0.05e6 for e in events["X"])
    assert write_timeline(tmp_path / "t.json", records, limit=10) == 10
    check_trace((tmp_path / "t.json").read_text())


def test_equal_runs_give_equal_bytes_and_gz_opens(tmp_path: Path, records: RunRecords) -> None:
    for name in ("a.json.gz", "b.json.gz", "c.json"):
        write_timeline(tmp_path / name, records)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "c.json").read_bytes()


def test_a_run_without_layers_is_one_sentence(tmp_path: Path, records: RunRecords) -> None:
    bare = RunRecords({"requests": records["requests"]}, {})
    with pytest.raises(RecordError, match="no recorded layers to draw"):
        write_timeline(tmp_path / "t.json", bare)
    assert not (tmp_path / "t.json").exists()
