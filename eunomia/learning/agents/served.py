"""What policies that are made of named tensors have in common: checks, and their way onto a card and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.learning.card import Card, Family, Parts, check_tensors

Shapes = dict[str, tuple[int, ...]]


class Served(Family):
    """A policy in NumPy with the tensors of a network; ``shapes``: what they are, by the ``units`` of hidden layers.

    ``NOTED``: attributes that its card holds beside ``units``; those of ``GIVEN`` go back to the constructor.
    Raises ConfigError for a tensor that is missing or of a wrong shape.
    """

    KIND = ""  # of network; the family's name where it is empty
    FEATURES: Mapping[str, tuple[str, ...]]
    NOTED: ClassVar[tuple[str, ...]]
    GIVEN: ClassVar[tuple[str, ...]]
    WIDTH = "b1"  # tensor of ``units`` rows
    FINITE = False  # whether numbers that are not finite are refused here, as they are in files

    def __init__(self, tensors: Mapping[str, Floats], name: str, shapes: Callable[[int], Shapes]) -> None:
        self.tensors, self.name = dict(tensors), name
        self.units = len(self.tensors.get(self.WIDTH, ()))
        self.shapes = shapes(self.units)
        check_tensors(self.FAMILY, self.tensors, self.shapes, self.FINITE)

    def parts(self) -> Parts:
        """What its card says of it."""
        noted = {name: getattr(self, name) for name in ("units", *self.NOTED)}
        return Parts(self.FEATURES, {"kind": self.KIND or self.FAMILY, **noted}, self.tensors)

    @classmethod
    def of_card(cls, card: Card, tensors: Mapping[str, Floats]) -> Self:
        """The policy of a checked card."""
        return cls(tensors, card["name"], **{name: card["policy"][name] for name in cls.GIVEN})


def relu(values: Floats) -> Floats:
    """max(0, x)."""
    return np.maximum(values, 0.0)
