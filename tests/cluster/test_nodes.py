"""Nodes for a log's jobs: the least rent that a full search finds, bounds that hold, wrong questions in a sentence."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.config.cluster_plan import ClusterPlanConfig, cluster_plan_from
from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.study.cluster.nodes import Replays, _lines, plan_nodes
from eunomia.study.cluster.nodes_bound import least_jct_mean_s
from eunomia.study.cluster.nodes_result import rent_per_h
from tests.cluster import status_quo_logs as logs
from tests.effort import lines_of
from tests.shared_data import shared


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 jobs, 1 to 4 devices each, of unlike length."""
    path, rng = tmp_path_factory.mktemp("log") / "log.csv", np.random.default_rng(5)
    at = np.floor(np.cumsum(rng.exponential(120.0, 60)))
    rows = [f"{at[n]:g},{rng.choice([1, 2, 4])},{rng.integers(300, 7200)},t{n % 3}" for n in range(60)]
    path.write_text("\n".join(["submit,gpus,duration,tenant", *rows]) + "\n")
    return path


def question(log: Path, **changes: Any) -> ClusterPlanConfig:
    nodes = [
        {"type": "large", "devices": 4, "speed": 2.0, "most": 4, "rent_per_h": 9.0},
        {"type": "small", "devices": 4, "speed": 1.0, "most": 6, "rent_per_h": 4.0},
    ]
    given = {"name": "nodes", "log": str(log), "node": nodes, "promise": {"jct_mean_s": 3600.0},
             "reference": "small", "policies": ["backfill", "srtf"]}  # fmt: skip
    return cluster_plan_from({**given, **changes})


def test_it_finds_what_trying_everything_finds(log: Path) -> None:
    found = plan_nodes(question(log))
    assert found.counts is not None and found.refuted, "else the bound is not tested"
    replays = Replays(question(log), None)
    cheaper = [counts for counts in found.sets if found.rent(counts) < found.rent(found.counts)]
    assert not any(replays.refuted(counts) == "" and replays.replay(counts).kept for counts in cheaper)
    assert replays.replay(found.counts).kept
    assert found.sentences()[0].startswith(f"{found.label(found.counts)} under ")
    assert found.carried >= 1.0 and found.answer()["rent"] == found.rent(found.counts)
    verdicts = [row["verdict"] for row in found.rows()]
    assert verdicts.count("answer") == 1


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), machines=st.integers(1, 4))
def test_no_schedule_beats_the_bound(seed: int, machines: int) -> None:
    """First come, first served and shortest first on equal machines, jobs of one device each."""
    rng = np.random.default_rng(seed)
    arrival_s, run_s = np.sort(rng.integers(0, 50, 12)).astype(float), rng.integers(1, 30, 12).astype(float)
    bound = least_jct_mean_s(arrival_s, run_s, run_s, float(machines))
    for key in (lambda n: n, lambda n: run_s[n]):
        free, waiting, done, now = [0.0] * machines, list(range(12)), 0.0, 0.0
        while waiting:
            now = max(now, min(free), min(arrival_s[n] for n in waiting))
            ready = [n for n in waiting if arrival_s[n] <= now]
            job = min(ready, key=key)
            waiting.remove(job)
            free[free.index(min(free))] = now + run_s[job]
            done += now + run_s[job] - arrival_s[job]
        assert bound <= done / 12 + 1e-9
    one = np.array([0.0, 1.0, 2.0]), np.array([4.0, 1.0, 1.0])
    assert least_jct_mean_s(*one, one[1], 1.0) == pytest.approx((6 + 1 + 1) / 3)  # by hand


