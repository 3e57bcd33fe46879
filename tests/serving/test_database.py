"""Tenants in a real database: SQLite always, PostgreSQL where its programs are installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eunomia.errors import ConfigError, OutputError
from eunomia.serving.tenants.database import DatabaseDirectory, connect
from eunomia.serving.tenants.grants import Grant, Promise, hash_key
from eunomia.workload.tenant import Slo

GOLD = Grant(
    "gold", weight=3.0, rate_per_s=50.0, models=frozenset({"a", "b"}),
    promises={"a": Promise(0.05, Slo(0.99)), "*": Promise(1.0, Slo(0.2, "latency_percentile", 99.0), 9.0)},
)  # fmt: skip


def postgres_bin() -> Path | None:
    found = shutil.which("pg_ctl")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return Path(found).parent if found else places[-1] if places else None


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    programs = postgres_bin()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    folder = Path(
        tempfile.mkdtemp(prefix="eunomia-pg-")
    )  # its own user must reach it, which pytest's folders refuse
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    as_user = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [*as_user, str(programs / program), *arguments], check=True, capture_output=True, cwd="/"
        )

    data = str(folder / "data")
    run("initdb", "-D", data, "-A", "trust", "-U", "eunomia", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql://eunomia:secret@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tenants.db'}"
    found: str = request.getfixturevalue("postgres")
    return found


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
    time.sleep(0.02)
    assert directory.by_key(short) is None
    assert directory.revoke_keys("gold") == 4 and directory.by_key(newest) is None
    with pytest.raises(ConfigError, match="unknown tenant 'nobody'"):
        directory.issue_key("nobody")
    directory.remove("gold")
    directory.close()


def test_no_key_stands_in_the_database(tmp_path: Path) -> None:
    directory = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    directory.put(GOLD)
    key = directory.issue_key("gold")
    directory.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key.encode() not in stored and hash_key(key).encode() in stored


def test_another_server_sees_the_change(url: str) -> None:
    one, two = DatabaseDirectory(url), DatabaseDirectory(url)
    one.put(GOLD)
    assert two.by_name("gold") is None
    two.refresh()
    assert two.by_name("gold") == GOLD
    one.remove("gold")
    one.close()
    two.close()


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
    with pytest.raises(ConfigError, match="no URL that SQLAlchemy knows"):
        connect("not a url")
    with pytest.raises(OutputError) as error:
        DatabaseDirectory("postgresql://eunomia:very-secret@127.0.0.1:1/none")
    assert "very-secret" not in str(error.value) and "does not answer" in str(error.value)
