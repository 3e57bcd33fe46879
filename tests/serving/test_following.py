"""Several servers on one database: what is changed through one is in force on the others, and none waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, event, text

from eunomia.core.errors import ConfigError, OutputError
from eunomia.serving.server import Server
from eunomia.serving.tenants import connection
from eunomia.serving.tenants.connection import transaction
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.following import follow
from eunomia.serving.tenants.grants import Grant, Promise
from eunomia.serving.tenants.rows import read_grants
from eunomia.serving.tenants.stamp import renew_stamp
from eunomia.serving.tenants.tables import API_KEY, ENDED_KEY, REPLICA, REPLICA_GROUP, TENANT
from eunomia.workload.tenant import Slo
from tests.patience import PATIENCE_S, until, until_async
from tests.serving.live import SIDE, ask, running

GOLD = Grant("gold", weight=3.0, models=frozenset({"a"}), promises={"a": Promise(0.05, Slo(0.99))})


@contextmanager
def directories(url: str, count: int = 2) -> Iterator[list[DatabaseDirectory]]:
    """So many servers' views of one database, which is empty before and after."""
    found = [DatabaseDirectory(url) for _ in range(count)]
    try:
        yield found
    finally:
        with found[0]._engine.begin() as db:
            for table in (API_KEY, ENDED_KEY, TENANT, REPLICA, REPLICA_GROUP):
                db.execute(delete(table))
        for directory in found:
            directory.close()


