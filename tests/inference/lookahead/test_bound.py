"""What a rollout must still lose: never more than any plan loses; a request that cannot win is not tried."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.inference.kernel.setup import STEP
from eunomia.inference.lookahead.lessons import COLUMNS, explained, fit, taught_by
from eunomia.inference.lookahead.policy import lookahead
from eunomia.inference.lookahead.price import FEATURES, worth
from eunomia.inference.lookahead.values import candidate_values
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import build_problem
from eunomia.inference.simulate import Engine
from eunomia.learning.episodes import Episode
from tests.inference.lookahead.test_lookahead import problem_of
from tests.inference.strategies import Case, cases
from tests.metrics.tiny import tiny

OPTIONS = EngineOptions(late="drop")


@settings(max_examples=60, deadline=None)
@given(cases(periodic=False), st.sampled_from(("edf+f", "eunomia")), st.sampled_from((0.3, 0.9, 2.0)))
def test_no_candidate_loses_less(case: Case, base: str, price: float) -> None:
    policy = lookahead(base, portfolio="none", price=price)
    engine = Engine(case.problem(), policy.rules._replace(mode=STEP), case.options)
    engine.companion = companion = policy.attach(engine)
    if not engine.advance():
        return
    found = candidate_values(companion)
    least = float(companion.workspace["left_loss"][0])
    assert least >= 0.0
    # At the last known deadline a running layer may still be counted as a hit: a whole request in each accelerator.
    free = len(case.problem().type_of) * max(1.0, price)
    assert -found.base >= least - free - 1e-9
    assert np.all(-found.value >= least - free - 1e-9)


def test_what_must_be_lost_by_hand() -> None:
    # One accelerator, works of 2, 1 and 1 s; at a price of 0.9 for the largest each costs 0.45 per second of work.
    made = tiny([[[2.0]], [[1.0]]], [(0, 0.0, 9.0), (1, 0.0, 9.0), (1, 0.0, 9.0)], [0])
    engine_of = build_problem(made.request_table, made.table, made.platform, OPTIONS)
    policy = lookahead("edf+f", portfolio="none", price=0.9)
    engine = Engine(engine_of, policy.rules._replace(mode=STEP), OPTIONS)
    engine.companion = companion = policy.attach(engine)
    assert engine.advance()
    found = candidate_values(companion)
    assert float(companion.workspace["left_loss"][0]) == pytest.approx(1.8)
    assert found.base == pytest.approx(-1.8)  # all are served, and nothing is lost


def test_lessons_tell_what_work_costs_requests_to_come() -> None:
    rng = np.random.default_rng(1)
    asked = [(int(rng.integers(2)), 0.4 * n, 0.4 * n + float(rng.uniform(2.0, 6.0))) for n in range(60)]
    case = tiny([[[1.5], [0.8]], [[0.4]]], asked, [0])
    policy = lookahead("edf+f", portfolio="none", budget_us=0.0, futures=4)
    rows = taught_by(policy, Episode(problem_of(case, OPTIONS), OPTIONS), 4)
    assert rows.shape[1] == len(COLUMNS) and len(rows) > 20
    weights, share = fit(rows)
    assert len(weights) == len(FEATURES) == len(worth()) and 0.0 < share < 1.0
    assert share >= explained(rows, 0.0 * rows[:, 4]) == 0.0
    again = taught_by(policy, Episode(problem_of(case, OPTIONS), OPTIONS), 4)
    np.testing.assert_array_equal(rows, again)
