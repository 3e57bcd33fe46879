"""SQLite's file is replaced while servers run: nothing acknowledged is lost, and the new one is read."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from eunomia.core.errors import OutputError
from eunomia.serving.tenants import replaced
from eunomia.serving.tenants.connection import transaction
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant
from tests import children


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(replaced, "APART_S", 0.0)
    return tmp_path / "tenants.db"


@pytest.fixture
def directory(place: Path) -> Iterator[DatabaseDirectory]:
    """With a backup of the first tenant alone beside it; the others stand in the ``-wal`` file."""
    found = DatabaseDirectory(f"sqlite:///{place}")
    found.put(Grant("first"))
    with (
        closing(sqlite3.connect(place)) as source,
        closing(sqlite3.connect(place.with_name("copy.db"))) as copy,
    ):
        source.backup(copy)
    for n in range(5):
        found.put(Grant(f"later-{n}"))
    yield found
    found.close()


def names(directory: DatabaseDirectory) -> list[str]:
    return [grant.name for grant in directory.all()]


def test_a_backup_that_is_moved_there_is_read_and_no_change_is_lost(
    place: Path, directory: DatabaseDirectory
) -> None:
    """As it was, the old file was read and changed for ever: each change was gone with the next start."""
    other = DatabaseDirectory(f"sqlite:///{place}")  # of another server
    assert place.with_name("tenants.db-wal").stat().st_size > 0
    os.replace(place.with_name("copy.db"), place)
    with pytest.raises(
        OutputError, match="does not answer: its file was replaced or removed under this server"
    ):
        directory.put(Grant("new"))
    assert "later-0" in names(directory)  # the last known
    with pytest.raises(OutputError, match="does not answer"):
        other.catch_up()
    assert directory.catch_up() and other.catch_up() and names(directory) == names(other) == ["first"]
    directory.put(Grant("new"))
    assert other.catch_up() and names(other) == ["first", "new"]
    other.close()
    directory.close()
    again = DatabaseDirectory(f"sqlite:///{place}")
    assert names(again) == ["first", "new"]  # without what stood in the old file's -wal
    again.close()


def test_a_server_that_notices_late_empties_the_old_wal_alone(
    place: Path, directory: DatabaseDirectory
) -> None:
    """Another one has changed the new file: as it was, this went into the old one, and nobody found it again."""
    other = DatabaseDirectory(f"sqlite:///{place}")
    os.replace(place.with_name("copy.db"), place)
    with pytest.raises(OutputError, match="was replaced"):
        other.catch_up()
    other.put(Grant("new"))
    with pytest.raises(OutputError, match="was replaced"):
        directory.catch_up()
    assert directory.catch_up() and names(directory) == ["first", "new"]
    other.close()


def test_a_change_that_has_begun_is_refused(
    place: Path, directory: DatabaseDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replaced between the look and the change; as it was, the old file had it, and its -wal the new one's place."""
    monkeypatch.setattr(replaced.OneFile, "check", lambda self, engine: "")
    os.replace(place.with_name("copy.db"), place)
    with pytest.raises(OutputError, match="was replaced"):
        directory.put(Grant("new"))


def test_a_file_that_is_no_database_is_replaced_in_turn(place: Path, directory: DatabaseDirectory) -> None:
    wrong = place.with_name("wrong")
    wrong.write_bytes(b"no database" * 100)
    for made, says in (
        (wrong, "was replaced"),
        (None, "file is not a database"),
        (place.with_name("copy.db"), "was replaced"),
    ):
        if made is not None:
            os.replace(made, place)
        with pytest.raises(OutputError, match=says):
            directory.catch_up()
    assert directory.catch_up() and names(directory) == ["first"]


def test_a_link_that_leads_elsewhere_is_followed(place: Path) -> None:
    for name in ("one", "two"):
        made = DatabaseDirectory(f"sqlite:///{place.with_name(name)}")
        made.put(Grant(name))
        made.close()
    place.symlink_to("one")
    directory = DatabaseDirectory(f"sqlite:///{place}")
    place.with_name("link").symlink_to("two")
    os.replace(place.with_name("link"), place)
    with pytest.raises(OutputError, match="was replaced"):
        directory.put(Grant("new"))
    assert directory.catch_up() and names(directory) == ["two"]
    directory.close()


def test_a_file_that_is_away_is_taken_up_where_it_was(place: Path, directory: DatabaseDirectory) -> None:
    away = place.with_name("away.db")
    place.rename(away)
    for says in ("what is there now is read in", "and there is none: put it back, or a backup"):
        with pytest.raises(OutputError, match=says):
            directory.put(Grant("new"))
    assert not place.exists()  # none is made in its place
    away.rename(place)
    directory.put(Grant("new"))
    assert names(directory) == ["first", *[f"later-{n}" for n in range(5)], "new"]


def test_no_new_connection_makes_a_file_where_it_is_away(place: Path, directory: DatabaseDirectory) -> None:
    """As it was, an empty one stood there, and was read soon after."""
    with transaction(directory._engine, writes=False):  # the only connection that is open
        place.rename(place.with_name("away.db"))
        with pytest.raises(OperationalError, match="was replaced"):
            directory._engine.connect()
    assert not place.exists()


def test_other_servers_have_time_to_notice(
    place: Path, directory: DatabaseDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    file = replaced.OneFile(str(place), lambda: now[0])
    monkeypatch.setattr(replaced, "APART_S", 15.0)
    engine = directory._engine
    file.opens()
    assert file.check(engine) == ""
    shutil.copy(place, place.with_name("copy.db"))
    os.replace(place.with_name("copy.db"), place)
    for now_s, says in ((100.0, "in 15 s"), (105.0, "in 10 s"), (114.0, "in 1 s"), (115.1, "")):
        now[0] = now_s
        assert file.check(engine).endswith(says) and bool(file.check(engine)) == bool(says)
    assert not file.replaced


def test_a_backup_is_restored_by_sqlite_beside_the_server(place: Path, directory: DatabaseDirectory) -> None:
    with (
        closing(sqlite3.connect(place.with_name("copy.db"))) as copy,
        closing(sqlite3.connect(place)) as target,
    ):
        copy.backup(target)  # what sqlite3's .restore does
    assert directory.catch_up() and names(directory) == ["first"]


def test_another_process_that_ends_leaves_the_wal_to_those_that_stay(
    place: Path, directory: DatabaseDirectory
) -> None:
    """As it was, a second connection gave up this process's locks: what it changed then was seen by nobody else."""
    with (
        transaction(directory._engine, writes=False),
        transaction(directory._engine, writes=False) as second,
    ):
        second.exec_driver_sql("SELECT * FROM tenant").all()
    look = "import sqlite3, sys; line = sqlite3.connect(sys.argv[1]); print(line.execute(sys.argv[2]).fetchall())"
    for count in (6, 7):
        told = children.run(children.python("-c", look, place, "SELECT count(*) FROM tenant"))
        assert told.stdout.strip() == f"[({count},)]"
        directory.put(Grant("seen"))


def test_a_disk_that_does_not_answer_replaces_nothing(
    place: Path, directory: DatabaseDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = os.stat

    def failing(path: Any, **more: Any) -> os.stat_result:
        if path == str(place):
            raise OSError(errno.EIO, "Input/output error")
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", failing)
    assert not directory.catch_up()
