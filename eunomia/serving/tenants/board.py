"""The tables in which replicas and groups of them publish what they have served: a row each, a transaction a look.

A replica that has written nothing for ``FORGOTTEN_S`` by the wall clock is deleted; each server looks for such rows at
its start and every ``SWEEP_S``. One that writes again has a new row.
"""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import time
from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, Engine, Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from eunomia.serving.replicas.groups import GroupLook, GroupRow, advanced
from eunomia.serving.replicas.others import Published
from eunomia.serving.tenants.connection import transaction
from eunomia.serving.tenants.tables import REPLICA, REPLICA_GROUP

FORGOTTEN_S, SWEEP_S = 3600.0, 600.0


class DatabaseBoard:
    """In the database of the tenants."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._swept_s = dict.fromkeys((REPLICA, REPLICA_GROUP), -math.inf)

    def exchange(self, name: str, mine: Published, group: str = "") -> Mapping[str, Published]:
        """Write one's own row; returns the group's rows as they were before, by name. Raises OutputError.

        Another server of the same name is among them, whatever its group.
        """
        with transaction(self._engine, writes=True) as db:
            self._may_be_lost(db)
            rows = _rows(db, (REPLICA.c.member_of == group) | (REPLICA.c.name == name))
            values = {"content": _written(mine), "seen_s": time.time(), "member_of": group}
            if db.execute(update(REPLICA).where(REPLICA.c.name == name).values(values)).rowcount == 0:
                db.execute(insert(REPLICA).values(name=name, **values))
            self._sweep(db, REPLICA)
        return rows

    def look_at_groups(self, group: str, seen_beat: int | None) -> GroupLook:
        """Of :class:`~eunomia.serving.replicas.groups.GroupBoard`. Raises OutputError."""
        own = REPLICA_GROUP.c.name == group
        if not group and self._alone():
            return GroupLook(None, {})
        with transaction(self._engine, writes=True) as db:
            self._may_be_lost(db)
            found = db.execute(select(REPLICA_GROUP.c.name, REPLICA_GROUP.c.content).where(~own))
            others = {row.name: _read(row.content) for row in found}
            beat = db.execute(select(REPLICA_GROUP.c.beat).where(own)).scalar()
            if beat == seen_beat and (group or others):
                beat = self._advance(db, group, beat)
            self._sweep(db, REPLICA_GROUP)
        return GroupLook(beat, others)

    def _alone(self) -> bool:
        """Whether no group has a row, so that servers without one have nothing to write: a look that locks nothing."""
        with transaction(self._engine, writes=False) as db:
            return db.execute(select(REPLICA_GROUP.c.name).limit(1)).first() is None

    def _advance(self, db: Connection, group: str, beat: int | None) -> int | None:
        """Write the group's next row, unless another member has; the beat now."""
        own = REPLICA_GROUP.c.name == group
        before = db.execute(
            select(REPLICA_GROUP.c.content, REPLICA_GROUP.c.parts).where(own & (REPLICA_GROUP.c.beat == beat))
        ).first()
        row = advanced(
            None if before is None else GroupRow(_read(before.content), _parts(before.parts)),
            _rows(db, REPLICA.c.member_of == group),
            secrets.token_hex(8),
        )
        parts = {name: _written(part) for name, part in row.parts.items()}
        values = {"beat": row.whole.beat, "content": _written(row.whole), "parts": json.dumps(parts)}
        values |= {"seen_s": time.time()}
        if beat is not None:
            changed = db.execute(
                update(REPLICA_GROUP).where(own & (REPLICA_GROUP.c.beat == beat)).values(values)
            )
            return row.whole.beat if changed.rowcount else None
        with contextlib.suppress(IntegrityError), db.begin_nested():  # two may write the first row
            db.execute(insert(REPLICA_GROUP).values(name=group, **values))
        return row.whole.beat

    def _may_be_lost(self, db: Connection) -> None:
        """The next row replaces one that a power cut has taken."""
        if self._engine.dialect.name == "postgresql":
            db.exec_driver_sql("SET LOCAL synchronous_commit = off")

    def _sweep(self, db: Connection, table: Table) -> None:
        """Now and then: delete rows of those that have ended. A clock may have been ahead."""
        if time.monotonic() < self._swept_s[table] + SWEEP_S:
            return
        seen, now_s = table.c.seen_s, time.time()
        db.execute(delete(table).where((seen < now_s - FORGOTTEN_S) | (seen > now_s + FORGOTTEN_S)))
        self._swept_s[table] = time.monotonic()


def _rows(db: Connection, which: ColumnElement[bool]) -> dict[str, Published]:
    found = db.execute(select(REPLICA.c.name, REPLICA.c.content).where(which))
    return {row.name: _read(row.content) for row in found}


def _parts(text: str) -> dict[str, Published]:
    return {name: _read(part) for name, part in json.loads(text).items()}


def _written(row: Published) -> str:
    totals = {tenant: [round(amount, 6) for amount in amounts] for tenant, amounts in row.totals.items()}
    return json.dumps([row.boot, row.beat, round(row.at_s, 3), row.address, totals], separators=(",", ":"))


def _read(content: str) -> Published:
    boot, beat, at_s, address, totals = json.loads(content)
    return Published(
        boot, beat, at_s, address, {tenant: tuple(amounts) for tenant, amounts in totals.items()}
    )
