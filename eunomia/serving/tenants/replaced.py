"""SQLite's file may be replaced under a running server, as by ``mv backup.db tenants.db``.

Its connections would go on with the old file, which nobody finds again: what was changed there would be lost. And the
old file's ``-wal``, which still stands beside the new one, would be read into that. So the old connections empty it and
are closed. For ``APART_S`` the database does not answer, until other servers have noticed, too; then the new file is
opened, with a ``-wal`` of its own: who notices later still, as after a halt, empties the old one alone.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine, QueuePool
from sqlalchemy.exc import SQLAlchemyError

APART_S = 15.0  # three looks of another server (``following``)
WHY = "its file was replaced or removed under this server"
Identity = tuple[int, int]


class OneFile:
    """Of an engine; ``check`` before each use. ``path``: "" = there is no file."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._open: Identity | None = None  # what connections have open
        self._apart_s = math.inf  # when they were closed

    def opens(self) -> None:
        """A connection comes."""
        if self._open is None and self._path:
            self._open = self._there()

    @property
    def replaced(self) -> bool:
        """Whether connections have another file open than the one that is there."""
        return self._open is not None and self._there() != self._open

    def check(self, engine: Engine) -> str:
        """Why the database may not be used now; "" = it may."""
        if self._open is None or (self._apart_s == math.inf and not self.replaced):
            return ""
        with self._lock:
            if self._apart_s == math.inf:
                if none_open(engine) or empty_wal(engine):
                    engine.dispose()
                    self._apart_s = self._clock()
                return f"{WHY}; what is there now is read in {APART_S:g} s"
            left_s = self._apart_s + APART_S - self._clock()
            if left_s > 0.0:
                return f"{WHY}; what is there now is read in {left_s:.0f} s"
            if self._there() is None:
                return f"{WHY}, and there is none: put it back, or a backup"
            begin_wal(self._path)
            self._open, self._apart_s = None, math.inf
            return ""

    def _there(self) -> Identity | None:
        try:
            facts = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:  # nothing says that it is another
            return self._open
        return facts.st_dev, facts.st_ino


def empty_wal(engine: Engine) -> bool:
    """Everything is moved from the ``-wal`` file into the database's own that is open; whether that went well.

    What is left stays valid there.
    """
    with contextlib.suppress(SQLAlchemyError, sqlite3.Error):
        connection = engine.raw_connection()
        try:
            found = connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return found is not None and found[0] == 0
        finally:
            connection.close()
    return False


def begin_wal(path: str) -> None:
    """The last connection to a file deletes its ``-wal``; where there are others, SQLite leaves it to them.

    Not before others have emptied it: what still stands there would go into this file for good.
    """
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=rw", uri=True)) as line,
    ):
        line.execute("SELECT count(*) FROM sqlite_master").fetchone()


def none_open(engine: Engine) -> bool:
    """Whether there are no connections."""
    pool = engine.pool
    return isinstance(pool, QueuePool) and pool.checkedin() + pool.checkedout() == 0
