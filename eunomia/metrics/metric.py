"""How a number is called and read: its name in full, the heading of its column, its unit, and what is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["higher", "lower", "neither"]
Unit = Literal["share", "s", "1/s", "J", "ratio", "count", "cost", "h"]


@dataclass(frozen=True)
class Metric:
    """The words for one number, the same in the terminal, the report, the documents and the records."""

    label: str  # in full, as in lists of metrics
    heading: str  # of a column of a table
    unit: Unit
    better: Direction

    @property
    def definition(self) -> str:
        """Its formula in words; empty where a document alone has it."""
        return ""
