"""The page is whole, safe, honest about who won, and draws itself in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eunomia import report
from eunomia.core.records import Comparison, RunRecords, write_comparison, write_run
from eunomia.metrics.causes import REASONS
from eunomia.metrics.holding import held_s
from eunomia.metrics.table import METRICS
from eunomia.report.assessment import Assessment
from eunomia.report.gantt import MAX_TOTAL, gantt
from eunomia.report.html import page_data, render_report, write_report
from eunomia.report.leaders import leaders
from eunomia.report.verdict import verdict
from tests import children
from tests.report.synthetic import comparison, run

EVIL = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return comparison(seeds=3, requests=150)


@pytest.fixture(scope="module")
def page(compared: Comparison) -> str:
    return render_report(compared)


class Elements(HTMLParser):
    """Collects elements, and the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


def parsed(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    return found


def test_nothing_is_loaded_from_anywhere(page: str) -> None:
    found = parsed(page)
    assert not [tag for tag, at in found.tags if "src" in at or tag in ("link", "iframe", "img", "object")]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page.replace("ui.perfetto.dev", ""))
    policy = next(
        at["content"] for tag, at in found.tags if at.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None and policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy
    assert len(page) < 1_000_000


def test_hostile_names_are_text(page: str) -> None:
    found = parsed(page)
    assert len(found.scripts) == 2  # the data and our own script
    data = json.loads(found.scripts[0])
    assert EVIL in data["tenants"]
    assert EVIL not in page and "&lt;script&gt;alert(" in page
    assert "</script" not in found.scripts[0] and "<!--" not in found.scripts[0]


def test_hostile_policies_models_and_titles_are_text(compared: Comparison) -> None:
    evil = '"><img src=x onerror=alert(1)>{{data}}</script><!--'
    one = RunRecords(compared.runs[0].tables, {**compared.runs[0].manifest, "policy": {"name": evil}})
    text = render_report(Comparison(evil, (one,), {"config": {"note": evil}}))
    found = parsed(text)
    assert len(found.scripts) == 2 and not [tag for tag, at in found.tags if tag == "img" or "onerror" in at]
    assert json.loads(found.scripts[0])["policies"] == [evil]


def test_the_winner_is_named_with_what_it_costs_whom(compared: Comparison) -> None:
    a = Assessment(compared)
    said = verdict(a)
    order = sorted(a.policies, key=lambda p: -a.estimate(p, "hit_rate").mean)
    assert said[0].startswith(f"{order[0]} has the highest hit rate: ")
    led = leaders(a, "hit_rate", METRICS["hit_rate"])
    assert led is not None and list(led.order) == order
    for policy in led.level:
        assert f"{policy} (" in said[1] and "cannot be told apart" in said[1]
    if led.behind:
        assert any(text.startswith(led.behind[0]) and "behind by" in text for text in said)
    poorest = min(a.tenant_names, key=lambda t: a.tenant(order[0], t).mean)
    assert any(f"{poorest} is served worst under {order[0]}" in text for text in said)


def test_every_column_leads_to_its_definition(compared: Comparison) -> None:
    page = render_report(compared)
    links = re.findall(r'<th scope="col"[^>]*><a href="#(what-\w+)">', page)
    assert len(links) >= 6 and len(set(links)) == len(links)
    for link in links:
        text = re.search(rf'<dt id="{link}">[^<]+</dt><dd>([^<]+)</dd>', page)
        assert text and len(text[1]) > 20, link


def test_one_seed_claims_nothing(compared: Comparison) -> None:
    few = Comparison("one seed", tuple(r for r in compared.runs if r.seed == 0))
    said = " ".join(verdict(Assessment(few)))
    assert "one sample cannot tell" in said
    assert "One seed only: there are no intervals" in render_report(few)


def test_figures_hold_what_the_tables_say(compared: Comparison) -> None:
    data = page_data(Assessment(compared))
    for policy in data["policies"]:
        runs = compared.of(policy)
        missed = sum(r["requests"]["outcome"].to_pylist().count("late") for r in runs)
        reasons = data["reasons"][policy]
        assert reasons["missed"] == missed == sum(row["count"] for row in reasons["rows"])
        assert all(sum(row["tenants"]) == row["count"] for row in reasons["rows"])
        for row in data["split"][policy]:
            mine = [
                x["finish_s"] - x["arrival_s"]
                for r in runs for x in r["requests"].to_pylist() if x["tenant"] == row["tenant"]
            ]  # fmt: skip
            assert row["requests"] == len(mine)
            assert sum(row["parts"]) == pytest.approx(sum(mine) / len(mine))
    pair = next(row for row in data["pairs"] if row["tenant"] == "gold")
    slis = [
        row["sli"] for r in compared.of("edf") for row in r["pairs"].to_pylist() if row["tenant"] == "gold"
    ]
    assert pair["policies"]["edf"]["sli"]["mean"] == pytest.approx(sum(slis) / 3)
    assert pair["slo_target"] == 0.9 and pair["policies"]["edf"]["runs"] == 3


def test_queueing_and_holding_are_told_apart_only_where_layers_are_on_record(compared: Comparison) -> None:
    def bare(r: RunRecords) -> RunRecords:
        return replace(r, tables={k: t for k, t in r.tables.items() if k not in ("subjobs", "decisions")})

    runs = tuple(bare(r) if r.seed else r for r in compared.runs)
    full, part = page_data(Assessment(compared)), page_data(Assessment(replace(compared, runs=runs)))
    known = {row["reason"]: row["count"] for row in full["reasons"]["fcfs"]["rows"]}
    found = {row["reason"]: row for row in part["reasons"]["fcfs"]["rows"]}
    lost = ("waiting", "queueing", "holding")
    assert "waiting" not in known and found["waiting"]["count"] > 0
    assert sum(found[r]["count"] for r in lost if r in found) >= sum(known.get(r, 0) for r in lost)
    assert all(e["seed"] == 0 for row in found.values() for e in row["examples"]), (
        "others have nothing to explain"
    )


def test_the_note_of_the_chart_says_how_much_of_the_waiting_was_holding() -> None:
    records = run(requests=150, load=1.0)
    whole = gantt(
        {"edf": records}, {"edf": Assessment(Comparison("one", (records,))).scopes["edf", 0].everyone}
    )
    layers, held = records["subjobs"].to_pandas(), held_s(records.tables)
    assert whole and held is not None
    waited_s = (layers.start_s - layers.ready_s).sum()
    assert whole["policies"]["edf"]["held"] == pytest.approx(sum(held.values()) / waited_s)


def test_the_chart_is_bounded_and_shows_where_deadlines_were_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    records = run(requests=300, load=1.0)
    a = Assessment(Comparison("big", (records,)))
    whole = gantt({"edf": records}, {"edf": a.scopes["edf", 0].everyone})
    assert whole is not None and whole["whole"]
    assert len(whole["policies"]["edf"]["start"]) == records["subjobs"].num_rows
    monkeypatch.setattr("eunomia.report.gantt.MAX_INTERVALS", 100)
    part = gantt({"edf": records}, {"edf": a.scopes["edf", 0].everyone})
    assert part is not None and not part["whole"]
    shown = part["policies"]["edf"]
    assert 20 < len(shown["start"]) <= 100 < MAX_TOTAL and shown["total"] == records["subjobs"].num_rows
    requests = records["requests"].to_pylist()
    misses = [min(r["finish_s"], r["deadline_s"]) for r in requests if r["outcome"] == "late"]
    inside = sum(part["from_s"] <= t <= part["to_s"] for t in misses)
    assert inside >= len(misses) * (part["to_s"] - part["from_s"]) / max(misses)


def test_runs_without_layers_still_give_a_report(compared: Comparison) -> None:
    bare = [RunRecords({n: r[n] for n in ("requests", "pairs")}, r.manifest) for r in compared.runs]
    text = render_report(Comparison("bare", tuple(bare)))
    assert json.loads(parsed(text).scripts[0])["gantt"] is None


def test_examples_name_the_directory_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eunomia.core.records import read_comparison

    monkeypatch.chdir(tmp_path)
    one = run(requests=40, load=1.3)
    write_run(tmp_path / "runs" / "x" / "edf" / "0", one.tables, one.manifest)
    write_comparison(tmp_path / "runs" / "x", {"name": "x", "policies": ["edf"]})
    data = page_data(Assessment(read_comparison("runs/x")))
    assert data["directories"] == {"edf": {"0": "runs/x/edf/0"}}


def test_writing_is_atomic_and_repeatable(tmp_path: Path, compared: Comparison) -> None:
    write_report(tmp_path / "a.html", compared)
    write_report(tmp_path / "b.html", compared)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "b.html"]


