"""A sweep says who leads where, in absolute units, and writes it into a report."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import eunomia
from eunomia.core.errors import UnknownNameError
from eunomia.study.sweep import sweep_page
from tests.cli.scenarios import SMALL

POLICIES = ["fcfs", "edf+f+eft"]
GRID = {"load": [0.5, 1.5]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def swept(folder: Path) -> eunomia.SweepResult:
    return eunomia.sweep(tomllib.loads(SMALL), GRID, POLICIES, seeds=3, directory=folder)


def test_policies_stand_in_order_of_their_mean_over_the_settings(swept: eunomia.SweepResult) -> None:
    table = swept.ranking().policies()
    means = {
        policy: np.mean([row["hit_rate"] for row in swept.rows() if row["policy"] == policy])
        for policy in POLICIES
    }
    assert [row[0] for row in table.rows] == sorted(POLICIES, key=lambda policy: -means[policy])
    column = table.header.index("hit rate, all settings")
    for row in table.rows:
        assert row[column].startswith(f"{100 * means[row[0]]:.1f} ")
        assert row[1] == "load=1.5"  # the worst setting of both


def test_joules_stand_in_the_tables_and_in_the_report(swept: eunomia.SweepResult, folder: Path) -> None:
    for table in (swept.table(), swept.ranking().policies(), swept.ranking().settings()):
        assert "energy/request" in table.header
        assert all(row[table.header.index("energy/request")].endswith("J") for row in table.rows)
    page = (folder / "report.html").read_text()
    assert "Eunomia sweep" in page and "energy/request" in page and "Pareto front" in page
    assert "{{" not in page and "<script" not in page


def test_settings_stand_in_order_of_their_best_policy(swept: eunomia.SweepResult) -> None:
    rows = swept.ranking().settings().rows
    assert [row[:2] for row in rows] == [("1", "load=0.5"), ("2", "load=1.5")]
    said = swept.sentences()
    assert said[0].startswith("Ranked by hit rate, mean over 2 settings: ")
    assert [text.partition(":")[0] for text in said[-2:]] == ["load=0.5", "load=1.5"]


def test_another_metric_gives_another_order_and_report(swept: eunomia.SweepResult, folder: Path) -> None:
    by = swept.ranked_by("energy_per_request_j")
    first = by.ranking().policies().rows[0][0]
    joules = {
        p: np.mean([r["energy_per_request_j"] for r in swept.rows() if r["policy"] == p]) for p in POLICIES
    }
    assert first == min(joules, key=joules.__getitem__)
    assert "Ranked by energy per request" in (folder / "report.html").read_text()
    with pytest.raises(UnknownNameError, match="did you mean 'hit_rate'"):
        swept.ranked_by("hitrate")


def test_a_study_of_one_set_of_jobs_crowns_nobody() -> None:
    """Jobs written out: three seeds repeat one another. Before, the first was ahead "by ... ±0"."""
    jobs = tomllib.loads((Path(__file__).parents[2] / "examples" / "cluster_jobs.toml").read_text())
    del jobs["simulation"]["failures"]
    swept = eunomia.sweep_cluster(jobs, {"simulation.round_s": [60.0, 120.0]}, ["fifo_perf", "srtf"], seeds=3)
    said = " ".join(swept.sentences())
    assert "clearly behind" not in said and "behind by" not in said and "±" not in swept.table().text() + said
    assert swept.footnotes()[0] == "3 seeds, which draw nothing here: one set of jobs, so no intervals"
    assert (
        swept.footnotes()[0]
        in dict((name, note) for name, note, _ in sweep_page(swept).tables)["All figures"]
    )
