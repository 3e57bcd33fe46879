"""Explanations tell what happened, and every decision they tell is recomputed from the records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from eunomia.core.errors import ConfigError, RecordError
from eunomia.core.records import RunRecords, conform, write_run
from eunomia.report.explain import explain
from eunomia.report.story import _article
from tests.report.synthetic import run


def hand_made(**policy: object) -> RunRecords:
    """One accelerator, one-layer requests: 0 runs 0..4; 1 (due 9) and 2 (due 7) arrive at 1; EDF takes 2, then 1."""
    rows = [
        (0, "a", 0.0, 5.0, 0.0, 4.0, "hit"),
        (1, "a", 1.0, 9.0, 8.0, 12.0, "late"),
        (2, "b", 1.0, 7.0, 4.0, 8.0, "late"),
    ]
    requests = [
        {"request": k, "tenant": u, "model": "m", "arrival_s": a, "deadline_s": d, "start_s": s, "finish_s": f,
         "outcome": o, "isolated_s": 4.0, "running_s": 4.0, "work_s": 4.0, "stretch_s": 0.0, "switch_s": 0.0,
         "energy_j": 1.0, "priority": 1.0}
        for k, u, a, d, s, f, o in rows
    ]  # fmt: skip
    order = (0, 2, 1)
    subjobs = [
        {"request": k, "layer": 0, "accelerator": 0, "ready_s": rows[k][2], "start_s": rows[k][4], "end_s": rows[k][5],
         "work_s": 4.0, "switch_s": 0.0, "key": rows[k][3], "decision": n}
        for n, k in enumerate(order)
    ]  # fmt: skip
    decisions = [
        {"decision": n, "time_s": rows[k][4], "request": k, "layer": 0, "accelerator": 0, "waiting": w,
         "demand_bytes_s": 0.0, "free_in_s": [0.0]}
        for n, (k, w) in enumerate(zip(order, (1, 2, 1), strict=True))
    ]  # fmt: skip
    raw = {
        "requests": requests, "subjobs": subjobs, "decisions": decisions,
        "accelerators": [{"accelerator": 0, "name": "npu-0", "type": "npu", "busy_s": 12.0, "work_s": 12.0}],
        "costs": [{"model": "m", "layer": 0, "layer_name": "conv", "type": "npu", "latency_s": 4.0, "estimate_s": 4.0,
                   "demand_bytes_s": 1.0, "dram_bytes": 4.0, "energy_j": 1.0}],
    }  # fmt: skip
    tables = {name: conform(name, pa.Table.from_pylist(data)) for name, data in raw.items()}
    rule = {"name": "edf", "order": "edf", "place": "any_idle", "feasible": False, "gate": None, **policy}
    engine = {"late": "run", "bandwidth_bytes_s": None}
    return RunRecords(tables, {"policy": rule, "engine": engine, "models": {"m": {"edges": []}}, "seed": 3})


def test_the_hand_made_case_is_told_as_it_happened() -> None:
    e = explain(hand_made(), "req-1")
    assert dict(e.parts) == {"queueing": 7.0, "service": 4.0, "contention": 0.0, "switching": 0.0}
    assert e.verdict == "It missed its deadline by 3.00 s."
    assert e.needed == ("It queued 7.00 s in all: 3.00 s less was enough.",)
    (wait,) = e.waits
    assert (wait.layer, wait.from_s, wait.to_s, wait.decisions, wait.served) == (0, 1.0, 8.0, 1, (("b", 1),))
    (choice,) = wait.choices
    assert (choice.time_s, choice.accelerator, choice.request, choice.tenant) == (4.0, "npu-0", 2, "b")
    assert choice.why == "deadline 7.000000 s (3.00 s away) against 9.000000 s (5.00 s away)"
    assert wait.to_win == "deadline before 7.000000 s"
    assert (e.checked, e.agreed, e.doubts) == (1, 1, ())
    text = e.text()
    assert "npu-0 took req-2 layer 0 of b" in text and "all as recorded" in text


def test_a_request_that_never_had_a_chance_is_told_so() -> None:
    records = hand_made()
    requests = records["requests"].to_pylist()
    requests[1]["deadline_s"] = 3.0
    records.tables["requests"] = conform("requests", pa.Table.from_pylist(requests))
    (text,) = explain(records, 1).needed
    assert (
        text.startswith("No schedule on this platform") and "4.00 s" in text and "2.00 s were allowed" in text
    )


def test_a_wrong_record_is_noticed() -> None:
    """The rule is shortest work now, equal for all, so request 1 should have gone before request 2."""
    e = explain(hand_made(order="sjf", name="sjf"), 1)
    assert (e.checked, e.agreed) == (1, 0)
    assert "did not come out as recorded" in " ".join(e.doubts)
    assert "not recomputed" in e.text()


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ({"policy": {"name": "mine"}}, "not an order with a placement"),
        (
            {"policy": {"name": "x", "order": "deficit_edf", "place": "eft"}},
            "reads more than the tables hold",
        ),
        ({"policy": {"name": "x", "order": "edf", "place": "nearest"}}, "placement 'nearest' is not known"),
        ({"engine": {"period_s": 0.1}}, "period boundaries"),
        ({"engine": {"estimator": {"mode": "ewma"}}}, "learned during the run"),
    ],
)
def test_what_cannot_be_recomputed_is_said(manifest: dict[str, object], reason: str) -> None:
    records = hand_made()
    e = explain(RunRecords(records.tables, {**records.manifest, **manifest}), 1)
    assert e.checked == 0 and reason in " ".join(e.doubts)
    assert (
        e.waits[0]
        .choices[0]
        .why.startswith(
            "it was started with key 7; this one, when its turn came, had 9; chosen: deadline 7.000000 s"
        )
    )


def test_of_a_function_what_is_known_is_told_and_no_reason_is_made_up() -> None:
    """As it was, "it was started with key 0; this one, when its turn came, had 0"."""
    records = hand_made()
    del records.manifest["policy"]["order"]
    subjobs = [{**row, "key": 0.0} for row in records["subjobs"].to_pylist()]
    records.tables["subjobs"] = conform("subjobs", pa.Table.from_pylist(subjobs))
    e = explain(records, 1)
    assert e.waits[0].choices[0].why == (
        "chosen: deadline 7.000000 s (3.00 s away), slack -1.00 s, remaining work 4.00 s; "
        "this one: deadline 9.000000 s (5.00 s away), slack 1.00 s, remaining work 4.00 s; "
        "of 2 that waited, 0 had an earlier deadline than the chosen, 0 less slack, 0 less remaining work"
    )
    assert (
        "No reason is known for these decisions, as the policy recorded none (a function cannot)" in e.text()
    )
    assert max(map(len, e.text().splitlines())) <= 110


@pytest.mark.parametrize(
    ("order", "place", "load"), [("edf", "eft", 1.1), ("edf", "any_idle", 0.9), ("fcfs", "any_idle", 1.3)]
)
def test_every_decision_in_anybodys_way_is_recomputed(order: str, place: str, load: float) -> None:
    records = run(order, order, place, requests=60, load=load)
    told = [explain(records, k) for k in range(0, 60, 3)]
    assert sum(e.checked for e in told) > 200
    assert all(e.agreed == e.checked and not e.doubts for e in told)


def test_layers_add_up_to_the_request() -> None:
    records = run(requests=60, load=1.2)
    for e in (explain(records, k) for k in range(0, 60, 7)):
        if e.model == "diamond":  # parallel branches overlap
            continue
        total = sum(row.wait_s + row.work_s + row.stretch_s + row.switch_s for row in e.layers)
        assert e.finish_s is not None and total == pytest.approx(e.finish_s - e.arrival_s, abs=1e-9)


def test_a_dropped_request_is_told_what_was_left() -> None:
    records = hand_made()
    requests = records["requests"].to_pylist()
    requests[1] |= {"outcome": "dropped", "finish_s": 7.5, "start_s": None, "running_s": 0.0, "work_s": 0.0}
    records.tables["requests"] = conform("requests", pa.Table.from_pylist(requests))
    records.tables["subjobs"] = records["subjobs"].slice(0, 2)
    records.tables["decisions"] = records["decisions"].slice(0, 2)
    e = explain(records, "1")
    assert e.verdict == "It was dropped after 6.50 s, 1.50 s before its deadline."
    assert e.needed == (
        "At that moment it needed at least 4.00 s more, undisturbed; "
        "2.50 s less queueing until then would have kept its deadline possible.",
    )
    assert e.layers[0].accelerator is None and e.waits[0].to_s == 7.5
    assert (e.checked, e.agreed) == (1, 1)  # it is found among the candidates although it never started


def test_without_graphs_a_chain_is_assumed_and_said() -> None:
    records = hand_made()
    del records.manifest["models"]
    assert "taken to be a chain" in " ".join(explain(records, 1).doubts)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("req-9", r"no request 'req-9'; this run has req-0 to req-2; the nearest is req-2"),
        ("tenant", r"'tenant' is not a request; write it as req-1042; this run has req-0 to req-2"),
    ],
)
def test_unknown_requests_are_one_sentence(request_: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        explain(hand_made(), request_)


def test_a_run_without_decisions_is_one_sentence(tmp_path: Path) -> None:
    records = hand_made()
    write_run(tmp_path / "a", {"requests": records["requests"]}, records.manifest)
    with pytest.raises(RecordError, match="no recorded decisions to explain; run it with record = 'all'"):
        explain(tmp_path / "a", 1)


@pytest.mark.parametrize(("words", "article"), [("arrival before 2 s", "an"), ("deadline before 2 s", "a")])
def test_articles_fit_what_follows(words: str, article: str) -> None:
    assert _article(words) == article
