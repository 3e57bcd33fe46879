"""The token of shares: cases by hand, a slow obvious form, both bounds and work conservation, clocks that jump."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eunomia.core.errors import ConfigError, PolicyError, UnknownNameError
from eunomia.sharing.shares import Demand, Grant, ShareRules, ShareScheduler, ShareSpec, simulate
from eunomia.sharing.shares.usage import Bursts, Usage
from eunomia.study.sharing.shares import run_shares

TICKS = ShareRules(window_s=160, quota_s=8, least_quota_s=4, burst_memory_s=48, patience_s=64)
HALF = ShareSpec("half", 0.5)
THIRD, REST = ShareSpec("third", 0.25, 0.5), ShareSpec("rest", 0.75)


def _of(*specs: ShareSpec, rules: ShareRules = TICKS) -> ShareScheduler:
    scheduler = ShareScheduler(rules)
    for spec in specs:
        scheduler.join(spec)
    return scheduler


def _granted(scheduler: ShareScheduler, waiting: list[str], now_s: float) -> Grant:
    found = scheduler.pick(waiting, now_s)
    assert isinstance(found, Grant)
    return found


@dataclass
class Slow:
    """The same in whole ticks: an owner per tick, everything counted anew, time found by waiting."""

    specs: dict[str, ShareSpec]
    rules: ShareRules
    owner: dict[int, str] = field(default_factory=dict)  # tick -> whose it was
    bursts: list[tuple[int, str, int]] = field(default_factory=list)
    quota: dict[str, Fraction] = field(default_factory=dict)

    def used(self, name: str, now: int) -> int:
        return sum(self.owner.get(t) == name for t in range(now - int(self.rules.window_s), now))

    def left(self, name: str, now: int) -> float:
        limit = Fraction(self.specs[name].limit)
        return math.inf if limit == 1 else limit * int(self.rules.window_s) - self.used(name, now)

    def may(self, name: str, now: int) -> bool:
        most = Fraction(self.specs[name].limit) * int(self.rules.window_s)
        return self.left(name, now) >= min(int(self.rules.least_quota_s), most)

    def pick(self, waiting: list[str], now: int) -> tuple[str, Fraction] | int | None:
        ready = [name for name in waiting if self.may(name, now)]
        if not ready:
            later = (
                t
                for t in range(now, now + 2 * int(self.rules.window_s))
                if any(self.may(n, t) for n in waiting)
            )
            return next(later) - now if waiting else None
        window, below = int(self.rules.window_s), {}
        for name in ready:
            owed = Fraction(self.specs[name].request) * window
            if self.used(name, now) < owed:
                below[name] = (owed - self.used(name, now)) / owed
        missing = max(below.values(), default=None)
        least = min(self.used(name, now) for name in ready)
        name = next(
            name for name in ready if (below.get(name) == missing if below else self.used(name, now) == least)
        )
        return name, self._quota(name, now)

    def _quota(self, name: str, now: int) -> Fraction:
        most = Fraction(self.specs[name].limit) * int(self.rules.window_s)
        old = self.quota.setdefault(name, min(Fraction(int(self.rules.quota_s)), most))
        late = [b for at, who, b in self.bursts if who == name and at >= now - int(self.rules.burst_memory_s)]
        if late and self.rules.adapts:
            followed = Fraction(max(late)) / 2 + old / 2
            self.quota[name] = min(max(followed, Fraction(int(self.rules.least_quota_s))), most)
        return min(self.quota[name], self.left(name, now))  # type: ignore[type-var]

    def report(self, name: str, start: int, end: int, quota: Fraction, burst: int, cut: bool) -> None:
        over = int(self.rules.patience_s) if self.rules.charges_overuse else 0
        for tick in range(start, end):
            if tick - start < quota + over:
                self.owner[tick] = name
        if burst:
            self.bursts.append((end, name, 2 * burst if cut else burst))


@st.composite
def promises(draw: st.DrawFn) -> list[ShareSpec]:
    """Requests of sixteenths that fit together; limits of sixteenths at or above them."""
    found: list[ShareSpec] = []
    left = 16
    for name in "abcd"[: draw(st.integers(1, 4))]:
        if left == 0:
            break
        request = draw(st.integers(1, left))
        left -= request
        found.append(ShareSpec(name, request / 16, draw(st.integers(request, 16)) / 16))
    return found


STEP = st.tuples(
    st.integers(0, 15), st.integers(0, 40), st.integers(1, 30), st.booleans(), st.integers(0, 30)
)


@settings(max_examples=120, deadline=None)
@given(specs=promises(), steps=st.lists(STEP, max_size=25), adapts=st.booleans(), charges=st.booleans())
def test_it_does_what_the_slow_form_does(
    specs: list[ShareSpec], steps: list[tuple[int, int, int, bool, int]], adapts: bool, charges: bool
) -> None:
    rules = replace(TICKS, adapts=adapts, charges_overuse=charges)
    ours, slow, now = _of(*specs, rules=rules), Slow({s.name: s for s in specs}, rules), 1000
    for who, pause, held, cut, burst in steps:
        waiting = [spec.name for n, spec in enumerate(specs) if who >> n & 1]
        found, expected = ours.pick(waiting, now), slow.pick(waiting, now)
        for spec in specs:
            assert ours.used_s(spec.name, now) == pytest.approx(slow.used(spec.name, now))
        if isinstance(expected, tuple):
            assert isinstance(found, Grant) and found.client == expected[0]
            assert found.quota_s == pytest.approx(float(expected[1]))
            slow.report(expected[0], now, now + held, expected[1], burst, cut)
            now += held
            ours.report(now, burst, cut)
        else:
            assert not isinstance(found, Grant)
            assert found == math.inf if expected is None else math.ceil(found - 1e-6) == expected
        now += pause


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), adapts=st.booleans(), specs=promises())
def test_both_bounds_hold_while_all_are_at_work(seed: int, adapts: bool, specs: list[ShareSpec]) -> None:
    """Over any window: at most the limit and one overuse; at least the request but for a quota and an overuse each."""
    rng = np.random.default_rng(seed)
    rules = ShareRules(adapts=adapts)
    longest = {spec.name: float(rng.choice([0.01, 0.1, 0.5])) for spec in specs}
    demands = {n: Demand(tuple(rng.uniform(0.2, 1.0, 16) * s)) for n, s in longest.items()}
    holds = simulate(_of(*specs, rules=rules), demands, 40.0)
    slack = {name: max(h.quota_s for h in holds) + s for name, s in longest.items()}
    for spec in specs:
        mine = [h for h in holds if h.client == spec.name]
        for at in {h.end_s for h in holds if h.end_s >= 10.0}:
            got = sum(max(0.0, min(h.end_s, at) - max(h.start_s, at - 10.0)) for h in mine)
            over = max((h.overuse_s for h in mine), default=0.0)
            assert got <= spec.limit * 10.0 + over + 1e-6
            assert got >= spec.request * 10.0 - sum(slack.values()) - 1e-6


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), specs=promises())
def test_the_device_never_idles_while_somebody_may_use_it(seed: int, specs: list[ShareSpec]) -> None:
    """Each time that nobody gets the token, everybody who waits is at its limit; nobody waits for ever."""
    rng = np.random.default_rng(seed)
    scheduler, rules = _of(*specs, rules=ShareRules()), ShareRules()
    limits = {spec.name: spec.limit for spec in specs}
    pick = scheduler.pick

    def watched(waiting: list[str], now_s: float) -> Grant | float:
        found = pick(waiting, now_s)
        if not isinstance(found, Grant):
            for name in waiting:
                most_s = limits[name] * rules.window_s
                assert limits[name] < 1.0
                assert scheduler.used_s(name, now_s) > most_s - min(rules.least_quota_s, most_s) - 1e-6
        return found

    scheduler.pick = watched  # type: ignore[assignment, method-assign]
    demands = {
        spec.name: Demand(
            tuple(rng.uniform(0.005, 0.3, 8)),
            tuple(rng.choice([0.0, 0.2], 8)),
            [(5.0, float(rng.uniform(5, 9)))],
        )
        for spec in specs
    }
    holds = simulate(scheduler, demands, 30.0)
    assert {h.client for h in holds if h.start_s > 15.0} == set(limits)


def test_who_misses_most_of_its_request_comes_first_by_hand() -> None:
    """Nobody used anything: a tie, by order. After 8 of 40 and 8 of 120 ticks, rest misses more; then least used."""
    scheduler = _of(THIRD, REST)
    assert _granted(scheduler, ["rest", "third"], 0).client == "rest"
    scheduler.report(8)
    assert _granted(scheduler, ["rest", "third"], 8).client == "third"
    scheduler.report(16)
    assert _granted(scheduler, ["third", "rest"], 16).client == "rest"


def test_overuse_is_charged_by_hand() -> None:
    """A quota of 8 that took 30: 30 charged, or 8 without charging; beyond a quota and 64 of patience nothing is."""
    for charges, held, charged in ((True, 30, 30), (False, 30, 8), (True, 500, 72)):
        scheduler = _of(HALF, rules=replace(TICKS, charges_overuse=charges))
        _granted(scheduler, ["half"], 0)
        assert scheduler.report(held) == charged


def test_quotas_follow_bursts_by_hand() -> None:
    """Half of 32 and half of 8 make 20; cut short, the burst counts twice: half of 64 and half of 20 make 42."""
    scheduler = _of(HALF)
    assert _granted(scheduler, ["half"], 0).quota_s == 8
    scheduler.report(8, burst_s=32)
    assert _granted(scheduler, ["half"], 8).quota_s == 20
    scheduler.report(28, burst_s=32, cut=True)
    assert _granted(scheduler, ["half"], 28).quota_s == 42
    scheduler.report(30)
    later = _granted(scheduler, ["half"], 30 + 60)  # all bursts are forgotten
    assert later.quota_s == 42


def test_a_limit_holds_a_client_back_until_its_use_has_left_the_window() -> None:
    """Limit 80 of 160 ticks: after 80 ticks in one piece, 4 of them must have left, at tick 164."""
    scheduler = _of(THIRD)
    _granted(scheduler, ["third"], 0)
    scheduler.report(72)
    assert _granted(scheduler, ["third"], 72).quota_s == 8  # what is left
    scheduler.report(80)
    assert scheduler.pick(["third"], 80) == 84
    assert _granted(scheduler, ["third"], 164).quota_s == 4


def test_a_client_that_comes_back_finds_its_history() -> None:
    scheduler = _of(THIRD, HALF)
    _granted(scheduler, ["third"], 0)
    assert scheduler.leave("third", 50) and scheduler.held is None
    scheduler.join(THIRD)
    assert scheduler.used_s("third", 50) == 50
    assert not scheduler.leave("half", 60)


def test_clocks_that_jump() -> None:
    """Back by an hour: nothing is lost but that step. Ahead by an hour while the token is out: a bounded charge."""
    scheduler = _of(HALF, THIRD)
    _granted(scheduler, ["half"], 5000)
    assert scheduler.report(1400) == 0.0
    _granted(scheduler, ["half"], 1400)
    assert scheduler.report(1408) == 8.0
    _granted(scheduler, ["half"], 1408)
    assert scheduler.report(5_000_000) == 8.0 + TICKS.patience_s
    assert (
        _granted(scheduler, ["half", "third"], 5_000_001).client == "half"
    )  # what was charged left the window


def test_the_whole_device_belongs_to_the_only_client() -> None:
    holds = simulate(_of(ShareSpec("a", 0.1), rules=ShareRules()), {"a": Demand((0.05,))}, 30.0)
    assert sum(h.end_s - h.start_s for h in holds) == pytest.approx(holds[-1].end_s)


def test_each_part_is_for_something() -> None:
    """Means over two seeds: uncharged, shares are missed; with fixed quotas, windows fall shorter of the request."""
    found = run_shares((0, 1))
    mean = {m: {f: found.estimate(m, f).mean for f in found.metrics} for m in found.methods}
    assert 2.0 * mean["token"]["off"] < mean["overuse uncharged"]["off"]
    assert mean["token"]["short"] < mean["no quota adaptation"]["short"]
    assert mean["token"]["handed"] > 0.98 and mean["round robin"]["off"] > 0.1


def test_usage_and_bursts() -> None:
    usage = Usage(10.0)
    usage.add(0.0, 4.0)
    usage.add(6.0, 7.0)
    usage.add(7.0, 7.0)
    assert usage.used_s(12.0) == 3.0
    assert usage.falls_to(2.0, 8.0) == 13.0
    assert usage.falls_to(0.5, 8.0) == 16.5
    assert usage.falls_to(9.0, 8.0) == 8.0
    bursts = Bursts(3.0)
    assert bursts.predicted_s(0.0) is None
    bursts.add(1.0, 0.5, True)
    bursts.add(2.0, 0.7, False)
    assert bursts.predicted_s(2.0) == 1.0 and bursts.predicted_s(4.5) == 0.7


def test_bad_input() -> None:
    with pytest.raises(ConfigError, match=r"request is 1\.5; more than 0, at most 1"):
        ShareSpec("a", 1.5)
    with pytest.raises(ConfigError, match=r"limit is 0\.2; at least the request"):
        ShareSpec("a", 0.3, 0.2)
    with pytest.raises(ConfigError, match="no blanks"):
        ShareSpec("a b", 0.3)
    with pytest.raises(ConfigError, match="memory is 0 bytes"):
        ShareSpec("a", 0.3, memory_bytes=0)
    with pytest.raises(ConfigError, match=r"requests add up to 1\.25"):
        _of(HALF, REST)
    with pytest.raises(ConfigError, match="two clients are called 'half'"):
        _of(HALF, HALF)
    small = ShareScheduler(memory_bytes=100)
    with pytest.raises(ConfigError, match="the device has 100"):
        small.join(ShareSpec("a", 0.3, memory_bytes=101))
    with pytest.raises(ConfigError, match="quota_s is 20"):
        ShareRules(quota_s=20.0)
    with pytest.raises(ConfigError, match="window_s is nan"):
        ShareRules(window_s=math.nan)
    with pytest.raises(ConfigError, match="bursts_s"):
        Demand((0.0,))
    scheduler = _of(HALF)
    with pytest.raises(PolicyError, match="nobody holds it"):
        scheduler.report(1.0)
    with pytest.raises(UnknownNameError, match="choose one of: half"):
        scheduler.pick(["hlf"], 0.0)
    scheduler.pick(["half"], 0.0)
    with pytest.raises(PolicyError, match="while 'half' holds it"):
        scheduler.pick(["half"], 1.0)
