"""Terminal, JSON, HTML report and records give every figure of a comparison under one name, and one value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eunomia.core.records import Comparison, read_comparison
from eunomia.metrics.metric import Metric
from eunomia.metrics.statistics import Estimate, interval
from eunomia.report.units import estimate_text, value_text
from eunomia.study.compare import as_data
from eunomia.study.wing import wing_of
from tests.cli.scenarios import small
from tests.cli.shell import Shell

EXAMPLES = Path(__file__).parents[2] / "examples"
Cells = dict[str, dict[str, str]]  # row -> column -> text


@dataclass(frozen=True)
class Sources:
    """One comparison as each of its faces shows it."""

    metrics: Mapping[str, Metric]
    headlines: tuple[str, ...]
    terminal: Cells
    document: dict[str, Any]
    page: Cells
    data: dict[str, Any]  # what the page's script draws; empty where it needs none
    records: Comparison

    def recorded(self, policy: str, metric: str) -> Estimate:
        """A figure of the manifests, over seeds."""
        values = [run.manifest["metrics"][metric] for run in self.records.of(policy)]
        return interval([math.nan if value is None else value for value in values])


class Page(HTMLParser):
    """The first table of a report, and the data of its script."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.data = ""
        self._open = self._script = self._done = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows += [] if self._done else [[]]
        elif tag in ("th", "td") and not self._done:
            self._open = True
            self.rows[-1].append("")
        elif tag == "span" and self._open:
            self.rows[-1][-1] += " "
        elif tag == "script":
            self._script = dict(attrs).get("id") == "data"

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag not in ("th", "td")
        self._script = self._script and tag != "script"
        self._done = self._done or tag == "table"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1][-1] += data
        if self._script:
            self.data += data


def cells(rows: list[list[str]]) -> Cells:
    header, *body = rows
    return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in body}


def printed(text: str) -> Cells:
    """The table of a terminal: columns stand two blanks apart."""
    lines = text.splitlines()[1:]
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
    return cells([row for row in rows if len(row) == len(rows[0])])


def shown(text: str) -> tuple[str, str]:
    """``71.2 ±1.1 %`` and ``71.2 % ±1.1`` alike: the mean with its unit, half the interval."""
    half = re.search(r"±\S+", text)
    mean = " ".join(re.sub(r"±\S+", "", text).split())
    return mean.replace("\u00b5", "u"), half.group() if half else ""


@pytest.fixture(params=["inference", "cluster"])
def faces(request: pytest.FixtureRequest, shell: Shell) -> Sources:
    verb: list[Any] = ["compare", small(Path.cwd()), "--set", "load=1.2"]
    if request.param == "cluster":
        short = ("--set", "generate.jobs=12", "-p", "isolated", "-p", "fifo_perf")
        verb = ["cluster", "compare", EXAMPLES / "cluster_two_types.toml", *short]
    said = shell(*verb, "--seeds", 2, "--out", "both", "-q")
    document = shell(*verb, "--seeds", 2, "--out", "both", "--json")
    assert said.code == document.code == 0, said.err + document.err
    page = Page()
    page.feed(Path("both/report.html").read_text())
    wing = wing_of(request.param)
    return Sources(
        wing.metrics, tuple(wing.headlines), printed(said.out), json.loads(document.out),
        cells(page.rows), json.loads(page.data or "{}"), read_comparison("both"),
    )  # fmt: skip


def test_a_figure_has_one_name_and_one_value(faces: Sources) -> None:
    compared = 0
    for policy in faces.records.policies:
        for name, metric in faces.metrics.items():
            recorded = faces.recorded(policy, name)
            told = faces.document["policies"][policy]["metrics"][name]
            expected = {key: None if math.isnan(value) else value for key, value in as_data(recorded).items()}
            assert told == expected, name
            text = estimate_text(metric, recorded)
            for face in (faces.terminal, faces.page):
                if metric.heading in face[policy]:
                    assert shown(face[policy][metric.heading]) == shown(text), name
                    compared += 1
    assert compared >= 2 * 2 * 7


def test_terminal_and_report_show_the_same_table(faces: Sources) -> None:
    assert list(faces.terminal) == list(faces.page) == faces.records.policies
    for policy, row in faces.terminal.items():
        assert list(row) == list(faces.page[policy]), policy
        for heading, text in row.items():
            assert shown(text) == shown(faces.page[policy][heading]), (policy, heading)
    assert ("gain" in next(iter(faces.page.values()))) == (faces.records.manifest["wing"] == "inference")


def test_a_heading_is_the_name_of_one_metric(faces: Sources) -> None:
    headings = {metric.heading for metric in faces.metrics.values()}
    assert len(headings) == len(faces.metrics)
    for face in (faces.terminal, faces.page):
        assert all(set(row) - {"gain"} <= headings for row in face.values())
    with_data = {
        name for name in faces.headlines
        if any(abs(faces.recorded(policy, name).mean) > 0.0 for policy in faces.records.policies)
    }  # fmt: skip
    for name in with_data - {"cost"}:
        assert all(faces.metrics[name].heading in row for row in faces.page.values()), name
    for metric in faces.metrics.values():  # a heading may be shorter than the label, with no word of its own
        assert set(re.findall(r"\w+", metric.heading)) <= set(re.findall(r"\w+", metric.label))


@pytest.mark.parametrize("faces", ["inference"], indirect=True)
def test_tenants_and_slos_have_one_name_and_one_value(faces: Sources) -> None:
    for policy in faces.records.policies:
        told, runs = faces.document["policies"][policy], faces.records.of(policy)
        pairs = [row for run in runs for row in run["pairs"].to_pylist() if row["slo_kind"]]
        assert len(told["pairs"]) == len(faces.data["pairs"]) == len(pairs) // 2 == 2
        for one, drawn in zip(told["pairs"], faces.data["pairs"], strict=True):
            mine = [row for row in pairs if (row["tenant"], row["model"]) == (one["tenant"], one["model"])]
            outcome = drawn["policies"][policy]
            for name in ("tenant", "model", "slo_kind", "slo_target"):
                assert one[name] == drawn[name] == mine[0][name]
            assert one["sli"] == outcome["sli"]["mean"] == pytest.approx(sum(r["sli"] for r in mine) / 2)
            assert one["met"] == outcome["met"] == sum(r["met"] for r in mine) / 2
            assert one["shortfall"] == pytest.approx(sum(r["shortfall"] for r in mine) / 2)
            if one["slo_kind"] == "hit_rate":
                rate = told["tenants"][one["tenant"]]["mean"]
                assert rate == pytest.approx(one["sli"])  # the tenant uses one network
        met = interval([sum(r["met"] for r in run["pairs"].to_pylist()) / 2 for run in runs])
        assert told["metrics"]["slo_attainment"]["mean"] == met.mean


def test_the_table_of_one_run_uses_the_same_words(shell: Shell) -> None:
    file, metrics = small(Path.cwd()), wing_of("inference").metrics
    said = shell("run", file, "-p", "edf", "-q", "--out", "one").out
    document = json.loads(shell("run", file, "-p", "edf", "--json", "--out", "two").out)
    table, label = printed(said), {metric.label: name for name, metric in metrics.items()}
    known = {label[text]: row["value"] for text, row in table.items() if text in label}
    assert len(known) >= 10
    for name, text in known.items():
        assert text == value_text(metrics[name], document["metrics"][name]), name
