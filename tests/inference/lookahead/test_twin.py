"""The compiled plan against a slow and obvious one: networks of one layer, equal accelerators, all there at 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eunomia.inference.kernel.layout import HIT
from eunomia.inference.kernel.setup import STEP
from eunomia.inference.lookahead.policy import Lookahead, lookahead
from eunomia.inference.lookahead.values import candidate_values
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import Engine, simulate_problem
from tests.metrics.tiny import tiny

FIRST, NORMAL, LAST = -1, 0, 1
OPTIONS = EngineOptions(late="drop")
Jobs = list[tuple[float, float]]  # (work, deadline)


@dataclass
class Twin:
    """Earliest deadline first on some equal accelerators, with levels."""

    jobs: Jobs
    lanes: int
    price: float

    def follow(self, levels: list[int]) -> tuple[float, set[int]]:
        """(hits lost and price of the work, lost requests)."""
        share = max(work for work, _ in self.jobs) / self.lanes
        free, waiting, lost, loss = [0.0] * self.lanes, set(range(len(self.jobs))), set(), 0.0
        while waiting:
            now = min(free)
            for i in [i for i in waiting if self.jobs[i][1] + 1e-9 < now + self.jobs[i][0]]:
                waiting.remove(i)
                lost.add(i)
            if not waiting:
                break
            i = min(waiting, key=lambda i: (levels[i], self.jobs[i][1], i))
            waiting.remove(i)
            free[free.index(now)] = now + self.jobs[i][0]
            loss += self.price * self.jobs[i][0] / self.lanes / share
        return loss + len(lost), lost

    def plan(self) -> list[int]:
        """Moves of one request at a time, kept while they help (docs/lookahead.md)."""
        levels = [NORMAL] * len(self.jobs)
        best, lost = self.follow(levels)
        before = np.inf
        while lost and best < before:
            before = best
            for among_lost, level in ((True, LAST), (True, FIRST), (False, LAST), (False, NORMAL)):
                for i in range(len(levels)):
                    if (i in lost) != among_lost or levels[i] == level:
                        continue
                    tried = [*levels[:i], level, *levels[i + 1 :]]
                    loss, loses = self.follow(tried)
                    if loss < best:
                        levels, best, lost = tried, loss, loses
        return levels


jobs = st.lists(st.tuples(st.integers(1, 8), st.integers(3, 20)), min_size=2, max_size=7)


def case(drawn: list[tuple[int, int]], lanes: int) -> tuple[Problem, Jobs]:
    """Odd numbers of milliseconds, so that no two plans tie by rounding."""
    known = [(work + 0.0137 * i, deadline + 0.0071 * i) for i, (work, deadline) in enumerate(drawn)]
    made = tiny(
        [[[work]] for work, _ in known], [(i, 0.0, due) for i, (_, due) in enumerate(known)], [0] * lanes
    )
    return build_problem(made.request_table, made.table, made.platform, OPTIONS), known


def policy_of(price: float) -> Lookahead:
    return lookahead(base="edf+f", portfolio="none", price=price, margin=0.0, budget_us=0.0)


@settings(max_examples=150, deadline=None)
@given(jobs, st.integers(1, 2), st.sampled_from((0.0, 0.3, 0.7)))
def test_what_candidates_are_worth(drawn: list[tuple[int, int]], lanes: int, price: float) -> None:
    problem, known = case(drawn, lanes)
    possible = [i for i, (work, due) in enumerate(known) if due + 1e-9 >= work]
    assume(possible)
    policy, twin = policy_of(price), Twin(known, lanes, price)
    engine = Engine(problem, policy.rules._replace(mode=STEP), OPTIONS)
    engine.companion = companion = policy.attach(engine)
    assert engine.advance()
    found = candidate_values(companion)
    levels = [NORMAL] * len(known)
    hopeless = len(known) - len(possible)
    np.testing.assert_allclose(found.base, hopeless - twin.follow(levels)[0], rtol=1e-9)
    assert found.request.tolist() == possible
    for request, value in zip(found.request, found.value, strict=True):
        ahead = [FIRST if i == request else NORMAL for i in range(len(known))]
        np.testing.assert_allclose(value, hopeless - twin.follow(ahead)[0], rtol=1e-9)


@settings(max_examples=150, deadline=None)
@given(jobs, st.integers(1, 2), st.sampled_from((0.0, 0.3, 0.7)))
def test_the_plan_that_is_followed(drawn: list[tuple[int, int]], lanes: int, price: float) -> None:
    problem, known = case(drawn, lanes)
    lost = Twin(known, lanes, price).follow(Twin(known, lanes, price).plan())[1]
    outcome = simulate_problem(problem, policy_of(price), OPTIONS)
    assert set(np.flatnonzero(outcome.results["outcome"] != HIT).tolist()) == lost
