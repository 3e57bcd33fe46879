"""API keys as rows: hashes alone, and those that have ended, for good."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from eunomia.serving.tenants.grants import hash_key, new_key
from eunomia.serving.tenants.tables import API_KEY, ENDED_KEY, TENANT

HINT = 8


@dataclass(frozen=True)
class KeyFacts:
    """An API key as a list shows it: never the key, never its whole hash."""

    tenant: str
    hint: str
    created_s: float
    expires_s: float | None


def read_keys(db: Connection) -> dict[str, tuple[str, float]]:
    """Owner and end of every key, by its hash; inf = never."""
    return {
        row.key_hash: (row.tenant, math.inf if row.expires_s is None else row.expires_s)
        for row in db.execute(select(API_KEY))
    }


def keys_of(db: Connection, tenant: str) -> list[KeyFacts]:
    """A tenant's keys, oldest first."""
    rows = db.execute(select(API_KEY).where(API_KEY.c.tenant == tenant).order_by(API_KEY.c.created_s))
    return [KeyFacts(row.tenant, row.hint, row.created_s, row.expires_s) for row in rows]


def has_administrator(db: Connection) -> bool:
    """Whether somebody has the role and a key that is valid now."""
    valid = API_KEY.c.expires_s.is_(None) | (API_KEY.c.expires_s > time.time())
    asked = select(API_KEY.c.key_hash).join(TENANT).where(TENANT.c.role == "admin", valid)
    return db.execute(asked).first() is not None


def add_new_key(db: Connection, tenant: str, lifetime_s: float | None = None) -> str:
    """A fresh key, returned this once."""
    key, now_s = new_key(), time.time()
    _add_key(db, tenant, hash_key(key), key[:HINT], now_s, None if lifetime_s is None else now_s + lifetime_s)
    return key


def adopt_key(db: Connection, tenant: str, key_hash: str) -> bool:
    """A key by its hash, unless it is known or has ended; whether it is valid now."""
    now_s = time.time()
    if db.execute(select(ENDED_KEY).where(ENDED_KEY.c.key_hash == key_hash)).first() is not None:
        return False
    known = db.execute(select(API_KEY).where(API_KEY.c.key_hash == key_hash)).first()
    if known is not None:
        return known.expires_s is None or known.expires_s > now_s
    _add_key(db, tenant, key_hash, "adopted", now_s, None)
    return True


def end_later(db: Connection, tenant: str, ends_s: float) -> None:
    """Let a tenant's keys end at a time, those that do not end sooner."""
    later = API_KEY.c.expires_s.is_(None) | (API_KEY.c.expires_s > ends_s)
    db.execute(API_KEY.update().where(API_KEY.c.tenant == tenant, later).values(expires_s=ends_s))


def end_keys(db: Connection, tenant: str, hint: str = "") -> int:
    """Take keys out, all or those of this hint, and remember their hashes as ended; returns how many were alive."""
    wanted: ColumnElement[bool] = API_KEY.c.tenant == tenant
    if hint:
        wanted &= API_KEY.c.hint == hint
    return _end(db, wanted)


def end_hash(db: Connection, key_hash: str) -> bool:
    """The same for one key, whoever's it is; whether it was alive."""
    return _end(db, API_KEY.c.key_hash == key_hash) > 0


def _end(db: Connection, wanted: ColumnElement[bool]) -> int:
    now_s = time.time()
    found = db.execute(select(API_KEY.c.key_hash, API_KEY.c.expires_s).where(wanted)).all()
    if found:
        db.execute(insert(ENDED_KEY), [{"key_hash": key.key_hash, "ended_s": now_s} for key in found])
        db.execute(delete(API_KEY).where(wanted))
    return sum(key.expires_s is None or key.expires_s > now_s for key in found)


def _add_key(
    db: Connection, tenant: str, key_hash: str, hint: str, created_s: float, expires_s: float | None
) -> None:
    db.execute(
        insert(API_KEY).values(
            key_hash=key_hash, tenant=tenant, hint=hint, created_s=created_s, expires_s=expires_s
        )
    )