# ---- in a real browser ----

ACTIONS = """
<script>
(async () => {
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const report = {}, canvas = document.querySelector("canvas.main"), g = eunomiaReport.gantt;
  const key = (k) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true }));
  const size = () => g.view.b - g.view.a;
  key("0"); report.whole = size();
  key("+"); report.zoomed = size();
  const before = g.view.a; key("ArrowRight"); report.moved = g.view.a - before;
  key("."); report.live = document.getElementById("gantt-live").textContent;
  const box = canvas.getBoundingClientRect();
  const at = (x, y, type, more = {}) => canvas.dispatchEvent(new PointerEvent(type,
    { clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerId: 1, ...more }));
  canvas.setPointerCapture = () => {};
  key("0"); key("+"); key("+");
  const start = g.view.a;
  at(400, 40, "pointerdown"); at(300, 40, "pointermove", { buttons: 1 }); at(300, 40, "pointerup");
  report.dragged = g.view.a - start;
  canvas.dispatchEvent(new WheelEvent("wheel",
    { deltaY: -200, ctrlKey: true, clientX: box.left + 400, cancelable: true }));
  report.wheeled = size();
  for (let x = 130; x < 900; x += 3) { at(x, 40, "pointermove"); if (!document.getElementById("tip").hidden) break; }
  report.tip = document.getElementById("tip").textContent;
  const draw = CanvasRenderingContext2D.prototype.fillRect;
  const drawn = () => {
    let count = 0;
    CanvasRenderingContext2D.prototype.fillRect = function (...box) { count++; draw.apply(this, box); };
    g.paint();
    CanvasRenderingContext2D.prototype.fillRect = draw;
    return count;
  };
  key("0"); report.drawn = drawn();
  for (let i = 0; i < 8; i++) key("+");
  report.drawnInside = drawn();
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < pixels.length; i += 28) seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
  report.colours = seen.size;
  report.policies = [];
  for (const radio of document.querySelectorAll("#picker input")) {
    radio.click(); await wait(30);
    const note = document.getElementById("reasons-note").textContent;
    report.policies.push({ svgs: document.querySelectorAll(".chart svg").length, note });
  }
  report.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  report.errors = window.failures;
  document.documentElement.dataset.report = JSON.stringify(report);
})().catch((e) => { document.documentElement.dataset.report = JSON.stringify({ crash: String(e) }); });
</script>
"""
WATCH = "<script>window.failures = []; addEventListener('error', (e) => failures.push(e.message));</script>"


