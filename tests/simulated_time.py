"""An event loop whose time is simulated: when nothing is ready, the clock moves on to the next timer at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Seconds pass only while every task waits for a timer."""

    def __init__(self) -> None:
        self.now_s = 0.0
        loop = self

        class Skipping(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> Any:
                loop.now_s += max(timeout or 0.0, 0.0)
                return super().select(0)

        super().__init__(Skipping())

    def time(self) -> float:
        return self.now_s


def run_simulated(main: Callable[[Callable[[], float]], Coroutine[Any, Any, T]]) -> T:
    """The result of ``main(clock)``; ``clock`` gives the simulated seconds."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(main(runner.get_loop().time))
