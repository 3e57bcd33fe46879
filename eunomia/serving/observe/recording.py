"""The last accepted requests: the traffic of a digital twin."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from eunomia.serving.observe.retired import Retired

KEPT = 200_000  # requests; older ones are forgotten
SLICE = 1000  # of them are written at a time: 1.5 ms
ROW = np.dtype(
    [
        ("arrival_s", "f8"),
        ("deadline_s", "f8"),
        ("response_s", "f8"),
        ("queue_s", "f8"),
        ("batch", "i4"),
        ("who", "i4"),
        ("reach_s", "f4"),
        ("answer_s", "f4"),
        ("size", "i4"),
        ("work_s", "f4"),
        ("expected_s", "f4"),
        ("lost_s", "f4"),
        ("usual_s", "f4"),
        ("runs", "i4"),
        ("worked_on", "i2"),
    ]
)


# arrival, tenant, network, deadline, batch, outcome, response, wait, reach, answer, size, work, expected, lost, usual,
# runs, device
Row = list[float | str | None]


class Recording:
    """The last accepted requests, in order of their answers.

    A ring of records, 70 bytes a request: as Python objects each would take 300, and the server would seem to
    grow for hours until the ring is full.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._rows = np.zeros(kept, ROW)
        self._count = 0
        self._who: dict[tuple[str, str, str], int] = {}  # tenant, network, outcome -> number in the record
        self._sizes: dict[tuple[int, int, int], int] = {}  # as ``sizes`` has it -> its number

    def retired(self, request: Retired, now_s: float) -> None:
        """Note one."""
        who = self._who.setdefault((request.tenant, request.model, request.outcome), len(self._who))
        self._rows[self._count % len(self._rows)] = (
            now_s - request.response_s,
            request.deadline_s,
            request.response_s,
            request.queue_s,
            request.batch,
            who,
            request.reach_s,
            request.answer_s,
            self._sizes.setdefault(request.size, len(self._sizes)),
            request.work_s,
            request.expected_s,
            request.lost_s,
            request.usual_s,
            request.runs,
            request.worked_on,
        )
        self._count += 1

    @property
    def sizes(self) -> list[tuple[int, int, int]]:
        """Of every size, in order of numbers: first row of its block times in the costs, blocks, and how often."""
        return list(self._sizes)

    def requests(self) -> list[Row]:
        """All of them, as ``slices`` gives them."""
        return [row for rows in self.slices() for row in rows]

    def slices(self) -> Iterator[list[Row]]:
        """The oldest first, some at a time; what comes meanwhile is not among them.

        Each: arrival, tenant, network, deadline from arrival (None = none), batch, outcome, response, wait
        for the first block. Then the time from acceptance until devices knew, and from the end of the last
        run to the answer. Then the number of its size, what its blocks took and take in the mean. Last what was
        lost before its runs and is in the mean, their number, and where they were.
        """
        at = self._count % len(self._rows)
        full = self._count >= len(self._rows)
        rows, names = np.roll(self._rows, -at) if full else self._rows[:at].copy(), list(self._who)
        return (
            [_listed(row, names) for row in rows[n : n + SLICE].tolist()] for n in range(0, len(rows), SLICE)
        )


def _listed(
    row: tuple[float, float, float, float, int, int, float, float, int, float, float, float, float, int, int],
    names: list[tuple[str, str, str]],
) -> Row:
    arrival_s, deadline_s, response_s, queue_s, batch, who, *rest = row
    tenant, model, outcome = names[who]
    due_s = deadline_s if math.isfinite(deadline_s) else None
    return [arrival_s, tenant, model, due_s, batch, outcome, response_s, queue_s, *rest]
