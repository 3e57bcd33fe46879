"""The table in which replicas publish what they have served: one row each, read and written by one transaction.

A replica that has written nothing for ``FORGOTTEN_S`` by the wall clock is deleted; each server looks for such rows at
its start and every ``SWEEP_S``. One that writes again has a new row.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping

from sqlalchemy import Engine, delete, insert, select, update

from eunomia.serving.replicas.others import Published
from eunomia.serving.tenants.connection import transaction
from eunomia.serving.tenants.tables import REPLICA

FORGOTTEN_S, SWEEP_S = 3600.0, 600.0


class DatabaseBoard:
    """In the database of the tenants."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._swept_s = -math.inf

    def exchange(self, name: str, mine: Published) -> Mapping[str, Published]:
        """Write one's own row; returns all rows as they were before, by name. Raises OutputError."""
        sweeps = time.monotonic() >= self._swept_s + SWEEP_S
        with transaction(self._engine, writes=True) as db:
            if (
                self._engine.dialect.name == "postgresql"
            ):  # the next row replaces one that a power cut has taken
                db.exec_driver_sql("SET LOCAL synchronous_commit = off")
            rows = {
                row.name: _read(row.content) for row in db.execute(select(REPLICA.c.name, REPLICA.c.content))
            }
            now_s = time.time()
            values = {"content": _written(mine), "seen_s": now_s}
            if db.execute(update(REPLICA).where(REPLICA.c.name == name).values(values)).rowcount == 0:
                db.execute(insert(REPLICA).values(name=name, **values))
            if sweeps:
                seen = REPLICA.c.seen_s  # a clock may have been ahead
                db.execute(delete(REPLICA).where((seen < now_s - FORGOTTEN_S) | (seen > now_s + FORGOTTEN_S)))
        if sweeps:
            self._swept_s = time.monotonic()
        return rows


def _written(row: Published) -> str:
    totals = {tenant: [round(amount, 6) for amount in amounts] for tenant, amounts in row.totals.items()}
    return json.dumps([row.boot, row.beat, round(row.at_s, 3), row.address, totals], separators=(",", ":"))


def _read(content: str) -> Published:
    boot, beat, at_s, address, totals = json.loads(content)
    return Published(
        boot, beat, at_s, address, {tenant: tuple(amounts) for tenant, amounts in totals.items()}
    )
