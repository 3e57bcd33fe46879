"""Cluster policies by name. One line per policy; nothing is imported until it is asked for."""

from __future__ import annotations

from typing import Any

from eunomia.cluster.view import Allocator
from eunomia.errors import ConfigError
from eunomia.registry import Registry

# name -> a callable that builds the allocator from keyword settings: a dataclass, a class or a function
ALLOCATORS = Registry(
    "cluster policy",
    "eunomia.cluster_policies",
    {
        "isolated": "eunomia.cluster.policies.reference_shares:Isolated",
        "proportional": "eunomia.cluster.policies.reference_shares:Proportional",
    },
)


def allocator(name: str, **settings: Any) -> Allocator:
    """Build a policy by name: ``allocator("max_min_fairness_perf", solver="simplex")``.

    Raises UnknownNameError with the nearest name, ConfigError for a setting that the policy does not have.
    """
    build = ALLOCATORS.load(name)
    try:
        made: Allocator = build(**settings)
    except TypeError as error:
        raise ConfigError(f"cluster policy '{name}' cannot be set up with {settings}: {error}") from error
    return made
