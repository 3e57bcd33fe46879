"""When a network may run in one piece: nobody is likely to want its device before it ends.

Cutting a network costs: 15 blocks of ResNet-50 take 5 to 10 % longer than the whole. While the policy never prefers
anybody to what runs, boundaries are of no use. So a network runs whole when, for ``calm_s``, nobody was preferred to
what ran, when it is no longer than a lease, and when every pair of tenant and network that was seen in the last
minute could still wait for it with half of its slack left (deadline less its own time). The first request that is
preferred after a calm time waits for the end of the network; from then on networks run in blocks again.

Does badly for a rare urgent request whose deadline is far away: it waits for a whole network rather than a block.
"""

from __future__ import annotations

import math

SLACK_SHARE = 0.5
SEEN_S = 60.0
LOOK_S = 1.0


class Calm:
    """Who was seen with how much slack, and when the policy last preferred somebody. ``calm_s`` = inf: never whole."""

    def __init__(self, calm_s: float, longest_s: float) -> None:
        self._calm_s, self._longest_s = calm_s, longest_s
        self._seen: dict[int, tuple[float, float]] = {}  # pair -> slack, when
        self._least_s, self._looked_s = math.inf, 0.0
        self._quiet_from_s = 0.0

    def arrived(self, pair: int, slack_s: float, now_s: float) -> None:
        """A request of that pair, and how long it could wait."""
        self._seen[pair] = slack_s, now_s
        self._least_s = min(self._least_s, slack_s)

    def disturbed(self, now_s: float) -> None:
        """The policy would rather run somebody else than what runs."""
        self._quiet_from_s = now_s + self._calm_s

    def allows(self, run_s: float, now_s: float) -> bool:
        """Whether a run of that length may go without boundaries."""
        if self._calm_s == math.inf or now_s < self._quiet_from_s:
            return False
        if now_s > self._looked_s + LOOK_S:
            self._seen = {pair: found for pair, found in self._seen.items() if found[1] >= now_s - SEEN_S}
            self._least_s = min((slack_s for slack_s, _ in self._seen.values()), default=math.inf)
            self._looked_s = now_s
        return run_s <= min(self._longest_s, SLACK_SHARE * self._least_s)
