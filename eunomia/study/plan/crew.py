"""Trials on all cores, each kept on disk when it is done; the answers do not depend on the number of processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from eunomia.core.data import Data
from eunomia.core.errors import EunomiaError
from eunomia.engines.crew import Workers
from eunomia.engines.processes import Cell, Interrupted, attempt
from eunomia.engines.store import CellStore
from eunomia.study.plan.trial import Order, run_order

OnTrials = Callable[[int, str], None]  # how many are done, and of what stage


class Trials:
    """Use it in a ``with`` block. ``store``: the folder of finished trials; None = they are not kept."""

    def __init__(self, workers: int, store: Path | None, on_done: OnTrials | None = None) -> None:
        self._workers, self._size = Workers(workers), max(1, workers)
        self._store = CellStore(store) if store is not None else None
        self._folder, self._on_done = store, on_done
        self._known: dict[str, Data] = {}
        self.simulated = self.reused = self.runs = 0

    def __enter__(self) -> Trials:
        self._workers.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workers.__exit__(kind, error, trace)
        if isinstance(error, KeyboardInterrupt):
            done = self.simulated + self.reused
            stopped = Interrupted(done, done, self._folder)
            kept = (
                f"; they are kept in {self._folder}, run the same command again to go on"
                if self._folder
                else ""
            )
            stopped.args = (f"stopped after {done} trials{kept}",)
            raise stopped from None

    def run(self, orders: Sequence[Order], stage: str) -> list[Data]:
        """The results, in order. Raises EunomiaError for a trial that fails: its platform or policy cannot run."""
        cells = [order.cell(stage) for order in orders]
        todo = []
        for cell in {cell.key: cell for cell in cells}.values():
            if cell.key in self._known:
                continue
            found = self._store.read(cell.key) if self._store else None
            if found is None:
                todo.append(cell)
            else:
                self._note(cell, found, stage, reused=True)
        for first in range(0, len(todo), self._size):
            self._do(todo[first : first + self._size], stage)
        return [self._known[cell.key] for cell in cells]

    def _do(self, cells: Sequence[Cell], stage: str) -> None:
        for outcome in self._workers.map(partial(attempt, function=run_order, kept=None), cells):
            if outcome.result is None:
                raise EunomiaError(f"a platform could not be tried: {outcome.failure}")
            if self._store:
                self._store.write(outcome.cell.key, outcome.cell.name, outcome.result)
            self._note(outcome.cell, outcome.result, stage, reused=False)

    def _note(self, cell: Cell, result: Data, stage: str, reused: bool) -> None:
        self._known[cell.key] = result
        self.reused += reused
        self.simulated += not reused
        self.runs += 0 if reused else int(result["runs"])
        if self._on_done is not None:
            self._on_done(self.simulated + self.reused, stage)
