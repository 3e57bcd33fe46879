"""The best schedule found by a clairvoyant search: the lower end of the bracket.

Method (docs/bounds.md): run a portfolio of gated list-scheduling rules, and lookahead over the best of them;
admit what lookahead served, and improve that, or the best rule, by random local search with the compiled
engine. A candidate is a rule (order, placement, +f, gate), a set of admitted requests, and a credit in
seconds per request. The credit is taken off the request's key. It does badly when the budget is small beside
the number of requests. It also does badly where a good schedule must hold an accelerator for a request that
has not arrived.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from eunomia.contract.contention import CONTENTION
from eunomia.contract.rows import Ready, System
from eunomia.core.arrays import Flags, Floats
from eunomia.core.errors import ConfigError
from eunomia.hardware.platform import PlatformLike
from eunomia.hardware.table import CostTable
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.lookahead.policy import Lookahead, lookahead
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.policies.ordering import Order, edf, edf_bytes, llf, sjf
from eunomia.inference.problem import Problem, build_problem
from eunomia.inference.simulate import simulate_problem
from eunomia.workload.requests import RequestTable

# contention modes in which a priority is physics, not only order
WEIGHING = tuple(name for name, model in CONTENTION.items() if model.weighs)
PLACES = ("any_idle", "pref", "eft", "eft_ca")
GATES = (math.inf, 1.0, 0.9, 0.75, 0.6)
PRICES = (0.0, 0.7)  # by the mean request, of lookahead without a budget; its own default beside them
SEEDED = 5  # rules of the portfolio that are tried on what lookahead admits


def credited_edf(ready: Ready, system: System) -> float:
    """Deadline less credit."""
    return ready.deadline_s - ready.priority


def credited_llf(ready: Ready, system: System) -> float:
    """Laxity less credit."""
    return ready.deadline_s - ready.path_best_s - ready.priority


def credited_edf_bytes(ready: Ready, system: System) -> float:
    """Deadline with a toll on bandwidth (policies/ordering.py), less credit."""
    return ready.deadline_s + 3.0 * ready.bytes_left / system.bandwidth_bytes_s - ready.priority


def credited_sjf(ready: Ready, system: System) -> float:
    """Remaining work less credit."""
    return ready.work_best_s - ready.priority


CREDITED = {
    order.name: order
    for order in (
        Order("edf-credit", credited_edf),
        Order("edf_bytes-credit", credited_edf_bytes),
        Order("llf-credit", credited_llf),
        Order("sjf-credit", credited_sjf),
    )
}
PLAIN = {f"{name}-credit": Order(name, key) for name, key in
         (("edf", edf), ("edf_bytes", edf_bytes), ("llf", llf), ("sjf", sjf))}  # fmt: skip


@dataclass(frozen=True)
class SearchOptions:
    """Budget of the search; it ends when either is spent. The portfolio always runs whole, and counts."""

    evaluations: int = 2_000
    seconds: float = math.inf
    seed: int = 0

    def __post_init__(self) -> None:
        if self.evaluations < 0 or not self.seconds >= 0.0:
            raise ConfigError(
                f"search budget is {self.evaluations} evaluations, {self.seconds} s; both must be at least 0"
            )


@dataclass(frozen=True, eq=False)
class Found:
    """A schedule that exists: ``simulate(requests, table, platform, policy, options)`` replays its hits.

    ``requests`` are the admitted ones with their credits as priorities. The rejected ones are not run;
    they could run after all others without harm.
    """

    hits: int
    share: float  # of all requests
    policy: Greedy | Lookahead
    requests: RequestTable
    options: EngineOptions
    admitted: Flags  # (n,) of the original requests
    rule: str  # the best rule of the portfolio, with every request admitted
    rule_hits: int
    evaluations: int
    seconds: float


@dataclass(frozen=True, eq=False)
class _Candidate:
    policy: Greedy | Lookahead
    admitted: Flags
    credit_s: Floats
    hit: Flags

    @property
    def hits(self) -> int:
        return int(self.hit.sum())


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
    bench = _Bench(requests, table, platform, options or EngineOptions())
    until = began + search.seconds
    portfolio = sorted(
        (bench.try_out(_everything(rule, bench)) for rule in bench.rules()), key=lambda c: -c.hits
    )
    best = current = start = portfolio[0]
    if bench.runs < search.evaluations and best.hits < len(requests) and time.perf_counter() < until:
        plans = [bench.try_out(_everything(ahead, bench)) for ahead in _lookaheads(start)]
        best = max([start, *plans], key=lambda c: c.hits)
        seeded = [bench.try_out(replace(one, admitted=best.hit)) for one in portfolio[:SEEDED]]
        current = max([start, *seeded], key=lambda c: c.hits)
        best = max([best, current], key=lambda c: c.hits)
    rng = np.random.default_rng(np.random.SeedSequence([search.seed, 0xC1A1]))
    while bench.runs < search.evaluations and best.hits < len(requests) and time.perf_counter() < until:
        candidate = bench.try_out(_moved(current, bench, rng))
        if candidate.hits >= current.hits:
            current = candidate
            best = current if current.hits > best.hits else best
    return Found(
        best.hits, best.hits / len(requests) if len(requests) else 1.0, best.policy, bench.table_of(best),
        bench.options, best.admitted, _plain_name(start.policy), start.hits, bench.runs,
        time.perf_counter() - began,
    )  # fmt: skip


class _Bench:
    """Evaluates candidates on one problem."""

    def __init__(
        self, requests: RequestTable, table: CostTable, platform: PlatformLike, options: EngineOptions
    ) -> None:
        if (requests.after >= 0).any():
            raise ConfigError(
                "a clairvoyant schedule needs arrivals that do not depend on it; leave closed-loop clients out"
            )
        if options.estimator.jitter > 0.0:
            raise ConfigError("a clairvoyant schedule needs true times; set estimator jitter to 0")
        self.requests, self.runs = requests, 0
        self.options = replace(
            options, estimator=Estimator(), decision_s=0.0, charge_measured=False, record="requests"
        )
        self.problem: Problem = build_problem(requests, table, platform, self.options)
        self.weighing = self.problem.contention in WEIGHING
        self.limited = math.isfinite(self.problem.bandwidth_bytes_s)
        finite = requests.relative_deadline_s[np.isfinite(requests.relative_deadline_s)]
        self.scale_s = float(finite.mean()) if len(finite) else 1.0

    @property
    def orders(self) -> dict[str, Order]:
        """Credits are priorities, and where those shape contention the search leaves them alone."""
        orders = PLAIN if self.weighing else CREDITED
        return orders if self.limited else {n: o for n, o in orders.items() if "bytes" not in n}

    @property
    def gates(self) -> tuple[float, ...]:
        """Without a bandwidth limit a gate never shuts."""
        return GATES if self.limited else GATES[:1]

    def rules(self) -> list[Greedy]:
        """The portfolio."""
        return [
            Greedy(order, place, True, gate)
            for order in self.orders.values() for place in PLACES for gate in self.gates
        ]  # fmt: skip

    def table_of(self, candidate: _Candidate) -> RequestTable:
        """The admitted requests with their credits."""
        rows, all_ = np.flatnonzero(candidate.admitted), self.requests
        priority = all_.priority if self.weighing else candidate.credit_s
        return RequestTable(
            all_.agreements, all_.pair[rows], all_.arrival_s[rows], all_.relative_deadline_s[rows],
            priority[rows], all_.deferrable[rows],
        )  # fmt: skip

    def try_out(self, candidate: _Candidate) -> _Candidate:
        """The candidate with its hits."""
        self.runs += 1
        rows = np.flatnonzero(candidate.admitted)
        hit = np.zeros(len(self.requests), np.bool_)
        if len(rows):
            jobs = self.problem.jobs
            jobs = jobs._replace(
                pair=jobs.pair[rows], arrival_s=jobs.arrival_s[rows],
                relative_deadline_s=jobs.relative_deadline_s[rows], deferrable=jobs.deferrable[rows],
                priority=jobs.priority[rows] if self.weighing else candidate.credit_s[rows],
                next=jobs.next[rows], num_open=len(rows),
            )  # fmt: skip
            outcome = simulate_problem(self.problem._replace(jobs=jobs), candidate.policy, self.options)
            hit[rows] = outcome.results["outcome"] == HIT
        return replace(candidate, hit=hit)


def _plain_name(policy: Greedy | Lookahead) -> str:
    """The name that the rule has without credits."""
    return policy.name.replace("-credit", "")


def _lookaheads(start: _Candidate) -> list[Lookahead]:
    """Lookahead over a rule, with no limit to its planning: it sees no arrivals to come, but breaks the pattern."""
    name = _plain_name(start.policy)
    priced = [lookahead(name, budget_us=0.0, price=price, price_of="mean", margin=0.0) for price in PRICES]
    return [*priced, lookahead(name, budget_us=0.0, margin=0.0)]


def _everything(policy: Greedy | Lookahead, bench: _Bench) -> _Candidate:
    """A policy with all requests admitted and no credits."""
    count = len(bench.requests)
    return _Candidate(policy, np.ones(count, np.bool_), np.zeros(count), np.zeros(count, np.bool_))


def _moved(current: _Candidate, bench: _Bench, rng: np.random.Generator) -> _Candidate:
    """A random neighbour: one move of the rule, or one to three moves around a request, mostly a missed one."""
    if rng.random() < 0.05:
        assert isinstance(current.policy, Greedy), "only rules are moved"
        return replace(current, policy=_another_rule(current.policy, bench, rng))
    admitted, credit_s = current.admitted.copy(), current.credit_s.copy()
    missed = np.flatnonzero(~current.hit)
    anywhere = not len(missed) or rng.random() < 0.3
    anchor = int(rng.integers(len(admitted)) if anywhere else rng.choice(missed))
    for _ in range(int(rng.integers(1, 4))):
        _one_move(current.hit, admitted, credit_s, anchor, bench, rng)
    credit_s -= min(float(credit_s.min()), 0.0)  # priorities are not negative; only differences count
    return replace(current, admitted=admitted, credit_s=credit_s)


def _one_move(
    hit: Flags, admitted: Flags, credit_s: Floats, anchor: int, bench: _Bench, rng: np.random.Generator
) -> None:
    """Change admission or credit of the anchor, or of a request that arrives near it."""
    near = int(np.clip(anchor + rng.integers(-20, 21), 0, len(admitted) - 1))
    step_s = bench.scale_s * 10.0 ** rng.uniform(-2.0, 0.3)
    move = int(rng.integers(5))
    if move == 0:  # give the anchor a chance, or give it up
        admitted[anchor] = not admitted[anchor] or bool(hit[anchor])
    elif move == 1:
        credit_s[anchor] += step_s * rng.standard_normal()
    elif move == 2:  # the two trade places
        credit_s[anchor], credit_s[near] = credit_s[near], credit_s[anchor]
    elif move == 3:  # the anchor goes before what is near, or the other way round
        credit_s[anchor] += step_s
        credit_s[near] -= step_s
    else:
        admitted[near] = not admitted[near]


def _another_rule(policy: Greedy, bench: _Bench, rng: np.random.Generator) -> Greedy:
    """Another gate, placement, order, or treatment of hopeless requests."""
    what = int(rng.integers(4))
    if what == 0 and bench.limited:
        base = policy.gate if math.isfinite(policy.gate) else 1.0
        return replace(policy, gate=float(base * rng.uniform(0.85, 1.15)))
    if what == 1:
        return replace(policy, place=PLACES[int(rng.integers(len(PLACES)))])
    if what == 2:
        orders = list(bench.orders.values())
        return replace(policy, order=orders[int(rng.integers(len(orders)))])
    return replace(policy, feasible=not policy.feasible)
