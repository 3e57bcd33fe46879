"""Processes that tests start: with the signals of a fresh shell, and ended with the test.

A process inherits which signals are ignored: under ``nohup`` or as a background job of a shell, pytest and all that it
starts ignore SIGINT or SIGHUP. A test that sends a signal would then wait for ever. Every child therefore starts
through a small program that restores the signals and then becomes the child (the process number stays the same).
No function runs between fork and exec, because the threads of gRPC and NumPy make that unsafe.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
WITHOUT = ROOT / "tests" / "without"
RESTORE = """
import os, signal, sys
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGQUIT"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
for name in filter(None, sys.argv[1].split(",")):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
os.execvp(sys.argv[2], sys.argv[2:])
"""


def python(*words: object) -> list[str]:
    """``python WORDS...`` with this interpreter."""
    return [sys.executable, *map(str, words)]


def eunomia(*words: object) -> list[str]:
    """The command line of this checkout."""
    return python("-m", "eunomia", *words)


def run(
    command: Sequence[object], *, ignoring: Sequence[signal.Signals] = (), env: Mapping[str, str] | None = None,
    **more: Any,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run to the end; output and errors as text. ``ignoring``: signals that the child finds ignored."""
    given = {"capture_output": True, "text": True, "timeout": PATIENCE_S} | more
    return subprocess.run(_restored(command, ignoring), env=_environment(env), **given)


@contextmanager
def started(
    command: Sequence[object], *, ignoring: Sequence[signal.Signals] = (), env: Mapping[str, str] | None = None,
    **more: Any,
) -> Iterator[subprocess.Popen[Any]]:  # fmt: skip
    """A process with a group of its own; after the block, whatever is left of the group is killed.

    Standard output and errors are discarded unless ``stdout`` and ``stderr`` say otherwise.
    """
    given = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "text": True} | more
    with subprocess.Popen(
        _restored(command, ignoring), env=_environment(env), start_new_session=True, **given
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def first_line(process: subprocess.Popen[str]) -> str:
    """The first line of its standard output; AssertionError when it ends without one."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE_S)[0], f"no output in {PATIENCE_S:.0f} s"
    line = process.stdout.readline()
    assert line, f"the process ended with {process.wait()} and without output"
    return line.strip()


def interrupt(process: subprocess.Popen[Any]) -> None:
    """Ctrl-C as a terminal sends it: to the process and its workers alike."""
    os.killpg(process.pid, signal.SIGINT)


def _restored(command: Sequence[object], ignoring: Sequence[signal.Signals]) -> list[str]:
    names = ",".join(one.name for one in ignoring)
    return [sys.executable, "-I", "-S", "-c", RESTORE, names, *map(str, command)]


def _environment(more: Mapping[str, str] | None) -> dict[str, str]:
    """This process's, with the checkout first on Python's path, and without pandas (``tests/without``).

    A pytest among them loads no plugins but those that it names: what is installed takes a second to import.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), str(WITHOUT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(more or {})}
