"""A user without a home, as in a container, keeps nothing, and is told where it may."""

from __future__ import annotations

from pathlib import Path

import pytest

from eunomia.config.server import demo_server
from eunomia.core.caches import NOWHERE, cache_home
from eunomia.core.errors import ConfigError
from eunomia.hardware import cache
from eunomia.study.serving.server import server_options


@pytest.fixture(autouse=True)
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "EUNOMIA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])


def test_who_names_a_folder_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_home() == NOWHERE
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_home() == tmp_path
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_home() == tmp_path / ".cache"


def test_a_server_is_refused_by_name_and_costs_are_worked_out_anew() -> None:
    """Both ended with the interpreter's own words."""
    with pytest.raises(ConfigError, match="set cache_dir in the server file, or XDG_CACHE_HOME"):
        server_options(demo_server())
    cache.write("key", {name: [1.0] for name in cache.COLUMNS})
    assert cache.read("key", 1) is None
