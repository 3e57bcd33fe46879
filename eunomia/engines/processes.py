"""The same function over many cells on all cores or a Ray cluster: deterministic, resumable, stopped by Ctrl-C."""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from eunomia.core import interrupts
from eunomia.core.errors import EunomiaError, OutputError
from eunomia.core.workers import follow_parent, start_worker
from eunomia.engines.ray_cluster import connected, on_ray
from eunomia.engines.store import CellStore

HERE = "processes"  # of this machine
Result = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One piece of work: ``key`` identifies its content, ``name`` is for people."""

    key: str
    name: str
    payload: Any


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: a result, or the sentence that says why there is none."""

    cell: Cell
    result: Result | None = None
    failure: str | None = None
    reused: bool = False


class Interrupted(EunomiaError):
    """Ctrl-C in the middle: finished cells are kept."""

    exit_code = 130

    def __init__(self, done: int, total: int, folder: Path | None) -> None:
        kept = f"; they are kept in {folder}, run the same command again to go on" if folder else ""
        super().__init__(f"stopped: {done} of {total} cells are finished{kept}")
        self.done, self.total, self.folder = done, total, folder


def map_cells(
    cells: Sequence[Cell],
    function: Callable[[Any], Result],
    workers: int = 1,
    on_done: Callable[[Outcome], None] | None = None,
    store: Path | None = None,
    on: str = HERE,
) -> list[Outcome]:
    """Outcomes in the order of ``cells``, the same for any number of ``workers``, here or ``on`` a Ray cluster.

    ``function`` takes a payload and returns a JSON-able dict; with more than one worker both must
    be picklable. With ``store``, each finished cell is written there at once and atomically, and
    found again on the next call. A cell that raises, or whose worker dies, becomes a failed Outcome
    and the others go on. Raises Interrupted on Ctrl-C.
    """
    kept = CellStore(store) if store is not None else None
    outcomes: dict[int, Outcome] = {}
    notify = on_done or (lambda outcome: None)
    try:
        for index, cell in enumerate(cells):
            found = kept.read(cell.key) if kept else None
            if found is not None:
                outcomes[index] = Outcome(cell, found, reused=True)
                notify(outcomes[index])
        todo = deque(index for index in range(len(cells)) if index not in outcomes)

        def done(index: int, outcome: Outcome) -> None:
            outcomes[index] = outcome
            notify(outcome)

        if on != HERE:
            tasks = [(index, (cells[index], function, None)) for index in todo]
            with connected(on, workers):
                for index, answer in on_ray(attempt, tasks, workers):
                    outcome = Outcome(cells[index], failure=answer) if isinstance(answer, str) else answer
                    done(index, keep(outcome, kept))
        else:
            run = _run_here if workers <= 1 or len(todo) <= 1 else _run_in_pool
            run(cells, todo, function, workers, kept, done)
    except KeyboardInterrupt:
        finished = sum(outcome.result is not None for outcome in outcomes.values())
        raise Interrupted(finished, len(cells), store) from None
    return [outcomes[index] for index in range(len(cells))]


def attempt(cell: Cell, function: Callable[[Any], Result], kept: CellStore | None) -> Outcome:
    """Run one cell and write its result down; an error becomes a sentence."""
    try:
        result = json.loads(json.dumps(function(cell.payload)))  # as it will be read back
    except EunomiaError as error:
        return Outcome(cell, failure=str(error))
    except OSError as error:
        return Outcome(cell, failure=f"{error.strerror or error} ({error.filename or 'no file'})")
    except MemoryError:
        return Outcome(cell, failure="out of memory")
    except (Exception, SystemExit) as error:  # a third party's policy may raise anything; the others go on
        return Outcome(cell, failure=f"{type(error).__name__}: {error}")
    return keep(Outcome(cell, result), kept)


def keep(outcome: Outcome, kept: CellStore | None) -> Outcome:
    """The same, written down if it is a result. Raises OutputError."""
    if kept and outcome.result is not None:
        kept.write(outcome.cell.key, outcome.cell.name, outcome.result)
    return outcome


def _run_here(
    cells: Sequence[Cell],
    todo: deque[int],
    function: Callable[[Any], Result],
    workers: int,
    kept: CellStore | None,
    done: Callable[[int, Outcome], None],
) -> None:
    for index in todo:
        interrupts.check()  # one that came while foreign code ran may be lost
        done(index, attempt(cells[index], function, kept))


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    index: int | None = None  # the cell it works on; None = idle


def _run_in_pool(
    cells: Sequence[Cell],
    todo: deque[int],
    function: Callable[[Any], Result],
    workers: int,
    kept: CellStore | None,
    done: Callable[[int, Outcome], None],
) -> None:
    crew: list[_Worker] = []
    try:
        for _ in range(min(workers, len(todo))):
            crew.append(_start(function, kept))
        while todo or any(worker.index is not None for worker in crew):
            interrupts.check()
            for slot, worker in enumerate(crew):
                if worker.index is None and todo:
                    crew[slot] = _hand_over(worker, todo.popleft(), cells, function, kept)
            busy = {worker.pipe: slot for slot, worker in enumerate(crew) if worker.index is not None}
            for pipe in wait(list(busy)):
                slot = busy[pipe]  # type: ignore[index]
                index = crew[slot].index
                assert index is not None
                outcome, crew[slot] = _collect(crew[slot], cells[index], bool(todo), function, kept)
                done(index, outcome)
    finally:
        for worker in crew:
            worker.pipe.close()
            worker.process.terminate()
        for worker in crew:
            worker.process.join(timeout=5.0)


def _start(function: Callable[[Any], Result], kept: CellStore | None) -> _Worker:
    return _Worker(*start_worker(_work, function, kept, os.getpid()))


def _hand_over(
    worker: _Worker,
    index: int,
    cells: Sequence[Cell],
    function: Callable[[Any], Result],
    kept: CellStore | None,
) -> _Worker:
    try:
        worker.pipe.send(cells[index])
    except OSError:  # it died while idle
        worker = _start(function, kept)
        worker.pipe.send(cells[index])
    worker.index = index
    return worker


def _collect(
    worker: _Worker, cell: Cell, more: bool, function: Callable[[Any], Result], kept: CellStore | None
) -> tuple[Outcome, _Worker]:
    """The answer of a worker that has one; a dead worker is replaced while there is work left."""
    try:
        outcome = worker.pipe.recv()
        worker.index = None
        if isinstance(outcome, OutputError):
            raise outcome
        return outcome, worker
    except (EOFError, ConnectionResetError):
        worker.process.join(timeout=5.0)
        code = worker.process.exitcode
        killed = code is not None and code < 0
        why = f"signal {-(code or 0)}), perhaps for lack of memory" if killed else f"exit status {code})"
        failed = Outcome(cell, failure=f"its worker process died ({why}")
        worker.index = None
        return failed, _start(function, kept) if more else worker


def _work(pipe: Connection, function: Callable[[Any], Result], kept: CellStore | None, parent: int) -> None:
    """What a worker does: take a cell, answer, until the parent is gone."""
    follow_parent(parent)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - lives as long as the process
    while True:
        try:
            cell = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: Outcome | OutputError = attempt(cell, function, kept)
        except OutputError as error:
            answer = error
        try:
            pipe.send(answer)
        except (BrokenPipeError, OSError):
            return
