"""How a run is ended in its midst.

ONNX Runtime looks at a flag of the run's options before each node, in each turn of a loop. The thread that
hears of it (``aside``) raises the flag if the process still works on that run. Nobody can end one node in its midst;
then the front end ends the process (``watching``).
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Protocol

NOTHING = 0  # numbers of runs lie above it, those of trials of sizes below


class RunOptions(Protocol):
    """Of onnxruntime."""

    terminate: bool


class Ending:
    """The one run that a process works on, and the flag that ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = NOTHING
        self.ended = False  # the run that it works on

    @cached_property
    def options(self) -> RunOptions:
        """What every run of this process's main thread is given."""
        import onnxruntime as ort

        options: RunOptions = ort.RunOptions()
        return options

    def begin(self, number: int) -> None:
        """The process works on this run."""
        with self._lock:
            self._number = number

    def over(self) -> None:
        """It does not any more."""
        with self._lock:
            self._number = NOTHING
            if self.ended:
                self.options.terminate = self.ended = False

    def end(self, number: int) -> bool:
        """End this run, if it is still the one; whether it is."""
        with self._lock:
            if number == self._number:
                self.options.terminate = self.ended = True
            return number == self._number
