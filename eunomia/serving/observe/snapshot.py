"""The sums of a ledger as JSON, in pieces: a window of 10,000 requests takes 8 ms, and there is one for each pair."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

Window = deque[tuple[float, float, str]]  # wall time, response, outcome
WINDOW = 10_000  # requests of a pair
AT_ONCE = 300  # requests of a window in a piece: 0.3 ms


@dataclass
class Usage:
    """Sums over all requests of one (tenant, model) pair, and its window of recent ones."""

    outcomes: dict[str, int] = field(default_factory=dict)
    device_s: float = 0.0
    energy_j: float = 0.0
    window: Window = field(default_factory=lambda: deque(maxlen=WINDOW))


Copied = tuple[tuple[str, str, dict[str, int], float, float], Usage]  # its sums, and where its window is


def pieces(segment: int, today: Sequence[object], usage: Mapping[tuple[str, str], Usage]) -> Iterator[str]:
    """Of what these are now, whatever is added meanwhile: sums are copied at once, a window when its turn comes.

    A window then has lost as many of its oldest as were added, if it was full. Those that were added are in the next
    journal, and would displace the same ones.
    """
    now = [((t, m, dict(u.outcomes), u.device_s, u.energy_j), u) for (t, m), u in usage.items()]
    return _written(text({"segment": segment, "today": today}), now)


def _written(head: str, now: Sequence[Copied]) -> Iterator[str]:
    yield head[:-1] + ',"usage":['
    for n, (sums, of) in enumerate(now):
        yield ("," if n else "") + text(sums)[:-1] + ",["
        added = sum(of.outcomes.values()) - sum(sums[2].values())
        entries, comma = islice(of.window.copy(), max(len(of.window) - added, 0)), ""
        while some := list(islice(entries, AT_ONCE)):
            yield comma + text(some)[1:-1]
            comma = ","
        yield "]]"
    yield "]}"


def text(value: object) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))
