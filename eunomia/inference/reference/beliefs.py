"""What the scheduler believes of layer times, and what follows from it for whole networks."""

from __future__ import annotations

import math
from collections.abc import Collection

from eunomia.inference.problem import Problem


class Beliefs:
    """Estimates c' and their sums and longest paths, always computed from the current c'."""

    def __init__(self, problem: Problem, alpha: float) -> None:
        self.alpha = alpha  # weight of the newest observation; 0 = nothing is learned
        self.latency = problem.costs.estimate_s.tolist()
        self.dram_bytes = problem.costs.dram_bytes.tolist()
        self.offset = problem.graph.offset.tolist()
        starts, edges = problem.graph.successor_start.tolist(), problem.graph.successor.tolist()
        self.successors = [edges[starts[row] : starts[row + 1]] for row in range(len(self.latency))]

    def able(self, row: int) -> list[int]:
        """Accelerator types that can run the row."""
        return [kind for kind, value in enumerate(self.latency[row]) if value < math.inf]

    def best_type(self, row: int) -> int:
        """First type of least c'."""
        return min(self.able(row), key=lambda kind: (self.latency[row][kind], kind))

    def best(self, row: int) -> float:
        """min c'."""
        return float(self.latency[row][self.best_type(row)])

    def mean(self, row: int) -> float:
        """Mean c' over the types able to run the row."""
        able = self.able(row)
        return float(sum(self.latency[row][kind] for kind in able) / len(able))

    def demand(self, row: int, kind: int) -> float:
        """b' = V / c'; 0 where the type cannot run the row."""
        if self.latency[row][kind] == math.inf:
            return 0.0
        return float(self.dram_bytes[row][kind] / self.latency[row][kind])

    def work(self, model: int, layers: Collection[int]) -> tuple[float, float, float]:
        """Best time, mean time and DRAM bytes of some layers of a model."""
        rows = [self.offset[model] + layer for layer in sorted(layers)]
        return (
            sum(self.best(row) for row in rows),
            sum(self.mean(row) for row in rows),
            sum(self.dram_bytes[row][self.best_type(row)] for row in rows),
        )

    def paths(self, model: int, layer: int) -> tuple[float, float]:
        """Longest path from a layer, included, to an exit: by best and by mean time."""
        first, last = self.offset[model], self.offset[model + 1]
        path: dict[int, tuple[float, float]] = {}
        for row in range(last - 1, first + layer - 1, -1):
            after = [path[first + i] for i in self.successors[row]]
            path[row] = (
                self.best(row) + max((p[0] for p in after), default=0.0),
                self.mean(row) + max((p[1] for p in after), default=0.0),
            )
        return path[first + layer]

    def learn(self, row: int, kind: int, seen_s: float) -> None:
        """Move c' towards an observed duration."""
        if self.alpha > 0.0:
            self.latency[row][kind] = (1.0 - self.alpha) * self.latency[row][kind] + self.alpha * seen_s
