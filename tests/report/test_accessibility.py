"""axe-core finds nothing in reports of a comparison, a sweep, a study, a cluster and a load; and would find a fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.core.records import Comparison
from eunomia.report.cluster.html import cluster_page
from eunomia.report.html import render_report
from eunomia.report.page import render_page
from eunomia.report.study.page import render_page as render_study
from eunomia.report.sweep import SweepPage, Trade, render_sweep
from eunomia.report.table import Table
from eunomia.serving.load.page import render as render_load
from eunomia.serving.load.plan import LoadStream, Schedule
from eunomia.serving.load.result import summarise
from eunomia.serving.load.run import Samples
from eunomia.workload.arrivals import Poisson
from tests import axe
from tests.report.synthetic import comparison
from tests.report.test_study_report import table as study_table

CLUSTER = {
    "name": "two",
    "device": [{"type": "gpu", "count": 2}],
    "throughputs": {"model": [{"name": "m", "speed": {"gpu": 2.0}}]},
    "job": [{"id": f"j{n}", "type": "m", "steps": 4000.0} for n in range(3)],
}


def of_a_sweep() -> str:
    rows = Table(
        ("rank", "policy", "setting", "hit rate"),
        (("1", "edf", "", "90 %"), ("2", "fcfs", "load=1", "7 %")),
        3,
    )
    trades = [Trade("edf", "load=1", 0.9, 2.0), Trade("fcfs", "load=1", 0.1, 1.0)]
    return render_sweep(
        SweepPage(
            "a sweep",
            ["edf"],
            ["edf leads."],
            "2 cells",
            [("Ranking", "By rank.", rows)],
            trades,
            ("good", "cost"),
        )
    )


def of_a_cluster() -> str:
    from eunomia.study.cluster import run_cluster

    runs = [run_cluster(CLUSTER, policy).records for policy in ("isolated", "fifo")]
    return render_page(cluster_page(Comparison("two", tuple(runs), {"config": CLUSTER})))


def of_a_load() -> str:
    rng, count = np.random.default_rng(0), 100
    schedule = Schedule(np.arange(count) * 0.01, np.arange(count) % 2)
    samples = Samples(
        schedule, rng.exponential(0.1, count), np.zeros(count), ["refused", *[""] * (count - 1)], 1.0
    )
    return render_load(
        summarise(samples, [LoadStream(name, "m", Poisson(1.0), 0.1) for name in "ab"]), "a load"
    )


PAGES: dict[str, Callable[[], str]] = {
    "comparison": lambda: render_report(comparison(seeds=3, requests=150)),
    "sweep": of_a_sweep,
    "study": lambda: render_study(study_table()),
    "cluster": of_a_cluster,
    "load": of_a_load,
}


@pytest.mark.parametrize("name", ["sweep", "study"])
def test_columns_of_metrics_lead_to_their_definitions(name: str) -> None:
    page = PAGES[name]()
    links = re.findall(r'<th scope="col"[^>]*><a href="#(what-\w+)">', page)
    assert "what-hit_rate" in links
    assert all(f'<dt id="{link}">' in page for link in links)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    axe.source()
    with axe.chromium(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(browser: Any, tmp_path: Path, name: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGES[name](), encoding="utf-8")
    assert axe.violations(browser, page.as_uri()) == []


def test_a_planted_fault_is_found(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        PAGES["sweep"]().replace("</h1>", '</h1><button style="width: 2000px"></button>', 1), encoding="utf-8"
    )
    found = axe.violations(browser, page.as_uri())
    assert any("button-name" in one for one in found) and any("wider than the window" in one for one in found)
