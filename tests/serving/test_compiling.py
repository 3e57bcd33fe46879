"""A policy that has to be compiled: beside traffic, and for nobody who has gone away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from numba import njit
from numba.core import event

from eunomia.contract.guard import Guarded
from eunomia.inference.policies import load_policy
from eunomia.serving.dispatch import compiling
from eunomia.serving.dispatch.compiling import MustCompile, only_kept
from eunomia.serving.dispatch.shelf import Conflict, Files, Placed, PolicyShelf
from eunomia.serving.fronts import policy as front
from eunomia.serving.fronts.policy import PolicyFront
from eunomia.serving.protocol.errors import Unavailable
from eunomia.serving.tenants.grants import Grant
from tests import children
from tests.patience import pauses, until_async

STARVED = "ended with signal 9: somebody ended it, or memory ran out"


def test_what_would_compile_is_stopped_before_it_begins() -> None:
    @njit  # type: ignore[untyped-decorator]
    def fresh(x: int) -> int:
        return x + 1

    with pytest.raises(MustCompile), only_kept():
        fresh(1)
    with pytest.raises(MustCompile), only_kept(), contextlib.suppress(Exception):
        fresh(1)  # as a policy that swallows what its warm-up raises
    assert not fresh.signatures
    with only_kept():
        other = threading.Thread(target=event.start_event, args=("numba:compile",))
        other.start()
        other.join()
    with pytest.raises(ZeroDivisionError), only_kept():
        _ = 1 / 0


def shelf_in(folder: Path) -> PolicyShelf:
    fcfs = load_policy("fcfs")
    return PolicyShelf(Guarded(fcfs, fcfs), Placed("fcfs", "fcfs"), folder, remember=False)


class Compiles:
    """In place of the process: counts who waits for it, and ends when it may."""

    def __init__(self) -> None:
        self.may_end, self.asked, self.left, self.failed = asyncio.Event(), list[str](), 0, ""

    async def aside(self, shelf: PolicyShelf, name: str, files: Files) -> str:
        self.asked.append(name)
        try:
            await self.may_end.wait()
            return self.failed
        except asyncio.CancelledError:
            self.left += 1
            raise


def put(monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[PolicyShelf, Compiles, Any]:
    """A shelf, what compiles for it, and a front whose requests are their own bodies."""

    async def body(http: Any, most: int) -> Any:
        return http

    def must(*_: object) -> None:
        raise MustCompile

    shelf, compiles = shelf_in(folder), Compiles()
    monkeypatch.setattr(front, "control_of", body)
    monkeypatch.setattr(front, "caller_of", lambda http: None)
    monkeypatch.setattr(front, "prepare_kept", must)
    monkeypatch.setattr(front, "compile_aside", compiles.aside)
    service: Any = SimpleNamespace(
        shelf=shelf, fallbacks=dict, require_admin=lambda caller: Grant("root", role="admin")
    )
    return shelf, compiles, PolicyFront(service)


def test_the_answer_comes_when_it_serves_and_until_then_the_one_before_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        shelf, compiles, one = put(monkeypatch, tmp_path)
        asked = asyncio.ensure_future(one._put({"name": "edf"}))
        await until_async(lambda: compiles.asked == ["edf"])
        assert not asked.done() and shelf.now.label == "fcfs"
        compiles.may_end.set()
        said = json.loads((await asked).text)
        assert said["policy"] == shelf.now.label == "edf" and said["took_s"] >= 0.0

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "policy 'edf' is compiled for 'root'; 'fcfs' serves meanwhile" in caplog.text


def test_who_has_gone_away_changes_nothing_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was, the policy changed half a minute after its client had given up."""

    async def main() -> None:
        shelf, compiles, one = put(monkeypatch, tmp_path)
        asked = asyncio.ensure_future(one._put({"name": "edf"}))
        await until_async(lambda: compiles.asked)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        compiles.may_end.set()
        await pauses(2)
        assert compiles.left == 1 and shelf.now.label == "fcfs"
        assert json.loads((await one._put({"name": "sjf"})).text)["policy"] == "sjf", "nothing is locked"

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "policy 'edf' was not put in: 'root' has gone away; 'fcfs' goes on serving" in caplog.text


