"""Reasons of decisions: terms sum to the score that was used, rivals are those who waited, and notes change nothing."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Floats
from eunomia.inference.policies.reasons import FATES, POINTS, RIVALS, TERMS
from eunomia.inference.simulate import simulate_problem
from eunomia.inference.tabulate import tabulate
from eunomia.learning.observation.plain import observe
from eunomia.learning.observation.table import JOB, SHARE, START
from eunomia.learning.policy.bases import base_weights
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.network import evaluate
from eunomia.learning.policy.weights import KINDS, Weights
from tests.inference.strategies import Case, cases
from tests.learning.deployment import episode
from tests.learning.test_policy import random_weights

SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Spy(LearnedPolicy):
    """Keeps what the plain form of the features says at every question, and what was answered."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self.asked: list[tuple[View, Floats, Floats, list[Assign]]] = []

    def __call__(self, view: View) -> list[Assign]:
        jobs, overall = observe(view)
        answer = super().__call__(view)
        kept = View(
            view.system,
            view.ready.copy(),
            view.accelerators,
            view.latency_s,
            view.demand_bytes_s,
            view.energy_j,
        )
        self.asked.append((kept, jobs, overall, answer))
        return answer


def scores_of(policy: LearnedPolicy, jobs: Floats, overall: Floats) -> tuple[Floats, Floats]:
    """(linear, whole) scores by the formula."""
    weights = policy.weights
    linear = jobs @ (weights.base + weights.job)
    total, margin = linear.copy(), np.zeros(len(jobs))
    if kind := KINDS.index(weights.kind):
        evaluate(jobs, overall, policy.block, kind, weights.units, total, margin)
    return linear, total


@SLOW
@given(cases(periodic=False), st.integers(0, 10_000), st.sampled_from(KINDS))
def test_terms_sum_to_the_score_of_the_plain_twin(case: Case, seed: int, kind: str) -> None:
    policy = Spy(random_weights(seed, kind))
    options = replace(case.options, record="all")
    outcome = simulate_problem(case.problem(), policy, options, stepped=True)
    assert outcome.reasons is not None
    rows, weight = outcome.reasons.rows, policy.weights.base + policy.weights.job
    number = 0
    for view, jobs, overall, answer in policy.asked:
        linear, score = scores_of(policy, jobs, overall)
        places = {(int(r["request"]), int(r["layer"])): i for i, r in enumerate(view.ready)}
        started = [places[a.request, a.layer] for a in answer]
        for n, i in enumerate(started):
            row, points = rows[number], weight * jobs[i]
            assert row["score"] == pytest.approx(score[i], rel=1e-9, abs=1e-9)
            assert row["base"] == pytest.approx(jobs[i] @ policy.weights.base, rel=1e-9, abs=1e-9)
            assert row["network"] == pytest.approx(score[i] - linear[i], rel=1e-6, abs=1e-9)
            noted = row["weight"] * row["value"]
            largest = np.sort(np.abs(points))[::-1][:TERMS]
            assert np.abs(noted) == pytest.approx(largest, rel=1e-9, abs=1e-9)
            rest = sum(points[f] for f in range(len(JOB)) if f not in row["feature"])
            assert noted.sum() + rest + row["network"] == pytest.approx(row["score"], rel=1e-9, abs=1e-9)
            expect_rivals(row, view, jobs * weight, score, started[: n + 1])
            number += 1
    assert number == np.count_nonzero(rows["by"] >= 0) == len(outcome.decisions)


def expect_rivals(row: np.void, view: View, points: Floats, score: Floats, started: Sequence[int]) -> None:
    """The first requests that wait on, in the policy's order, and the terms in which they differ most."""
    ready, mine = view.ready, started[-1]
    order = [i for i in np.lexsort([ready["sequence"], -score, ready["late"]]) if i not in started]
    seen, expected = {int(ready[mine]["request"])}, []
    for i in order:
        if int(ready[i]["request"]) not in seen:
            seen.add(int(ready[i]["request"]))
            expected.append(i)
    close = np.min(np.diff(np.sort(score)), initial=np.inf) < 1e-9  # rounding may turn the order of equals
    there = [k for k in range(RIVALS) if row["rival_request"][k] >= 0]
    assert len(there) == min(RIVALS, len(expected))
    for k, i in zip(there, expected, strict=False):
        if close:
            continue
        assert (row["rival_request"][k], row["rival_layer"][k]) == (ready[i]["request"], ready[i]["layer"])
        gaps = points[mine] - points[i]
        largest = np.sort(np.abs(gaps))[::-1][:POINTS]
        assert np.abs(row["rival_weight"][k] * row["rival_value"][k]) == pytest.approx(
            largest, rel=1e-6, abs=1e-8
        )
        assert row["rival_score"][k] == pytest.approx(score[i], rel=1e-9, abs=1e-9)


