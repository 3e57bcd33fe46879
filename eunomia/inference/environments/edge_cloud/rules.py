"""Rules to compare with. Each answers one decision: (row of a waiting task, device), or None to defer.

``first_fit``: oldest task, first device; ``best_fit``: oldest task, the device whose window it fills best;
``least_loaded``: oldest task, shortest queue; ``earliest_finish``: the pair that ends first; ``random``: any legal
pair; ``preference``: the pair with the greatest sum of likes; ``greedy_gain``: the pair of the greatest reward now;
``matching``: all waiting tasks to devices at once, maximum weight of rewards now, one task per device.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import UnknownNameError
from eunomia.inference.environments.edge_cloud.case import Case
from eunomia.inference.environments.edge_cloud.world import Goals, Metrics, World

Answer = tuple[int, int] | None
Rule = Callable[[World], Answer]


def run(case: Case, rule: Rule, goals: Goals | None = None, period_s: float = 0.0) -> World:
    """Play a whole trace; raises PolicyError for an illegal answer."""
    world = World(case, goals, period_s)
    while not world.done:
        answer = rule(world) if world.waiting and world.mask().any() else None
        if answer is None:
            world.advance()
        else:
            world.place(*answer)
    return world


def measured(case: Case, rule: Rule, goals: Goals | None = None) -> Metrics:
    """The metrics of a whole trace."""
    return run(case, rule, goals).metrics()


def _first(order: Floats, world: World) -> Answer:
    """The legal pair of least ``order`` (waiting, D); ties: the older task, the first device."""
    worth = np.where(world.mask(), order, np.inf)
    row, device = np.unravel_index(int(np.argmin(worth)), worth.shape)
    return int(row), int(device)


def _oldest(order: Floats, world: World) -> Answer:
    """The same for the oldest task that has a legal device."""
    mask = world.mask()
    row = int(np.argmax(mask.any(axis=1)))
    return row, int(np.argmin(np.where(mask[row], order[row], np.inf)))


def _finish_s(world: World) -> Floats:
    start_s = np.maximum(world.now_s, world.free_s)
    return np.asarray(start_s[None, :] + world.case.run_s[world.waiting])


def first_fit(world: World) -> Answer:
    """Oldest task, first legal device."""
    return _oldest(np.tile(np.arange(len(world.free_s), dtype=float), (len(world.waiting), 1)), world)


def best_fit(world: World) -> Answer:
    """Oldest task, least window left after it."""
    return _oldest(world.case.leave_s[None, :] - _finish_s(world), world)


def least_loaded(world: World) -> Answer:
    """Oldest task, shortest queue in seconds."""
    queue_s = np.maximum(world.free_s - world.now_s, 0.0)
    return _oldest(np.tile(queue_s, (len(world.waiting), 1)), world)


def earliest_finish(world: World) -> Answer:
    """The pair that ends first."""
    return _first(_finish_s(world), world)


def preference(world: World) -> Answer:
    """The pair with the greatest sum of likes, whenever it runs."""
    c, tenant = world.case, world.case.tenant[world.waiting]
    return _first(-(c.tenant_likes[tenant] + c.device_likes[:, tenant].T), world)


def greedy_gain(world: World) -> Answer:
    """The pair of the greatest reward now."""
    return _first(-world.gains(), world)


def matching(world: World) -> Answer:
    """One pair of the assignment of greatest total reward now; the rest is found again at the next call."""
    mask = world.mask()
    worth = np.where(mask, world.gains(), 0.0)
    pairs = [(row, device) for row, device in assignment(worth) if mask[row, device]]
    return max(pairs, key=lambda pair: float(worth[pair])) if pairs else None


class RandomRule:
    """Any legal pair, alike."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng([seed, 0x4A])

    def __call__(self, world: World) -> Answer:
        """One decision."""
        pairs = np.argwhere(world.mask())
        row, device = pairs[self._rng.integers(len(pairs))].tolist()
        return row, device


RULES: dict[str, Callable[[], Rule]] = {
    "random": RandomRule,
    "first_fit": lambda: first_fit,
    "best_fit": lambda: best_fit,
    "least_loaded": lambda: least_loaded,
    "earliest_finish": lambda: earliest_finish,
    "preference": lambda: preference,
    "greedy_gain": lambda: greedy_gain,
    "matching": lambda: matching,
}


def find_rule(name: str) -> Rule:
    """A rule by name; raises UnknownNameError."""
    if name not in RULES:
        raise UnknownNameError("placement rule", name, RULES)
    return RULES[name]()


def assignment(worth: Floats) -> list[tuple[int, int]]:
    """Pairs of the assignment of greatest total worth, min(rows, columns) of them: the Hungarian method, O(n^3)."""
    if worth.shape[0] > worth.shape[1]:
        return [(row, column) for column, row in assignment(worth.T)]
    cost = worth.max(initial=0.0) - worth
    n, m = cost.shape
    u, v, owner = np.zeros(n + 1), np.zeros(m + 1), np.zeros(m + 1, np.int64)  # place 0 is a helper
    for i in range(1, n + 1):
        owner[0], column = i, 0
        least, way, used = np.full(m + 1, np.inf), np.zeros(m + 1, np.int64), np.zeros(m + 1, np.bool_)
        while owner[column]:
            used[column] = True
            row = owner[column]
            slack = np.append(np.inf, cost[row - 1] - u[row] - v[1:])
            better = ~used & (slack < least)
            least[better], way[better] = slack[better], column
            step = np.where(used, np.inf, least)
            following = int(np.argmin(step[1:])) + 1
            delta = step[following]
            u[owner[used]] += delta
            v[used] -= delta
            least[~used] -= delta
            column = following
        while column:
            owner[column], column = owner[way[column]], int(way[column])
    return [(int(owner[j]) - 1, j - 1) for j in range(1, m + 1) if owner[j]]
