"""Decision trees of distilled rules in the block of a policy; compiled. distill/tree.py is their form in Python.

A tree is COLUMNS numbers per node: feature (negative at a leaf), threshold, right child, value. The left child of a
node follows it. The offsets of the three trees stand where the network of a learned policy would.
"""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.learning.policy.weights import NETWORK

COLUMNS = 4
ORDER_TREE, PLACE_TREE, START_TREE = NETWORK, NETWORK + 1, NETWORK + 2  # where their offsets stand
PAIR_AT, GLOBAL_AT, SHARE_AT = len(JOB), len(JOB) + len(PAIR), len(JOB) + len(PAIR) + len(GLOBAL)


@jitted
def ask_tree(block: Floats, root: int, x: Floats, y: Floats, z: Floats, v: Floats) -> float:
    """Value of the tree whose offset stands at ``root``, for features of a sub-job, a pair, the platform, a start."""
    at = np.int64(block[root])
    place = at
    while block[place] >= 0.0:
        f = np.int64(block[place])
        if f < PAIR_AT:
            value = x[f]
        elif f < GLOBAL_AT:
            value = y[f - PAIR_AT]
        elif f < SHARE_AT:
            value = z[f - GLOBAL_AT]
        else:
            value = v[f - SHARE_AT]
        place = place + COLUMNS if value <= block[place + 1] else at + COLUMNS * np.int64(block[place + 2])
    return block[place + 3]  # type: ignore[no-any-return]
