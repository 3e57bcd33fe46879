"""Groups of servers: a row of totals that any member may write, and promises that hold over groups."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.serving.replicas import Board, World
from eunomia.config.load import read_table
from eunomia.config.server import server_from
from eunomia.core.errors import ConfigError
from eunomia.serving.replicas.groups import GroupRow, advanced
from eunomia.serving.replicas.others import AGAIN_S, SERVED, Published
from eunomia.serving.server import Server
from eunomia.serving.tenants.board import SWEEP_S
from eunomia.serving.tenants.connection import transaction
from eunomia.serving.tenants.grants import Grant, Promise
from eunomia.study.serving.server import server_options
from tests.patience import until, until_async
from tests.serving.live import PROMISED_S, ask, running
from tests.serving.made_up import examples
from tests.serving.test_following import directories, infer
from tests.serving.test_replicas import row


def served(whole: Published) -> dict[str, float]:
    return {tenant: amounts[SERVED] for tenant, amounts in whole.totals.items()}


def test_by_hand_a_groups_row_is_the_sum_of_its_members() -> None:
    first = advanced(None, {"one": row("a1", 2, gold=3.0), "two": row("b1", 1, gold=1.0, tin=5.0)}, "g")
    assert served(first.whole) == {"gold": 4.0, "tin": 5.0} and first.whole.boot == "g"
    assert (first.whole.beat, first.whole.at_s) == (1, 2.0)
    second = advanced(first, {"one": row("a1", 5, gold=3.5), "two": row("b2", 1, tin=0.5)}, "other")
    assert served(second.whole) == {"gold": 4.5, "tin": 5.5} and second.whole.boot == "g"
    assert (second.whole.beat, second.whole.at_s) == (2, 5.0)  # 3 s of "one" are the longest news
    third = advanced(second, {"one": row("a1", 5, gold=3.5)}, "other")  # "two" was deleted, its work stays
    assert served(third.whole) == served(second.whole) and third.whole.at_s == 5.0
    late = {"two": replace(row("b2", 9, tin=7.5), at_s=AGAIN_S)}
    fourth = advanced(third, late, "other")  # back with an old row: what it did before may have been counted
    assert served(fourth.whole) == served(second.whole)
    fifth = advanced(fourth, {"two": replace(late["two"], totals=row("", 0, tin=8.0).totals)}, "other")
    assert served(fifth.whole) == {"gold": 4.5, "tin": 6.0}


EVENTS = st.lists(
    st.tuples(st.sampled_from(["work", "publish", "restart", "advance", "lost"]), st.integers(0, 2)), max_size=60
)  # fmt: skip


@examples(1.0)
@given(EVENTS)
def test_all_published_work_is_counted_once_whoever_writes(events: list[tuple[str, int]]) -> None:
    """Each start of a server counts as far as a look at its rows found it, once, whatever another writer lost."""
    counts, boots, rows = [0.0] * 3, [0] * 3, dict[str, Published]()
    stood: GroupRow | None = None
    found = dict[str, float]()  # by boot
    for what, who in events:
        if what == "work":
            counts[who] += 1.0
        elif what == "restart":
            counts[who], boots[who] = 0.0, boots[who] + 1
        elif what == "publish":
            rows[f"s{who}"] = row(f"{who}.{boots[who]}", 1, gold=counts[who])
        else:  # "lost": another member was faster, and nothing is written
            fresh = advanced(stood, rows, "g")
            if what == "advance":
                assert stood is None or fresh.whole.at_s >= stood.whole.at_s
                stood = fresh
                found |= {each.boot: each.totals["gold"][SERVED] for each in rows.values()}
                assert served(stood.whole).get("gold", 0.0) == sum(found.values())


def test_groups_meet_in_either_database(url: str) -> None:
    with directories(url, 3) as (one, two, three):
        boards = one.board(), two.board(), three.board()
        boards[0].exchange("one", row("a", 1, gold=1.0), "east")
        assert dict(boards[1].exchange("two", row("b", 1, gold=2.0), "east")) == {
            "one": row("a", 1, gold=1.0)
        }
        assert dict(boards[2].exchange("three", row("c", 1, gold=7.0), "west")) == {}
        assert boards[0].look_at_groups("east", None).beat == 1
        assert boards[1].look_at_groups("east", None).beat == 1, (
            "it has not seen the row before: one look passes"
        )
        assert boards[2].look_at_groups("west", None).beat == 1
        boards[0].exchange("one", row("a", 2, gold=1.5), "east")
        assert boards[0].look_at_groups("east", 1).beat == 2 == boards[1].look_at_groups("east", 1).beat
        others = boards[2].look_at_groups("west", 1).others
        assert served(others["east"]) == {"gold": 3.5} and set(others) == {"east"}
        assert "two" in boards[2].exchange("two", row("c", 2), "west"), "a namesake is seen across groups"


def test_without_groups_nothing_is_written_for_them(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a row locked: a look that finds no group only reads."""
    asked: list[bool] = []

    def noted(engine: Any, *, writes: bool) -> Any:
        asked.append(writes)
        return transaction(engine, writes=writes)

    monkeypatch.setattr("eunomia.serving.tenants.board.transaction", noted)
    with directories(url) as (one, two):
        board = one.board()
        board.exchange("one", row("a", 1, gold=1.0))
        assert board.look_at_groups("", None).beat is None and asked == [True, False]
        assert (board.look_at_groups("", None).beat, dict(board.look_at_groups("", None).others)) == (
            None,
            {},
        )
        two.board().exchange("two", row("b", 1, gold=2.0), "west")
        two.board().look_at_groups("west", None)
        assert served(board.look_at_groups("", None).others["west"]) == {"gold": 2.0}
        assert served(two.board().look_at_groups("west", 1).others[""]) == {"gold": 1.0}


