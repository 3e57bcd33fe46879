"""What a scheduler may know before the run: networks and platform, and nothing of the requests to come."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.inference.problem import Problem


class Knowledge(NamedTuple):
    """Rows are layers of all networks (row = offset[model] + layer), columns accelerators. Estimates, as in a View."""

    latency_s: Floats  # (rows, S); inf = cannot run
    demand_bytes_s: Floats  # (rows, S)
    path_best_s: Floats  # (rows,) best-case time from this layer, included, to the end of its network
    offset: Ints  # (models + 1,)
    successor_start: Ints  # (rows + 1,)
    successor: Ints  # (edges,) layer index within the network


@runtime_checkable
class Informed(Protocol):
    """A policy that looks beyond the ready layers: ``prepare`` is called before each run."""

    def prepare(self, knowledge: Knowledge) -> None:
        """Take note of networks and platform."""


def knowledge_of(problem: Problem) -> Knowledge:
    """The scheduler's view of a problem's tables; an estimator that learns (``ewma``) shows its prior."""
    costs, graph = problem.costs, problem.graph
    return Knowledge(
        np.ascontiguousarray(costs.estimate_s[:, problem.type_of]),
        np.ascontiguousarray(costs.estimate_demand[:, problem.type_of]),
        np.ascontiguousarray(graph.path_best_s, np.float64),
        np.ascontiguousarray(graph.offset, np.int64),
        np.ascontiguousarray(graph.successor_start, np.int64),
        np.ascontiguousarray(graph.successor, np.int64),
    )
