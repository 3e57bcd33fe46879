"""Actors whose every action is known."""

import numpy as np

from eunomia.learning.agents.ddpg.network import Actor


def zero_actor(lanes: int, units: int, promises: bool) -> Actor:
    """Every action is 0."""
    shapes = Actor.shapes(lanes, units, promises)
    return Actor(lanes, promises, **{name: np.zeros(shape) for name, shape in shapes.items()})
