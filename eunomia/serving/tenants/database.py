"""Tenants in a database, kept in memory; changed by administrators alone, through any server that shares it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from eunomia.core.errors import ConfigError
from eunomia.serving.tenants.board import DatabaseBoard
from eunomia.serving.tenants.connection import connect, is_new, let_go, migrate, place_of, transaction
from eunomia.serving.tenants.grants import Grant, hash_key
from eunomia.serving.tenants.keys import (
    KeyFacts,
    add_new_key,
    adopt_key,
    end_hash,
    end_keys,
    end_later,
    has_administrator,
    keys_of,
    read_keys,
)
from eunomia.serving.tenants.rows import delete_grant, knows, read_grants, write_grant
from eunomia.serving.tenants.stamp import read_stamp, renew_stamp


class UnknownTenant(ConfigError):
    """Nobody is called so."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown tenant '{name[:80]}'")
        self.name = name[:80]


@dataclass(frozen=True)
class _Known:
    """One moment of the database. ``keys``: owner and end by hash."""

    stamp: str
    grants: Mapping[str, Grant]
    keys: Mapping[str, tuple[str, float]]


class DatabaseDirectory:
    """Grants and keys of one database; ``url`` as SQLAlchemy takes it.

    Everything is kept in memory, so a request never waits for the database, and a lost connection leaves
    the last known grants in force. ``catch_up`` reads anew what another server has changed. All but ``by_key``,
    ``by_name`` and ``all`` ask the database, from any thread, and raise OutputError when it does not answer.
    ``is_new``: it held nothing before. ``place``: its file or URL, without a password.
    """

    def __init__(self, url: str) -> None:
        self._engine = connect(url)
        self.is_new = is_new(self._engine)
        self.place = place_of(self._engine)
        migrate(self._engine)
        self._turn = (
            threading.Lock()
        )  # what was read later replaces what was read before, never the other way
        self._known = _Known("", {}, {})
        self.refresh()

    # --- what the server asks ------------------------------------------------------------------------

    def by_key(self, key: str) -> Grant | None:
        """The owner of an API key that is valid now."""
        known = self._known
        owner, expires_s = known.keys.get(hash_key(key), ("", 0.0))
        return known.grants.get(owner) if time.time() < expires_s else None

    def by_name(self, name: str) -> Grant | None:
        """A tenant by name."""
        return self._known.grants.get(name)

    def knows_hash(self, key_hash: str) -> bool:
        """Whether this is the hash of a key that is valid now."""
        return time.time() < self._known.keys.get(key_hash, ("", 0.0))[1]

    def all(self) -> list[Grant]:
        """Every tenant, in order of name."""
        return sorted(self._known.grants.values(), key=lambda grant: grant.name)

    def catch_up(self) -> bool:
        """Read everything anew if another server has changed something; whether it has. Else one small query."""
        with transaction(self._engine, writes=False) as db:
            stamp = read_stamp(db)
        if stamp == self._known.stamp:
            return False
        self.refresh()
        return True

    def refresh(self) -> None:
        """Read everything anew."""
        with self._turn, transaction(self._engine, writes=False) as db:
            self._known = _read(db)

    # --- what administrators change --------------------------------------------------------------------

    def put(self, grant: Grant) -> None:
        """Add a tenant or replace all that it was granted; its keys stay.

        Like every change here it raises ConfigError when nobody would be left who may change anything: no tenant
        of the role ``admin`` with a key that is valid now.
        """
        with self._change() as db:
            write_grant(db, grant)

    def remove(self, name: str) -> bool:
        """Forget a tenant and end its keys for good; False when there is none."""
        with self._change() as db:
            end_keys(db, name)
            return delete_grant(db, name)

    def issue_key(self, tenant: str, lifetime_s: float | None = None) -> str:
        """A new key for a tenant: returned this once, kept as a hash. Older keys stay valid."""
        with self._change(tenant) as db:
            return add_new_key(db, tenant, lifetime_s)

    def adopt_key(self, tenant: str, key_hash: str) -> bool:
        """A key that was made elsewhere, by its hash; whether it is valid now.

        A key that is known stays as it is: one that was revoked or has expired stays dead.
        """
        with self._change(tenant) as db:
            return adopt_key(db, tenant, key_hash)

    def rotate_key(self, tenant: str, grace_s: float = 0.0) -> str:
        """A new key; all older ones of the tenant end after ``grace_s``."""
        with self._change(tenant) as db:
            end_later(db, tenant, time.time() + grace_s)
            return add_new_key(db, tenant)

    def revoke_keys(self, tenant: str, hint: str = "") -> int:
        """End a tenant's keys now and for good, all or those called ``hint``; returns how many were alive."""
        with self._change(tenant) as db:
            return end_keys(db, tenant, hint)

    def end_hash(self, key_hash: str) -> bool:
        """End one key, whoever's it is, now and for good; whether there was one that was alive."""
        with self._change() as db:
            return end_hash(db, key_hash)

    def keys(self, tenant: str) -> list[KeyFacts]:
        """A tenant's keys, oldest first."""
        with transaction(self._engine, writes=False) as db:
            _must_know(db, tenant)
            return keys_of(db, tenant)

    def board(self) -> DatabaseBoard:
        """Where the servers on this database tell each other what they have served."""
        return DatabaseBoard(self._engine)

    def close(self) -> None:
        """Let go of the database, whose one file is then complete, in SQLite too."""
        let_go(self._engine)

    @contextmanager
    def _change(self, tenant: str | None = None) -> Iterator[Connection]:
        """A change, of a tenant that must be known; taken back when nobody would be left who may change anything.

        What it makes of the directory is read before it is committed: once it is, it is in force here.
        """
        with self._turn:
            with transaction(self._engine, writes=True) as db:
                renew_stamp(db)
                if tenant is not None:
                    _must_know(db, tenant)
                had = has_administrator(db)
                yield db
                if had and not has_administrator(db):
                    raise ConfigError(
                        "this would leave no administrator with a valid key; give another tenant the role 'admin' and"
                        " a key, or this one a new key, first"
                    )
                known = _read(db)
            self._known = known


def _read(db: Connection) -> _Known:
    """The mark first: where reading is not of one moment, what follows is newer than it and will be read again."""
    return _Known(read_stamp(db), read_grants(db), read_keys(db))


def _must_know(db: Connection, tenant: str) -> None:
    if not knows(db, tenant):
        raise UnknownTenant(tenant)