def test_rows_of_groups_that_ended_are_deleted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1e9, 0.0]
    monkeypatch.setattr("eunomia.serving.tenants.board.time.time", lambda: now[0])
    monkeypatch.setattr("eunomia.serving.tenants.board.time.monotonic", lambda: now[1])
    with directories(url) as (one, two):
        east, west = one.board(), two.board()
        east.exchange("one", row("a", 1, gold=1.0), "east")
        assert set(west.look_at_groups("west", east.look_at_groups("east", None).beat).others) == {"east"}
        now = [now[0] + 7 * SWEEP_S, now[1] + 7 * SWEEP_S]
        west.look_at_groups("west", None)
        assert west.look_at_groups("west", None).others == {}


def test_whoever_finds_the_row_unchanged_writes_it() -> None:
    """The member that wrote goes on writing; when it is gone, the next look of another member takes over."""
    board = Board()
    board.exchange("one", row("a", 1, gold=1.0), "g")
    board.exchange("two", row("b", 1, gold=1.0), "g")
    first: int | None = None
    second: int | None = None
    before: int | None
    wrote = list[str]()
    for look in range(8):
        if look < 4:
            before, first = first, board.look_at_groups("g", first).beat
            wrote += ["one"] * (first != before)
        before, second = second, board.look_at_groups("g", second).beat
        wrote += ["two"] * (look >= 4 and second != before)
    assert wrote == ["one"] * 4 + ["two"] * 4


@pytest.mark.parametrize("groups", [1, 2])
def test_weights_hold_over_groups_and_after_a_kill(groups: int) -> None:
    """Servers of the product on simulated devices: light enters at one of four; then that server dies."""
    world = World("weighted_fair, 200 ms", 4, True, 0, groups=groups, events={28.0: "kill"}, end_s=45.0)
    world.play()
    for from_s, to_s in ((8.0, 28.0), (32.0, 45.0)):
        had = {
            tenant: sum(s for at_s, who, s in world.served if who == tenant and from_s <= at_s < to_s)
            for tenant in ("heavy", "light")
        }
        assert had["heavy"] / had["light"] == pytest.approx(4.0, rel=0.12)
    names = {r.fleet.options.group for r in world.replicas}
    assert len(names) == groups and len(world.replicas[1].fleet.far.others.rows()) == groups - 1


def test_a_database_that_is_away_keeps_the_rates_of_both_levels() -> None:
    world = World("weighted_fair, 200 ms", 4, True, 1, groups=2, events={15.0: "database away"}, end_s=35.0)
    world.play()
    had = {t: sum(s for at, who, s in world.served if who == t and at >= 16.0) for t in ("heavy", "light")}
    assert had["heavy"] / had["light"] == pytest.approx(4.0, rel=0.12)


