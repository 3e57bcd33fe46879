"""Cluster policies by name. One line per policy; a policy is imported at its first use."""

from __future__ import annotations

from collections.abc import Mapping

from eunomia.contract.allocation import Allocator, Needs
from eunomia.core.errors import ConfigError
from eunomia.core.registry import Registry, made

# name -> an allocator, or a class or function that makes one from keyword settings
ALLOCATORS = Registry(
    "cluster policy",
    "eunomia.cluster_policies",
    {
        "isolated": "eunomia.cluster.policies.reference_shares:Isolated",
        "proportional": "eunomia.cluster.policies.reference_shares:Proportional",
        "max_min_fairness": "eunomia.cluster.policies.gavel:max_min_fairness",
        "max_min_fairness_perf": "eunomia.cluster.policies.gavel:max_min_fairness_perf",
        "max_min_fairness_packed": "eunomia.cluster.policies.gavel:max_min_fairness_packed",
        "max_min_fairness_water_filling": "eunomia.cluster.policies.gavel:water_filling",
        "max_min_fairness_water_filling_perf": "eunomia.cluster.policies.gavel:water_filling_perf",
        "max_min_fairness_water_filling_packed": "eunomia.cluster.policies.gavel:water_filling_packed",
        "hierarchical": "eunomia.cluster.policies.gavel:hierarchical",
        "max_min_fairness_strategy_proof": "eunomia.cluster.policies.gavel:strategy_proof",
        "finish_time_fairness": "eunomia.cluster.policies.gavel:finish_time_fairness",
        "finish_time_fairness_perf": "eunomia.cluster.policies.gavel:finish_time_fairness_perf",
        "finish_time_fairness_packed": "eunomia.cluster.policies.gavel:finish_time_fairness_packed",
        "min_total_duration": "eunomia.cluster.policies.gavel:min_total_duration",
        "min_total_duration_perf": "eunomia.cluster.policies.gavel:min_total_duration_perf",
        "min_total_duration_packed": "eunomia.cluster.policies.gavel:min_total_duration_packed",
        "max_sum_throughput_perf": "eunomia.cluster.policies.gavel:max_sum_throughput_perf",
        "max_sum_throughput_normalized_by_cost_perf": "eunomia.cluster.policies.gavel:per_cost_perf",
        "max_sum_throughput_normalized_by_cost_perf_SLOs": "eunomia.cluster.policies.gavel:per_cost_perf_slos",
        "max_sum_throughput_normalized_by_cost_packed_SLOs": "eunomia.cluster.policies.gavel:per_cost_packed_slos",
        "max_throughput_cost_ratio": "eunomia.cluster.policies.gavel:cost_ratio",
        "max_throughput_cost_ratio_SLOs": "eunomia.cluster.policies.gavel:cost_ratio_slos",
        "fifo": "eunomia.cluster.policies.gavel:fifo",
        "fifo_perf": "eunomia.cluster.policies.gavel:fifo_perf",
        "fifo_packed": "eunomia.cluster.policies.gavel:fifo_packed",
        "fifo_programme": "eunomia.cluster.policies.gavel:fifo_programme",
        "shortest_job_programme": "eunomia.cluster.policies.gavel:shortest_job_programme",
        "themis": "eunomia.cluster.policies.themis.allocator:Themis",
        "themis_strawman": "eunomia.cluster.policies.themis.allocator:strawman",
        "tiresias": "eunomia.cluster.policies.attained_service:Tiresias",
        "least_attained_service": "eunomia.cluster.policies.attained_service:least_attained_service",
        "gittins": "eunomia.cluster.policies.gittins:Gittins",
        "optimus": "eunomia.cluster.policies.optimus:Optimus",
        "gandiva": "eunomia.cluster.policies.gandiva:Gandiva",
        "gandiva_packed": "eunomia.cluster.policies.random_packing:RandomPacking",
        "slaq": "eunomia.cluster.policies.slaq:Slaq",
        "drf": "eunomia.cluster.policies.drf:DominantResourceFairness",
        "allox": "eunomia.cluster.policies.allox:Allox",
        "srtf": "eunomia.cluster.policies.shortest:srtf",
        "srsf": "eunomia.cluster.policies.shortest:srsf",
        "balancing": "eunomia.cluster.policies.balancing:Balancing",
        "backfill": "eunomia.cluster.policies.backfill:Backfill",
        "slurm": "eunomia.cluster.operators.policies:slurm",
        "kueue": "eunomia.cluster.operators.policies:kueue",
        "elastic": "eunomia.cluster.policies.elastic:Elastic",
        "sia": "eunomia.cluster.policies.elastic:Elastic",
        "shockwave": "eunomia.cluster.policies.shockwave:Shockwave",
        "pollux": "eunomia.cluster.policies.pollux:Pollux",
        "horus": "eunomia.cluster.policies.interference:horus",
        "predicted": "eunomia.cluster.policies.predicted:Predicted",
        "coscheml": "eunomia.cluster.policies.interference:coscheml",
    },
)


def allocator(name: str, **settings: object) -> Allocator:
    """Build a policy by name: ``allocator("max_min_fairness_perf", solver="simplex")``.

    Raises UnknownNameError with the nearest name, ConfigError for a setting that the policy does not have.
    """
    return as_allocator(ALLOCATORS.load(name), settings, f"cluster policy '{name}'")


def own_allocator(text: str, **settings: object) -> Allocator:
    """The same for a name that the user of this machine wrote: ``FILE.py:NAME`` as well, which runs the file."""
    return as_allocator(ALLOCATORS.resolve(text), settings, f"cluster policy '{text}'")


def as_allocator(found: object, settings: Mapping[str, object], what: str) -> Allocator:
    """An allocator, or what makes one from settings: a class or a function. Raises ConfigError for anything else."""
    policy = found
    if isinstance(found, type) or not isinstance(found, Allocator):
        policy = made(found, settings, what)
    elif settings:
        raise ConfigError(f"{what} is set up already; it takes no settings")
    if not isinstance(policy, Allocator):
        raise ConfigError(f"{what} is {policy!r}; an allocator has needs, reset(seed) and allocate(view)")
    if not isinstance(policy.needs, Needs):
        raise ConfigError(f"{what}: needs is {policy.needs!r}; it is the policy's own, leave it out")
    return policy
