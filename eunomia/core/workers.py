"""How every worker process begins: it leaves Ctrl-C to its parent, and ends with it."""

from __future__ import annotations

import ctypes
import multiprocessing as mp
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl


def follow_parent(parent: int) -> None:
    """Ignore SIGINT; end by SIGTERM when ``parent``, the process that started this one, is killed.

    Where the system has no such call (macOS), the worker ends when it next looks for work. On Linux it ends with the
    parent's thread that started it, so this thread must live as long as the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGTERM)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it was killed before the call
        os._exit(1)


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """A process that begins inside does not hear SIGINT: it would die of it, with a traceback, before it ignores it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals_to_the_server() -> None:
    """What a terminal or a service manager sends to all processes at once: the server ends this one when it is done."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)


def how_it_ended(status: int, said: bytes) -> str:
    """Of a process that failed: its signal, or its exit status and the last line of what it said."""
    if status < 0:
        outside = -status in (signal.SIGKILL, signal.SIGTERM)
        return f"ended with signal {-status}{': somebody ended it, or memory ran out' if outside else ''}"
    lines = said.decode(errors="replace").strip().splitlines() or ["it said nothing"]
    return f"ended with status {status}: {lines[-1].strip()[:300]}"


def start_worker(target: Callable[..., None], *given: object) -> tuple[BaseProcess, Connection]:
    """A process that runs ``target(pipe, *given)``, and the other end of its pipe, which ends with the process."""
    context = mp.get_context("spawn")  # a fork would copy threads' locks of the libraries in use
    resource_tracker.ensure_running()  # here, as starting it lets Ctrl-C through again
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *given), daemon=True)
    with _no_interrupt():
        process.start()
    theirs.close()
    return process, ours


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back for a moment; a process started inside never sees it, the parent does afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
