"""Tenants in a real database: SQLite always, PostgreSQL where its programs are installed."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select, text

from eunomia.core.errors import ConfigError, OutputError
from eunomia.serving.tenants.connection import MIGRATION_LOCK, connect
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant, Promise, hash_key
from eunomia.serving.tenants.tables import API_KEY, ENDED_KEY, TENANT
from eunomia.workload.tenant import Slo
from tests.patience import until

GOLD = Grant(
    "gold", weight=3.0, rate_per_s=50.0, models=frozenset({"a", "b"}),
    promises={"a": Promise(0.05, Slo(0.99), min_deadline_s=0.02), "b": Promise(0.05, min_deadline_s=0.0),
              "*": Promise(1.0, Slo(0.2, "latency_percentile", 99.0), 9.0)},
)  # fmt: skip


def test_what_goes_in_comes_out(url: str) -> None:
    directory = DatabaseDirectory(url)
    directory.put(GOLD)
    directory.put(Grant("root", role="admin"))
    directory.put(Grant("gold", weight=1.0))  # replaced as a whole
    directory.put(GOLD)
    directory.close()
    again = DatabaseDirectory(url)
    assert again.by_name("gold") == GOLD and again.by_name("root") == Grant("root", role="admin")
    assert again.remove("gold") and not again.remove("gold") and again.by_name("gold") is None
    assert again.remove("root")
    again.close()


def test_keys_are_shown_once_rotated_and_revoked(url: str) -> None:
    directory = DatabaseDirectory(url)
    directory.put(GOLD)
    key = directory.issue_key("gold")
    assert directory.by_key(key) == GOLD and directory.by_key(key + "x") is None
    assert [facts.hint for facts in directory.keys("gold")] == [key[:8]]
    fresh = directory.rotate_key("gold", grace_s=60.0)
    assert directory.by_key(key) == GOLD and directory.by_key(fresh) == GOLD  # both, for a minute
    newest = directory.rotate_key("gold")
    assert (
        directory.by_key(key) is None and directory.by_key(fresh) is None and directory.by_key(newest) == GOLD
    )
    short = directory.issue_key("gold", lifetime_s=0.01)
    until(lambda: directory.by_key(short) is None)
    assert directory.revoke_keys("gold") == 1 and directory.by_key(newest) is None
    with pytest.raises(ConfigError, match="unknown tenant 'nobody'"):
        directory.issue_key("nobody")
    directory.remove("gold")
    directory.close()


def test_ended_keys_stay_dead_after_a_restart(url: str) -> None:
    revoked, rotated, removed, living = (
        hash_key(each) for each in ("revoked", "rotated", "removed", "living")
    )
    directory = DatabaseDirectory(url)
    for name in ("gold", "silver", "bronze"):
        directory.put(Grant(name))
    assert directory.adopt_key("gold", revoked) and directory.adopt_key("silver", rotated)
    assert directory.adopt_key("bronze", removed) and directory.by_key("revoked") == Grant("gold")
    assert directory.revoke_keys("gold") == 1 and directory.remove("bronze")
    directory.rotate_key("silver")
    assert directory.adopt_key("gold", living)
    directory.close()
    for _ in range(2):  # the file gives the same tenants and hashes at every start
        directory = DatabaseDirectory(url)
        directory.put(Grant("bronze"))
        assert not directory.adopt_key("gold", revoked) and not directory.adopt_key("silver", rotated)
        assert not directory.adopt_key("bronze", removed) and not directory.adopt_key("gold", removed)
        assert [directory.by_key(each) for each in ("revoked", "rotated", "removed")] == [None] * 3
        assert directory.adopt_key("gold", living) and directory.by_key("living") == Grant("gold")
        directory.close()
    directory = DatabaseDirectory(url)
    assert all([directory.remove(name) for name in ("gold", "silver", "bronze")])
    with directory._engine.begin() as db:
        db.execute(delete(ENDED_KEY))
    directory.close()


def test_a_database_of_the_first_version_keeps_its_keys_and_promises(url: str) -> None:
    directory = DatabaseDirectory(url)
    directory.put(GOLD)
    key = directory.issue_key("gold")
    with directory._engine.begin() as db:
        db.execute(text("DROP TABLE replica_group"))
        db.execute(text("DROP TABLE replica"))
        db.execute(text("DROP TABLE directory_stamp"))
        db.execute(text("DROP TABLE ended_key"))
        db.execute(text("ALTER TABLE promise DROP COLUMN min_deadline_s"))
        for column in ("max_block_s", "device_s_per_day"):
            db.execute(text(f"ALTER TABLE tenant DROP COLUMN {column}"))
        db.execute(text("UPDATE alembic_version SET version_num = 'v1'"))
    directory.close()
    again = DatabaseDirectory(url)
    found = again.by_key(key)
    assert found is not None
    assert found.promises == {m: replace(p, min_deadline_s=None) for m, p in GOLD.promises.items()}
    assert found.promise("a").shortest_s == 0.05  # type: ignore[union-attr]
    assert again.revoke_keys("gold") == 1 and again.remove("gold")
    again.close()


def test_the_last_administrator_stays(url: str) -> None:
    directory = DatabaseDirectory(url)
    root = Grant("root", role="admin")
    directory.put(root)
    key = directory.issue_key("root")
    directory.put(Grant("deputy", role="admin"))  # without a key it is no help
    for change in (
        lambda: directory.remove("root"), lambda: directory.revoke_keys("root"),
        lambda: directory.revoke_keys("root", key[:8]), lambda: directory.put(Grant("root")),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="no administrator with a valid key"):
            change()
    directory.refresh()
    assert directory.by_key(key) == root and len(directory.keys("root")) == 1
    key = directory.rotate_key("root")
    assert directory.by_key(key) == root
    directory.issue_key("deputy")
    assert directory.remove("root") and directory.by_name("root") is None
    with pytest.raises(ConfigError, match="no administrator"):
        directory.remove("deputy")
    with directory._engine.begin() as db:
        for table in (API_KEY, ENDED_KEY, TENANT):
            db.execute(delete(table))
    directory.close()


def test_no_key_stands_in_the_database(tmp_path: Path) -> None:
    directory = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    directory.put(GOLD)
    key = directory.issue_key("gold")
    directory.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key.encode() not in stored and hash_key(key).encode() in stored


def test_after_closing_the_one_file_is_complete(tmp_path: Path) -> None:
    directory = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    assert directory.is_new and directory.place == str(tmp_path / "tenants.db")
    directory.put(GOLD)
    key, revoked = directory.issue_key("gold"), directory.issue_key("gold")
    directory.revoke_keys("gold", revoked[:8])
    reader = directory._engine.raw_connection()  # as a thread that has not let go yet
    directory.close()
    (tmp_path / "backup").mkdir()
    shutil.copy(tmp_path / "tenants.db", tmp_path / "backup" / "tenants.db")
    reader.detach()
    reader.close()
    again = DatabaseDirectory(f"sqlite:///{tmp_path / 'backup' / 'tenants.db'}")
    assert not again.is_new and again.by_key(key) == GOLD and again.by_key(revoked) is None
    assert not again.adopt_key("gold", hash_key(revoked))
    again.close()
    again.close()
    assert [path.name for path in (tmp_path / "backup").iterdir()] == ["tenants.db"]


def test_who_starts_waits_for_a_long_migration_of_another(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("SQLite waits in its own way")
    monkeypatch.setattr("eunomia.serving.tenants.connection.LOCK_MS", 100)
    one = DatabaseDirectory(url)
    with ThreadPoolExecutor(1) as other:
        with one._engine.begin() as db:
            db.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            two = other.submit(DatabaseDirectory, url)
            until(lambda: db.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")) == 1)
            db.execute(text("SELECT pg_sleep(0.5)"))  # longer than other locks are waited for
            assert not two.done()
        two.result().close()
    one.close()


def test_a_lost_database_leaves_the_last_grants_in_force(tmp_path: Path) -> None:
    path = tmp_path / "tenants.db"
    directory = DatabaseDirectory(f"sqlite:///{path}")
    directory.put(GOLD)
    key = directory.issue_key("gold")
    directory.close()
    for file in tmp_path.glob("tenants.db*"):
        file.unlink()
    path.mkdir()
    with pytest.raises(OutputError, match="does not answer"):
        directory.refresh()
    assert directory.by_key(key) == GOLD


def test_wrong_urls_are_named_without_their_password() -> None:
    with pytest.raises(ConfigError, match="the database URL .* is no URL; write sqlite:///PATH"):
        connect("not a url")
    for url in ("mysql://root:very-secret@db/x", "postgres://db/x", "postgresql+psycopg2://db/x"):
        with pytest.raises(
            ConfigError, match="is not supported; write sqlite:///PATH or postgresql://"
        ) as wrong:
            connect(url)
        assert "very-secret" not in str(wrong.value)
    with pytest.raises(OutputError) as error:
        DatabaseDirectory("postgresql://eunomia:very-secret@127.0.0.1:1/none")
    assert "very-secret" not in str(error.value) and "does not answer" in str(error.value)
