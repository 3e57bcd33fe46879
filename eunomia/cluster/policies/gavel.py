"""Gavel's policies under Gavel's names: each is a class of this package with its settings.

No suffix: agnostic; ``_perf``: aware of throughputs; ``_packed``: with pairs. Settings given by the caller win.
"""

from __future__ import annotations

from functools import partial

from eunomia.cluster.policies.fifo import Fifo
from eunomia.cluster.policies.finish_time import FinishTimeFairness
from eunomia.cluster.policies.gavel_fifo import StaleFifo
from eunomia.cluster.policies.makespan import MinTotalDuration
from eunomia.cluster.policies.max_min import MaxMinFairness
from eunomia.cluster.policies.rank_programmes import RankedThroughput
from eunomia.cluster.policies.strategy_proof import StrategyProof
from eunomia.cluster.policies.throughput_sum import MaxSumThroughput
from eunomia.cluster.policies.water_filling import WaterFilling

max_min_fairness = partial(MaxMinFairness, aware=False)
max_min_fairness_perf = MaxMinFairness
max_min_fairness_packed = partial(MaxMinFairness, packed=True)
water_filling = partial(WaterFilling, aware=False)
water_filling_perf = WaterFilling
water_filling_packed = partial(WaterFilling, packed=True)
hierarchical = partial(WaterFilling, within="fairness")
strategy_proof = StrategyProof
finish_time_fairness = partial(FinishTimeFairness, aware=False)
finish_time_fairness_perf = FinishTimeFairness
finish_time_fairness_packed = partial(FinishTimeFairness, packed=True)
min_total_duration = partial(MinTotalDuration, aware=False)
min_total_duration_perf = MinTotalDuration
min_total_duration_packed = partial(MinTotalDuration, packed=True)
max_sum_throughput_perf = MaxSumThroughput
per_cost_perf = partial(MaxSumThroughput, per_cost=True)
per_cost_perf_slos = partial(MaxSumThroughput, per_cost=True, slos=True)
per_cost_packed_slos = partial(MaxSumThroughput, per_cost=True, slos=True, packed=True)
cost_ratio = partial(MaxSumThroughput, ratio=True)
cost_ratio_slos = partial(MaxSumThroughput, ratio=True, slos=True)


def fifo(as_gavel: bool = False) -> Fifo | StaleFifo:
    """A random type among those with room; ``as_gavel``: with the fault of Gavel's code, in Gavel's mode."""
    return StaleFifo() if as_gavel else Fifo(form="random")


fifo_perf = partial(Fifo, form="best")
fifo_packed = partial(Fifo, form="packed")
fifo_programme = partial(RankedThroughput, order="arrival")
shortest_job_programme = partial(RankedThroughput, order="shortest")
