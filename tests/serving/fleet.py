"""Replicas that always have work, in virtual time: fair queueing with the rule of the server, and its optimum.

Each replica is one device with runs of random length. A tenant that enters there always has a request waiting.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np
from scipy.optimize import linprog

from eunomia.inference.policies.elsewhere import FIRST, VIRTUAL, charge_tags
from eunomia.serving.replicas.rule import Accounts, News, ReplicaOptions

MEAN_S = 0.02


class Fleet:
    """``where``: for each tenant a digit per replica, 1 = it enters there."""

    def __init__(
        self, count: int, weights: Mapping[str, float], where: Mapping[str, str], seed: int, shared: bool = True,
        options: ReplicaOptions = ReplicaOptions(hold_s=60.0),
    ) -> None:  # fmt: skip
        self.tenants, self.weights = list(weights), np.array(list(weights.values()))
        self.enters = [
            [t for t, name in enumerate(self.tenants) if where[name][r] == "1"] for r in range(count)
        ]
        self.served = np.zeros((count, len(weights)))
        self.memory = [np.zeros(64) for _ in range(count)]
        self.options, self.shared, self.away, self.dead = options, shared, False, set[int]()
        self.accounts = [Accounts(options.exchange_s, options.hold_s) for _ in range(count)]
        self.seen_s = [0.0] * count
        self.rng = np.random.default_rng(seed)
        self.events: list[tuple[float, int, int]] = [(0.0, 1, r) for r in range(count)]
        self.events += [(float(self.rng.random()) * options.exchange_s, 0, r) for r in range(count)]
        heapq.heapify(self.events)

    def run(self, until_s: float) -> None:
        """Go on until then."""
        while self.events[0][0] < until_s:
            now_s, kind, replica = heapq.heappop(self.events)
            if kind == 0:
                self._exchange(replica, now_s)
                heapq.heappush(self.events, (now_s + self.options.exchange_s, 0, replica))
            else:
                heapq.heappush(self.events, (now_s + self._run(replica, now_s), 1, replica))

    def totals(self) -> dict[str, float]:
        """Device seconds by tenant so far."""
        return dict(zip(self.tenants, self.served.sum(axis=0).tolist(), strict=True))

    def _exchange(self, replica: int, now_s: float) -> None:
        if self.away or replica in self.dead or not self.shared:
            return
        others = [n for n in range(len(self.served)) if n != replica]
        self.seen_s[replica], gap_s = now_s, now_s - self.seen_s[replica]
        news = {
            str(n): News(dict(zip(self.tenants, self.served[n].tolist(), strict=True)), gap_s) for n in others
        }
        self.accounts[replica].learned(news, (), len(self.served) - len(self.dead), now_s)

    def _run(self, replica: int, now_s: float) -> float:
        took_s = float(self.rng.exponential(MEAN_S))
        if not self.enters[replica] or replica in self.dead:
            return took_s
        memory = self.memory[replica]
        owed_s = self.accounts[replica].take(now_s)
        if owed_s.any():
            numbers = np.arange(len(self.tenants))
            most_s = self.options.memory_s * len(self.served) / self.weights
            charge_tags(memory, numbers, owed_s / self.weights, most_s)
        tags = np.maximum(memory[VIRTUAL], memory[FIRST : FIRST + len(self.tenants)])
        first = min(self.enters[replica], key=lambda t: tags[t])
        memory[VIRTUAL] = max(memory[VIRTUAL], tags[first])
        memory[FIRST + first] = tags[first] + took_s / self.weights[first]
        self.served[replica, first] += took_s
        return took_s


def fair_totals(count: int, weights: Mapping[str, float], where: Mapping[str, str]) -> dict[str, float]:
    """Weighted max-min of total service per second: raise the least, freeze whom nobody can raise, go on."""
    names, n = list(weights), len(weights)
    frozen: dict[str, float] = {}
    most = [[1.0 if where[name][r] == "1" else 0.0 for r in range(count)] for name in names]
    while len(frozen) < n:
        level = _best(names, weights, most, frozen, None)
        for name in [name for name in names if name not in frozen]:
            if _best(names, weights, most, frozen, (name, level)) <= level * (1.0 + 1e-6):
                frozen[name] = level * weights[name]
    return frozen


def _best(
    names: list[str], weights: Mapping[str, float], most: list[list[float]], frozen: Mapping[str, float],
    raised: tuple[str, float] | None,
) -> float:  # fmt: skip
    """The highest level that all (with ``raised`` only that one, the others at its level) can have."""
    n, count = len(names), len(most[0])
    cost = np.zeros(n * count + 1)
    cost[-1] = -1.0
    above, least = [], []
    for t, name in enumerate(names):
        line = np.zeros(n * count + 1)
        line[t * count : (t + 1) * count] = -1.0 / weights[name]
        if name in frozen:
            least.append(-frozen[name] / weights[name])
        elif raised is None or raised[0] == name:
            line[-1] = 1.0
            least.append(0.0)
        else:
            least.append(-raised[1])
        above.append(line)
    for r in range(count):
        line = np.zeros(n * count + 1)
        line[[t * count + r for t in range(n)]] = 1.0
        above.append(line)
        least.append(1.0)
    bounds = [(0.0, limit) for row in most for limit in row] + [(0.0, None)]
    found = linprog(cost, np.array(above), np.array(least) + 1e-9, bounds=bounds)
    return float(found.x[-1])
