"""A policy of the user's own replays in a process of its own, which is watched; here with stand-ins for the process."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest.mock import Mock

import numpy as np
import pytest

from eunomia.contract.view import View
from eunomia.inference.policies import POLICIES, load_policy
from eunomia.study.serving import apart as module
from eunomia.study.serving.apart import ANSWERS, COMPILING, NoAnswer, _Counted, apart, is_own
from eunomia.study.serving.twin import twin_of
from eunomia.study.serving.twin_predict import predict
from tests.serving.test_replay import waiting_clients

OWN = "mine.py:f"
TWIN: Any = None


class Clock:
    """40 s pass between two looks."""

    time_s: ClassVar[float] = 0.0

    @classmethod
    def monotonic(cls) -> float:
        cls.time_s += 40.0
        return cls.time_s


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> tuple[Mock, Mock]:
    """A process that never answers, and its pipe."""
    process, pipe = Mock(exitcode=3), Mock()
    monkeypatch.setattr(module, "start_worker", lambda *_: (process, pipe))
    monkeypatch.setattr(module, "time", Clock)
    return process, pipe


def test_what_answers_or_compiles_may_take_long(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    process, pipe = started
    board, looks = [-1, 0], 0

    def poll(_: float) -> bool:
        nonlocal looks
        looks += 1
        if looks <= 10:  # it starts
            return False
        board[ANSWERS] = min(looks, 20)
        board[COMPILING] = int(20 < looks <= 30)
        return False

    pipe.poll = poll
    monkeypatch.setattr("multiprocessing.get_context", lambda _: Mock(RawArray=lambda *_: board))
    with pytest.raises(
        NoAnswer, match="'mine.py:f' has not answered within 60 s, after 20 answers in the replay"
    ):
        apart(predict, TWIN, OWN)
    assert 31 <= looks <= 33 and process.kill.called


@pytest.mark.parametrize("happens, says", [(EOFError, "ended with status 3"), (KeyboardInterrupt, "^$")])
def test_a_process_that_ends_is_said_and_ctrl_c_ends_it(
    started: Any, happens: type[BaseException], says: str
) -> None:
    process, pipe = started
    pipe.poll.side_effect = happens if happens is KeyboardInterrupt else None
    pipe.recv.side_effect = happens
    with pytest.raises(KeyboardInterrupt if happens is KeyboardInterrupt else NoAnswer, match=says):
        apart(predict, TWIN, OWN)
    assert process.kill.called and pipe.close.called


def test_who_has_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(POLICIES, "plugins", lambda: {"theirs": None})
    assert all(map(is_own, ("a/mine.py:f", "mine.py:f(x=1)", "theirs", "theirs(x=1)", "theirs+g0.9")))
    assert not any(map(is_own, ("edf+f", "prema(token=2)", "card.json", "rules.toml", "fair_edf")))


def test_counting_changes_nothing() -> None:
    """Its traits are the policy's, its own memory too."""
    twin = twin_of(waiting_clients(0.5))
    board = [0, 0]
    for name in ("weighted_fair", "edf+f"):
        told = predict(twin, _Counted(load_policy(name), name, board))
        plain = predict(twin, name)
        assert (told.name, told.failed) == (name, 0)
        np.testing.assert_array_equal(told.p95_s, plain.p95_s)
    assert board[ANSWERS] >= 40

    def idle(view: View) -> list[Any]:
        return []

    assert not hasattr(_Counted(idle, "idle", board), "wake_s")
