"""The token in virtual time: clients with bursts, pauses and spells without work."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eunomia.core.errors import ConfigError
from eunomia.sharing.shares.scheduler import Grant, ShareScheduler


@dataclass(frozen=True)
class Demand:
    """``bursts_s``, in turn: work that nothing interrupts. ``think_s``: host time after each burst, in turn.

    ``idle``: spells (from, to) in which the client starts no burst.
    """

    bursts_s: Sequence[float]
    think_s: Sequence[float] = (0.0,)
    idle: Sequence[tuple[float, float]] = ()

    def __post_init__(self) -> None:
        if not self.bursts_s or not all(math.isfinite(s) and s > 0.0 for s in self.bursts_s):
            raise ConfigError(f"bursts_s is {list(self.bursts_s)}; at least one, each more than 0 seconds")
        if not self.think_s or min(self.think_s) < 0.0:
            raise ConfigError(f"think_s is {list(self.think_s)}; at least one, none below 0 seconds")

    def ready_s(self, now_s: float) -> float:
        """When it next has work."""
        for since_s, until_s in sorted(self.idle):
            if since_s <= now_s < until_s:
                now_s = until_s
        return now_s


@dataclass(frozen=True, slots=True)
class Hold:
    """``client`` held the token for ``quota_s`` and what it overused."""

    client: str
    start_s: float
    end_s: float
    quota_s: float

    @property
    def overuse_s(self) -> float:
        """Seconds beyond the quota."""
        return max(0.0, self.end_s - self.start_s - self.quota_s)


@dataclass
class _Client:
    demand: Demand
    ready_s: float
    done: int = 0

    def hold(self, start_s: float, quota_s: float) -> tuple[float, float]:
        """Burst after burst until the quota is over or work is short: end and longest burst."""
        now_s, longest_s = start_s, 0.0
        while now_s < start_s + quota_s - 1e-12 and self.demand.ready_s(now_s) <= now_s:
            burst_s = self.demand.bursts_s[self.done % len(self.demand.bursts_s)]
            think_s = self.demand.think_s[self.done % len(self.demand.think_s)]
            self.done += 1
            longest_s, now_s = max(longest_s, burst_s), now_s + burst_s
            self.ready_s = self.demand.ready_s(now_s + think_s)
            if think_s > 0.0:
                break
        else:
            self.ready_s = self.demand.ready_s(now_s)
        return now_s, longest_s


def simulate(
    scheduler: ShareScheduler, demands: Mapping[str, Demand], until_s: float, switch_s: float = 0.0
) -> list[Hold]:
    """Every hold until ``until_s``; ``switch_s``: the device idles so long at each change of hands."""
    clients = {name: _Client(demand, demand.ready_s(0.0)) for name, demand in demands.items()}
    holds: list[Hold] = []
    now_s, last = 0.0, ""
    while now_s < until_s:
        waiting = [name for name, client in clients.items() if client.ready_s <= now_s]
        found = scheduler.pick(sorted(waiting, key=lambda name: clients[name].ready_s), now_s)
        if not isinstance(found, Grant):
            arrivals = [client.ready_s for client in clients.values() if client.ready_s > now_s]
            now_s = min([now_s + found, *arrivals])
            continue
        start_s = now_s + (switch_s if last and found.client != last else 0.0)
        end_s, burst_s = clients[found.client].hold(start_s, found.quota_s)
        scheduler.report(end_s, burst_s)
        holds.append(Hold(found.client, start_s, end_s, found.quota_s))
        now_s, last = end_s, found.client
    return holds
