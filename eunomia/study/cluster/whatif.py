"""What would change: more or fewer devices, other prices, other weights; before and after on the same jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eunomia.config.cluster import ClusterConfig, cluster_from, cluster_table
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.metrics.cluster import CLUSTER_METRICS, HEADLINES
from eunomia.metrics.statistics import Estimate
from eunomia.report.charts import bars
from eunomia.report.table import Table
from eunomia.report.units import value_text
from eunomia.study.cluster.build import AllocatorLike
from eunomia.study.cluster.run import CLUSTERS, ClusterLike, ClusterRunResult, run_cluster
from eunomia.study.result import Result, Row

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

SHOWN = {*HEADLINES, "wait_mean_s"}
FEW_TENANTS = 3
NONE_LEFT = "loses most: no job finishes"


@dataclass(frozen=True, repr=False)
class WhatIf(Result):
    """The same experiment before and after a change; ``changes`` in words.

    ``whole``: the table has every figure and every tenant; else, as the command line prints it without ``--all``, the
    headlines that are not 0, and of many tenants the two to whom most happens.
    """

    before: ClusterRunResult
    after: ClusterRunResult
    changes: tuple[str, ...]
    whole: bool = field(default=True, kw_only=True)

    def changed(self) -> list[tuple[str, float, float]]:
        """(metric, before, after) of every figure that the change can move; solve times tell of the machine."""
        names = [name for name in CLUSTER_METRICS if not name.startswith("solve_")]
        return [(name, self.before.metrics[name], self.after.metrics[name]) for name in names]

    def tenants(self) -> list[tuple[str, float, float]]:
        """(tenant, before, after): average JCT of its finished jobs, s."""
        before, after = _by_tenant(self.before), _by_tenant(self.after)
        return [(name, before[name], after.get(name, float("nan"))) for name in before]

    def shown(self) -> list[tuple[str, float, float]]:
        """Those of ``changed`` that stand in the table."""
        found = [row for row in self.changed() if not (math.isnan(row[1]) and math.isnan(row[2]))]
        if self.whole:
            return found
        return [row for row in found if row[0] in SHOWN and (row[1] or row[2])]

    def shown_tenants(self) -> list[tuple[str, float, float]]:
        """(label, before, after) of the tenants in the table: the one that loses most, and the one that gains most."""
        tenants = self.tenants() if len(self.tenants()) > 1 else []
        if self.whole or len(tenants) <= FEW_TENANTS:
            return [(f"average JCT of '{name}'", before, after) for name, before, after in tenants]
        ratio = [_loss(before, after) for _, before, after in tenants]
        order = sorted((k for k in range(len(tenants)) if ratio[k] == ratio[k]), key=ratio.__getitem__)
        ends = (("gains most", order[:1]), ("loses most, or gains least", order[1:][-1:]))
        return [
            (
                f"average JCT of '{tenants[k][0]}' ({NONE_LEFT if ratio[k] == math.inf else what})",
                *tenants[k][1:],
            )
            for what, rows in ends
            for k in rows
        ]

    def footnotes(self) -> list[str]:
        """What the table leaves out."""
        if self.whole:
            return []
        every = replace(self, whole=True)
        figures, tenants = len(every.shown()) - len(self.shown()), len(every.shown_tenants())
        of = f" and {tenants} tenants" if tenants > FEW_TENANTS else ""
        return [f"{figures} more figures{of}: --all, or --json"]

    def answer(self) -> Data:
        """The changes, every metric and every tenant's average, before and after."""
        return {
            "changes": list(self.changes),
            "policy": self.before.policy,
            "metrics": {name: {"before": b, "after": a} for name, b, a in self.changed()},
            "tenants_jct_mean_s": {name: {"before": b, "after": a} for name, b, a in self.tenants()},
        }

    @property
    def title(self) -> str:
        """What was run, and what changed."""
        return f"{self.before.title}: {'; '.join(self.changes)}"

    def rows(self) -> list[Row]:
        """One row per metric."""
        return [{"metric": name, "before": before, "after": after} for name, before, after in self.changed()]

    def table(self, short: bool = False) -> Table:
        """Before, after, and the change in per cent."""
        rows = [
            (CLUSTER_METRICS[name].label, CLUSTER_METRICS[name], before, after)
            for name, before, after in self.shown()
        ]
        jct = CLUSTER_METRICS["jct_mean_s"]
        rows += [(label, jct, before, after) for label, before, after in self.shown_tenants()]
        cells = (
            (label, value_text(metric, before), value_text(metric, after), relative_change(before, after))
            for label, metric, before, after in rows
        )
        return Table(("metric", "before", "after", "change"), tuple(cells))

    def draw(self, axes: Axes, metric: str | None) -> None:
        """After over before for every metric that changed."""
        ratios = {
            CLUSTER_METRICS[name].heading: Estimate(after / before, math.nan, math.nan, 1)
            for name, before, after in self.changed()
            if before and math.isfinite(before) and math.isfinite(after) and before != after
        }
        bars(axes, ratios, "after / before")
        axes.axhline(1.0, color="black", linewidth=1.0)


