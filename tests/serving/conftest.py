"""Databases to test with, SQLite and PostgreSQL where its programs are installed; one server for stock clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eunomia.serving.server import Server
from tests.serving import stock
from tests.serving.live import running
from tests.serving.postgres import postgres as own_postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URL of a cluster of its own."""
    with own_postgres("-c fsync=off") as found:
        if found is None:
            pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
        yield found.url.replace("eunomia@", "eunomia:secret@")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of either database; tests of one file share the same PostgreSQL, and leave it as they found it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tenants.db'}"
    found: str = request.getfixturevalue("postgres")
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server as ``running`` makes it, for all tests of a file that leave it as they found it."""
    with running(tmp_path_factory.mktemp("plain")) as live:
        yield live


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same in the event loop that `eunomia serve` has."""
    uvloop = pytest.importorskip("uvloop")
    with running(tmp_path_factory.mktemp("quick"), run=uvloop.run) as live:
        yield live


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stock.Place]:
    """A server in a process of its own, with a small network and a large one."""
    with stock.place(tmp_path_factory.mktemp("server")) as found:
        yield found
