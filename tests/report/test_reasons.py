"""Recorded terms in words: every feature has some, and what is told is what the tables hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eunomia import run
from eunomia.core.records import RunRecords, read_run
from eunomia.inference.policies.reasons import BY
from eunomia.learning.observation.table import JOB, SHARE, START
from eunomia.report.explain import explain
from eunomia.report.learned import leading_terms, learned_sections
from eunomia.report.reasons import BY as BY_WORDS
from eunomia.report.reasons import LATE, NOTES, STARTS, WORDS, Reason, because, rehearsed, why_held
from tests.shared_data import shared

CHAT = """
name = "chat"
duration_s = 3.0
[platform]
accelerators = [{ type = "simba", count = 2 }, { type = "eyeriss", count = 1 }]
dram_bandwidth_gb_s = 12.0
[[tenant]]
name = "chat"
arrivals = { trace = "azure-llm", path = "PATH", speedup = 12.0 }
models = [{ model = "bert-small", deadline_ms = 60.0, slo = { hit_rate = 0.9 } }]
[[tenant]]
name = "camera"
arrivals = { process = "poisson", rate_per_s = 60.0 }
models = [{ model = "resnet18", deadline_ms = 40.0 }]
"""


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> RunRecords:
    """A recorded trace of conversations on three accelerators, written and read back."""
    folder = tmp_path_factory.mktemp("chat")
    (folder / "chat.toml").write_text(CHAT.replace("PATH", str(shared("traces/azure_llm_2023_conv.csv"))))
    run(folder / "chat.toml", policy="eunomia").write(folder / "out")
    return read_run(folder / "out")


def test_every_feature_and_every_way_to_decide_has_words() -> None:
    assert set(WORDS) == set(JOB) and set(STARTS) == {*START, *SHARE}
    assert set(BY) == set(BY_WORDS) == set(NOTES)
    assert len({text for pair in WORDS.values() for text in pair}) == 2 * len(JOB)


def test_a_recorded_trace_is_told_as_its_tables_have_it(chat: RunRecords) -> None:
    rows = chat["decisions"].to_pylist()
    by_number = {row["decision"]: row for row in rows}
    told = 0
    for request in chat["requests"]["request"].to_pylist()[20:120:4]:
        e = explain(chat, request)
        assert "no key" not in e.text() and "[not recomputed]" not in e.text()
        for choice in (c for wait in e.waits for c in wait.choices):
            row = by_number[choice.decision]
            mine = [r for r in row["rivals"] if r["request"] == request]
            assert choice.recorded and choice.request == row["request"]
            found = re.match(r"([\d.e+-]+) ahead of this one", choice.why)
            if found and mine:
                lead = row["score"] - mine[0]["score"]
                assert float(found[1]) == pytest.approx(lead, rel=6e-3)
                points = [float(x) for x in re.findall(r"(-?[\d.e+]+) for ", choice.why)]
                assert points == pytest.approx([t["weight"] * t["value"] for t in mine[0]["terms"]], rel=0.06)
                told += 1
    assert told > 20


def test_holds_are_told_with_the_bandwidth_in_use(chat: RunRecords) -> None:
    held = [row for row in chat["decisions"].to_pylist() if row["held"] is not None]
    assert held
    words = why_held(Reason(held[0]))
    assert f"{100 * held[0]['held']['bandwidth_used']:.0f} % of the bandwidth" in words
    texts = [explain(chat, row["held"]["request"]).text() for row in held[:: len(held) // 5]]
    assert any("held before" in text for text in texts)


def test_the_manifest_counts_what_the_guards_did(chat: RunRecords) -> None:
    guards, metrics = chat.manifest["guards"], chat.manifest["metrics"]
    assert guards["decisions"] > 0 and guards["starts"] == chat["decisions"].num_rows
    assert metrics["strange_share"] == guards["strange"] / guards["decisions"]
    assert metrics["fallback_share"] == guards["fallback"] / guards["decisions"]
    assert metrics["alarms"] == guards["alarms"]
    alarmed = chat["decisions"]["decided_by"].to_pylist().count("alarm")
    assert (alarmed > 0) == (guards["fallback"] > 0)


def reason(by: str = "score", score: float = 1.0, **rival: object) -> Reason:
    known = {
        "request": 7,
        "layer": 0,
        "fate": "lost",
        "wanted": None,
        "late": False,
        "score": 0.5,
        "terms": [],
    }
    return Reason({"decided_by": by, "score": score, "rivals": [{**known, **rival}], "held": None})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            reason(terms=[{"feature": "time_left", "weight": -2.0, "value": -0.25}]),
            "0.5 ahead of this one: 0.5 for less time left",
        ),
        (
            reason("alarm", terms=[{"feature": "bytes", "weight": 2.0, "value": 0.25}]),
            "0.5 ahead of this one: 0.5 for more bytes left [alarm: by its base]",
        ),
        (reason(late=True), LATE),
        (reason(fate="kept", wanted=1), "this one is kept for b, busy for about 2.00 s more"),
        (reason(fate="held"), "this one was to go first, but it was held"),
        (reason(score=0.5), "as urgent as this one, and it had become ready earlier"),
        (reason(score=0.25), "its score was 0.25 lower than that of this one, but it had starved"),
        (reason(request=8), "0.5 ahead of req-8; this one came after that"),
        (reason(request=8, late=True), "no other request competed that could meet its deadline"),
        (reason(terms=[{"feature": "own", "weight": 1.0, "value": 0.5}]), "0.5 ahead of this one: 0.5 for more own"),
    ],
)  # fmt: skip
def test_each_fate_has_its_sentence(given: Reason, words: str) -> None:
    assert because(given, 7, ["a", "b"], [0.0, 2.0]) == words


def test_records_of_older_versions_are_explained_without_terms(chat: RunRecords) -> None:
    old = {
        **chat.tables,
        "decisions": chat["decisions"].drop_columns(["terms", "rivals", "held", "decided_by"]),
    }
    e = explain(RunRecords(old, chat.manifest, Path("somewhere")), 30)
    assert "not recomputed" in e.text()


def test_the_report_counts_the_leading_terms_as_the_table_has_them(chat: RunRecords) -> None:
    """A slow twin over rows: of each choice between two requests, the term that spoke most for the chosen one."""
    expected = []
    for row in chat["decisions"].to_pylist():
        first = (row["rivals"] or [None])[0]
        if first is None or first["fate"] != "lost" or first["late"] or not first["terms"]:
            continue
        best = max(first["terms"], key=lambda t: t["weight"] * t["value"])
        if best["weight"] * best["value"] > 0.0:
            expected.append((best["feature"], best["weight"] * best["value"], best["value"] < 0.0))
    feature, points, less = leading_terms(chat["decisions"])
    assert len(expected) > 100
    assert list(zip(feature, points.tolist(), less.tolist(), strict=True)) == expected
    section = learned_sections({"eunomia": chat})
    most = max(set(expected), key=lambda e: sum(x[0] == e[0] and x[2] == e[2] for x in expected))
    words = WORDS[most[0]][0 if most[2] else 1]
    assert f'<th scope="row"><bdi>{words}</bdi></th>' in section.partition("<tbody>")[2].partition("</tr>")[0]


def test_runs_without_reasons_have_no_section(chat: RunRecords) -> None:
    assert (
        learned_sections({"edf": RunRecords({"requests": chat["requests"]}, {"policy": {"name": "edf"}})})
        == ""
    )


def test_what_a_rehearsal_chose_is_told() -> None:
    facts = {
        "chosen": "edf+f",
        "scores": {"eunomia": 0.9, "edf+f": 0.95, "blend(size=1)+g0.5": 0.91},
        "rule": "edf+f",
    }
    run = RunRecords({}, {"policy": {"name": "eunomia", "rehearsed": facts}})
    words = (
        "A rehearsal on drawn traffic chose edf+f for this place with 95.0 %, before blend+g0.5 with 91.0 %."
    )
    assert rehearsed(run) == words
    assert words.split(" with")[0] in learned_sections({"eunomia": run}).replace("<wbr>", "")
    assert rehearsed(RunRecords({}, {"policy": {"name": "edf"}})) == ""
