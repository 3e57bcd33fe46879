"""A binary tree over named features: numbers, evaluation, size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats, Ints

LEAF = -1


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes in the order of reading: the left child of node i (feature <= threshold) is i + 1, the right one ``right``.

    ``feature`` is LEAF at leaves, where ``value`` counts.
    """

    feature: Ints
    threshold: Floats
    right: Ints
    value: Floats

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return int((self.feature == LEAF).sum())

    @property
    def is_zero(self) -> bool:
        """Whether it adds nothing."""
        return self.leaves == 1 and self.value[0] == 0.0

    def leaf_of(self, inputs: Floats) -> Ints:
        """(n,) node number of the leaf of every row of ``inputs`` (n, NAMES)."""
        node = np.zeros(len(inputs), np.int64)
        going = self.feature[node] != LEAF
        while going.any():
            at = node[going]
            low = inputs[going, self.feature[at]] <= self.threshold[at]
            node[going] = np.where(low, at + 1, self.right[at])
            going = self.feature[node] != LEAF
        return node

    def __call__(self, inputs: Floats) -> Floats:
        """(n,) values."""
        return self.value[self.leaf_of(inputs)]

    def pack(self) -> Floats:
        """The block that compiled code reads (policy/trees.py)."""
        columns = (self.feature, self.threshold, self.right, self.value)
        return np.column_stack(columns).astype(np.float64).ravel()


def constant(value: float = 0.0) -> Tree:
    """A tree of one leaf."""
    return Tree(np.array([LEAF]), np.zeros(1), np.zeros(1, np.int64), np.array([value]))


def node(feature: int, threshold: float, low: Tree, high: Tree) -> Tree:
    """A question over two trees."""
    offset = 1 + len(low.feature)
    return Tree(
        np.concatenate([[feature], low.feature, high.feature]),
        np.concatenate([[threshold], low.threshold, high.threshold]),
        np.concatenate([[offset], _shift(low, 1), _shift(high, offset)]),
        np.concatenate([[0.0], low.value, high.value]),
    )


def _shift(tree: Tree, by: int) -> Ints:
    return np.where(tree.feature == LEAF, 0, tree.right + by)
