"""The greatest reward that any decisions at events could earn: exhaustive search with memory, for small traces."""

from __future__ import annotations

import copy

import numpy as np

from eunomia.core.errors import ConfigError
from eunomia.inference.environments.edge_cloud.case import Case
from eunomia.inference.environments.edge_cloud.world import Goals, World

MOST_TASKS, MOST_DEVICES = 6, 3


def optimum(case: Case, goals: Goals | None = None) -> float:
    """Best sum of rewards, knowing the future. Raises ConfigError beyond 6 tasks or 3 devices.

    From equal times, waiting tasks and queues the future is the same, so that each such state is searched once.
    """
    if len(case.arrival_s) > MOST_TASKS or len(case.kind) > MOST_DEVICES:
        raise ConfigError(
            f"the optimum is searched up to {MOST_TASKS} tasks and {MOST_DEVICES} devices; this case has "
            f"{len(case.arrival_s)} and {len(case.kind)}"
        )
    world = World(case, goals)
    return world.reward + _best(world, {})


def _best(world: World, known: dict[tuple[object, ...], float]) -> float:
    """Greatest reward still to be earned."""
    if world.done:
        return 0.0
    state = (
        world.now_s,
        tuple(world.waiting),
        tuple(np.maximum(world.free_s, world.now_s).tolist()),
        tuple(sorted(end for end in world._ends if end > world.now_s)),
    )
    if state not in known:
        best = -np.inf
        for row, device in np.argwhere(world.mask()).tolist() if world.waiting else []:
            after = copied(world)
            best = max(best, after.place(row, device) + _best(after, known))
        after = copied(world)
        reward, _ = after.advance()
        known[state] = max(best, reward + _best(after, known))
    return known[state]


def copied(world: World) -> World:
    """A world that goes its own way from here; the case is shared."""
    twin = copy.copy(world)
    for name in ("free_s", "device", "start_s", "_gone", "_ends", "waiting"):
        setattr(twin, name, copy.copy(getattr(world, name)))
    return twin