@contextmanager
def statements(directory: DatabaseDirectory) -> Iterator[list[str]]:
    """What is asked of the database inside the block, but for the checks of its connections."""
    asked: list[str] = []

    def note(db: Any, cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("BEGIN"):
            asked.append(statement)

    event.listen(directory._engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(directory._engine, "before_cursor_execute", note)


def test_whoever_shares_a_database_catches_up(url: str) -> None:
    with directories(url) as (one, two):
        one.put(GOLD)
        key, other = one.issue_key("gold"), one.issue_key("gold")
        assert two.by_name("gold") is None and two.catch_up() and two.by_key(key) == GOLD
        changes: list[tuple[Callable[[], Any], Callable[[], Any], Any]] = [
            (lambda: one.revoke_keys("gold", key[:8]), lambda: two.by_key(key), None),
            (lambda: one.put(Grant("gold")), lambda: two.by_key(other), Grant("gold")),
            (lambda: one.put(GOLD), lambda: two.by_name("gold"), GOLD),
            (lambda: one.rotate_key("gold"), lambda: two.by_key(other), None),
            (lambda: one.remove("gold"), lambda: two.all(), []),
        ]
        for change, seen, expected in changes:
            before = seen()
            change()
            assert seen() == before != expected and two.catch_up() and seen() == expected
            assert not two.catch_up() and not one.catch_up()


def test_nothing_new_costs_one_small_query(url: str) -> None:
    with directories(url) as (one, two):
        for n in range(20):
            one.put(Grant(f"tenant-{n}", models=frozenset({"a", "b"})))
        assert two.catch_up()
        with statements(two) as asked:
            assert not two.catch_up()
        assert len(asked) == 1 and "directory_stamp" in asked[0]


def test_a_directory_is_read_as_of_one_moment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with directories(url) as (one, two):
        one.put(Grant("gold", models=None))
        assert two.catch_up()

        def change_in_between(db: Any) -> Any:
            monkeypatch.undo()
            found = read_grants(db)
            one.put(Grant("silver"))
            one.issue_key("silver")
            assert read_grants(db) == found
            return found

        monkeypatch.setattr("eunomia.serving.tenants.database.read_grants", change_in_between)
        two.refresh()
        assert [grant.name for grant in two.all()] == ["gold"] and not two._known.keys
        assert two.catch_up() and [grant.name for grant in two.all()] == ["gold", "silver"]
        assert len(two._known.keys) == 1


def test_changes_through_several_servers_at_once_do_not_lose_each_other(url: str) -> None:
    with directories(url, 3) as servers, ThreadPoolExecutor(6) as many:
        list(many.map(lambda n: servers[n % 3].put(Grant(f"tenant-{n}")), range(30)))
        keys = list(many.map(lambda n: servers[(n + 1) % 3].issue_key(f"tenant-{n}"), range(30)))
        for server in servers:
            server.catch_up()
            assert len(server.all()) == 30
            assert [server.by_key(key) for key in keys] == [Grant(f"tenant-{n}") for n in range(30)]


def test_of_two_administrators_that_leave_at_once_one_stays(url: str) -> None:
    with directories(url) as servers, ThreadPoolExecutor(2) as many:
        for _ in range(5):
            for name in ("ada", "bob"):
                servers[0].put(Grant(name, role="admin"))
                servers[0].issue_key(name)

            def leave(n: int) -> bool:
                try:
                    return servers[n].remove(("ada", "bob")[n])
                except ConfigError:
                    return False

            assert sorted(many.map(leave, range(2))) == [False, True]


def test_a_server_that_stands_still_inside_a_change_does_not_hold_the_others_for_ever(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eunomia.serving.tenants.connection.LOCK_MS", 200)
    with directories(url) as (one, two):
        one.put(GOLD)
        with transaction(one._engine, writes=True) as db:
            renew_stamp(db)
            with pytest.raises(OutputError, match="lock"):
                two.put(Grant("silver"))
            assert two.catch_up() and two.by_name("gold") == GOLD  # reading goes on
        two.put(Grant("silver"))
        assert two.by_name("silver") == Grant("silver")


def test_servers_that_start_at_once_on_an_empty_database_all_start(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tenants.db'}"
    with ThreadPoolExecutor(4) as many:
        started = list(many.map(lambda _: DatabaseDirectory(url), range(4)))
    for n, directory in enumerate(started):
        directory.put(Grant(f"tenant-{n}"))
    for directory in started:
        directory.catch_up()
        assert [directory.by_name(f"tenant-{n}") for n in range(4)] == [
            Grant(f"tenant-{n}") for n in range(4)
        ]
        directory.close()


def test_a_new_file_that_another_server_switches_over_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite turns the second away at once: one in a hundred starts of four servers failed."""
    tries = list[str]()

    class Busy:
        def execute(self, what: str) -> None:
            tries.append(what)
            if "journal_mode" in what and len(tries) < 5:
                raise sqlite3.OperationalError("database is locked")

    connection._prepare_sqlite(Busy(), None)  # type: ignore[arg-type]
    assert tries[-1] == "PRAGMA synchronous=FULL" and tries.count("PRAGMA journal_mode=WAL") == 3
    tries.clear()
    monkeypatch.setattr(connection, "LOCK_MS", -1)
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        connection._prepare_sqlite(Busy(), None)  # type: ignore[arg-type]


def test_a_tenant_that_another_server_has_removed_is_unknown(url: str) -> None:
    with directories(url) as (one, two):
        one.put(GOLD)
        two.catch_up()
        one.remove("gold")
        for change in (two.issue_key, two.rotate_key, two.revoke_keys, two.keys):
            with pytest.raises(ConfigError, match="unknown tenant 'gold'"):
                change("gold")


def test_a_mark_that_somebody_has_deleted_comes_back(url: str) -> None:
    with directories(url) as (one, two):
        with one._engine.begin() as db:
            db.execute(text("DELETE FROM directory_stamp"))
        two.catch_up()
        one.put(GOLD)
        assert two.catch_up() and two.by_name("gold") == GOLD and not two.catch_up()


def test_a_lost_database_is_complained_of_once(caplog: pytest.LogCaptureFixture) -> None:
    answers = [False, OutputError("the database x does not answer"), OutputError("still not"), ValueError("a row"),
               True, False]  # fmt: skip
    asked = []
    done = asyncio.Event()

    class Directory:
        def catch_up(self) -> bool:
            asked.append(threading.current_thread())
            answer = answers[len(asked) - 1] if len(asked) <= len(answers) else False
            if isinstance(answer, Exception):
                raise answer
            return bool(answer)

    async def main() -> None:
        task = asyncio.create_task(follow(Directory(), 0.001))
        await until_async(lambda: len(asked) > len(answers))
        done.set()
        task.cancel()

    caplog.set_level(logging.INFO, "eunomia.serving")
    asyncio.run(main())
    said = [record.message for record in caplog.records if record.name == "eunomia.serving"]
    assert said == [
        "tenants and keys cannot be read, the last known stay in force: the database x does not answer",
        "tenants or keys were changed through another server; they are read anew",
        "tenants and keys can be read again",
    ]
    assert threading.main_thread() not in asked


# --- live servers ----------------------------------------------------------------------------------------


def infer(server: Server, key: str) -> int:
    shape = [1, 3, SIDE, SIDE]
    tensor = {"name": "image", "datatype": "FP32", "shape": shape, "data": np.zeros(shape).ravel().tolist()}
    return ask(server, "POST", "/v2/models/small/infer", key, {"inputs": [tensor]})[0]


def comes(status: Callable[[], int], expected: int) -> bool:
    """Wait until it is so."""
    return until(lambda: status() == expected)


def test_two_servers_on_one_database(url: str, tmp_path: Path) -> None:
    with directories(url) as (one, two):
        one.put(Grant("root", role="admin"))
        admin = one.issue_key("root")
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir()
        with (
            running(folders[0], directory=one, follow_s=0.05) as first,
            running(folders[1], directory=two, follow_s=0.05) as second,
        ):
            place = "/v2/eunomia/tenants/acme"
            assert ask(first, "PUT", place, admin, {"weight": 2})[0] == 200
            key = ask(first, "POST", f"{place}/keys", admin, {})[1]["key"]
            assert infer(first, key) == 200 and comes(lambda: infer(second, key), 200)
            assert ask(first, "DELETE", f"{place}/keys", admin)[0] == 200  # a key is revoked
            assert infer(first, key) == 401 and comes(lambda: infer(second, key), 401)

            key = ask(second, "POST", f"{place}/keys", admin, {})[1]["key"]
            assert infer(second, key) == 200 and comes(lambda: infer(first, key), 200)
            assert ask(second, "PUT", place, admin, {"models": []})[0] == 200  # its grant is changed
            assert infer(second, key) == 404 and comes(lambda: infer(first, key), 404)
            assert ask(first, "DELETE", place, admin)[0] == 200  # it is forgotten
            assert infer(first, key) == 401 and comes(lambda: infer(second, key), 401)


def test_a_tenant_that_was_removed_elsewhere_leaves_no_memory_here(tmp_path: Path) -> None:
    with directories(f"sqlite:///{tmp_path / 'tenants.db'}") as (one, two):
        one.put(Grant("gold"))
        one.put(Grant("silver"))
        two.catch_up()
        (tmp_path / "memory").write_bytes(bytes(64))
        with running(tmp_path, directory=two, follow_s=0.02) as server:
            regions = server.service.regions
            regions._folder, regions.offered, regions._owned = str(tmp_path), True, False
            for tenant in ("gold", "silver"):
                regions.register(tenant, "mine", "memory", 0, 64)
            one.remove("gold")
            assert comes(lambda: len(regions.status("gold")), 0) and len(regions.status("silver")) == 1
            regions.unregister("silver", "")


def test_a_database_that_hangs_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    directory.put(Grant("gold"))
    key = directory.issue_key("gold")
    hangs, go_on = threading.Event(), threading.Event()
    came_back: list[bool] = []

    def catch_up() -> bool:
        hangs.set()
        came_back.append(go_on.wait(PATIENCE_S))
        return False

    monkeypatch.setattr(directory, "catch_up", catch_up)
    with running(tmp_path, directory=directory, follow_s=0.01) as server:
        assert hangs.wait(PATIENCE_S)
        try:
            assert [infer(server, key) for _ in range(5)] == [200] * 5 and not came_back
        finally:
            go_on.set()
    directory.close()


def test_a_server_whose_database_is_gone_serves_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = tmp_path / "tenants.db"
    directory = DatabaseDirectory(f"sqlite:///{place}")
    directory.put(Grant("gold"))
    key = directory.issue_key("gold")
    with running(tmp_path, directory=directory, follow_s=0.02) as server:
        directory.close()
        while not place.is_dir():  # a look of the server may make the file anew in between
            for file in tmp_path.glob("tenants.db*"):
                file.unlink(missing_ok=True)
            with contextlib.suppress(FileExistsError):
                place.mkdir()
        directory.close()  # and may have opened the file before it went
        with pytest.raises(OutputError):
            directory.catch_up()
        until(lambda: "tenants and keys cannot be read" in caplog.text)
        assert infer(server, key) == 200
    directory.close()
