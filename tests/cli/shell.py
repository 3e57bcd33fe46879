"""The command line in this process, as a shell would see it: status, standard output, standard error."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from eunomia.cli.main import status


@dataclass(frozen=True)
class Done:
    """What a command left."""

    code: int
    out: str
    err: str


class Shell:
    """Runs ``eunomia`` with words, in the working directory of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *words: Any) -> Done:
        self.monkeypatch.setattr(sys, "argv", ["eunomia", *map(str, words)])
        code = status()
        out, err = self.capsys.readouterr()
        return Done(code, out, err)