@dataclass(frozen=True)
class Change:
    """``add`` and ``remove``: devices by type; a type is gone when none is left. ``price``: cost per hour by type.

    ``weight``: factor by job id, or by tenant for all of its jobs.
    """

    add: Mapping[str, int] = field(default_factory=dict)
    remove: Mapping[str, int] = field(default_factory=dict)
    price: Mapping[str, float] = field(default_factory=dict)
    weight: Mapping[str, float] = field(default_factory=dict)


def what_if(
    config: ClusterLike,
    change: Change,
    policy: AllocatorLike | None = None,
    seed: int | None = None,
    overrides: Iterable[str] = (),
) -> WhatIf:
    """Run an experiment as it is and as it would be. Raises ConfigError for changes that make no sense."""
    if not isinstance(change, Change):
        raise ConfigError(f"change is {change!r}; give eunomia.Change(add={{TYPE: COUNT}}) or the like")
    checked = CLUSTERS.checked(config, overrides)
    table = cluster_table(checked)
    said = [
        *_devices(table, change.add, 1, "add"),
        *_devices(table, change.remove, -1, "remove"),
        *_prices(table, change.price),
    ]
    before = run_cluster(checked, policy, seed, record="leases")
    said += _weights(table, change.weight, before)
    if not said:
        raise ConfigError(
            "nothing to change; give add, remove, price or weight, for example --add v100=4 or --weight gold=2"
        )
    after = run_cluster(_changed(table, checked), policy, seed, record="leases")
    return WhatIf(before, after, tuple(said))


def _changed(table: Data, checked: ClusterConfig) -> ClusterConfig:
    """The configuration after the change; run times keep their reference type even if its devices go."""
    for key in ("trace", "generate"):
        if key in table:
            table[key].setdefault("reference", checked.device[0].type)
    return cluster_from(table)


def _device(table: Data, name: str) -> Data:
    found: dict[str, Data] = {entry["type"]: entry for entry in table["device"]}
    if name not in found:
        raise UnknownNameError("device type", name, found)
    return found[name]


def _devices(table: Data, change: Mapping[str, int], sign: int, verb: str) -> list[str]:
    said = []
    for name, count in change.items():
        entry = _device(table, name)
        if count < 1:
            raise ConfigError(f"{verb} {name}={count}: give a number of devices of at least 1")
        left = entry["count"] + sign * count
        if left < 0:
            raise ConfigError(f"remove {name}={count}: there are only {entry['count']}")
        said.append(f"{name}: {entry['count']} -> {left} devices")
        entry["count"] = left
    table["device"] = [entry for entry in table["device"] if entry["count"] > 0]
    if not table["device"]:
        raise ConfigError("no device would be left")
    return said


def _prices(table: Data, change: Mapping[str, float]) -> list[str]:
    said = []
    for name, price in change.items():
        entry = _device(table, name)
        if not 0.0 <= price < math.inf:
            raise ConfigError(f"price {name}={price}: it must be a finite number, at least 0")
        said.append(f"{name}: {entry.get('cost_per_hour', 0.0):g} -> {price:g} per device-hour")
        entry["cost_per_hour"] = float(price)
    return said


def _weights(table: Data, change: Mapping[str, float], before: ClusterRunResult) -> list[str]:
    """Weights of jobs and tenants; both are looked up among the jobs that ran before."""
    if not change:
        return []
    jobs = before.records["jobs"]
    ids = jobs["job"].to_pylist()
    tenants = jobs["tenant"].to_pylist()
    said = []
    factors = dict(table.get("weight_factors", {}))
    for name, value in change.items():
        if not value > 0.0:
            raise ConfigError(f"weight {name}={value}: it must be greater than 0")
        if name not in ids and name not in tenants:
            raise UnknownNameError("job or tenant", name, {*tenants, *ids[:50]})
        kind = "job" if name in ids else "tenant"
        said.append(f"{kind} '{name}': weight times {value:g}")
        factors[name] = float(value)
    table["weight_factors"] = factors
    return said


def _by_tenant(result: ClusterRunResult) -> dict[str, float]:
    jobs = result.records["jobs"]
    sums: dict[str, list[float]] = {}
    for tenant, arrival, finish in zip(
        jobs["tenant"].to_pylist(), jobs["arrival_s"].to_pylist(), jobs["finish_s"].to_pylist(), strict=True
    ):
        sums.setdefault(tenant, [])
        if finish is not None:
            sums[tenant].append(finish - arrival)
    return {name: sum(v) / len(v) if v else float("nan") for name, v in sums.items()}


def _loss(before: float, after: float) -> float:
    """After over before; infinite where no job finishes any more, nan where none did before."""
    return math.inf if math.isnan(after) and before == before else after / before if before else math.nan


def relative_change(before: float, after: float) -> str:
    """In per cent; = where nothing changed."""
    if math.isnan(before) or math.isnan(after) or before == after:
        return "" if before != after else "="
    return f"{100.0 * (after / before - 1.0):+.1f} %" if before else f"{after - before:+.4g}"
