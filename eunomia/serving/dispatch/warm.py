"""Asking a policy once before the first request, so that no request waits for its compilation.

It is asked in a thread of its own, which nobody can end: a policy that does not answer ends the start instead. Machine
code that never gives up the interpreter's lock stops this, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import time
from collections.abc import Iterator

import numpy as np
from numba.core import event

from eunomia.contract.guard import asked
from eunomia.contract.traits import title
from eunomia.contract.view import ACCELERATOR, READY, SYSTEM, Policy, View
from eunomia.core.errors import ConfigError

log = logging.getLogger("eunomia.serving")
MOST_S = 60.0  # for its first answer; time in which it is compiled does not count
SILENT_S, AGAIN_S = 3.0, 10.0  # until the first word about a policy that takes long; between two
COMPILES = "numba:compiler_lock"  # event around all that numba compiles, C callbacks too
FIRST_S, LOOK_S = 1e-3, 0.25  # until the first look; most between two


def warm_up(*policies: Policy) -> None:
    """Ask each policy about one waiting sub-job and one idle device; errors are left to the guard.

    A warning names one that takes long. Raises ConfigError for one that does not answer within ``MOST_S``.
    """
    for policy in policies:
        with _asking(policy) as asking:
            for look_s in asking.looks():
                asking.over.wait(look_s)


async def warm_up_beside(*policies: Policy) -> None:
    """The same, beside other tasks of an event loop, by which it can be cancelled."""
    for policy in policies:
        with _asking(policy) as asking:
            for look_s in asking.looks():
                await asyncio.sleep(look_s)


class _GivenUp(Exception):
    """Nobody waits for the answer any more."""


class _Asking(event.Listener):  # type: ignore[misc]  # numba has no types
    """One question to one policy, under way until it is ``over``."""

    def __init__(self, policy: Policy) -> None:
        self.name, self.over = title(policy), threading.Event()
        self._ends, self._given_up = list[BaseException](), False
        self._compiling = 0  # functions, one inside the other
        here = contextvars.copy_context()  # says whether it may compile
        self.thread = threading.Thread(target=here.run, args=(self._ask, policy), daemon=True)

    def _ask(self, policy: Policy) -> None:
        try:
            asked(policy, small_view())
        except Exception:  # the guard will meet it again, count it and fall back
            return
        except BaseException as error:  # as from sys.exit
            self._ends.append(error)
        finally:
            self.over.set()

    def on_start(self, _: object) -> None:
        """A function is compiled, in whatever thread."""
        if threading.get_ident() == self.thread.ident:
            self._compiling += 1
            if self._given_up:
                raise _GivenUp

    def on_end(self, _: object) -> None:
        """It is."""
        self._compiling -= threading.get_ident() == self.thread.ident

    def looks(self) -> Iterator[float]:
        """Seconds until the next look, while it has not answered. Raises what ends the process, and ConfigError."""
        began_s = looked_s = time.monotonic()
        said_s, alone_s, look_s = began_s + SILENT_S - AGAIN_S, 0.0, FIRST_S
        while not self.over.is_set():
            yield look_s
            look_s, now_s = min(2.0 * look_s, LOOK_S), time.monotonic()
            alone_s += 0.0 if self._compiling > 0 else now_s - looked_s
            looked_s = now_s
            if alone_s > MOST_S and not self.over.is_set():
                raise ConfigError(
                    f"policy '{self.name}' has not answered within {MOST_S:g} s, asked once before the first request; "
                    "it must return a list of starts, which may be empty"
                )
            if now_s - said_s >= AGAIN_S:
                said_s, compiled = now_s, " (the first start compiles it)" if self._compiling > 0 else ""
                asking = f"asking policy '{self.name}' once before the first request"
                log.warning("%s: %.0f s so far%s", asking, now_s - began_s, compiled)
        for error in self._ends:
            raise error

    def leave(self) -> None:
        """Wait for it no longer; but a process must not end in the midst of the compiler."""
        self._given_up = True
        if self._compiling > 0:
            self.over.wait(MOST_S)


@contextlib.contextmanager
def _asking(policy: Policy) -> Iterator[_Asking]:
    asking = _Asking(policy)
    with event.install_listener(COMPILES, asking):
        asking.thread.start()
        try:
            yield asking
        finally:
            asking.leave()


def small_view() -> View:
    """One waiting sub-job, one idle device."""
    ready, accelerators, system = np.zeros(1, READY), np.zeros(1, ACCELERATOR), np.zeros(1, SYSTEM)
    ready["deadline_s"], ready["layers_total"], ready["accelerator"], ready["bound"] = 1.0, 1, -1, -1
    for name in ("slo", "sli"):
        ready[name] = np.nan
    for name in ("work_best_s", "work_mean_s", "path_best_s", "path_mean_s", "iso_best_s", "iso_mean_s"):
        ready[name] = 1e-3
    ready["weight"], ready["priority"] = 1.0, 1.0
    accelerators["request"], accelerators["last_request"] = -1, -1
    system["bandwidth_bytes_s"], system["live"] = np.inf, 1
    costs = np.full((1, 1), 1e-3)
    for array in (ready, accelerators, costs):
        array.setflags(write=False)
    return View(system[0], ready, accelerators, costs, costs, costs)
