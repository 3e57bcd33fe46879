"""Actors whose every action is known, and the LSTM in plain NumPy."""

import numpy as np

from eunomia.learning.agents.ddpg.policy import shapes
from eunomia.learning.agents.served import Floats


def zero_actor(lanes: int, units: int, promises: bool) -> dict[str, Floats]:
    """Every action is 0."""
    return {name: np.zeros(shape) for name, shape in shapes(lanes, units, promises).items()}


def act(tensors: dict[str, Floats], rows: Floats) -> Floats:
    """(n, F) sub-jobs in order -> (n, 2 + S) actions, by the formulas of policy.py."""
    x, h, bias, out, out_bias = (tensors[name] for name in ("x", "h", "bias", "out", "out_bias"))
    hidden, cell, actions = np.zeros(len(h)), np.zeros(len(h)), []
    for row in rows:
        i, f, g, o = np.split(row @ x + hidden @ h + bias, 4)
        cell = cell / (1.0 + np.exp(-f)) + np.tanh(g) / (1.0 + np.exp(-i))
        hidden = np.tanh(cell) / (1.0 + np.exp(-o))
        actions.append(np.tanh(hidden @ out + out_bias))
    return np.array(actions).reshape(len(rows), len(out_bias))
