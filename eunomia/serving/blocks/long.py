"""A block that takes longer than it may."""

from __future__ import annotations

from eunomia.core.errors import ModelError


class LongBlock(ModelError):
    """A cut has a block that takes ``longest_s``, and may not."""

    def __init__(self, text: str, longest_s: float) -> None:
        super().__init__(text)
        self.longest_s = longest_s


def must_be_short(longest_s: float, most_s: float, margin: float = 1.0) -> None:
    """Raises LongBlock if a block takes longer than it may, by this factor."""
    if longest_s > margin * most_s:
        text = f"a block takes {longest_s * 1e3:.0f} ms with such inputs, and may take {most_s * 1e3:.0f}"
        raise LongBlock(text, longest_s)
