"""What a run leaves behind, kept as chunks of arrays until the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.options import Recording
from eunomia.cluster.rounds import Units
from eunomia.contract.allocation import Allocation, ClusterView, Note
from eunomia.core.arrays import Floats, Ints

MAX_NAMED = 8
MAX_CHOICES = 4_000_000  # rows; beyond it choices are no longer recorded, and the run says so


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of the policy."""

    time_s: float
    solve_s: float
    jobs: int
    objective: float | None
    notes: tuple[tuple[str, str], ...]  # kind, text


def _named(note: Note, name_of: Callable[[int], str]) -> str:
    """Who had a deadline relaxed, and by how much; at most ``MAX_NAMED``."""
    if note.kind != "relaxed":
        return ""
    each = list(zip(note.jobs, note.values, strict=True))
    said = [
        f"'{name_of(row)}' (" + (f"{late:.0f} s late" if math.isfinite(late) else "given up") + ")"
        for row, late in each[:MAX_NAMED]
    ]
    more = f" and {len(each) - MAX_NAMED} more" if len(each) > MAX_NAMED else ""
    return ": " + ", ".join(said) + more


@dataclass
class Recorder:
    """``all``: also every choice of a round; ``leases``: who held what; ``jobs``: neither."""

    keep: Recording
    asked: list[Asked] = field(default_factory=list)
    leases: list[tuple[Ints, Ints, Ints, Ints, Floats, Floats]] = field(default_factory=list)
    choices: list[tuple[float, Ints, Ints, np.ndarray, Floats, Floats, Floats]] = field(default_factory=list)
    reasons: dict[int, tuple[str, ...]] = field(
        default_factory=dict
    )  # by point: of the jobs in its first rows
    downtime: list[tuple[int, float, float]] = field(default_factory=list)  # server, from, until
    notes: dict[str, int] = field(default_factory=dict)  # text -> how often
    _rows: int = 0

    def allocation(
        self,
        now_s: float,
        solve_s: float,
        view: ClusterView,
        answer: Allocation,
        name_of: Callable[[int], str],
    ) -> None:
        """Book one answer and its notes; ``name_of`` gives the id of the job in a row of the view."""
        notes = tuple((note.kind, note.text + _named(note, name_of)) for note in answer.notes)
        self.asked.append(Asked(now_s, solve_s, len(view), answer.objective, notes))
        for kind, text in notes:
            if kind in ("fallback", "relaxed"):
                self.say(f"{kind}: {text}")

    def say(self, text: str) -> None:
        """A remark for the user; repeats are counted."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def lease(self, key: Ints, kind: Ints, server: Ints, count: Ints, start_s: Floats, end_s: Floats) -> None:
        """Devices held from start to end."""
        if self.keep != "jobs" and len(key):
            self.leases.append((key, kind, server, count, start_s, end_s))

    def choice(
        self,
        now_s: float,
        units: Units,
        chosen: Ints,
        ran: np.ndarray,
        gangs: Ints | None = None,
        reasons: tuple[str, ...] = (),
    ) -> None:
        """The queue of one round: priorities, deficits and shares of every unit on every type, and who ran where.

        ``gangs``: devices (M, J) of jobs in the first rows that run on several types, 0 for the others. ``reasons``:
        why jobs in the first rows got nothing, see Allocation.
        """
        if self.keep != "all" or self._rows > MAX_CHOICES:
            return
        count, types = units.share.shape
        self._rows += count * types
        if self._rows > MAX_CHOICES:
            self.say(
                f"choices are recorded up to {now_s:.0f} s only, as there are more than {MAX_CHOICES} of them"
            )
            return
        on = ran[:, None] & (chosen[:, None] == np.arange(types))
        if gangs is not None:
            on[: len(gangs)] |= gangs > 0
        if any(reasons):
            self.reasons[len(self.choices)] = reasons
        self.choices.append(
            (
                now_s,
                units.first,
                units.second,
                on,
                units.priority.copy(),
                units.deficit.copy(),
                units.share.copy(),
            )
        )
