"""A policy is asked once before the first request: what takes long is said, and what does not end ends the start."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from numba import njit
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from typer.testing import CliRunner

from eunomia.cli.main import app
from eunomia.contract.view import Assign, View
from eunomia.core.errors import ConfigError
from eunomia.serving.dispatch import warm
from eunomia.serving.dispatch.compiling import MustCompile, only_kept
from eunomia.serving.dispatch.warm import warm_up, warm_up_beside
from eunomia.serving.protocol.errors import BadRequest
from tests.patience import until, until_async
from tests.serving.process import write_server
from tests.serving.test_compiling import shelf_in

LATE = "has not answered within 60 s, asked once before the first request"


class Clock:
    """40 s pass between two looks, once it runs."""

    def __init__(self) -> None:
        self.time_s, self.looks, self.runs = 0.0, 0, False

    def monotonic(self) -> float:
        self.looks += 1
        self.time_s += 40.0 * self.runs
        return self.time_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(warm, "time", found)
    monkeypatch.setattr(warm, "LOOK_S", 0.001)
    return found


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    """Set after the test, so that no thread outlives it."""
    found = threading.Event()
    yield found
    found.set()


def test_a_policy_that_does_not_answer_is_named_and_ends_the_start(
    clock: Clock, may_end: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was, the server started for ever without a word."""

    def endless(view: View) -> list[Assign]:
        clock.runs = True
        may_end.wait()
        return []

    with pytest.raises(ConfigError, match=f"^policy 'endless' {LATE}"):
        warm_up(lambda view: [], endless)
    (word,) = caplog.messages
    assert word == "asking policy 'endless' once before the first request: 40 s so far"


def test_compiling_may_take_long_and_is_said(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    def compiles(view: View) -> list[Assign]:
        with global_compiler_lock:
            clock.runs = True
            until(lambda: len(caplog.messages) >= 5)
            clock.runs, seen = False, clock.looks
            until(lambda: clock.looks >= seen + 2)
        return []

    with caplog.at_level(logging.WARNING):
        warm_up(compiles)
    assert clock.time_s >= 200.0 and all("so far (the first start compiles it)" in m for m in caplog.messages)


def stopped_once(begun: threading.Event, policy: Callable[[View], list[Assign]]) -> None:
    """The start is stopped while it asks this policy."""

    async def main() -> None:
        asking = asyncio.ensure_future(warm_up_beside(policy))
        await until_async(begun.is_set)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(main())


def test_a_start_that_is_stopped_waits_for_no_policy(may_end: threading.Event) -> None:
    """As it was, Ctrl-C had no effect while a policy was asked."""
    begun = threading.Event()

    def endless(view: View) -> list[Assign]:
        begun.set()
        may_end.wait()
        return []

    stopped_once(begun, endless)


def test_a_start_that_is_stopped_waits_for_the_function_that_is_being_compiled_and_no_other() -> None:
    """A process that ends inside the compiler may crash."""
    begun, ended = threading.Event(), list[str]()

    def compiles(view: View) -> list[Assign]:
        with global_compiler_lock:
            begun.set()
            until(lambda: all(one._given_up for one in event._registered[warm.COMPILES]))
            ended.append("first")
        with global_compiler_lock:
            ended.append("second")
        return []

    stopped_once(begun, compiles)
    assert ended == ["first"]


def test_a_policy_that_ends_the_process_ends_it() -> None:
    with pytest.raises(SystemExit, match="no licence"):
        warm_up(lambda view: sys.exit("no licence"))


def test_what_a_policy_would_compile_is_stopped_where_nothing_may_be() -> None:
    """It is asked in another thread, which the ban must reach."""

    @njit  # type: ignore[untyped-decorator]
    def fresh(x: int) -> int:
        return x + 1

    with pytest.raises(MustCompile), only_kept():
        warm_up(lambda view: fresh(len(view)))
    assert not fresh.signatures


def test_a_policy_that_is_put_in_and_does_not_answer_is_refused(
    clock: Clock, may_end: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.runs, shelf = True, shelf_in(tmp_path)
    where = "eunomia.serving.dispatch.shelf.load_source"
    monkeypatch.setattr(where, lambda *_: lambda view: may_end.wait())
    with pytest.raises(BadRequest, match=f"the policy cannot be used: .* {LATE}"):
        shelf.prepare("stuck", {})


def test_the_command_says_so_in_one_sentence(clock: Clock, tmp_path: Path) -> None:
    clock.runs = True
    (tmp_path / "mine.py").write_text("import threading\ndef endless(view):\n    threading.Event().wait()\n")
    words = ["serve", str(write_server(tmp_path)), "-p", f"{tmp_path / 'mine.py'}:endless"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ConfigError) and done.exception.exit_code == 2
    assert str(done.exception).startswith(f"policy 'endless' {LATE}")
