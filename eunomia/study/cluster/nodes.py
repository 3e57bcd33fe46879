"""Which nodes to rent for last month's jobs, under which policy: the least rent that keeps what is promised.

A set of nodes is refuted where no policy could keep the promises (see :mod:`.nodes_bound`). Else the log is replayed
under each policy until one keeps them. :mod:`.nodes_search` chooses the sets. It takes for granted that more nodes do
not break a promise: true of the bound, almost always true of a policy; promises of which it is not, such as
utilisation, are tried set by set. Jobs may run on any type; their run times scale with its speed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from eunomia.config.cluster_plan import ClusterPlanConfig, NodeConfig
from eunomia.core.arrays import Flags, Ints
from eunomia.core.errors import ConfigError
from eunomia.study.cluster.nodes_bound import Needed
from eunomia.study.cluster.nodes_replay import OnReplay, Replays
from eunomia.study.cluster.nodes_result import Left, Looked, NodesResult
from eunomia.study.cluster.nodes_search import Counts, Market, Search, sets_within

GROWING = frozenset(  # promises that more nodes do not break
    ("finished", "unfinished", "dropped", "jct_mean_s", "jct_median_s", "jct_p95_s", "jct_p99_s", "jct_max_s")
    + ("wait_mean_s", "makespan_s", "slo_attainment")
)
FINE = 0.02  # head-room is found to two percent
STEPS = (1.1, 1.25, 1.5, 2.0, 3.0)


def plan_nodes(config: ClusterPlanConfig, on_done: OnReplay | None = None, workers: int = 1) -> NodesResult:
    """The least rent that keeps the promises; the answer does not depend on the number of processes.

    Raises ConfigError, TraceError for a question that cannot be asked.
    """
    with Replays(config, on_done, workers) as replays:
        return _planned(config, replays)


def _planned(config: ClusterPlanConfig, replays: Replays) -> NodesResult:
    hours = config.hours or replays.span_h
    market = _market(config, hours)
    within, all_of_them = sets_within(market, market.rent)
    if not len(within):
        raise ConfigError(
            f"plan of nodes '{config.name}': no set of nodes is within [bounds]; raise them, or add a cheaper node"
        )
    needed = replays.needed
    search = Search(
        replace(market, capacity=needed.capacity),
        replays.keeps,
        partial(_passes, config.node, needed),
        GROWING.issuperset(config.promise),
        config.tries,
        ahead=replays.expect,
    ).run()
    answer = search.answer
    if not replays.found and not replays.never:
        replays.keeps(tuple(int(n) for n in within[(within @ np.array(market.gives)).argmax()]))
    carried = 1.0 if answer is None else _carried(replays, answer)
    looked = Looked(len(within), all_of_them, int((~_passes(config.node, needed, within)).sum()))
    left = Left(search.left, search.whole)
    return NodesResult(
        config, looked, left, answer, replays.found, replays.never, carried, hours, replays.remarks
    )


def _market(config: ClusterPlanConfig, hours: float) -> Market:
    nodes = config.node
    return Market(
        least=tuple(node.least for node in nodes),
        most=tuple(node.most for node in nodes),
        rents=tuple(node.rent_per_h for node in nodes),
        gives=tuple(node.devices * node.speed for node in nodes),
        rent=(config.bounds.cost or math.inf) / hours,
        nodes=config.bounds.nodes or math.inf,
    )


def _passes(nodes: Sequence[NodeConfig], needed: Needed, sets: Ints) -> Flags:
    """Sets that the bounds leave open."""
    devices, speed = np.array([node.devices for node in nodes]), np.array([node.speed for node in nodes])
    there = sets > 0
    return np.asarray(
        ((sets * devices).max(axis=1) >= needed.devices)
        & (sets @ (devices * speed) >= needed.capacity)
        & (np.where(there, speed, 0.0).max(axis=1) >= needed.speed)
    )


def _carried(replays: Replays, counts: Counts) -> float:
    """How many times the jobs per hour still keep the promises under the answer's policy, to FINE."""
    policy = (replays.found[counts].policy,)
    low, high = 1.0, math.inf
    replays.expect([counts], STEPS)
    for step in STEPS:
        if not replays.replay(counts, step, policy).kept:
            high = step
            break
        low = step
    while math.isfinite(high) and high - low > FINE:
        middle = (low + high) / 2
        replays.expect([counts], [(low + middle) / 2, (middle + high) / 2])
        low, high = (middle, high) if replays.replay(counts, middle, policy).kept else (low, middle)
    return low
