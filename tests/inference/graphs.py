"""Shapes of networks that strain the engine's memory: wide joins, dense blocks, long chains, single layers."""

from __future__ import annotations

from eunomia.workload.model import DnnModel
from tests.inference.strategies import layers

Edges = list[tuple[int, int]]


def chain(name: str, count: int) -> DnnModel:
    """One layer after the other; a single layer where ``count`` is 1."""
    return DnnModel(name, layers(count), tuple((i, i + 1) for i in range(count - 1)))


def fan(name: str, branches: int) -> DnnModel:
    """One layer, ``branches`` layers side by side, one that joins them all."""
    last = branches + 1
    edges = [(0, i) for i in range(1, last)] + [(i, last) for i in range(1, last)]
    return DnnModel(name, layers(last + 1), tuple(edges))


def open_fan(name: str, branches: int) -> DnnModel:
    """``branches`` layers that are ready at once, and one that joins them all."""
    return DnnModel(name, layers(branches + 1), tuple((i, branches) for i in range(branches)))


def dense(name: str, blocks: tuple[int, ...]) -> DnnModel:
    """DenseNet: in a block of n units each unit joins all earlier ones, and so does the transition after it.

    A unit is a join and a convolution, so a block of n units has joins of 1 to n + 1 branches.
    """
    edges: Edges = []
    last = 0
    for units in blocks:
        joined = [last]
        for _ in range(units):
            join, convolution = last + 1, last + 2
            edges += [(before, join) for before in joined] + [(join, convolution)]
            joined.append(convolution)
            last = convolution
        last += 1
        edges += [(before, last) for before in joined]
    return DnnModel(name, layers(last + 1), tuple(edges))
