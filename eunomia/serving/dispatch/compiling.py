"""A policy that has to be compiled is compiled in a process of its own, beside traffic.

Compiling takes up to a minute of Python, during which the event loop would get the interpreter now and then only. The
machine code stays on disk, where the server finds it. Started as ``python -m eunomia.serving.dispatch.compiling FOLDER
SOURCE [card]``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from eunomia.contract.view import Policy
from eunomia.core.errors import EunomiaError
from eunomia.core.workers import follow_parent, how_it_ended
from eunomia.serving.dispatch.shelf import Files, Placed, PolicyShelf, load_source
from eunomia.serving.dispatch.warm import warm_up
from eunomia.serving.protocol.errors import Unavailable

MOST_S = 240.0
REFUSED = 3  # exit status: the policy cannot be used
POLITE = 5  # who is served goes first


class MustCompile(Exception):
    """There is no machine code of it yet."""


_refusing: ContextVar[object] = ContextVar("_refusing", default=None)


@contextlib.contextmanager
def only_kept() -> Iterator[None]:
    """Inside, this context compiles nothing. Raises MustCompile where it would, whatever came of it."""
    from numba.core import event

    class Refuses(event.Listener):  # type: ignore[misc]  # numba has no types
        met = False

        def on_start(self, _: object) -> None:
            if _refusing.get() is self:
                self.met = True
                raise MustCompile

        def on_end(self, _: object) -> None:
            """Nothing."""

    refuses = Refuses()
    before = _refusing.set(refuses)
    try:
        with event.install_listener("numba:compile", refuses):
            yield
    except Exception:
        if not refuses.met:
            raise
    finally:
        _refusing.reset(before)
    if refuses.met:  # a policy may have swallowed it
        raise MustCompile


def prepare_kept(shelf: PolicyShelf, name: str, files: Files) -> tuple[Placed, Policy]:
    """What ``prepare`` of the shelf gives; raises MustCompile where it has to be compiled first."""
    with only_kept():
        return shelf.prepare(name, files)


async def compile_aside(shelf: PolicyShelf, name: str, files: Files) -> str:
    """To its end, or to that of who waits for it; how it failed, if it did. Raises Unavailable after ``MOST_S``.

    A policy that is at fault itself shows that later.
    """
    source, digest = await asyncio.to_thread(shelf.source_of, name, files)
    words = [str(shelf.folder), source, *(["card"] if digest else [])]
    process = subprocess.Popen(
        [sys.executable, "-m", "eunomia.serving.dispatch.compiling", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(MOST_S):
            _, said = await asyncio.to_thread(process.communicate)
    except TimeoutError:
        raise Unavailable(f"the policy was not compiled within {MOST_S:.0f} s") from None
    finally:
        process.kill()  # where nobody waits for it any more; the thread sees its end
    return "" if process.returncode in (0, REFUSED) else how_it_ended(process.returncode, said)


def main(words: list[str]) -> int:
    """Entry point of the process."""
    folder, source, *card = words
    os.nice(POLITE)
    try:
        warm_up(load_source(Path(folder), source, bool(card)))
    except EunomiaError:
        return REFUSED
    return 0


if __name__ == "__main__":
    follow_parent(os.getppid())
    sys.exit(main(sys.argv[1:]))
