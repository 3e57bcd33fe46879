"""Several servers, one set of promises: the rule, its bookkeeping, and live servers on one database."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.serving import replicas as simulated
from eunomia.core.errors import ConfigError
from eunomia.inference.policies.elsewhere import FIRST, TAGS, VIRTUAL, charge_tags
from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.protocol.errors import Refused
from eunomia.serving.replicas.others import HITS, ROWS, SERVED, Others, Published
from eunomia.serving.replicas.rule import LATE, Accounts, News, ReplicaOptions
from eunomia.serving.tenants.board import SWEEP_S
from eunomia.serving.tenants.grants import Grant, Promise
from eunomia.serving.tenants.limits import Limits
from tests.patience import until
from tests.serving.fleet import Fleet, fair_totals
from tests.serving.live import PROMISED_S, ask, running
from tests.serving.made_up import examples
from tests.serving.test_following import directories, infer

EVERY_S = 0.25


# --- the rule --------------------------------------------------------------------------------------------


@examples(0.5)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 3.0), st.floats(0.0, 5.0), st.integers(2, 6)), min_size=1, max_size=12
    ),
    st.floats(0.5, 20.0),
)
def test_accounts_are_what_small_steps_say(news: list[tuple[float, float, int]], hold_s: float) -> None:
    """An obvious form: at each news a rate, in force until the next or for hold_s."""
    accounts, now_s, total, charged, taken = Accounts(EVERY_S, hold_s), 0.0, 0.0, 0.0, 0.0
    silent_s, rate = math.inf, 0.0
    for gap_s, more, replicas in news:
        total += more
        accounts.learned({"b": News({"a": total}, silent_s)}, (), replicas, now_s)
        if silent_s > hold_s:
            charged = total
        elif silent_s > LATE * replicas * EVERY_S:
            charged = total - rate * replicas * EVERY_S
        rate = (total - charged) / (replicas * EVERY_S)
        charged += rate * min(gap_s, hold_s)
        now_s, silent_s = now_s + gap_s, gap_s
        before, taken = taken, taken + float(accounts.take(now_s)[0])
        assert taken - before == pytest.approx(rate * min(gap_s, hold_s), abs=1e-6)


def test_in_the_long_run_everything_is_charged_once() -> None:
    accounts, now_s, total, rng = Accounts(EVERY_S, 60.0), 0.0, 0.0, np.random.default_rng(0)
    taken = 0.0
    for n in range(400):
        total += float(rng.random()) if 0 < n < 300 else 0.0
        accounts.learned({"b": News({"a": total / 2}), "c": News({"a": total / 2})}, (), 4, now_s)
        now_s += EVERY_S
        taken += float(accounts.take(now_s)[0])
    assert taken == pytest.approx(total, rel=1e-6)


def test_without_news_the_last_rate_holds_and_then_nothing_is_charged() -> None:
    accounts = Accounts(1.0, 10.0)

    def learned(total: float, now_s: float, gap_s: float = 1.0) -> float:
        accounts.learned({"b": News({"a": total}, gap_s)}, (), 2, now_s)
        return accounts.rates(now_s)["a"]

    for second in range(60):
        rate = learned(0.5 * second, float(second))
    assert rate == pytest.approx(0.5, rel=1e-3)
    accounts.take(59.0)
    assert float(accounts.take(64.0)[0]) == pytest.approx(2.5, rel=1e-3)
    assert float(accounts.take(100.0)[0]) == pytest.approx(2.5, rel=1e-3) and not accounts.rates(70.0)
    assert learned(1000.0, 100.0, 41.0) == 0.0  # too late: what was done meanwhile is forgotten
    accounts.take(100.0)
    assert learned(1004.0, 104.0, 4.0) == pytest.approx(2.0)  # soon enough: the difference is settled
    assert learned(9999.0, 113.0, 9.0) == pytest.approx(2.0)  # late: the rate stays for now
    accounts.learned({}, ["b"], 1, 114.0)
    assert accounts.rates(114.0) == {"a": 0.0}  # it is gone


def test_tags_move_by_service_elsewhere_and_no_further_than_the_bound() -> None:
    memory = np.zeros(64)
    memory[VIRTUAL], memory[FIRST], memory[FIRST + 1] = 10.0, 10.5, 3.0
    charge_tags(memory, np.array([0, 1, 2]), np.array([0.25, 0.5, 0.0]), np.full(3, 2.0))
    assert memory[FIRST] == 10.75 and memory[FIRST + 1] == 10.5 and memory[FIRST + 2] == 0.0
    charge_tags(memory, np.array([0, 1]), np.array([100.0, -0.25]), np.full(2, 2.0))
    assert memory[FIRST] == 12.0 and memory[FIRST + 1] == 10.25
    memory[FIRST] = 15.0  # further ahead by what it got here: it is not set back
    charge_tags(memory, np.array([0, TAGS]), np.array([1.0, 1.0]), np.full(2, 2.0))
    assert memory[FIRST] == 15.0


WORLDS = [
    ("light at one of two", 2, {"heavy": 4.0, "light": 1.0}, {"heavy": "11", "light": "10"}),
    ("light at one of four", 4, {"heavy": 4.0, "light": 1.0}, {"heavy": "1111", "light": "1000"}),
    ("heavy at one of two, five beside it", 2, {"heavy": 4.0, **{f"t{n}": 1.0 for n in range(5)}},
     {"heavy": "10", **{f"t{n}": "11" for n in range(5)}}),
    ("each at one, one everywhere", 4, {"a": 1.0, "b": 2.0, "all": 3.0}, {"a": "1000", "b": "0100", "all": "1111"}),
    ("sixteen replicas", 16, {"heavy": 4.0, "light": 1.0}, {"heavy": "1" * 16, "light": "1111" + "0" * 12}),
    ("more than one replica can give", 2, {"heavy": 4.0, "light": 1.0}, {"heavy": "10", "light": "11"}),
]  # fmt: skip


@pytest.mark.parametrize(("count", "weights", "where"), [w[1:] for w in WORLDS], ids=[w[0] for w in WORLDS])
def test_shares_are_weighted_max_min_over_all_replicas(
    count: int, weights: Mapping[str, float], where: Mapping[str, str]
) -> None:
    fleet = Fleet(count, weights, where, seed=count)
    fleet.run(20.0)
    before = fleet.totals()
    fleet.run(60.0)
    got = {t: (amount - before[t]) / 40.0 for t, amount in fleet.totals().items()}
    wanted = fair_totals(count, weights, where)
    assert got == {t: pytest.approx(wanted[t], rel=0.05) for t in weights}


def test_alone_a_skewed_tenant_gets_half_of_its_share() -> None:
    """What the rule is for: without it the light tenant of two replicas gets 1 : 9."""
    _, count, weights, where = WORLDS[0]
    fleet = Fleet(count, weights, where, seed=1, shared=False)
    fleet.run(40.0)
    got = fleet.totals()
    assert got["heavy"] / got["light"] == pytest.approx(9.0, rel=0.1)


def test_shares_hold_while_the_board_is_away_and_after_a_replica_has_died() -> None:
    _, count, weights, where = WORLDS[1]
    fleet = Fleet(count, weights, where, seed=3)
    fleet.run(20.0)
    for event, until_s in (
        ("away", 50.0),
        ("back", 60.0),
        ("kill", 70.0),
        ("killed", 100.0),
        ("start", 110.0),
        ("again", 140.0),
    ):
        before = fleet.totals()
        fleet.away = event == "away"
        fleet.dead = {3} if event in ("kill", "killed") else set()
        fleet.run(until_s)
        got = {t: fleet.totals()[t] - before[t] for t in weights}
        if event in ("away", "killed", "again"):
            assert got["heavy"] / got["light"] == pytest.approx(4.0, rel=0.05), event


# --- rows of replicas ------------------------------------------------------------------------------------


def row(boot: str, beat: int, **served: float) -> Published:
    return Published(boot, beat, float(beat), "", {t: (s, 10.0 * s, 0.0, 0.0) for t, s in served.items()})


def test_totals_of_others_survive_their_restarts() -> None:
    others = Others("me", "x", patience=2)
    others.read({"me": row("x", 1, a=50.0), "two": row("b1", 7, a=100.0)})
    assert others.done(SERVED) == {"a": 0.0} and others.alive() == []  # what was before is nobody's debt
    assert others.news(SERVED) == {"two": News({"a": 0.0}, math.inf)}
    others.read({"two": row("b1", 8, a=101.0, b=1.0)})
    assert others.done(SERVED) == {"a": 1.0, "b": 1.0} and others.alive() == ["two"]
    others.read({"two": row("b2", 1, a=0.5)})  # restarted: it counts from zero again
    others.read({"two": row("b2", 1, a=0.5), "three": row("c1", 1, b=2.0)})
    assert others.done(SERVED) == {"a": 1.5, "b": 3.0} and others.done(ROWS) == {"a": 15.0, "b": 30.0}
    assert others.news(SERVED) == {"three": News({"b": 2.0}, 1.0)} and others.alive() == ["three", "two"]
    others.read({"two": row("b2", 1, a=0.5), "three": row("c1", 2, b=3.0)})
    assert others.alive() == ["three"] and others.gone() == ["two"] and others.done(HITS)["a"] == 0.0
    assert others.news(SERVED) == {"three": News({"b": 3.0}, 1.0)}


def test_who_has_gone_is_forgotten_with_its_row_and_its_work_stays_in_the_sums() -> None:
    """As it was, each name that ever served here stayed for ever."""
    others, accounts = Others("me", "x", patience=2), Accounts(EVERY_S, 60.0)
    others.read({})
    for beat in range(1, 50):  # each start has a name of its own, as in a cluster
        name = f"pod-{beat}"
        assert others.read({name: row("b", 1, a=1.0)}) == []
        accounts.learned(others.news(SERVED), others.gone(), 2, float(beat))
        for missed in range(2):
            forgotten = others.read({})
            assert forgotten == [name] * missed
            accounts.forget(forgotten)
    assert (
        others.rows() == {} and others.done(SERVED) == {"a": 49.0} and others.alive() == others.gone() == []
    )
    assert accounts._charged.shape[0] == accounts._rates.shape[0] == len(accounts._of) == 0
    others.read({"pod-1": row("b", 4000, a=7.0)})  # it was only silent: what it did before counts once
    others.read({"pod-1": row("b", 4001, a=8.0)})
    assert others.done(SERVED) == {"a": 50.0}


def test_forgetting_one_replica_leaves_what_is_charged_for_the_others() -> None:
    with_gone, without = (Accounts(EVERY_S, 60.0) for _ in range(2))
    for step in range(40):
        two = {"two": News({"a": float(step)}, EVERY_S)}
        one = {"one": News({"a": min(step, 5) * 2.0}, EVERY_S)}
        with_gone.learned(
            {**one, **two} if step < 6 else two, ["one"] if step >= 8 else [], 3, step * EVERY_S
        )
        without.learned(two, [], 3, step * EVERY_S)
        if step == 20:
            with_gone.forget(["one", "nobody"])
    assert with_gone.rates(40 * EVERY_S) == pytest.approx(without.rates(40 * EVERY_S))
    assert list(with_gone._of.values()) == [0]


def test_two_servers_of_one_name_are_noticed() -> None:
    others = Others("me", "x")
    assert not others.namesake({}) and not others.namesake({"me": row("old", 9)})
    assert not others.namesake({"me": row("x", 1)}) and others.namesake({"me": row("old", 10)})


def test_rows_go_through_either_database(url: str) -> None:
    with directories(url) as (one, two):
        boards = one.board(), two.board()
        assert dict(boards[0].exchange("one", row("a", 1, gold=1.5))) == {}
        assert dict(boards[1].exchange("two", row("b", 1))) == {"one": row("a", 1, gold=1.5)}
        assert dict(boards[0].exchange("one", row("a", 2, gold=2.5)))["two"] == row("b", 1)
        assert boards[1].exchange("two", row("b", 2))["one"] == row("a", 2, gold=2.5)


def test_rows_of_replicas_that_ended_are_deleted_while_servers_run(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, only a server's start deleted rows."""
    now = [1e9, 0.0]
    monkeypatch.setattr("eunomia.serving.tenants.board.time.time", lambda: now[0])
    monkeypatch.setattr("eunomia.serving.tenants.board.time.monotonic", lambda: now[1])
    with directories(url) as (one, two):
        boards = one.board(), two.board()
        boards[0].exchange("one", row("a", 1))
        boards[1].exchange("two", row("b", 1))
        for n in range(7):
            now = [now[0] + SWEEP_S, now[1] + SWEEP_S]
            assert "two" in boards[0].exchange("one", row("a", 2 + n))
        assert list(boards[0].exchange("one", row("a", 9))) == ["one"]
        boards[1].exchange("two", row("b", 2))
        assert list(boards[0].exchange("one", row("a", 10))) == ["one", "two"], "it is back"
        now = [now[0] - 2 * 86_400.0, now[1] + SWEEP_S]  # the clock was ahead, and is right again
        boards[0].exchange("one", row("a", 11))
        assert list(boards[0].exchange("one", row("a", 12))) == ["one"]


