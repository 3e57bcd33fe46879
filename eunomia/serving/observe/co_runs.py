"""The co-runs that a server saw, as a table that it starts from the next time (``co_runs``).

The table is what ``eunomia profile corun`` writes: a scenario's ``platform.slowdowns`` reads it as well.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

from eunomia.core.atomic import write_text
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.dispatch.neighbours import Neighbours
from eunomia.sharing.interference import Completed, CoRun, NoInterference, Online
from eunomia.sharing.interference.table import read_co_runs


def neighbours_of(devices: Sequence[DeviceSpec], table: Path | None, *, places: bool) -> Neighbours:
    """What is known of these devices' neighbourhood. Raises ConfigError for a table that cannot be read."""
    cores = [frozenset(device.cores) for device in devices]
    known = read_co_runs(table) if table is not None and table.exists() else []
    if not known:
        return Neighbours(cores, Online(NoInterference()), places=places)
    model = Online(Completed())
    model.fit(known)
    return Neighbours(cores, model, places=places, known=tuple(known))


def write_co_runs(near: Neighbours, table: Path) -> None:
    """What was seen, and what was known before of other co-runs. Raises OutputError."""
    rows = [_row(CoRun(*place, math.exp(one.log)), one.count) for place, one in sorted(near.seen.items())]
    rows += [
        _row(old, 0)
        for old in near.known
        if (old.target, tuple(sorted(old.neighbours)), old.kind) not in near.seen
    ]
    if not rows:
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("target", "neighbours", "kind", "slowdown", "seen"))
    writer.writerows(rows)
    write_text(table, text.getvalue())


def _row(row: CoRun, count: int) -> tuple[str, str, str, float, int]:
    return row.target, "+".join(row.neighbours), row.kind, row.slowdown, count
