"""One operator of a graph as the rules of ``rowwise`` read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from eunomia.core.arrays import Tensor
from eunomia.serving.blocks.row_values import ONE, Size, Unproven, Value, axis_of

Attribute: TypeAlias = object


@dataclass(frozen=True)
class Node:
    """``given``: of each input, None where it is left out. ``constants``: numbers of those that are small weights.

    ``outputs``: how many it gives. ``opset``: of ONNX's own operators.
    """

    kind: str
    given: Sequence[Value | None]
    constants: Sequence[Tensor | None]
    outputs: int
    attributes: Mapping[str, Attribute]
    opset: int

    def has(self, place: int) -> bool:
        """Whether this input is there."""
        return place < len(self.given) and self.given[place] is not None

    def value(self, place: int) -> Value:
        """An input; raises Unproven where it is left out."""
        found = self.given[place] if place < len(self.given) else None
        if found is None:
            raise Unproven("an input is left out that its rule needs")
        return found

    def data(self, place: int) -> Value:
        """An input of which everything may come; raises Unproven where it is a number of rows."""
        if (found := self.value(place)).counts:
            raise Unproven("it works with the number of rows")
        return found.without_entries()

    def all_data(self) -> list[Value]:
        """All that are there."""
        return [self.data(place) for place in range(len(self.given)) if self.has(place)]

    def fixed(self, place: int) -> Value:
        """An input that is the same for any rows; raises Unproven."""
        if not (found := self.value(place)).fixed:
            raise Unproven("an input that its rule takes for weights depends on the rows")
        return found

    def others_fixed(self, *places: int) -> None:
        """All inputs but these are; raises Unproven."""
        for place in range(len(self.given)):
            if place not in places and self.has(place):
                self.fixed(place)

    def absent(self, *places: int) -> None:
        """Raises Unproven where one of these inputs is there."""
        if any(self.has(place) for place in places):
            raise Unproven("it has an input for which there is no rule")

    def first(self, place: int, least: int = 1) -> Value:
        """An input of so many axes at least, with rows along the first, if it has any; raises Unproven."""
        found = self.data(place)
        if found.rank < least or found.rows not in (0, None):
            raise Unproven("rows do not lie along its first axis")
        return found

    def entries(self, place: int) -> tuple[Size | None, ...]:
        """Of whole numbers; raises Unproven where nobody knows them."""
        found = self.value(place).entries
        if found is None:
            raise Unproven("its sizes follow from what nobody knows")
        return found

    def is_number(self, place: int) -> bool:
        """Whether it is a small weight of whole numbers."""
        found = self.constants[place] if place < len(self.constants) else None
        return found is not None and found.dtype.kind in "iu"

    def one_number(self, *places: int) -> None:
        """That these inputs, if there, are one number for all; raises Unproven."""
        for place in places:
            if self.has(place) and any(size != ONE for size in self.fixed(place).sizes):
                raise Unproven("one of its scales is several")

    def numbers(self, place: int) -> list[int]:
        """Of a weight of whole numbers; raises Unproven."""
        found = self.constants[place] if self.is_number(place) else None
        if found is None:
            raise Unproven("its axes or sizes are no constants")
        return [int(number) for number in found.ravel()]

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute; raises Unproven where it is missing and has no default."""
        found = self.attributes.get(name, default)
        if not isinstance(found, int):
            raise Unproven(f"it has no '{name}'")
        return found

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An attribute."""
        found = self.attributes.get(name, default)
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            raise Unproven(f"it has no '{name}'")
        return [int(number) for number in found]

    def text(self, name: str, default: str = "") -> str:
        """An attribute."""
        found = self.attributes.get(name, default)
        return found.decode() if isinstance(found, bytes) else str(found)

    def axes(self, place: int, rank: int) -> list[int] | None:
        """From the attribute or this input; None = all, or none are named."""
        if "axes" in self.attributes:
            found = self.integers("axes")
        elif self.has(place):
            found = self.numbers(place)
        else:
            return None
        return [axis_of(axis, rank) for axis in found]


Given: TypeAlias = "Sequence[Value | None]"
Rule: TypeAlias = Callable[[Node], Given]
