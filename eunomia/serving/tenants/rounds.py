"""Tenants in turn on the event loop: in each of its rounds, one more message of each tenant is taken up.

The loop serves whatever is ready in the order of arrival. A tenant with a hundred ready connections would go a hundred
times before another's one request; so from the second on, its messages wait for the next round. Whoever is alone, or
sends one at a time, never waits. All callers without a key count as one tenant (``circle.py``).
"""

from __future__ import annotations

import asyncio

from eunomia.serving.tenants.circle import Circle, group_of


class Rounds:
    """Who went in this round, and who waits for a later one."""

    def __init__(self) -> None:
        self._went: set[str] = set()
        self._circle = Circle[asyncio.Future[None]]()

    async def turn(self, who: str) -> None:
        """Return at once, or in a later round."""
        if not self._went:
            asyncio.get_running_loop().call_soon(self._next)
        elif group_of(who) in self._went:
            mine = asyncio.get_running_loop().create_future()
            self._circle.join(who, mine)
            await mine
            return
        self._went.add(group_of(who))

    def _next(self) -> None:
        """A new round: the first that waits of each goes."""
        self._went.clear()
        for group in self._circle.groups:
            while group in self._circle:
                mine = self._circle.take(group)
                if not mine.done():  # else its client has gone away
                    mine.set_result(None)
                    self._went.add(group)
                    break
        if self._went:
            asyncio.get_running_loop().call_soon(self._next)