def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no Chromium here: the page was not drawn")


def drawn(page: str, folder: Path, width: int) -> tuple[str, dict[str, Any]]:
    """The page after its script and our actions ran: its elements, and what the actions saw."""
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    assert len(policy.findall(page)) == 1  # lifted for the actions alone; the next test runs under it
    probe = policy.sub(WATCH, page).replace("</body>", ACTIONS + "</body>")
    text = dump(probe, folder, width)
    match = re.search(r'data-report="([^"]*)"', text)
    assert match, "the actions did not finish"
    return text, json.loads(unescape(match.group(1)))


def dump(page: str, folder: Path, width: int) -> str:
    (folder / "page.html").write_text(page, encoding="utf-8")
    done = children.run(
        [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", f"--user-data-dir={folder / 'profile'}",
         f"--window-size={width},1000", "--virtual-time-budget=8000", "--dump-dom", (folder / "page.html").as_uri()],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("width", [1400, 520])
def test_the_page_draws_itself_and_answers(page: str, tmp_path: Path, width: int) -> None:
    text, report = drawn(page, tmp_path, width)
    assert "crash" not in report, report
    assert report["errors"] == []
    assert report["overflow"] <= 0  # nothing wider than the window
    assert report["zoomed"] == pytest.approx(0.6 * report["whole"])
    assert report["moved"] > 0 and report["dragged"] > 0 and report["wheeled"] < report["zoomed"]
    assert "req-" in report["live"] and "service" in report["live"]
    assert re.search(r"req-\d+ of .*\n?layer \d+", report["tip"], re.S)
    assert report["colours"] > 8
    assert report["drawnInside"] < report["drawn"] / 4  # what lies outside the view costs nothing
    assert len({p["note"] for p in report["policies"]}) == 3 and all(
        p["svgs"] >= 3 for p in report["policies"]
    )
    for chart in ("chart-slo", "chart-split", "chart-fairness", "chart-reasons", "chart-gantt"):
        assert re.search(rf'id="{chart}"[^>]*><', text), chart
    assert "alert('x')</script>" not in text.split('id="data"')[0].replace("&lt;", "")


def test_the_page_draws_itself_under_its_own_policy(page: str, tmp_path: Path) -> None:
    text = dump(page, tmp_path, 1200)
    assert 'data-drawn="yes"' in text
    refused = dump(
        page.replace("</body>", "<script>document.title = 'taken'</script></body>"), tmp_path, 1200
    )
    assert "<title>taken" not in refused and 'data-drawn="yes"' in refused


def test_every_reason_has_a_meaning_that_its_rule_bears_out() -> None:
    """A request misses for the largest part of the time it lost, which may be less than half of it."""
    script = (Path(report.__file__).parent / "assets" / "report.js").read_text()
    (block,) = re.findall(r"^const MEANING = \{(.*?)^\};", script, re.DOTALL | re.MULTILINE)
    said = dict(re.findall(r'^  "([^"]+)": "([^"]+)"', block, re.MULTILINE))
    assert set(said) == {*REASONS, "waiting"}
    assert not [reason for reason, text in said.items() if "most of" in text]
