"""A gRPC port that is nearly full makes room, as the one of HTTP does: at the most crowded address.

The library counts connections, and closes whoever comes when there are too many. So before that, connections end that
have no call, of the address that has most of them. They are counted by the look at all descriptors that ``Wire`` takes:
one round finds the address, the next one ends them.
"""

from __future__ import annotations

import logging
from collections import Counter

log = logging.getLogger("eunomia.serving")
FULL, ROOMY = 0.9, 0.8  # of what the port takes: from here on, down to there


class Room:
    """``most``: connections of the port."""

    def __init__(self, most: float) -> None:
        self._most, self._here = most, Counter[str]()
        self._crowded, self._too_many = "", 0

    def ends(self, host: str, *, calls: bool) -> bool:
        """Whether this connection of this round is to end."""
        if host == self._crowded and self._too_many > 0 and not calls:
            self._too_many -= 1
            return True
        self._here[host] += 1
        return False

    def next_round(self) -> None:
        """All have been seen once."""
        total, self._too_many = self._here.total(), 0
        if total > FULL * self._most:
            self._crowded, here = self._here.most_common(1)[0]
            self._too_many = min(total - int(ROOMY * self._most), here)
            log.warning(
                "the port of gRPC has %d connections of at most %.0f, %d of them from %s: %d without a call end",
                *(total, self._most, here, self._crowded, self._too_many),
            )
        self._here.clear()