# --- quotas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [(1, 1), (5, 1), (3, 0), (2, 2, 2)])
def test_a_rate_is_one_over_all_replicas(counts: tuple[int, ...]) -> None:
    """Replicas that ask ``counts`` times each 10 ms: together they get in what the grant allows."""
    grant, clock = Grant("gold", rate_per_s=100.0, burst=10.0), ManualClock()
    limits = [Limits(clock) for _ in counts]
    accounts = [Accounts(EVERY_S, 60.0) for _ in counts]
    halfway = 0.0
    for step in range(6000):
        clock.time_s = step * 0.01
        if step == 2000:
            halfway = sum(one.admitted["gold"] for one in limits if one.admitted)
        if step % 25 == 0:
            for n, one in enumerate(limits):
                done = sum(other.admitted.get("gold", 0.0) for other in limits if other is not one)
                accounts[n].learned({"others": News({"gold": done})}, (), len(counts), clock.time_s)
                one.elsewhere = accounts[n].rates(clock.time_s)
        for n, count in itertools.product(range(len(counts)), range(max(counts))):
            if count < counts[n]:
                try:
                    limits[n].enter(grant)
                    limits[n].exit(grant)
                except Refused:
                    pass
    admitted = sum(one.admitted.get("gold", 0.0) for one in limits) - halfway
    assert admitted / 40.0 == pytest.approx(100.0, rel=0.05)


