"""What the nodes of a network cost, measured once while it runs alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from eunomia.core.errors import ConfigError


@dataclass(frozen=True)
class CostProfile:
    """``node_cost``: per node, in any unit; ``solo_s``: device time of one run alone.

    With C = sum of costs and D = ``solo_s``, a quantum Q is used up after nodes that cost Q * C / D.
    """

    node_cost: tuple[float, ...]
    solo_s: float

    def __post_init__(self) -> None:
        if not self.node_cost or not all(math.isfinite(c) and c > 0.0 for c in self.node_cost):
            raise ConfigError(
                f"a profile of {len(self.node_cost)} nodes; at least one, each cost more than 0"
            )
        if not (math.isfinite(self.solo_s) and self.solo_s > 0.0):
            raise ConfigError(f"a profile with {self.solo_s} s alone; more than 0")

    def seconds(self, node: int) -> float:
        """Device time that a node is charged for: its cost times D / C."""
        return self._seconds[node]

    @cached_property
    def _seconds(self) -> list[float]:
        total = sum(self.node_cost)
        return [cost * self.solo_s / total for cost in self.node_cost]

    def threshold(self, quantum_s: float) -> float:
        """The cost that uses up a quantum."""
        return quantum_s * sum(self.node_cost) / self.solo_s