def test_sets_are_cut_into_lines_in_one_go(log: Path) -> None:
    """Three times the sets take three times the work, and every set stands in a line, the cheapest first."""

    def catalogue(most: int) -> tuple[ClusterPlanConfig, list[tuple[int, ...]]]:
        nodes = [
            {"type": f"t{n}", "most": most, "rent_per_h": rent} for n, rent in enumerate((3.0, 1.0, 2.0))
        ]
        config = question(log, node=nodes, reference="t0")
        sets = itertools.product(range(most + 1), repeat=3)
        return config, sorted(sets, key=lambda counts: rent_per_h(config, counts))

    (small, large) = (lines_of(lambda m=m: _lines(*catalogue(m)))[0] for m in (4, 7))  # type: ignore[misc]
    assert large < 1.5 * (8 / 5) ** 3 * small
    config, sets = catalogue(4)
    lines = _lines(config, sets)
    assert sorted(itertools.chain(*lines)) == sorted(sets) and len(lines) == 25
    assert all(line == sorted(line) and len({counts[1:] for counts in line}) == 1 for line in lines)
    assert [rent_per_h(config, line[0]) for line in lines] == sorted(rent_per_h(config, x[0]) for x in lines)


def test_replays_of_refuted_nodes_break_the_promise(log: Path) -> None:
    config = question(log, policies=["srtf", "least_attained_service"])
    found, replays = plan_nodes(config), Replays(config, None)
    for counts in list(found.refuted)[-2:]:
        if "asks for" not in found.refuted[counts]:
            assert not replays.replay(counts).kept


def test_philly_on_rented_nodes() -> None:
    """Microsoft's log, its first 60 jobs: nobody here made it."""
    nodes = [
        {"type": "p100", "devices": 8, "most": 40, "rent_per_h": 11.0},
        {"type": "v100", "devices": 8, "speed": 2.0, "most": 3, "rent_per_h": 24.0},
    ]
    asked = {"name": "philly", "log": str(shared("traces/philly_reduced.csv")), "jobs": 60, "node": nodes}
    found = plan_nodes(
        cluster_plan_from({**asked, "promise": {"wait_mean_s": 7200.0}, "policies": ["backfill"]})
    )
    assert found.counts is not None
    assert found.replays[found.counts].metrics["wait_mean_s"] <= 7200.0
    assert len(found.replays) < len(found.sets) / 2


WRONG = [
    ({"promise": {"jct_mean": 5.0}}, "did you mean 'jct_mean_s'"),
    ({"promise": {"solve_median_s": 5.0}}, "unknown metric 'solve_median_s'"),
    ({"promise": {}}, "promise is empty; give for example"),
    ({"policies": ["srtff"]}, "unknown cluster policy 'srtff'"),
    ({"reference": "k80"}, "reference is 'k80', which has no speed"),
    ({"bounds": {"cost": 0.01}}, r"no set of nodes is within \[bounds\]"),
    ({"node": [{"type": "a", "least": 5, "most": 2}]}, "least is 5 and most is 2"),
    ({"node": [{"type": "a"}, {"type": "a"}]}, "two entries of .* are of one type"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[said[:20] for _, said in WRONG])
def test_a_wrong_question_is_one_sentence(log: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(EunomiaError, match=said) as caught:
        plan_nodes(question(log, **changes))
    assert "\n" not in str(caught.value)


def test_no_nodes_is_an_answer_with_a_reason(log: Path) -> None:
    found = plan_nodes(question(log, promise={"jct_mean_s": 60.0}))
    assert found.counts is None
    assert "no nodes within the bounds can keep the promises" in found.sentences()[0]
    assert "is impossible there, whoever schedules" in found.sentences()[0]
    with pytest.raises(ConfigError, match="promise.jct_mean_s is -1.0; it must be greater than 0"):
        question(log, promise={"jct_mean_s": -1.0})


def test_a_log_of_slurm_is_read(tmp_path: Path) -> None:
    path = logs.sacct(tmp_path, trained := logs.jobs()[:40], np.array([job.arrival_s for job in trained]))
    config = question(path, speed={"a100": 2.0, "v100": 1.0}, promise={"jct_p95_s": 20_000.0})
    assert plan_nodes(config).counts is not None
