"""Numbers, Markdown and page of a study, on a table small enough to check by hand."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from eunomia.metrics.statistics import Estimate
from eunomia.report.study.charts import Dots, dot_chart
from eunomia.report.study.markdown import render_markdown
from eunomia.report.study.page import render_page
from eunomia.report.study.table import Limits, Row, StudyTable, Where
from eunomia.report.study.words import percent, points, ratios, survives, times, verdict

LOW, HIGH = (Where("main", "set", "m", load, 32.0) for load in (0.7, 1.3))
OTHER = Where("costs", "set", "m", 1.0, 32.0, "perturbation=0.5")
CONFIG = {
    "replications": 2, "warmup_requests": 10, "engine": {"late": "drop", "drop_when": "hopeless"},
    "validation": {"traces": 2, "requests": 100}, "bracket": {"windows": 2, "requests": 40},
    "deadlines": {"policy": "edf+eft", "load": 1.0},
}  # fmt: skip
FACTS = {
    "config": CONFIG,
    "capacity_per_s": {
        "set, 32 GB/s": {"mean": 100.0, "low": 90.0, "high": 110.0, "layer_s": 1e-4, "iso_s": {"net": 0.01}}
    },
    "alpha": {"set": {"alpha": 2.0, "hit_rate": 0.7}},
}  # fmt: skip


def row(where: Where, policy: str, hit_rate: tuple[float, ...], hits: tuple[int, ...] = ()) -> Row:
    metrics = {name: hit_rate for name in ("hit_rate", "worst_tenant", "jain_hit_rate", "contention_share")}
    metrics |= {name: (0.001, 0.001) for name in ("energy_per_request_j", "energy_per_hit_j")}
    metrics |= {"requests": (100.0, 100.0)}
    return Row(
        where, policy, f"{policy}+g0.9" if policy == "best" else policy, metrics, {"t": hit_rate}, hits
    )


def table(name: str = "study") -> StudyTable:
    return StudyTable(
        name, "What for.", "What it says.", ("plain", "best"), {"best": ("best+g0.9", "best")}, ("main", "costs"),
        (
            row(LOW, "plain", (0.8, 0.9), (8, 8)), row(LOW, "best", (0.9, 0.9), (9, 10)),
            row(HIGH, "plain", (0.2, 0.4), (4, 4)), row(HIGH, "best", (0.6, 0.8), (6, 6)),
            row(OTHER, "plain", (0.5, 0.5)), row(OTHER, "best", (0.4, 0.4)),
        ),
        (Limits(LOW, (10, 10), (10, 10), (10, 10)), Limits(HIGH, (8, 6), (9, 9), (10, 10))),
        "best", ("plain", "absent"), ("main",), FACTS,
    )  # fmt: skip


def test_means_over_places_are_one_number_per_replication() -> None:
    found = table()
    assert found.values([LOW, HIGH], "plain", "hit_rate") == pytest.approx([0.5, 0.65])
    assert found.estimate([LOW, HIGH], "plain").mean == pytest.approx(0.575)
    gain = found.gain([LOW, HIGH], "best", "plain")
    assert gain.mean == pytest.approx((0.25 + 0.2) / 2) and gain.n == 2
    assert found.ranked([LOW, HIGH]) == ["best", "plain"]
    assert found.present([LOW, OTHER]) == ["plain", "best"]
    assert math.isnan(found.estimate([LOW], "absent").mean)


def test_ratios_are_geometric_over_replications_and_arithmetic_over_places() -> None:
    found = table()
    assert found.ratio(HIGH, "best", "plain").mean == pytest.approx(math.sqrt(3.0 * 2.0))
    assert found.mean_ratio([LOW, HIGH], "best", "plain").mean == pytest.approx(
        ((1.125 + 3.0) / 2 + (1.0 + 2.0) / 2) / 2
    )
    (claim,) = ratios(found)  # the rival that is absent is left out
    assert claim.where == HIGH and claim.most.mean == pytest.approx(math.sqrt(6.0))
    assert (claim.champion_rate.mean, claim.rival_rate.mean) == (pytest.approx(0.7), pytest.approx(0.3))


def test_a_rival_that_serves_nothing_is_said_beside_mean_and_greatest() -> None:
    whole = table()
    rows = (row(LOW, "plain", (0.0, 0.9)), *whole.rows[1:])
    (claim,) = ratios(replace(whole, rows=rows))
    assert claim.without == 1 and ratios(whole)[0].without == 0
    assert claim.mean.mean == pytest.approx((1.0 + 2.0) / 2)  # the other replication
    said = "no ratio at 1 place (rival serves nothing)"
    text = render_markdown(replace(whole, rows=rows))
    (line,) = [line for line in text.splitlines() if line.startswith("| `plain` | ") and "load 1.3" in line]
    assert line.count(said) == 2 and any(said in sentence for sentence in verdict(replace(whole, rows=rows)))
    assert said not in render_markdown(whole)


def test_places_in_the_bracket() -> None:
    found = table()
    assert found.of_found([LOW, HIGH], "best").mean == pytest.approx(((0.9 + 0.75) / 2 + (1.0 + 1.0) / 2) / 2)
    assert found.of_bound([HIGH], "best").mean == pytest.approx(6 / 9)
    assert found.closed([LOW, HIGH], "best", "plain") == pytest.approx((31 - 24) / (34 - 24))
    assert found.of_found([OTHER], "best").n == 0


def test_a_maximum_never_stands_without_its_mean() -> None:
    for line in verdict(table()) + render_markdown(table()).splitlines():
        assert "at most" not in line or "on average" in line
    assert re.search(
        r"\| `plain` \| 1\.78x .*\| 2\.45x .*\| set, QoS-M, load 1.3, 32 GB/s \|", render_markdown(table())
    )


def test_a_conclusion_that_does_not_survive_is_said() -> None:
    assert survives(table(), [OTHER], ["plain"]) == "ahead of 0; behind plain"
    assert "behind plain" in render_markdown(table())
    assert "behind plain" in render_page(table())


def test_numbers_as_people_read_them() -> None:
    assert percent(Estimate(0.712, 0.708, 0.716, 5)) == "71.2 ± 0.4"
    assert percent(Estimate(0.5, math.nan, math.nan, 1)) == "50.0"
    assert points(Estimate(-0.021, -0.025, -0.017, 5)) == "-2.1 [-2.5, -1.7]"
    assert times(Estimate(1.42, 1.39, 1.45, 5)) == "1.42x [1.39, 1.45]"
    assert percent(Estimate(math.nan, math.nan, math.nan, 0)) == "-"


def test_the_markdown_tables_are_rectangular() -> None:
    text = render_markdown(table(), {"plain": {"us": 1.5, "alone": True}})
    assert "1.50 *" in text and "What it says." in text
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_the_page_is_one_well_formed_file_that_loads_nothing() -> None:
    page = render_page(table())
    assert page == render_page(table())
    assert "<script" not in page and "http" not in page.replace("http-equiv", "") and "src=" not in page
    charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(charts) >= 5
    for chart in charts:
        assert not re.search(r"\bnan\b", chart)
        ET.fromstring(chart)


def test_names_cannot_break_the_page() -> None:
    page = render_page(table("<b>\u202eevil</b>"))
    assert "<b>\u202e" not in page and "[U+202E]" in page


def test_a_chart_without_data_says_so() -> None:
    nothing = Estimate(math.nan, math.nan, math.nan, 0)
    assert "No data" in dot_chart([Dots("a", ((nothing, "c0", "x"),))], "empty")
