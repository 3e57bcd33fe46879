"""A replay under a policy of the user's own, in a process of its own: one that never answers ends with a sentence.

Nothing inside a process can end machine code that keeps the interpreter's lock, nor a policy that catches everything.
So the process counts the answers, and is killed where none comes. Time in which it compiles does not count.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import re
import time
from collections.abc import Callable, MutableSequence
from multiprocessing.connection import Connection
from typing import TypeVar

from numba.core import event

from eunomia.contract.view import Assign, Policy, View
from eunomia.core.errors import ConfigError
from eunomia.core.workers import follow_parent, how_it_ended, start_worker
from eunomia.engines.pool import portable
from eunomia.inference.policies.catalogue import OWN_FILE, POLICIES, load_policy
from eunomia.serving.dispatch.warm import COMPILES, MOST_S
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.serving.twin import Twin

Found = TypeVar("Found")
Board = MutableSequence[int]  # what both processes see: answers so far, functions that are compiled now
ANSWERS, COMPILING = 0, 1
LOOK_S = 0.1
BOARD = "q"  # its numbers' type


class NoAnswer(ConfigError):
    """A policy that does not answer, or ends its process."""


def apart(replay: Callable[[Twin, PolicyLike], Found], twin: Twin, policy: str) -> Found:
    """``replay(twin, policy)``. Raises NoAnswer for a policy that does not answer within ``MOST_S``.

    Eunomia's own policies answer: they need no process of their own.
    """
    if not is_own(policy):
        return replay(twin, policy)
    board: Board = mp.get_context("spawn").RawArray(BOARD, [-1, 0])
    process, pipe = start_worker(_work, board, replay, twin, policy, os.getpid())
    try:
        _wait(pipe, board, policy)
        try:
            failed, found = pipe.recv()
        except (EOFError, ConnectionResetError):
            process.join()
            why = how_it_ended(process.exitcode or 0, b"")
            raise NoAnswer(f"the replay under policy '{policy}' {why}; correct the policy") from None
    finally:
        process.kill()
        process.join()
        pipe.close()
    if failed:
        raise found
    return found  # type: ignore[no-any-return]  # what the other process sent


def is_own(policy: str) -> bool:
    """Whether the code is the user's, or that of another package."""
    name = re.split(r"[(+]", policy.strip())[0]
    return OWN_FILE.fullmatch(policy.strip()) is not None or name in POLICIES.plugins()


def _wait(pipe: Connection, board: Board, policy: str) -> None:
    """Until it has said something, or is gone."""
    seen, since_s = board[ANSWERS], time.monotonic()
    while not pipe.poll(LOOK_S):
        now_s = time.monotonic()
        if board[ANSWERS] != seen or board[ANSWERS] < 0 or board[COMPILING] > 0:
            seen, since_s = board[ANSWERS], now_s
        elif now_s - since_s > MOST_S:
            raise NoAnswer(
                f"policy '{policy}' has not answered within {MOST_S:g} s, after {seen} answers in the replay; "
                "it must return a list of starts, which may be empty"
            )


class _Counted:
    """A policy whose answers are counted."""

    def __init__(self, policy: Policy, name: str, board: Board) -> None:
        self.name, self._policy, self._board = name, policy, board

    def __call__(self, view: View) -> list[Assign]:
        """The policy's."""
        answer = list(self._policy(view))
        self._board[ANSWERS] += 1
        return answer

    def __getattr__(self, trait: str) -> object:
        """The policy's."""
        return getattr(self._policy, trait)


class _Compiles(event.Listener):  # type: ignore[misc]  # numba has no types
    """Notes that functions are compiled, one inside the other."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def on_start(self, _: object) -> None:
        """One more."""
        self._board[COMPILING] += 1

    def on_end(self, _: object) -> None:
        """One less."""
        self._board[COMPILING] -= 1


def _work(
    pipe: Connection,
    board: Board,
    replay: Callable[[Twin, PolicyLike], object],
    twin: Twin,
    policy: str,
    parent: int,
) -> None:
    """What the process does."""
    follow_parent(parent)
    board[ANSWERS] = 0
    answer: tuple[bool, object]
    try:
        with event.install_listener(COMPILES, _Compiles(board)):
            found = load_policy(resolve_policy(policy))
            answer = False, replay(twin, _Counted(found, policy_name(policy), board))
    except Exception as error:
        answer = True, portable(error)
    pipe.send(answer)
