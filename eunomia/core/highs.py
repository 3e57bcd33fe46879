"""HiGHS without its banner: version 1.16 prints one to standard output, where ``--json`` has one document."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import highspy

_first = threading.Lock()
_seen = False  # the banner comes with the first solver of a process alone


def silent_solver() -> highspy.Highs:
    """A new HiGHS that prints nothing. Raises ImportError where highspy is missing."""
    import highspy

    global _seen
    with _first:
        with contextlib.nullcontext() if _seen else _no_output():
            solver = highspy.Highs()  # type: ignore[no-untyped-call]
        _seen = True
    solver.setOptionValue("output_flag", False)
    return solver


@contextlib.contextmanager
def _no_output() -> Iterator[None]:
    """What C++ writes to standard output goes nowhere meanwhile; nothing changes where there is none."""
    try:
        sys.stdout.flush()
        kept = os.dup(1)
    except (OSError, AttributeError, ValueError):  # closed, or replaced by something without a file
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