@SLOW
@given(cases(periodic=False), st.integers(0, 10_000), st.sampled_from(KINDS))
def test_compiled_runs_note_what_stepped_ones_do_and_notes_change_nothing(
    case: Case, seed: int, kind: str
) -> None:
    policy, all_of_it = LearnedPolicy(random_weights(seed, kind)), replace(case.options, record="all")
    compiled = simulate_problem(case.problem(), policy, all_of_it)
    stepped = simulate_problem(case.problem(), policy, all_of_it, stepped=True)
    silent = simulate_problem(case.problem(), policy, replace(case.options, record="requests"))
    assert compiled.reasons is not None and stepped.reasons is not None and silent.reasons is None
    assert compiled.reasons.rows.tobytes() == stepped.reasons.rows.tobytes()
    assert np.array_equal(compiled.results["finish_s"], silent.results["finish_s"], equal_nan=True)


def test_the_table_holds_what_was_noted() -> None:
    e = episode(2, requests=300)
    policy = LearnedPolicy(replace(random_weights(3), gate=0.9))
    outcome = simulate_problem(e.problem, policy, replace(e.options, record="all"))
    table, reasons = tabulate(outcome)["decisions"].to_pylist(), outcome.reasons
    assert reasons is not None and len(table) == len(outcome.decisions) > 500
    for line, row in zip(table, reasons.rows, strict=False):
        assert line["decided_by"] == "score" and line["score"] == row["score"]
        assert [t["feature"] for t in line["terms"]] == [JOB[f] for f in row["feature"]]
        assert [t["weight"] * t["value"] for t in line["terms"]] == list(row["weight"] * row["value"])
        assert [r["request"] for r in line["rivals"]] == [r for r in row["rival_request"] if r >= 0]
        assert all(r["fate"] in FATES and len(r["terms"]) <= POINTS for r in line["rivals"])
        assert (line["held"] is None) == (row["held_request"] < 0)
        if line["held"]:
            assert line["held"]["margin"] < 0.0 and line["held"]["time_s"] <= line["time_s"]
            assert {p["feature"] for p in line["held"]["terms"]} <= {*START, *SHARE}
    assert any(line["held"] for line in table) and any(
        r["fate"] == "kept" for t in table for r in t["rivals"]
    )


def test_who_decided_is_noted() -> None:
    e = episode(2, requests=200)
    recorded = replace(e.options, record="all")

    def by(policy: LearnedPolicy) -> set[str]:
        table = tabulate(simulate_problem(e.problem, policy, recorded))["decisions"]
        return set(table["decided_by"].to_pylist())

    assert by(LearnedPolicy(base_weights("edf+f+eft+g0.9"))) == {"base"}
    assert by(LearnedPolicy(random_weights(1))) == {"score"}
    broken = replace(base_weights("edf+f+eft+g0.9"), job=np.full(len(JOB), np.nan))
    assert by(LearnedPolicy(broken)) == {"invalid"}
    strange = replace(random_weights(1), low=np.full(len(JOB), 5.0), high=np.full(len(JOB), 5.0))
    assert by(LearnedPolicy(strange, alarm=0.0)) == {"alarm"}


def test_a_gate_of_the_base_says_how_full_the_bus_was() -> None:
    e = episode(2, requests=200)
    policy = LearnedPolicy(base_weights("edf+f+eft+g0.5"))
    table = tabulate(simulate_problem(e.problem, policy, replace(e.options, record="all")))["decisions"]
    held = [line["held"] for line in table.to_pylist() if line["held"]]
    assert held and all(h["bandwidth_used"] > 0.5 and not h["terms"] for h in held)
    assert [h["margin"] for h in held] == pytest.approx([0.5 - h["bandwidth_used"] for h in held])


def test_other_policies_leave_the_columns_empty() -> None:
    e = episode(2, requests=50)
    table = tabulate(simulate_problem(e.problem, "edf+f+eft", replace(e.options, record="all")))["decisions"]
    assert table.num_rows and all(
        table[name].null_count == table.num_rows for name in ("terms", "score", "held")
    )
