"""Databases to test with: SQLite always, PostgreSQL where its programs are installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.serving import broken


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URL of a cluster of its own."""
    with broken.postgres("-c fsync=off") as found:
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