def test_live_servers_of_two_groups_charge_each_other(tmp_path: Path) -> None:
    with directories(f"sqlite:///{tmp_path / 'tenants.db'}") as (one, two):
        for tenant in (Grant("root", role="admin"), Grant("gold", promises={"*": Promise(PROMISED_S)})):
            one.put(tenant)
        admin, gold = one.issue_key("root"), one.issue_key("gold")
        two.catch_up()
        told = read_table(EXAMPLE, "server file")
        told |= {"database": "sqlite:///x.db", "replicas": {"group": "east", "exchange_ms": 50.0}}
        told["tenant"] = [{"name": "gold"}]
        options = server_options(server_from(told, (), "s.toml", tmp_path), lambda _: None)
        options.directory.close()  # type: ignore[attr-defined]
        east = options.replicas
        assert east is not None and (east.group, east.between_s) == ("east", 0.25)
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
        with (
            running(tmp_path / "one", directory=one, replicas=east) as first,
            running(tmp_path / "two", directory=two, replicas=replace(east, group="west")) as second,
        ):
            assert infer(first, gold) == 200

            def facts(server: Server) -> Any:
                return ask(server, "GET", "/v2/eunomia/replicas", admin)[1]

            def got(server: Server) -> float:
                return float(facts(server)["tenants"].get("gold", {}).get("served_s", 0.0))

            assert until(
                lambda: (done_s := got(first)) > 0.0 and got(second) == pytest.approx(done_s, abs=2e-6)
            )
            seen = facts(second)
            assert (seen["group"], seen["groups"]) == ("west", [{"name": "east", "alive": True}])
            assert seen["replicas"] == []


EXAMPLE = Path(__file__).parents[2] / "examples" / "serving" / "server.toml"


def test_other_groups_are_looked_at_no_more_often() -> None:
    told = read_table(EXAMPLE, "server file")
    told["database"] = "sqlite:///x.db"
    told["tenant"] = [{"name": "gold"}]
    told["replicas"] = {"group": "a", "exchange_ms": 500.0, "between_ms": 100.0}
    with pytest.raises(
        ConfigError, match="between_ms = 100 is less than exchange_ms = 500; other groups are"
    ):
        server_from(told, (), "s.toml", EXAMPLE.parent)
    del told["replicas"]["between_ms"]  # a default is no fault of the file's
    server_from(told, (), "s.toml", EXAMPLE.parent)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (
            "fair_edf",
            'in overload their tenants\' weights do not hold over replicas; policy = "weighted_fair" keeps',
        ),
        ("edf+f", "policy 'edf+f' does not count what other servers do for a tenant"),
        ("weighted_fair", None),
    ],
)
def test_the_start_says_which_policies_keep_no_shares(tmp_path: Path, policy: str, said: str | None) -> None:
    told = read_table(EXAMPLE, "server file")
    told |= {"database": "sqlite:///x.db", "policy": policy, "tenant": [{"name": "gold"}]}
    for replicas, expected in (({}, said), (None, None)):
        remarks = list[str]()
        table = told if replicas is None else {**told, "replicas": replicas}
        options = server_options(server_from(table, (), "s.toml", tmp_path), remarks.append)
        options.directory.close()  # type: ignore[attr-defined]
        found = [one for one in remarks if one.startswith("policy ")]
        assert len(found) == (expected is not None) and all(str(expected) in one for one in found)


def test_a_database_that_stands_still_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped PostgreSQL takes a question and never answers; as it was, rates stayed in force without end."""
    monkeypatch.setattr("eunomia.serving.replicas.fleet.SILENT_S", 0.02)
    world = World("weighted_fair, 200 ms", 2, True, 0, events={}, end_s=1.0)
    fleet, stands = world.replicas[0].fleet, threading.Event()
    monkeypatch.setattr(world.board, "exchange", lambda *_: (stands.wait(), {})[1])

    async def scene() -> None:
        keeping = asyncio.create_task(fleet.keep())
        await until_async(lambda: fleet.lost)
        stands.set()
        await until_async(lambda: not fleet.lost)
        keeping.cancel()

    asyncio.run(scene())


def test_one_warning_while_only_the_groups_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the role may not use their table; as it was, each look said two lines."""
    world = World("weighted_fair, 200 ms", 2, True, 0, events={}, end_s=1.0)
    fleet, looks, may = world.replicas[0].fleet, list[int](), threading.Event()
    fleet.options = replace(fleet.options, exchange_s=0.001)
    look_at_groups = world.board.look_at_groups

    def refused(group: str, beat: int | None) -> Any:
        looks.append(0)
        if not may.is_set():
            raise OSError("permission denied for table replica_group")
        return look_at_groups(group, beat)

    monkeypatch.setattr(world.board, "look_at_groups", refused)

    async def scene() -> None:
        keeping = asyncio.create_task(fleet.keep())
        await until_async(lambda: len(looks) >= 10)
        may.set()
        await until_async(lambda: not fleet.lost)
        keeping.cancel()

    asyncio.run(scene())
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and "permission denied" in said[0] and said[1].endswith("can be read again")
