"""A Ctrl-C that somebody swallowed is raised at the next place that asks."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from eunomia.core import interrupts


@pytest.fixture(autouse=True)
def usual() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have it ignored


def test_a_swallowed_one_is_raised_again() -> None:
    with interrupts.noted():
        interrupts.check()
        with contextlib.suppress(KeyboardInterrupt):  # as numba does
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    interrupts.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_one_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.noted():
        os.kill(os.getpid(), signal.SIGINT)
        interrupts.check()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)
