"""Processes that take one task after another, each over a pipe of its own.

They share no lock: a process that is ended in the middle of a message leaves nobody waiting. ``multiprocessing.Pool``
may wait for ever: for a lock that an ended worker held, and for the answer of a worker that has died.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

from eunomia.core.errors import EunomiaError
from eunomia.core.workers import follow_parent, start_worker

Task = TypeVar("Task")
Result = TypeVar("Result")
Raised = TypeVar("Raised", bound=BaseException)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection


class Pool:
    """``count`` processes until :meth:`close`."""

    def __init__(self, count: int) -> None:
        self._workers: list[_Worker] = []
        try:
            for _ in range(count):
                self._workers.append(_Worker(*start_worker(_work, os.getpid())))
        except BaseException:  # Ctrl-C, too
            self.close()
            raise

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """``function`` of every task, in order; both must be picklable.

        Raises the error of the first task that fails, and EunomiaError if a process dies.
        """
        results: dict[int, Result] = {}
        errors: dict[int, BaseException] = {}
        todo, idle = iter(enumerate(tasks)), list(self._workers)
        busy: dict[Connection, tuple[_Worker, int]] = {}
        while True:
            while idle and not errors and (given := next(todo, None)) is not None:
                worker, (index, task) = idle.pop(), given
                with suppress(OSError):  # it has died, which its pipe tells below
                    worker.pipe.send((function, task))
                busy[worker.pipe] = worker, index
            if not busy:
                break
            for pipe in wait(list(busy)):
                worker, index = busy.pop(pipe)  # type: ignore[call-overload]
                idle.append(worker)
                try:
                    failed, answer = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    failed, answer = True, _died(worker)
                if failed:
                    errors[index] = answer
                else:
                    results[index] = answer
        if errors:
            raise errors[min(errors)]
        return [results[index] for index in range(len(tasks))]

    def close(self) -> None:
        """End the processes, at work or not."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(timeout=5.0)


def _died(worker: _Worker) -> EunomiaError:
    worker.process.join(timeout=5.0)
    code = worker.process.exitcode or 0
    why = f"by signal {-code}, perhaps for lack of memory" if code < 0 else f"with exit status {code}"
    return EunomiaError(f"a worker process ended {why}; run the same command again, with fewer workers")


def _work(pipe: Connection, parent: int) -> None:
    """What a process does: take a task, answer, until the parent is gone."""
    follow_parent(parent)
    while True:
        try:
            function, task = pipe.recv()
        except (EOFError, OSError):
            return
        answer: tuple[bool, object]
        try:
            answer = False, function(task)
        except (Exception, SystemExit) as error:  # a third party's policy may raise anything
            answer = True, portable(error)
        try:
            pipe.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            return


def portable(error: Raised) -> Raised | Exception:
    """The error with the place where it was raised, or its text in place of an error that cannot be sent."""
    error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # its class takes other arguments than its text
        if not isinstance(error, EunomiaError):
            return RuntimeError(f"{type(error).__name__}: {error}")
        plain = EunomiaError(str(error))
        plain.exit_code = error.exit_code
        return plain
    return error
