"""Who holds the token of a device next, and for how long: a state machine without a clock of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from eunomia.core.errors import ConfigError, PolicyError, UnknownNameError
from eunomia.sharing.shares.spec import ShareSpec, check_together
from eunomia.sharing.shares.usage import Bursts, Usage

TINY_S = 1e-9


@dataclass(frozen=True, slots=True)
class ShareRules:
    """The numbers of Gemini, as far as they are known, and two switches for ablations.

    ``patience_s``: a hold that exceeds its quota by this much is taken back; no hold is charged for more.
    """

    window_s: float = 10.0
    quota_s: float = 0.25
    least_quota_s: float = 0.1
    burst_memory_s: float = 3.0
    patience_s: float = 5.0
    adapts: bool = True
    charges_overuse: bool = True

    def __post_init__(self) -> None:
        for name in ("window_s", "quota_s", "least_quota_s", "burst_memory_s", "patience_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise ConfigError(f"{name} is {value}; more than 0 seconds")
        if not self.least_quota_s <= self.quota_s <= self.window_s:
            raise ConfigError(
                f"quota_s is {self.quota_s}; at least least_quota_s ({self.least_quota_s}) and at most window_s "
                f"({self.window_s})"
            )


@dataclass(frozen=True, slots=True)
class Grant:
    """``client`` may use the device for ``quota_s``, from ``start_s`` of the scheduler's time."""

    client: str
    quota_s: float
    start_s: float


@dataclass
class _Account:
    spec: ShareSpec
    usage: Usage
    bursts: Bursts
    quota_s: float


class ShareScheduler:
    """One token, sliding-window usage, quotas that follow the bursts, overuse that is charged.

    A waiting client is eligible unless it is at its limit. Clients below their request come first, by the largest part
    that is missing; then the one that used least; ties go to who waits longest. Time is that of the caller; what a
    clock that steps back lost is not counted, and a leap ahead is charged as ``patience_s`` at most.

    Does badly where a client's bursts exceed its share of the window: nothing can be interrupted.
    """

    def __init__(self, rules: ShareRules | None = None, memory_bytes: int | None = None) -> None:
        self.rules, self.memory_bytes = rules or ShareRules(), memory_bytes
        self.held: Grant | None = None
        self._accounts: dict[str, _Account] = {}
        self._gone: dict[str, _Account] = {}  # who comes back finds its history
        self._time_s, self._seen_s = 0.0, math.nan

    @property
    def clients(self) -> list[ShareSpec]:
        """Who takes part."""
        return [account.spec for account in self._accounts.values()]

    def join(self, spec: ShareSpec) -> None:
        """Take in a client. Raises ConfigError where its promise cannot be kept beside the others'."""
        check_together([*self.clients, spec], self.memory_bytes)
        rules = self.rules
        first_s = min(rules.quota_s, spec.limit * rules.window_s)
        known = self._gone.pop(spec.name, None)
        usage = known.usage if known else Usage(rules.window_s)
        self._accounts[spec.name] = _Account(spec, usage, Bursts(rules.burst_memory_s), first_s)

    def leave(self, name: str, now_s: float) -> bool:
        """Forget a client, dead or alive; whether it held the token, which is free then."""
        held = self.held is not None and self.held.client == name
        if held:
            self.report(now_s)
        if name in self._accounts:
            self._gone[name] = self._accounts.pop(name)
        return held

    def used_s(self, name: str, now_s: float) -> float:
        """What is charged to a client within the window that ends now."""
        return self._account(name).usage.used_s(self._at(now_s))

    def pick(self, waiting: Iterable[str], now_s: float) -> Grant | float:
        """The token for one of those that wait (who waits longest comes first), or seconds until one is eligible.

        inf: nobody waits. Raises PolicyError while the token is held.
        """
        at_s = self._at(now_s)
        if self.held is not None:
            raise PolicyError(f"a pick while '{self.held.client}' holds it")
        asking = [self._account(name) for name in waiting]
        ready = [
            account for account in asking if self._left_s(account, at_s) >= self._least_s(account) - TINY_S
        ]
        if not ready:
            return min((self._eligible_s(account, at_s) - at_s for account in asking), default=math.inf)
        chosen = min(ready, key=lambda account: self._rank(account, at_s))
        self.held = Grant(chosen.spec.name, self._quota_s(chosen, at_s), at_s)
        return self.held

    def report(self, now_s: float, burst_s: float = 0.0, cut: bool = False) -> float:
        """The token comes back; the seconds that are charged.

        ``burst_s``: the holder's longest burst since the grant (0: unknown); ``cut``: its quota ran out inside it.
        """
        at_s, grant = self._at(now_s), self.held
        if grant is None:
            raise PolicyError("the token comes back, but nobody holds it")
        self.held = None
        account = self._account(grant.client)
        over_s = self.rules.patience_s if self.rules.charges_overuse else 0.0
        charged_s = min(at_s - grant.start_s, grant.quota_s + over_s)
        account.usage.add(grant.start_s, grant.start_s + charged_s)
        if burst_s > 0.0:
            account.bursts.add(at_s, burst_s, cut)
        return charged_s

    def _account(self, name: str) -> _Account:
        if name not in self._accounts:
            raise UnknownNameError("client", name, self._accounts)
        return self._accounts[name]

    def _at(self, now_s: float) -> float:
        """The caller's clock without its steps back."""
        if not math.isnan(self._seen_s):
            self._time_s += max(0.0, now_s - self._seen_s)
        self._seen_s = now_s
        return self._time_s

    def _rank(self, account: _Account, at_s: float) -> tuple[int, float]:
        used_s, owed_s = account.usage.used_s(at_s), account.spec.request * self.rules.window_s
        return (0, used_s / owed_s) if used_s < owed_s - TINY_S else (1, used_s)

    def _least_s(self, account: _Account) -> float:
        return min(self.rules.least_quota_s, account.spec.limit * self.rules.window_s)

    def _left_s(self, account: _Account, at_s: float) -> float:
        """Seconds until the limit; a limit of 1 limits nothing."""
        if account.spec.limit >= 1.0:
            return math.inf
        return account.spec.limit * self.rules.window_s - account.usage.used_s(at_s)

    def _eligible_s(self, account: _Account, at_s: float) -> float:
        level_s = account.spec.limit * self.rules.window_s - self._least_s(account)
        return account.usage.falls_to(level_s, at_s)

    def _quota_s(self, account: _Account, at_s: float) -> float:
        """Half the predicted burst and half the last quota, no less than the least one, within the limit."""
        predicted_s = account.bursts.predicted_s(at_s)
        if self.rules.adapts and predicted_s is not None:
            followed_s = 0.5 * predicted_s + 0.5 * account.quota_s
            account.quota_s = min(
                max(followed_s, self.rules.least_quota_s), account.spec.limit * self.rules.window_s
            )
        return min(account.quota_s, self._left_s(account, at_s))