# --- live ------------------------------------------------------------------------------------------------


def test_two_live_servers_charge_each_other_and_outlive_their_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with directories(f"sqlite:///{tmp_path / 'tenants.db'}") as (one, two):
        for tenant in (
            Grant("root", role="admin"),
            Grant("gold", weight=4.0, promises={"*": Promise(PROMISED_S)}),
        ):
            one.put(tenant)
        admin, gold = one.issue_key("root"), one.issue_key("gold")
        two.catch_up()
        folders = [tmp_path / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        each: Any = {"policy": "fair_edf", "replicas": ReplicaOptions(exchange_s=0.05, hold_s=1e9)}
        with (
            running(folders[0], directory=one, **each) as first,
            running(folders[1], directory=two, **each) as second,
        ):
            assert infer(first, gold) == 200

            def facts(server: Any) -> Any:
                return ask(server, "GET", "/v2/eunomia/replicas", admin)[1]

            def served(server: Any) -> float:
                return float(facts(server)["tenants"].get("gold", {}).get("served_s", 0.0))

            assert until(
                lambda: (done_s := served(first)) > 0.0 and served(second) == pytest.approx(done_s, abs=2e-6)
            )
            seen = facts(second)
            assert seen["policy_charges"] and seen["tenants"]["gold"]["served_here_s"] == 0.0
            assert seen["tenants"]["gold"]["hit_rate"] == 1.0 and [r["alive"] for r in seen["replicas"]] == [
                True
            ]
            assert ask(second, "GET", "/v2/eunomia/replicas", gold)[0] == 403
            place = second.pool.dispatcher.tenants["gold"]
            assert until(
                lambda: infer(second, gold) == 200 and second.pool.dispatcher.memory[FIRST + place] > 0.0
            )

            def away(*_: Any) -> Any:
                raise OSError("gone")

            monkeypatch.setattr("eunomia.serving.tenants.board.DatabaseBoard.exchange", away)
            assert until(lambda: facts(second)["database"] == "away") and infer(second, gold) == 200
            monkeypatch.undo()
            before = served(first)
            assert infer(first, gold) == 200 and until(lambda: served(second) > before)
            assert until(lambda: facts(second)["database"] == "answers")


def test_replicas_need_a_database(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="replicas need tenants in a database"),
        running(tmp_path, replicas=ReplicaOptions()),
    ):
        pass


@pytest.mark.parametrize("block_s", [0.02, 0.6])
def test_shares_hold_however_long_requests_are(monkeypatch: pytest.MonkeyPatch, block_s: float) -> None:
    """Many requests that have begun, or runs longer than ``memory_s``, once kept a tenant from being charged: 7 : 1."""
    monkeypatch.setattr(simulated, "BLOCK_S", block_s)
    monkeypatch.setattr(simulated, "SPORADIC_PER_S", 0.01 / block_s)
    world = simulated.World("weighted_fair, 200 ms", 2, True, 0, events={}, end_s=500.0 * block_s)
    world.play()
    heavy, light = (
        sum(s for at_s, who, s in world.served if who == tenant and at_s > world.end_s / 2)
        for tenant in ("heavy", "light")
    )
    assert heavy / light == pytest.approx(4.0, rel=0.15)
