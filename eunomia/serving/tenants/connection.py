"""The database behind tenants: how it is reached, what a transaction is, and how its tables come to be."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, SQLAlchemyError

from eunomia.core.data import Json
from eunomia.core.errors import ConfigError, OutputError
from eunomia.serving.tenants.replaced import WHY, OneFile, empty_wal
from eunomia.serving.tenants.tables import TENANT

DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
# A PostgreSQL that has silently gone away is given up after seconds, not after the system's two hours.
PATIENCE = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
AGAIN_S = 0.01  # between two tries to switch a new file over
LOCK_MS = 5_000  # so long one change waits for another
IDLE_MS = 30_000  # a server that stands still inside a change loses it, in PostgreSQL
_files: WeakKeyDictionary[Engine, OneFile] = WeakKeyDictionary()  # of SQLite
MIGRATION_LOCK = 0x65756E6F  # of PostgreSQL's advisory locks: any number that is ours


def connect(url: str) -> Engine:
    """An engine whose connections are checked before use; raises ConfigError for a URL that means nothing."""
    try:
        parsed = make_url(url)
        if parsed.drivername not in DRIVERS:
            raise ConfigError(
                f"the database '{parsed.drivername}' is not supported; write sqlite:///PATH or postgresql://USER@HOST/NAME"
            )
        parsed = parsed.set(drivername=DRIVERS[parsed.drivername])
        if parsed.get_backend_name() == "sqlite" and parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed, pool_pre_ping=True, connect_args=_patience(parsed))
    except ArgumentError:
        shown = f"'{url}' " if "@" not in url else ""  # else it may hold a password
        raise ConfigError(
            f"the database URL {shown}is no URL; write sqlite:///PATH (three slashes, four before an absolute path) or "
            "postgresql://USER@HOST/NAME"
        ) from None
    except ImportError as error:
        raise ConfigError(f"the database needs a driver: {error} (pip install 'eunomia[postgres]')") from None
    if parsed.get_backend_name() == "sqlite":
        path = parsed.database or ":memory:"
        file = _files[engine] = OneFile(
            "" if path.startswith((":memory:", "file:")) else os.path.abspath(path)
        )
        event.listen(engine, "do_connect", _only(file))
        event.listen(engine, "do_connect", _keep_private)
        event.listen(engine, "do_connect", lambda *_: file.opens())
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


@contextlib.contextmanager
def transaction(engine: Engine, *, writes: bool, patient: bool = False) -> Iterator[Connection]:
    """All or nothing; without ``writes``, one moment of the database however many queries follow.

    Raises OutputError, in one sentence that holds no password; ConfigError for a value that no column holds.
    SQLite: whoever writes waits for other writers before it reads anything. ``patient``: PostgreSQL's locks are
    waited for as long as it takes.
    """
    where, file = engine.url.render_as_string(hide_password=True), _files.get(engine)
    if file is not None and (why := file.check(engine)):
        raise OutputError(f"the database {where} does not answer: {why}")
    opened = False
    try:
        with engine.execution_options(**_options(engine, writes)).begin() as db:
            opened = True
            if file is not None and file.replaced:  # since the check: what is changed now would be lost
                raise OutputError(f"the database {where} does not answer: {WHY}")
            if writes and engine.dialect.name == "postgresql":
                db.exec_driver_sql(f"SET LOCAL lock_timeout = {0 if patient else LOCK_MS}")
                db.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_MS}")
            yield db
    except DataError as error:
        raise ConfigError(f"the database cannot hold such a value: {_reason(error)}") from None
    except SQLAlchemyError as error:
        gone = not opened or getattr(error, "connection_invalidated", False)
        verb, remedy = (
            ("does not answer", "; start it, or correct the key database") if gone else ("refuses", "")
        )
        raise OutputError(f"the database {where} {verb}: {_reason(error)}{remedy}") from None


def migrate(engine: Engine) -> None:
    """Bring the tables to this version's state, one server at a time however long each takes; raises OutputError."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with transaction(engine, writes=True, patient=True) as db:
        if engine.dialect.name == "postgresql":
            db.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            db.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_MS}")
        config.attributes["connection"] = db
        command.upgrade(config, "head")


def is_new(engine: Engine) -> bool:
    """Whether there are no tables yet; raises OutputError."""
    with transaction(engine, writes=False) as db:
        return not inspect(db).has_table(TENANT.name)


def place_of(engine: Engine) -> str:
    """Where it is: SQLite's file, as an absolute path, or a URL without its password."""
    if engine.dialect.name == "sqlite" and engine.url.database not in (None, "", ":memory:"):
        return str(Path(str(engine.url.database)).resolve())
    return engine.url.render_as_string(hide_password=True)


def let_go(engine: Engine) -> None:
    """Close every connection. SQLite: everything is moved from the ``-wal`` file into the database's own before."""
    if engine.dialect.name == "sqlite" and Path(place_of(engine)).is_file():
        empty_wal(engine)
    engine.dispose()


def _patience(url: URL) -> Json:
    if url.get_backend_name() != "postgresql":
        return {}
    return {name: value for name, value in PATIENCE.items() if name not in url.query}


def _options(engine: Engine, writes: bool) -> Json:
    if engine.dialect.name == "postgresql":
        return {} if writes else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    return {"begin": "BEGIN IMMEDIATE" if writes else "BEGIN"}


def _keep_private(_: object, record: object, arguments: list[str], more: Json) -> None:
    """Before SQLite opens its file: nobody but the server's user reads tenants and hashes of keys."""
    place = arguments[0] if arguments else ""
    if not place or place.startswith((":memory:", "file:")):
        return
    with contextlib.suppress(OSError):  # what cannot be opened is SQLite's to say
        _make_private(os.path.realpath(place))


def _make_private(place: str) -> None:
    """One that is there is not opened: to close it would end the locks that this process's connections have on it."""
    try:
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        os.chmod(place, os.stat(place).st_mode & 0o700)


def _only(file: OneFile) -> Callable[..., None]:
    """Before SQLite opens a file: beside connections to another, it would take that one's ``-wal`` for its own."""

    def check(dialect: object, record: object, arguments: list[str], more: Json) -> None:
        if file.replaced:
            raise sqlite3.OperationalError(WHY)

    return check


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    """Foreign keys count, readers do not block writers, and a commit survives a power failure."""
    connection.isolation_level = None  # transactions are ours: the driver's own begin at the first change
    for pragma in (f"busy_timeout={LOCK_MS}", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
    _keep_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")


def _keep_wal(connection: sqlite3.Connection) -> None:
    """Of several that switch a new file over at once, SQLite turns all but one away, whatever its timeout says."""
    end_s = time.monotonic() + LOCK_MS * 1e-3
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > end_s:
                raise
            time.sleep(AGAIN_S)
        else:
            return


def _begin_sqlite(db: Connection) -> None:
    db.exec_driver_sql(db.get_execution_options().get("begin", "BEGIN"))


def _reason(error: SQLAlchemyError) -> str:
    text = str(getattr(error, "orig", None) or error)
    return text.strip().splitlines()[0][:200] if text.strip() else type(error).__name__
