"""Groups of servers: a group publishes one row, the sum of what its members have done.

Any member may bring the row up to date, and whoever finds it unchanged for a look does; so no member leads, and the row
goes on when one dies. The new row follows from the old one and the members' rows alone: what a member did since the
totals that the old row holds of it is added once, through restarts (another ``boot``), and however many write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from eunomia.serving.replicas.others import AGAIN_S, NOTHING, Board, Published, less, plus


@dataclass(frozen=True)
class GroupRow:
    """``whole``: what the group publishes. ``parts``: the members' rows of which it is the sum."""

    whole: Published
    parts: Mapping[str, Published]


@dataclass(frozen=True)
class GroupLook:
    """``beat``: of one's own group, None before its first row; ``others``: rows of the other groups."""

    beat: int | None
    others: Mapping[str, Published]


class GroupBoard(Board, Protocol):
    """A board where groups meet, too."""

    def look_at_groups(self, group: str, seen_beat: int | None) -> GroupLook:
        """Read the other groups, and bring one's own up to date if its beat is still ``seen_beat``.

        The group "" is that of servers without one: it writes nothing while there are no others. Blocks; raises when it
        cannot.
        """


def advanced(before: GroupRow | None, members: Mapping[str, Published], boot: str) -> GroupRow:
    """The next row. ``boot``: of a group that has none yet.

    ``at_s`` of the row grows by the longest time for which a member brings news: with a member that was cut off for
    long the group's news count as late.
    """
    whole = Published(boot, 0, 0.0, "", {}) if before is None else before.whole
    parts = {} if before is None else before.parts
    totals, longest_s = dict(whole.totals), 0.0
    for name, row in members.items():
        counted = parts.get(name)
        if counted is None and row.at_s >= AGAIN_S:  # it may have been counted before its row was deleted
            continue
        again = counted is not None and counted.boot == row.boot
        start = counted.totals if counted is not None and again else {}
        longest_s = max(longest_s, row.at_s - (counted.at_s if counted is not None and again else 0.0))
        for tenant, total in row.totals.items():
            change = less(total, start.get(tenant, NOTHING))
            totals[tenant] = plus(totals.get(tenant, NOTHING), change)
    whole = replace(whole, beat=whole.beat + 1, at_s=whole.at_s + longest_s, totals=totals)
    return GroupRow(whole, dict(members))
