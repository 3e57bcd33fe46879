"""The sums of a ledger as JSON, in pieces: a window of 10,000 requests takes 8 ms, and there is one for each pair.

``sums_in`` reads them back.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from eunomia.core.errors import RecordError

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


def sums_in(path: Path) -> tuple[int, tuple[int, dict[str, float]], dict[tuple[str, str], Usage]]:
    """The first journal that they do not hold, the day and its sums, and usage; raises RecordError or OSError."""
    try:
        content = json.loads(path.read_bytes())
        day, used_s = content.get("today", (0, {}))
        today = int(day), {str(tenant): float(seconds) for tenant, seconds in used_s.items()}
        usage = dict[tuple[str, str], Usage]()
        for tenant, model, outcomes, device_s, energy_j, window in content["usage"]:
            counts = {str(outcome): int(count) for outcome, count in outcomes.items()}
            one = usage[tenant, model] = Usage(counts, float(device_s), float(energy_j))
            one.window.extend((float(at_s), float(took_s), str(outcome)) for at_s, took_s, outcome in window)
        return int(content["segment"]), today, usage
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RecordError(
            f"the ledger's {path} is damaged ({type(error).__name__}: {error}); it holds the sums of all earlier "
            "requests. Put it back from a backup; or move it away, which gives these sums up: then the journals alone "
            "count"
        ) from None
