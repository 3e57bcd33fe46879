"""When a network may run in one piece: nobody is likely to want its device before it ends.

Cutting a network costs: 15 blocks of ResNet-50 take 5 to 10 % longer than the whole. While nobody is preferred to what
runs, boundaries are of no use. So a network runs whole when the policy preferred nobody to what ran for ``calm_s``. Its
blocks must take at most ``CUT`` leases: about one in one piece. No recent request may have been more urgent, due sooner
after its arrival and within ``PATIENT`` times that length. Nor may any have had less than twice that length to spare
(deadline less own time). A request is recent for five to ten minutes, until the spell after its own has ended.

Does badly for the first urgent request in five to ten minutes: it waits for the end of a network instead of a block.
"""

from __future__ import annotations

import math

SLACK_SHARE = 0.5
CUT = 1.15  # else one that takes 90 to 100 % of a lease is cut, takes longer so, and is cut for good
PATIENT = 20.0  # a call whose client gives up after a minute is not urgent beside one that never does
ALIKE = 0.01  # of a deadline: what is left of a call's own is never twice the same
SEEN_S = 300.0  # the least of the last one to two such spells counts


class _Least:
    """The least value of late: each is remembered for at least ``SEEN_S``, and for twice that at most."""

    def __init__(self) -> None:
        self._now = self._before = math.inf
        self._since_s = 0.0

    def seen(self, value: float, now_s: float) -> None:
        self.at(now_s)
        self._now = min(self._now, value)

    def at(self, now_s: float) -> float:
        spells = (now_s - self._since_s) // SEEN_S
        if spells >= 1.0:
            self._before = self._now if spells < 2.0 else math.inf
            self._now, self._since_s = math.inf, self._since_s + spells * SEEN_S
        return min(self._now, self._before)


class Calm:
    """Who was seen, how urgent, and when the policy last preferred somebody. ``calm_s`` = inf: never whole."""

    def __init__(self, calm_s: float, longest_s: float) -> None:
        self._calm_s, self._longest_s = calm_s, longest_s
        self._deadline_s, self._slack_s = _Least(), _Least()
        self._quiet_from_s = 0.0

    def arrived(self, deadline_s: float, own_s: float, now_s: float) -> None:
        """A request that is due so long after its arrival, and takes so long itself."""
        self._deadline_s.seen(deadline_s, now_s)
        self._slack_s.seen(deadline_s - own_s, now_s)

    def disturbed(self, now_s: float) -> None:
        """The policy would rather run somebody else than what runs."""
        self._quiet_from_s = now_s + self._calm_s

    def allows(self, deadline_s: float, run_s: float, now_s: float) -> bool:
        """Whether the run of a request due so long after its arrival may go without boundaries."""
        if self._calm_s == math.inf or now_s < self._quiet_from_s:
            return False
        soonest_s = self._deadline_s.at(now_s)
        most_urgent = deadline_s * (1.0 - ALIKE) <= soonest_s or PATIENT * run_s <= soonest_s
        return most_urgent and run_s <= min(CUT * self._longest_s, SLACK_SHARE * self._slack_s.at(now_s))
