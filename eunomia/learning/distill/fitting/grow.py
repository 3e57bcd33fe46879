"""Regression trees by histograms, grown best first, several at once under one budget of leaves.

The target of a row counts only relative to its group: the group's weighted mean is taken off target and prediction.
Growing sees targets less the group's mean error under the tree so far; values of leaves are then solved by
least squares, jointly, with the means taken off. Does badly where two features matter only together: the first of
them gains nothing alone and is never asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.learning.distill.fitting.samples import Samples
from eunomia.learning.distill.fitting.teacher import three_digits
from eunomia.learning.distill.tree import LEAF, Tree, constant, node

SMALLEST = 0.002  # least share of the weight in a leaf
RIDGE = 1e-4  # of leaf values, as a share of the total weight
ROUNDS = 2  # of growing anew with the groups' errors taken off


@dataclass(frozen=True)
class _Split:
    gain: float
    feature: int
    edge: int


@dataclass
class _Leaf:
    """A leaf of a growing tree; once split, ``children`` are the numbers of its parts."""

    rows: Ints
    split: _Split | None
    children: tuple[int, int] | None = None


class Grower:
    """One tree that grows leaf by leaf."""

    def __init__(self, samples: Samples, target: Floats, allowed: Sequence[int]) -> None:
        self._weight, self._target, self._allowed = samples.weight, target, tuple(allowed)
        self._edges = [samples.bins[f][0] for f in self._allowed]
        self._codes = [samples.bins[f][1] for f in self._allowed]
        total = float(self._weight.sum())
        mean = float(self._weight @ target) / max(total, 1e-300)
        self.spread = float(self._weight @ (target - mean) ** 2)
        self._least = SMALLEST * total
        rows = np.arange(len(target))
        self._leaves = [_Leaf(rows, self._best(rows))]
        self.leaves = 1

    def _best(self, rows: Ints) -> _Split | None:
        """The split with the greatest fall of the squared error."""
        best: _Split | None = None
        weight, weighted = self._weight[rows], self._weight[rows] * self._target[rows]
        for n, (codes, edges) in enumerate(zip(self._codes, self._edges, strict=True)):
            if not len(edges):
                continue
            size, here = len(edges) + 1, codes[rows]
            w = np.cumsum(np.bincount(here, weight, size))
            t = np.cumsum(np.bincount(here, weighted, size))
            low, high = w[:-1], w[-1] - w[:-1]
            allowed = (low >= self._least) & (high >= self._least)
            if not allowed.any():
                continue
            with np.errstate(divide="ignore", invalid="ignore"):
                gains = t[:-1] ** 2 / low + (t[-1] - t[:-1]) ** 2 / high - t[-1] ** 2 / w[-1]
            gains = np.where(allowed, gains, -np.inf)
            edge = int(np.argmax(gains))
            if best is None or gains[edge] > best.gain:
                best = _Split(float(gains[edge]), n, edge)
        return best if best is not None and best.gain > 1e-12 * self.spread else None

    def _next(self) -> int:
        """The leaf whose split gains most; -1 = none can be split."""
        open_ = [
            (leaf.split.gain, -i) for i, leaf in enumerate(self._leaves) if leaf.split and not leaf.children
        ]
        return -max(open_)[1] if open_ else -1

    @property
    def gain(self) -> float:
        """What the next split explains, as a share of all there was to explain; 0 = nothing more."""
        number = self._next()
        split = self._leaves[number].split if number >= 0 else None
        return split.gain / self.spread if split is not None else 0.0

    def split(self) -> None:
        """Do the best split."""
        number = self._next()
        leaf = self._leaves[number]
        assert leaf.split is not None, "asked for only where gain > 0"
        low = self._codes[leaf.split.feature][leaf.rows] <= leaf.split.edge
        leaf.children = (len(self._leaves), len(self._leaves) + 1)
        self._leaves += [_Leaf(rows, self._best(rows)) for rows in (leaf.rows[low], leaf.rows[~low])]
        self.leaves += 1

    def tree(self, number: int = 0) -> Tree:
        """The tree as it stands; values are weighted means."""
        leaf = self._leaves[number]
        if leaf.children is None or leaf.split is None:
            weight = self._weight[leaf.rows]
            return constant(float(weight @ self._target[leaf.rows]) / max(float(weight.sum()), 1e-300))
        column, (low, high) = leaf.split.feature, leaf.children
        threshold = float(self._edges[column][leaf.split.edge])
        return node(self._allowed[column], threshold, self.tree(low), self.tree(high))


def centred(values: Floats, samples: Samples) -> Floats:
    """``values`` less the weighted mean of their group; unchanged where there are no groups to compare within."""
    if samples.groups <= 1 or samples.groups == len(values):
        return values
    total = np.bincount(samples.group, samples.weight, samples.groups)
    mean = np.bincount(samples.group, samples.weight * values, samples.groups) / np.maximum(total, 1e-300)
    return np.asarray(values - mean[samples.group], np.float64)


def refit(tree: Tree, samples: Samples) -> Tree:
    """The same questions with the best values of leaves, three digits; of a mean 0 where only differences count."""
    if tree.leaves == 1 and samples.groups < len(samples.target):
        return constant()
    leaf = tree.leaf_of(samples.inputs)
    numbers = np.flatnonzero(tree.feature == LEAF)
    column = np.searchsorted(numbers, leaf)
    compared = 1 < samples.groups < len(samples.target)
    design = (column[:, None] == np.arange(len(numbers))[None, :]).astype(np.float64)
    if compared:
        total = np.bincount(samples.group, samples.weight, samples.groups)
        for c in range(len(numbers)):
            share = np.bincount(samples.group, samples.weight * design[:, c], samples.groups) / total
            design[:, c] -= share[samples.group]
    weighted = design * samples.weight[:, None]
    matrix = weighted.T @ design + RIDGE * samples.weight.sum() / len(numbers) * np.eye(len(numbers))
    values = np.linalg.solve(matrix, weighted.T @ centred(samples.target, samples))
    if compared:
        values -= np.average(values[column], weights=samples.weight)
    value = tree.value.copy()
    value[numbers] = [three_digits(float(v)) for v in values]
    return replace(tree, value=value)


def grow_trees(
    samples: dict[str, Samples], leaves: int, allowed: dict[str, Sequence[int]], priority: dict[str, float]
) -> dict[str, Tree]:
    """Trees of at most ``leaves`` leaves together: each next leaf goes where it explains most, times ``priority``."""
    trees = {part: constant() for part in samples}
    for _ in range(ROUNDS):
        growers = {}
        for part, rows in samples.items():
            if len(rows.target) and rows.target.std() > 1e-12:
                error = rows.target - trees[part](rows.inputs)
                target = trees[part](rows.inputs) + centred(error, rows)
                growers[part] = Grower(rows, target, allowed[part])
        used = 0
        while growers:
            part = max(growers, key=lambda p: growers[p].gain * priority[p])
            cost = 2 if growers[part].leaves == 1 else 1
            if growers[part].gain <= 0.0 or used + cost > leaves:
                break
            growers[part].split()
            used += cost
        trees |= {part: refit(grower.tree(), samples[part]) for part, grower in growers.items()}
    return trees
