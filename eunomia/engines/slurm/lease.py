"""Three lines for a training loop on leased GPUs: report steps, hear of the end, give back.

::

    lease = Lease(total_steps)
    for step in range(first, total_steps):
        ...
        if lease.step(step + 1):  # time to save
            save(step + 1)
            lease.give_back()
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from eunomia.engines.slurm.submission import GIVES_BACK

EVERY_S = 1.0  # between two reports


class Lease:
    """Outside a leased job it reports nothing and never ends."""

    def __init__(self, total_steps: int) -> None:
        self.total = total_steps
        self.ending = False
        path = os.environ.get("EUNOMIA_STEPS")
        self._path = Path(path) if path else None
        self._from: tuple[float, int] | None = None
        self._said_s = -EVERY_S
        signal.signal(signal.SIGUSR1, self._ends)

    def _ends(self, number: int, frame: object) -> None:
        self.ending = True

    def _ends_soon(self) -> None:
        """Python takes its handlers away when it ends, and the signal would then end it."""
        with contextlib.suppress(ValueError):  # of a thread, which may set none
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def step(self, done: int) -> bool:
        """Say that ``done`` steps of all are finished. True: save now and give back."""
        now_s = time.monotonic()
        began_s, first = self._from = self._from or (now_s, done)
        if self._path and now_s > began_s and (now_s >= self._said_s + EVERY_S or done == self.total):
            self._said_s = now_s
            told = {"steps": done, "total": self.total, "rate": (done - first) / (now_s - began_s)}
            part = self._path.with_suffix(".part")
            with contextlib.suppress(OSError):  # a report is worth no training
                part.write_text(json.dumps(told))
                part.replace(self._path)
        if done >= self.total:
            self._ends_soon()
        return self.ending

    def give_back(self) -> NoReturn:
        """End this run: the job is queued again and runs the same command in its next lease."""
        self._ends_soon()
        sys.exit(GIVES_BACK)
