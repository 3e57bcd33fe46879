"""The best schedule found by a clairvoyant search: the lower end of the bracket.

Method (docs/bounds.md): run a portfolio of gated list-scheduling rules; where the case is tiny, try every start.
Elsewhere run lookahead over the best rule and over the learned policy; admit what they served, and improve that, or
the best rule, by local search with the compiled engine. A candidate is a rule (order, placement, +f, gate), a set of
admitted requests, and a credit in seconds per request. The credit is taken off the request's key. It does badly when
the budget is small beside the number of requests. Beyond tiny cases it also does badly where a good schedule must hold
an accelerator for a request that has not arrived.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from eunomia.core.arrays import Flags
from eunomia.core.errors import ConfigError
from eunomia.hardware.platform import PlatformLike
from eunomia.hardware.table import CostTable
from eunomia.inference.clairvoyant.candidates import Bench, Candidate, Schedule
from eunomia.inference.clairvoyant.exact import Exact, suits
from eunomia.inference.clairvoyant.moves import moved, window_moved
from eunomia.inference.lookahead.policy import Lookahead, lookahead
from eunomia.inference.options import EngineOptions
from eunomia.workload.requests import RequestTable

PRICES = (0.0, 0.7)  # by the mean request, of lookahead without a budget; its own default beside them
LEARNED = "eunomia"  # lookahead runs over this policy, too
SEEDED = 5  # rules of the portfolio that are tried on what lookahead admits
REPLANNED = 60  # evaluations for each plan that is made anew
WINDOWS = 0.5  # share of the moves that are of windows


@dataclass(frozen=True)
class SearchOptions:
    """Budget of the search; it ends when either is spent. The portfolio always runs whole, and counts.

    ``states``: of the exact search in tiny cases; 0 = none.
    """

    evaluations: int = 2_000
    seconds: float = math.inf
    seed: int = 0
    states: int = 100_000

    def __post_init__(self) -> None:
        if self.evaluations < 0 or not self.seconds >= 0.0 or self.states < 0:
            raise ConfigError(
                f"search budget is {self.evaluations} evaluations, {self.seconds} s, {self.states} states; all must "
                "be at least 0"
            )


@dataclass(frozen=True, eq=False)
class Found:
    """A schedule that exists: ``simulate(requests, table, platform, policy, options)`` replays its hits.

    ``requests`` are the admitted ones with their credits as priorities. The rejected ones are not run;
    they could run after all others without harm.
    """

    hits: int
    share: float  # of all requests
    policy: Schedule
    requests: RequestTable
    options: EngineOptions
    admitted: Flags  # (n,) of the original requests
    rule: str  # the best rule of the portfolio, with every request admitted
    rule_hits: int
    evaluations: int
    seconds: float


def search_schedule(
    requests: RequestTable,
    table: CostTable,
    platform: PlatformLike,
    options: EngineOptions | None = None,
    search: SearchOptions | None = None,
) -> Found:
    """The best schedule found. Estimates are exact and decisions free, for the schedule is known beforehand.

    Equal arguments give the same schedule unless the budget in seconds ends the search. Raises ConfigError
    for closed-loop requests, whose arrivals depend on the schedule, and for jitter, which nobody can know.
    """
    began, search = time.perf_counter(), search or SearchOptions()
    bench = Bench(requests, table, platform, options or EngineOptions())
    until = began + search.seconds
    portfolio = sorted(
        (bench.try_out(bench.everything(rule)) for rule in bench.rules()), key=lambda c: -c.hits
    )
    best = start = portfolio[0]

    def goes_on() -> bool:
        return bench.runs < search.evaluations and best.hits < len(requests) and time.perf_counter() < until

    proven = False
    if goes_on() and search.states and suits(bench.problem, bench.options):
        best, proven = _exactly(best, bench, search.states)
    if goes_on() and not proven:
        rng = np.random.default_rng(np.random.SeedSequence([search.seed, 0xC1A1]))
        plans = [bench.try_out(bench.everything(ahead)) for ahead in _lookaheads(start, bench)]
        for _ in range(search.evaluations // REPLANNED):
            best = max([best, *plans], key=lambda c: c.hits)
            if not goes_on():
                break
            plans.insert(0, bench.try_out(_replanned(best, plans, rng)))
        current = max([start, *_seeds(portfolio, plans, bench)], key=lambda c: c.hits)
        best = max([best, *plans, current], key=lambda c: c.hits)
        while goes_on():
            move = window_moved if rng.random() < WINDOWS else moved
            candidate = bench.try_out(move(current, bench, rng))
            if bench.worth(candidate) >= bench.worth(current):
                current = candidate
                best = current if current.hits > best.hits else best
    return Found(
        best.hits, best.hits / len(requests) if len(requests) else 1.0, best.policy, bench.table_of(best),
        bench.options, best.admitted, _plain_name(start.policy), start.hits, bench.runs,
        time.perf_counter() - began,
    )  # fmt: skip


def _exactly(best: Candidate, bench: Bench, states: int) -> tuple[Candidate, bool]:
    """The better of ``best`` and what the exact search found, by the engine's count; whether nothing is better."""
    exact = Exact(bench.problem, states)
    promised = best.hits
    if (found := exact.beyond(best.hits)) is not None:
        promised = found[0]
        best = max([best, bench.try_out(bench.everything(found[1]))], key=lambda c: c.hits)
    return best, exact.left >= 0 and best.hits >= promised


def _plain_name(policy: Schedule) -> str:
    """The name that the rule has without credits."""
    return policy.name.replace("-credit", "")


def _lookaheads(start: Candidate, bench: Bench) -> Iterator[Lookahead]:
    """Lookahead with no limit to its planning, which breaks the pattern of a rule; some knows the arrivals to come."""
    name, refuse = _plain_name(start.policy), bench.options.late == "last"
    for price in PRICES:
        yield lookahead(name, budget_us=0.0, price=price, price_of="mean", margin=0.0)
    yield lookahead(name, budget_us=0.0, margin=0.0)
    yield lookahead(LEARNED, budget_us=0.0, refuse=refuse)
    for base, price in ((name, 0.3), (name, 0.0), (LEARNED, 0.0)):
        yield lookahead(base, budget_us=0.0, price=price, margin=0.0, foresee=True, refuse=refuse)


def _replanned(best: Candidate, plans: list[Candidate], rng: np.random.Generator) -> Candidate:
    """A plan made anew for what the best one served and some of what it missed: nothing else takes time away."""
    base = plans[-3:-1][int(rng.integers(2))]  # that know the arrivals to come, over the rule, which is quick
    some = rng.random(len(best.hit)) < rng.choice([0.0, 0.2, 0.5, 0.8])
    return replace(base, admitted=best.hit | some)


def _seeds(portfolio: list[Candidate], plans: list[Candidate], bench: Bench) -> Iterator[Candidate]:
    """Rules on what the best plan served; once more with its order of finishing in place of deadlines."""
    best = max(plans, key=lambda c: c.hits)
    for one in portfolio[:SEEDED]:
        yield bench.try_out(replace(one, admitted=best.hit))
    for one in portfolio[:SEEDED]:
        yield bench.try_out(bench.as_finished(one, best))
