"""The children of tests: signals as in a fresh shell, and nothing left over."""

from __future__ import annotations

import os
import select
import signal
import subprocess

import pytest

from tests import children
from tests.patience import PATIENCE_S, until

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT]
IGNORED = """
import signal, sys
print(*(name for name in sys.argv[1].split() if signal.getsignal(getattr(signal, name)) == signal.SIG_IGN))
"""
PARENT = """
import sys
from tests import children
print(children.run(children.python("-c", *sys.argv[1:])).stdout)
"""
FAMILY = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], close_fds=False)
print("ready", flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("ignored", [*([one] for one in SIGNALS), SIGNALS], ids=lambda given: given[0].name)
def test_a_child_hears_signals_that_its_parent_ignores(ignored: list[signal.Signals]) -> None:
    asked = (IGNORED, " ".join(one.name for one in SIGNALS))
    parent = children.run(children.python("-c", *asked), ignoring=ignored)
    assert {one.name for one in ignored} <= set(parent.stdout.split()), "otherwise this test shows nothing"
    child = children.run(children.python("-c", PARENT, *asked), ignoring=ignored)
    assert child.stdout.split() == ["SIGPIPE"], "of which alone Python itself ignores every time"


def test_a_blocked_signal_reaches_a_child() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        asked = "import signal; print(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
        assert children.run(children.python("-c", asked)).stdout.strip() == "0"
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_nothing_of_a_child_is_left_after_its_block() -> None:
    ours, theirs = os.pipe()
    with children.started(
        children.python("-c", FAMILY), stdout=subprocess.PIPE, pass_fds=[theirs]
    ) as process:
        os.close(theirs)
        assert children.first_line(process) == "ready"
        assert not select.select([ours], [], [], 0)[0], "child and grandchild hold the other end"
    assert process.returncode == -signal.SIGKILL
    assert select.select([ours], [], [], PATIENCE_S)[0] and os.read(ours, 1) == b""
    os.close(ours)


def test_waiting_for_a_process_that_has_ended_fails_at_once() -> None:
    with (
        children.started(children.python("-c", "raise SystemExit(3)")) as process,
        pytest.raises(AssertionError, match="ended with 3"),
    ):
        until(lambda: False, process)
