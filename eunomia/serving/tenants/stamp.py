"""The mark of the last change: whoever shares a database sees by one small query whether to read it anew."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, insert, select, update

from eunomia.serving.tenants.tables import STAMP


def read_stamp(db: Connection) -> str:
    """The mark as it is; it differs after every change, and between any two databases."""
    return db.execute(select(STAMP.c.stamp)).scalar_one_or_none() or ""


def renew_stamp(db: Connection) -> None:
    """A new mark, at the start of a change: changes through other servers wait here for the end of this one."""
    fresh = secrets.token_hex(16)  # no count: after a backup was put back, it would come to the same again
    if db.execute(update(STAMP).values(stamp=fresh)).rowcount == 0:
        db.execute(insert(STAMP).values(id=1, stamp=fresh))
