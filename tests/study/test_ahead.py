"""A process beside the demo compiles what its rehearsal needs."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from eunomia.study.inference.ahead import compiling_beside
from tests import children


def test_all_that_it_names_can_be_compiled() -> None:
    program = "import os; from eunomia.study.inference.ahead import main; main(os.getppid())"
    done = children.run(children.python("-c", program))
    assert (done.returncode, done.stderr) == (0, "")


def test_it_ends_with_the_block_and_begins_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    real = subprocess.Popen

    def noted(*words: Any, **more: Any) -> Any:
        begun.append(real(*words, **more))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with compiling_beside(wanted=False):
        assert begun == []
    with pytest.raises(KeyError), compiling_beside():
        raise KeyError("a fault in the block")
    assert [process.poll() is not None for process in begun] == [True]
