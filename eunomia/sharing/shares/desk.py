"""The token on the real clock: who waits, who holds it, and that it always comes back."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.sharing.shares.scheduler import Grant, ShareScheduler
from eunomia.sharing.shares.simulate import Hold


class TokenLostError(EunomiaError):
    """The token was taken back from a client that kept it too long."""


class Desk:
    """Hands the token out in one event loop. Nothing is granted before ``open``.

    ``holds``: every hold since then, by ``clock``. ``away``: per client, the spells (from, to) in which it neither held
    the token nor waited for it, but for those that go on. ``on_lost``: called with the name of a client whose hold
    exceeded its quota by the patience of the rules; the token is free by then.
    """

    def __init__(self, scheduler: ShareScheduler, clock: Callable[[], float] = time.monotonic) -> None:
        self.scheduler, self.clock = scheduler, clock
        self.holds: list[Hold] = []
        self.away: dict[str, list[tuple[float, float]]] = {}
        self._left_s: dict[str, float] = {}
        self.on_lost: Callable[[str], None] = lambda name: None
        self._waiting: dict[str, asyncio.Future[float]] = {}  # in order of asking
        self._open, self._began_s = False, 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begin to grant."""
        self._open = True
        self._next()

    async def acquire(self, name: str) -> float:
        """Wait for the token; the quota in seconds. Raises ConfigError for a client that waits or holds it already."""
        held = self.scheduler.held
        if name in self._waiting or (held is not None and held.client == name):
            raise ConfigError(
                f"client '{name}' asks for the token a second time; it has to give it back first"
            )
        now_s = self.clock()
        self.away.setdefault(name, []).append((self._left_s.pop(name, now_s), now_s))
        self._waiting[name] = asyncio.get_running_loop().create_future()
        self._next()
        return await self._granted(name)

    async def renew(self, name: str, burst_s: float = 0.0, cut: bool = False) -> float:
        """Give the token back and wait for it anew, in one step: in two, the client would not be there to be chosen."""
        held = self._held_by(name)
        self._waiting[name] = asyncio.get_running_loop().create_future()
        self._give_back(held, burst_s, cut)
        self._left_s.pop(name, None)
        return await self._granted(name)

    def release(self, name: str, burst_s: float = 0.0, cut: bool = False) -> float:
        """Take the token back from its holder; the seconds charged. Raises TokenLostError if it is not the holder."""
        return self._give_back(self._held_by(name), burst_s, cut)

    def leave(self, name: str) -> None:
        """A client is gone, and perhaps held the token."""
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            waiting.cancel()
        held, now_s = self.scheduler.held, self.clock()
        self._left_s[name] = now_s
        if self.scheduler.leave(name, now_s) and held is not None:
            self._note(held, now_s)

    def away_s(self, name: str, since_s: float, until_s: float) -> float:
        """For how long a client neither held the token nor waited for it."""
        spells = [*self.away.get(name, ())]
        if name in self._left_s:
            spells.append((self._left_s[name], until_s))
        total_s: float = sum(max(0.0, min(b, until_s) - max(a, since_s)) for a, b in spells)
        return total_s

    def close(self) -> None:
        """Grant nothing more."""
        self._open = False
        for handle in (self._timer, self._deadline):
            if handle is not None:
                handle.cancel()

    async def _granted(self, name: str) -> float:
        future = self._waiting.get(name)
        if future is None:  # the token was there at once
            held = self._held_by(name)
            return held.quota_s
        try:
            return await future
        except asyncio.CancelledError:
            if self._waiting.get(name) is future:
                del self._waiting[name]
            elif future.done() and not future.cancelled():
                self.release(name)
            raise

    def _held_by(self, name: str) -> Grant:
        held = self.scheduler.held
        if held is None or held.client != name:
            raise TokenLostError(f"client '{name}' gives back a token that it does not hold")
        return held

    def _give_back(self, held: Grant, burst_s: float, cut: bool) -> float:
        now_s = self.clock()
        charged_s = self.scheduler.report(now_s, burst_s, cut)
        self._note(held, now_s)
        return charged_s

    def _note(self, held: Grant, now_s: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self.holds.append(Hold(held.client, self._began_s, now_s, held.quota_s))
        self._left_s[held.client] = now_s
        self._next()

    def _next(self) -> None:
        """Grant the token if it is free and somebody may have it; otherwise ask again in time."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._open or self.scheduler.held is not None:
            return
        now_s = self.clock()
        found = self.scheduler.pick(self._waiting, now_s)
        loop = asyncio.get_running_loop()
        if isinstance(found, Grant):
            self._began_s = now_s
            patience_s = found.quota_s + self.scheduler.rules.patience_s
            self._deadline = loop.call_later(patience_s, self._take_back, found)
            self._waiting.pop(found.client).set_result(found.quota_s)
        elif math.isfinite(found):
            self._timer = loop.call_later(max(found, 1e-4), self._next)

    def _take_back(self, grant: Grant) -> None:
        if self.scheduler.held is grant:
            now_s = self.clock()
            self.scheduler.report(now_s)
            self._note(grant, now_s)
            self.on_lost(grant.client)
