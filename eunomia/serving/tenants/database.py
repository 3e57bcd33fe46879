"""Tenants in a database: read at once into memory, changed by administrators alone."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, create_engine, delete, event, insert, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from eunomia.errors import ConfigError, OutputError
from eunomia.serving.tenants.grants import Grant, Promise, hash_key, new_key
from eunomia.serving.tenants.tables import API_KEY, ENDED_KEY, MODEL, PROMISE, TENANT
from eunomia.workload.tenant import Slo

HINT = 8
DRIVERS = {
    "sqlite": "sqlite", "sqlite+pysqlite": "sqlite", "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}  # fmt: skip


@dataclass(frozen=True)
class KeyFacts:
    """An API key as a list shows it: never the key, never its whole hash."""

    tenant: str
    hint: str
    created_s: float
    expires_s: float | None


class DatabaseDirectory:
    """Grants and keys of one database; ``url`` as SQLAlchemy takes it.

    Everything is kept in memory, so a request never waits for the database, and a lost connection leaves
    the last known grants in force. ``refresh`` reads anew what another server may have changed.
    """

    def __init__(self, url: str) -> None:
        self._engine = connect(url)
        migrate(self._engine)
        self._grants: dict[str, Grant] = {}
        self._keys: dict[str, tuple[str, float]] = {}  # hash -> tenant, expiry
        self.refresh()

    # --- what the server asks ------------------------------------------------------------------------

    def by_key(self, key: str) -> Grant | None:
        """The owner of an API key that is valid now."""
        owner, expires_s = self._keys.get(hash_key(key), ("", 0.0))
        return self._grants.get(owner) if time.time() < expires_s else None

    def by_name(self, name: str) -> Grant | None:
        """A tenant by name."""
        return self._grants.get(name)

    def all(self) -> list[Grant]:
        """Every tenant, in order of name."""
        return sorted(self._grants.values(), key=lambda grant: grant.name)

    def refresh(self) -> None:
        """Read everything anew; raises OutputError when the database does not answer."""
        with self._transaction() as db:
            grants = _read_grants(db)
            keys = {
                row.key_hash: (row.tenant, row.expires_s or math.inf) for row in db.execute(select(API_KEY))
            }
        self._grants, self._keys = grants, keys

    # --- what administrators change --------------------------------------------------------------------

    def put(self, grant: Grant) -> None:
        """Add a tenant or replace all that it was granted; its keys stay.

        Like every change here it raises ConfigError when nobody would be left who may change anything: no tenant
        of the role ``admin`` with a key that is valid now.
        """
        with self._change() as db:
            known = db.execute(select(TENANT.c.name).where(TENANT.c.name == grant.name)).first()
            row = _tenant_row(grant)
            if known:
                db.execute(TENANT.update().where(TENANT.c.name == grant.name).values(row))
                db.execute(delete(MODEL).where(MODEL.c.tenant == grant.name))
                db.execute(delete(PROMISE).where(PROMISE.c.tenant == grant.name))
            else:
                db.execute(insert(TENANT).values(row))
            for model in sorted(grant.models or ()):
                db.execute(insert(MODEL).values(tenant=grant.name, model=model))
            for model, promise in grant.promises.items():
                db.execute(insert(PROMISE).values(_promise_row(grant.name, model, promise)))

    def remove(self, name: str) -> bool:
        """Forget a tenant and end its keys for good; False when there is none."""
        with self._change() as db:
            _end_keys(db, API_KEY.c.tenant == name)
            for table in (PROMISE, MODEL):
                db.execute(delete(table).where(table.c.tenant == name))
            found = db.execute(delete(TENANT).where(TENANT.c.name == name)).rowcount > 0
        return found

    def issue_key(self, tenant: str, lifetime_s: float | None = None) -> str:
        """A new key for a tenant: returned this once, kept as a hash. Older keys stay valid."""
        self._must_know(tenant)
        with self._change() as db:
            return _add_new_key(db, tenant, lifetime_s)

    def adopt_key(self, tenant: str, key_hash: str) -> bool:
        """A key that was made elsewhere, by its hash; whether it is valid now.

        A key that is known stays as it is: one that was revoked or has expired stays dead.
        """
        self._must_know(tenant)
        now_s = time.time()
        with self._change() as db:
            if db.execute(select(ENDED_KEY).where(ENDED_KEY.c.key_hash == key_hash)).first() is not None:
                return False
            known = db.execute(select(API_KEY).where(API_KEY.c.key_hash == key_hash)).first()
            if known is not None:
                return known.expires_s is None or known.expires_s > now_s
            _add_key(db, tenant, key_hash, "adopted", now_s, None)
        return True

    def rotate_key(self, tenant: str, grace_s: float = 0.0) -> str:
        """A new key; all older ones of the tenant end after ``grace_s``."""
        self._must_know(tenant)
        ends_s = time.time() + grace_s
        with self._change() as db:
            later = (API_KEY.c.expires_s.is_(None)) | (API_KEY.c.expires_s > ends_s)
            db.execute(API_KEY.update().where(API_KEY.c.tenant == tenant, later).values(expires_s=ends_s))
            return _add_new_key(db, tenant, None)

    def revoke_keys(self, tenant: str, hint: str = "") -> int:
        """End a tenant's keys now and for good, all or those that start with ``hint``; returns how many."""
        wanted = API_KEY.c.tenant == tenant
        if hint:
            wanted &= API_KEY.c.hint == hint
        with self._change() as db:
            return _end_keys(db, wanted)

    def keys(self, tenant: str) -> list[KeyFacts]:
        """A tenant's keys, oldest first."""
        with self._transaction() as db:
            rows = db.execute(select(API_KEY).where(API_KEY.c.tenant == tenant).order_by(API_KEY.c.created_s))
            return [KeyFacts(row.tenant, row.hint, row.created_s, row.expires_s) for row in rows]

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def _must_know(self, tenant: str) -> None:
        if tenant not in self._grants:
            raise ConfigError(f"unknown tenant '{tenant}'")

    @contextmanager
    def _change(self) -> Iterator[Connection]:
        """A transaction that is taken back when it would leave nobody who may change anything."""
        with self._transaction() as db:
            had = _has_administrator(db)
            yield db
            if had and not _has_administrator(db):
                raise ConfigError(
                    "this would leave no administrator with a valid key; give another tenant the role 'admin' and"
                    " a key, or this one a new key, first"
                )
        self.refresh()

    def _transaction(self) -> _Transaction:
        return _Transaction(self._engine)


