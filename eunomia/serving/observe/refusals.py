"""Which refusals have a line of their own in the audit log: refusing costs nobody device time, and a line costs disk.

Each tenant has ``BURST``, then ``PER_S`` a second. The others are counted; ``EVERY_S`` their numbers are written.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

PER_S, BURST, EVERY_S = 10.0, 10_000.0, 10.0


@dataclass
class _Account:
    """``left_s``: when the first was left out that is not written yet."""

    tokens: float
    at_s: float
    left: Counter[str] = field(default_factory=Counter)
    left_s: float = math.inf


class Refusals:
    """``admits`` each refusal; what is ``due`` is to be written."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts: dict[str, _Account] = {}
        self._due_s = math.inf

    def admits(self, tenant: str, reason: str) -> bool:
        """Whether it has a line; else it is counted."""
        now_s = self._clock()
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = _Account(BURST, now_s)
        account.tokens = min(account.tokens + (now_s - account.at_s) * PER_S, BURST)
        account.at_s = now_s
        if account.tokens >= 1.0:
            account.tokens -= 1.0
            return True
        if not account.left:
            account.left_s = now_s
            self._due_s = min(self._due_s, now_s + EVERY_S)
        account.left[reason] += 1
        return False

    @property
    def counted(self) -> bool:
        """Whether some are that are not written."""
        return self._due_s < math.inf

    def due(self, *, all_of_them: bool = False) -> list[tuple[str, dict[str, int]]]:
        """Tenants and how many of theirs were left out, by reason; they count anew."""
        if not all_of_them and (self._due_s == math.inf or self._clock() < self._due_s):
            return []
        until_s = math.inf if all_of_them else self._clock() - EVERY_S
        found = []
        for tenant, account in self._accounts.items():
            if account.left and account.left_s <= until_s:
                found.append((tenant, dict(account.left)))
                account.left, account.left_s = Counter(), math.inf
        self._due_s = min((a.left_s + EVERY_S for a in self._accounts.values()), default=math.inf)
        return found
