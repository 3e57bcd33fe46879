"""Which nodes to rent for a log's jobs: a catalogue with rents, promises, policies to choose from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from eunomia.config.complaints import config_error
from eunomia.config.load import read_table
from eunomia.config.overrides import Table, apply_overrides, parse_overrides
from eunomia.config.section import (
    FilePath,
    Name,
    NotNegative,
    PolicyText,
    Positive,
    Section,
    unknown_name,
    wrong,
)
from eunomia.core.own_file import as_path
from eunomia.metrics.cluster import CLUSTER_METRICS

Most = Annotated[int, Field(ge=0, le=10_000)]


class NodeConfig(Section):
    """A kind of node that can be rented."""

    type: Name
    devices: Annotated[int, Field(ge=1, le=1024)] = 1  # of a node
    speed: Positive = 1.0  # of a device beside the others
    least: Most = 0
    most: Annotated[int, Field(ge=1, le=10_000)] = 8
    rent_per_h: NotNegative = 0.0  # of a node

    @model_validator(mode="after")
    def _span(self) -> Self:
        if self.least > self.most:
            raise wrong(f"least is {self.least} and most is {self.most}; least must be at most {self.most}")
        return self


class NodeBounds(Section):
    """At most."""

    cost: Positive | None = None
    nodes: Annotated[int, Field(ge=1)] | None = None


class ClusterPlanConfig(Section):
    """A question: which nodes, under which policy, at least rent?"""

    name: Name
    description: str = ""
    log: FilePath  # as `eunomia cluster jobs` reads it
    format: Name = "auto"
    columns: dict[str, str] = Field(default_factory=dict)
    jobs: Annotated[int, Field(ge=1, le=1_000_000)] = 5_000  # the first so many of it
    speed: dict[str, Positive] = Field(default_factory=dict)  # of types in the log that cannot be rented
    reference: Name | None = None  # type of run times whose job names none; None = the first [[node]]
    currency: Name = "USD"
    hours: Positive | None = None  # that rent is paid for; None = from the first submission to the last
    node: list[NodeConfig] = Field(min_length=1, max_length=12)
    policies: list[PolicyText] = Field(default=["backfill", "least_attained_service", "srtf"], min_length=1)
    promise: dict[str, Positive]  # metric = at most, or at least where higher is better
    bounds: NodeBounds = Field(default_factory=NodeBounds)
    tries: Annotated[int, Field(ge=1, le=100_000)] = 300  # sets of nodes that are replayed, at most

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [node.type for node in self.node]
        if len(set(names)) < len(names):
            raise wrong(
                f"two entries of [[node]] are of one type ({', '.join(names)}); give each a name of its own"
            )
        if self.reference is not None and self.reference not in {*names, *self.speed}:
            raise wrong(
                f"reference is '{self.reference}', which has no speed; name a [[node]], or give its speed"
            )
        known = promised()
        if not self.promise:
            raise wrong("promise is empty; give for example promise = { wait_mean_s = 3600.0 }")
        for metric in self.promise:
            if metric not in known:
                raise unknown_name(f"promise.{metric}", "metric", metric, known)
        return self


def promised() -> list[str]:
    """Metrics that may be promised: those in which one side is better, solve times aside."""
    return [
        name for name, m in CLUSTER_METRICS.items() if m.better != "neither" and not name.startswith("solve_")
    ]


def load_cluster_plan(path: str | Path, overrides: Iterable[str] = ()) -> ClusterPlanConfig:
    """Read such a file (TOML). Raises ConfigError naming file, key path, value and what is allowed."""
    path = as_path(path, "a plan of nodes")
    return cluster_plan_from(read_table(path, "plan of nodes"), overrides, str(path), path.parent)


def cluster_plan_from(
    data: Table, overrides: Iterable[str] = (), source: str = "plan of nodes", folder: Path | None = None
) -> ClusterPlanConfig:
    """Validate a dictionary. Raises ConfigError."""
    changed = apply_overrides(data, parse_overrides(overrides))
    try:
        return ClusterPlanConfig.model_validate(changed, context={"folder": folder})
    except ValidationError as error:
        raise config_error(error, changed, source) from None