class _Transaction:
    """All or nothing, with database errors in one sentence that holds no password."""

    def __init__(self, engine: Engine) -> None:
        self._context = engine.begin()
        self._where = engine.url.render_as_string(hide_password=True)

    def __enter__(self) -> Connection:
        try:
            return self._context.__enter__()
        except SQLAlchemyError as error:
            raise OutputError(f"the database {self._where} does not answer: {_reason(error)}") from None

    def __exit__(self, *trouble: Any) -> None:
        try:
            self._context.__exit__(*trouble)
        except SQLAlchemyError as error:
            raise OutputError(
                f"the database {self._where} did not take the change: {_reason(error)}"
            ) from None
        if isinstance(trouble[1], SQLAlchemyError):
            raise OutputError(f"the database {self._where} refuses: {_reason(trouble[1])}") from None


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
        engine = create_engine(parsed, pool_pre_ping=True)
    except ArgumentError as error:
        raise ConfigError(f"the database URL is no URL that SQLAlchemy knows: {error}") from None
    except ImportError as error:
        raise ConfigError(f"the database needs a driver: {error} (pip install 'eunomia[postgres]')") from None
    if parsed.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    return engine


def migrate(engine: Engine) -> None:
    """Bring the tables to this version's state; raises OutputError."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with _Transaction(engine) as db:
        config.attributes["connection"] = db
        command.upgrade(config, "head")


def _prepare_sqlite(connection: Any, _: Any) -> None:
    """Foreign keys count, readers do not block writers, and a commit survives a power failure."""
    for pragma in ("foreign_keys=ON", "journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000"):
        connection.execute(f"PRAGMA {pragma}")


def _reason(error: SQLAlchemyError) -> str:
    text = str(getattr(error, "orig", None) or error)
    return text.strip().splitlines()[0][:200] if text.strip() else type(error).__name__


def _has_administrator(db: Connection) -> bool:
    """Whether somebody has the role and a valid key; two changes at once wait here for each other."""
    valid = API_KEY.c.expires_s.is_(None) | (API_KEY.c.expires_s > time.time())
    asked = select(API_KEY.c.key_hash).join(TENANT).where(TENANT.c.role == "admin", valid).with_for_update()
    return db.execute(asked).first() is not None


def _add_new_key(db: Connection, tenant: str, lifetime_s: float | None) -> str:
    key, now_s = new_key(), time.time()
    _add_key(db, tenant, hash_key(key), key[:HINT], now_s, now_s + lifetime_s if lifetime_s else None)
    return key


def _add_key(
    db: Connection, tenant: str, key_hash: str, hint: str, created_s: float, expires_s: float | None
) -> None:
    db.execute(insert(API_KEY).values(
        key_hash=key_hash, tenant=tenant, hint=hint, created_s=created_s, expires_s=expires_s
    ))  # fmt: skip


def _end_keys(db: Connection, wanted: ColumnElement[bool]) -> int:
    """Take keys out and remember their hashes as ended; returns how many."""
    found = db.execute(select(API_KEY.c.key_hash).where(wanted).with_for_update()).scalars().all()
    if found:
        db.execute(insert(ENDED_KEY), [{"key_hash": each, "ended_s": time.time()} for each in found])
        db.execute(delete(API_KEY).where(wanted))
    return len(found)


def _read_grants(db: Connection) -> dict[str, Grant]:
    models: dict[str, set[str]] = {}
    for row in db.execute(select(MODEL)):
        models.setdefault(row.tenant, set()).add(row.model)
    promises: dict[str, dict[str, Promise]] = {}
    for row in db.execute(select(PROMISE)):
        promises.setdefault(row.tenant, {})[row.model] = _promise(row)
    return {row.name: _grant(row, models.get(row.name, set()), promises.get(row.name, {}))
            for row in db.execute(select(TENANT))}  # fmt: skip


def _grant(row: Any, models: set[str], promises: dict[str, Promise]) -> Grant:
    return Grant(
        row.name, row.role, row.weight, math.inf if row.rate_per_s is None else row.rate_per_s, row.burst,
        row.max_concurrency, row.max_queue, row.max_request_bytes, None if row.all_models else frozenset(models),
        promises,
    )  # fmt: skip


def _promise(row: Any) -> Promise:
    slo = None
    if row.slo_kind is not None:
        slo = Slo(row.slo_target, row.slo_kind, row.slo_percentile, row.slo_window_requests, row.slo_window_s)
    return Promise(row.deadline_s, slo, row.priority, row.min_deadline_s)


def _tenant_row(grant: Grant) -> dict[str, Any]:
    return {
        "name": grant.name, "role": grant.role, "weight": grant.weight,
        "rate_per_s": grant.rate_per_s if math.isfinite(grant.rate_per_s) else None, "burst": grant.burst,
        "max_concurrency": grant.max_concurrency, "max_queue": grant.max_queue,
        "max_request_bytes": grant.max_request_bytes, "all_models": grant.models is None,
    }  # fmt: skip


def _promise_row(tenant: str, model: str, promise: Promise) -> dict[str, Any]:
    slo = promise.slo
    return {
        "tenant": tenant, "model": model, "deadline_s": promise.deadline_s, "priority": promise.priority,
        "slo_kind": slo.kind if slo else None, "slo_target": slo.target if slo else None,
        "slo_percentile": slo.percentile if slo else None,
        "slo_window_requests": slo.window_requests if slo else None, "slo_window_s": slo.window_s if slo else None,
        "min_deadline_s": promise.min_deadline_s,
    }  # fmt: skip
