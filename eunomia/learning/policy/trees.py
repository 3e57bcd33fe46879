"""Decision trees of distilled rules in the block of a policy; compiled. distill/tree.py is their form in Python.

A tree is COLUMNS numbers per node: feature (negative at a leaf), threshold, right child, value. The left child of a
node follows it. The offsets of the three trees stand where the network of a learned policy would. In place of a tree
there may be a formula (policy/formula.py).
"""

from __future__ import annotations

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.learning.policy.formula import FORMULA, input_of, run_formula
from eunomia.learning.policy.weights import NETWORK

COLUMNS = 4
ORDER_TREE, PLACE_TREE, START_TREE = NETWORK, NETWORK + 1, NETWORK + 2  # where their offsets stand


@jitted
def ask_tree(block: Floats, root: int, x: Floats, y: Floats, z: Floats, v: Floats) -> float:
    """Value of the tree whose offset stands at ``root``, for features of a sub-job, a pair, the platform, a start."""
    at = int(block[root])
    if block[at] == FORMULA:
        return run_formula(block, at, x, y, z, v)
    place = at
    while block[place] >= 0.0:
        value = input_of(int(block[place]), x, y, z, v)
        place = place + COLUMNS if value <= block[place + 1] else at + COLUMNS * int(block[place + 2])
    return block[place + 3]  # type: ignore[no-any-return]