def test_the_way_back_waits_for_nobody_and_a_policy_judged_against_another_is_refused_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        shelf, compiles, one = put(monkeypatch, tmp_path)
        placed, policy = shelf.prepare("sjf", {})
        shelf.place(placed, policy)
        asked = asyncio.ensure_future(one._put({"name": "edf", "instead_of": "sjf"}))
        await until_async(lambda: compiles.asked)
        assert json.loads((await one._back({})).text)["policy"] == "fcfs"
        compiles.may_end.set()
        with pytest.raises(Conflict, match="'fcfs' serves, not 'sjf'"):
            await asked
        assert shelf.now.label == "fcfs"

    asyncio.run(main())


def test_the_process_asks_the_policy_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed = list[Any]()
    monkeypatch.setattr(compiling, "warm_up", warmed.append)
    monkeypatch.setattr("os.nice", lambda by: 0)
    assert compiling.main([str(tmp_path), "sjf"]) == 0 and len(warmed) == 1
    assert compiling.main([str(tmp_path), "no_such_rule"]) == compiling.REFUSED
    assert compiling.main([str(tmp_path), "x/none.json", "card"]) == compiling.REFUSED and len(warmed) == 1


@pytest.mark.parametrize(
    ("program", "failed"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", STARVED),
        ("import sys; sys.exit('MemoryError')", "ended with status 1: MemoryError"),
        (f"import sys; sys.exit({compiling.REFUSED})", ""),
        ("", ""),
    ],
)
def test_how_the_process_failed_is_known(
    program: str, failed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, nobody looked, and the server compiled what had taken another process all memory."""
    begin = subprocess.Popen
    words = children.python("-S", "-c", program)
    monkeypatch.setattr(subprocess, "Popen", lambda _, **more: begin(words, **more))
    assert asyncio.run(compiling.compile_aside(shelf_in(tmp_path), "edf", {})) == failed


@pytest.mark.parametrize("failed", [STARVED, ""])
def test_what_is_not_kept_is_compiled_in_the_server_only_where_another_process_could(
    failed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A policy in a container without a folder to write to must serve, and who put it in must know what it cost."""

    async def main() -> None:
        shelf, compiles, one = put(monkeypatch, tmp_path)
        compiles.failed = failed
        compiles.may_end.set()
        if failed:
            with pytest.raises(
                Unavailable, match="policy 'edf' is not compiled: the process for it ended with signal 9"
            ):
                await one._put({"name": "edf"})
            assert shelf.now.label == "fcfs"
        else:
            said = json.loads((await one._put({"name": "edf"})).text)
            assert said["policy"] == "edf" and said["note"] == front.NOT_KEPT

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert (front.NOT_KEPT in caplog.text) is not bool(failed)


def test_what_is_kept_once_it_is_compiled_brings_no_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was, the server compiled again without a look at what is kept."""

    async def main() -> None:
        shelf, compiles, one = put(monkeypatch, tmp_path)
        compiles.may_end.set()
        tried = list[str]()

        def second(shelf: PolicyShelf, name: str, files: Files) -> tuple[Placed, Any]:
            tried.append(name)
            if len(tried) == 1:
                raise MustCompile
            return PolicyShelf.prepare(shelf, name, files)

        monkeypatch.setattr(front, "prepare_kept", second)
        monkeypatch.setattr(shelf, "prepare", None)  # compiles, and is not asked
        said = json.loads((await one._put({"name": "edf"})).text)
        assert said["policy"] == "edf" and "note" not in said and len(tried) == 2

    asyncio.run(main())
