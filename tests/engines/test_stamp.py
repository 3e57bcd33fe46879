"""What tells versions of this package apart is read once: an edit of the checkout does not end what runs."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from eunomia.core import ray_client
from eunomia.engines import crew


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """A file of a checkout in which the module stands beside it."""
    (tmp_path / "core").mkdir()
    shutil.copy(str(ray_client.__file__), tmp_path / "core" / "ray_client.py")
    return tmp_path / "edited.py"


def load(edited: Path) -> ModuleType:
    """The module of that checkout, as a process that starts now has it."""
    spec = importlib.util.spec_from_file_location("of_a_checkout", edited.parent / "core" / "ray_client.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_edit_between_two_maps_changes_nothing(edited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Pool:
        def map(self, function: Any, tasks: Any, chunksize: int) -> list[Any]:
            return [(True, (task, 0.0)) for task in tasks]

    pickle = SimpleNamespace(dumps=lambda told: told[1][0][1])
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(cloudpickle=pickle))
    monkeypatch.setattr(crew, "stamp_here", load(edited).stamp_here)
    monkeypatch.setattr(crew, "checked", asked.append)
    workers = crew.Workers(crew.OnRay(1))
    workers._pool = Pool()
    assert workers.map(abs, [1, 2]) == [1, 2]
    edited.write_text("changed = True\n")
    assert workers.map(abs, [3]) == [3]
    assert asked[0] == asked[1] != load(edited).stamp_here(), "workers that stand keep theirs, too"


def test_it_is_read_before_workers_start(edited: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, module = load(edited).stamp_here(), load(edited)

    def init(*_: object, **__: object) -> None:
        edited.write_text("changed = True\n")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init))
    assert module.connect()
    assert module.stamp_here() == wanted
