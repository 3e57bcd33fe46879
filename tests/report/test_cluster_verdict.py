"""The report of cluster runs crowns nobody within the interval, and names the worst served."""

from __future__ import annotations

import math
import re

import numpy as np
import pyarrow as pa

from eunomia.core.records import Comparison, RunRecords
from eunomia.metrics.cluster import CLUSTER_METRICS
from eunomia.report.cluster import verdict
from eunomia.report.cluster.html import _summary, _summary_note

HOUR = 3600.0


def _run(policy: str, seed: int, jct_h: float, worst: float) -> RunRecords:
    """Two jobs, of which the second, of tenant 'b', has the worst rho."""
    ends = np.array([jct_h * HOUR, jct_h * HOUR])
    columns = {
        "job": ["first", "second"],
        "tenant": ["a", "b"],
        "arrival_s": [0.0, 0.0],
        "start_s": [0.0, 0.0],
        "finish_s": ends,
        "isolated_s": ends / np.array([1.0, worst]),
        "alone_s": ends,
        "contention": [1.0, 1.0],
        "deadline_s": [math.nan, math.nan],
    }
    metrics = dict.fromkeys(CLUSTER_METRICS) | {"jct_mean_s": jct_h * HOUR, "rho_max": worst}
    return RunRecords(
        {"jobs": pa.table(columns)}, {"policy": policy, "seed": seed, "metrics": metrics, "end_s": ends[0]}
    )


def _compared(**jct_h: list[float]) -> Comparison:
    worst = {"calm": 1.6, "wild": 32.0, "slow": 2.0}
    return Comparison(
        "x", tuple(_run(p, s, v, worst[p]) for p, values in jct_h.items() for s, v in enumerate(values))
    )


def test_nobody_wins_within_the_interval() -> None:
    """12.9 h against 13.7 h, differences -2.8, +1.2 and -0.8 h: mean -0.8, interval ± 5 h. Before, the first won."""
    found = _compared(wild=[11.0, 14.2, 13.5], calm=[13.8, 13.0, 14.3])
    said = verdict.headline(found)
    assert said.startswith(
        "No policy has the shortest average JCT beyond doubt: wild 12.90 h (worst rho 32), calm"
    )
    assert "calm minus wild is +48.0 min ± 4." in said and said.endswith("over 3 seeds.")
    assert _summary(found)._best("jct_mean_s") == set()
    assert _summary(found)._best("rho_max") == {"calm"}


def test_a_clear_winner_is_named_with_its_worst_rho() -> None:
    found = _compared(wild=[11.0, 12.0, 13.0], calm=[12.0, 13.0, 14.0], slow=[19.0, 20.0, 21.0])
    assert verdict.headline(found) == (
        "wild has the shortest average JCT, 12.00 h (worst rho 32); calm follows with 13.00 h (worst rho 1.6)."
    )
    assert _summary(found)._best("jct_mean_s") == {"wild"}


def test_a_level_group_is_marked_together() -> None:
    """calm and wild are level, slow is behind."""
    found = _compared(wild=[11.0, 14.2, 13.5], calm=[13.8, 13.0, 14.3], slow=[23.0, 23.0, 23.0])
    assert _summary(found)._best("jct_mean_s") == {"wild", "calm"}


def test_marks_are_explained_where_there_are_any() -> None:
    assert "A dot marks" in _summary_note(_compared(wild=[11.0, 14.2], calm=[13.8, 13.0]))
    assert "A dot" not in _summary_note(_compared(wild=[11.0], calm=[13.8]))


def test_seeds_that_draw_nothing_are_one_sample() -> None:
    """Three times the same jobs: before, an interval of 0 made the first a winner beyond doubt."""
    found = _compared(wild=[12.0, 12.0, 12.0], calm=[13.0, 13.0, 13.0])
    assert verdict.headline(found) == (
        "Average JCT of one set of jobs, which cannot tell who is ahead: "
        "wild 12.00 h (worst rho 32); calm 13.00 h (worst rho 1.6)."
    )
    assert _summary(found)._best("jct_mean_s") == set() and "A dot" not in _summary_note(found)
    assert _summary_note(found).startswith(
        "3 seeds, which draw nothing here: one set of jobs, so no intervals"
    )


def test_chance_under_one_policy_is_no_sample_of_the_others() -> None:
    """One set of jobs under two policies without chance and one with: only pairs with the third have an interval."""
    found = _compared(wild=[12.0, 12.0, 12.0], calm=[13.0, 13.0, 13.0], slow=[20.0, 20.0, 20.1])
    assert verdict.alike(found) == ["wild", "calm"]
    assert not verdict.estimate(found, "wild", "jct_mean_s").has_interval
    assert not verdict.difference(found, "wild", "calm", "jct_mean_s").has_interval
    assert verdict.difference(found, "slow", "wild", "jct_mean_s").excludes_zero
    assert verdict.headline(found) == (
        "No policy has the shortest average JCT beyond doubt: wild 12.00 h (worst rho 32), calm 13.00 h "
        "(worst rho 1.6); calm minus wild is +60.0 min on one set of jobs."
    )
    assert "seeds draw nothing under wild and calm: one set of jobs" in _summary_note(found)
    assert _summary(found)._best("jct_mean_s") == set()


def test_one_seed_cannot_tell() -> None:
    found = _compared(wild=[12.0], calm=[13.0])
    assert verdict.headline(found) == (
        "Average JCT of one seed, which cannot tell who is ahead: "
        "wild 12.00 h (worst rho 32); calm 13.00 h (worst rho 1.6)."
    )
    assert _summary(found)._best("jct_mean_s") == set()


def test_the_worst_served_is_named() -> None:
    assert verdict.worst_served(_compared(wild=[12.0, 13.0], calm=[13.0, 14.0])) == [
        "The worst rho is lowest under calm, 1.6, and highest under wild, 32 (job 'second' of tenant 'b', seed 0: 32)."
    ]


def test_every_column_leads_to_its_definition() -> None:
    summary = _summary(_compared(wild=[12.0, 13.0], calm=[13.0, 14.0]))
    links, page = re.findall(r'<a href="#(what-\w+)">', summary.html()), summary.definitions()
    assert links == ["what-jct_mean_s", "what-rho_max"]
    assert all(re.search(rf'<dt id="{link}">[^<]+</dt><dd>[^<]{{20,}}</dd>', page) for link in links)
    assert "N_j: devices of type j" in page and all(m.definition for m in CLUSTER_METRICS.values())
