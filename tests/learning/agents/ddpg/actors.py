"""Actors whose every action is known, and the LSTM in plain NumPy."""

import numpy as np

from eunomia.learning.agents.ddpg.policy import Actor


def zero_actor(lanes: int, units: int, promises: bool) -> Actor:
    """Every action is 0."""
    shapes = Actor.shapes(lanes, units, promises)
    return Actor(lanes, promises, **{name: np.zeros(shape) for name, shape in shapes.items()})


def act(actor: Actor, rows: np.ndarray) -> np.ndarray:
    """(n, F) sub-jobs in order -> (n, 1 + S) actions, by the formulas of policy.py."""
    hidden, cell, actions = np.zeros(actor.units), np.zeros(actor.units), []
    for row in rows:
        i, f, g, o = np.split(row @ actor.x + hidden @ actor.h + actor.bias, 4)
        cell = cell / (1.0 + np.exp(-f)) + np.tanh(g) / (1.0 + np.exp(-i))
        hidden = np.tanh(cell) / (1.0 + np.exp(-o))
        actions.append(np.tanh(hidden @ actor.out + actor.out_bias))
    return np.array(actions).reshape(len(rows), 1 + actor.lanes)
