"""Kueue's ClusterQueues, Cohorts and Configuration as ``kubectl get ... -o yaml`` or json writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from eunomia.cluster.policies.kueue.model import ClusterQueue, QueueSetup, Quota, WhenBorrow, WhenPreempt
from eunomia.cluster.traces.kubernetes import devices, entries, is_gpu, objects, part
from eunomia.core.errors import ConfigError, TraceError

if TYPE_CHECKING:
    from eunomia.core.data import Data


@dataclass(frozen=True)
class KueueQueues:
    """The queues, and how many devices of each flavor their quotas promise."""

    path: Path
    setup: QueueSetup
    counts: Mapping[str, int]


def read_kueue_queues(path: str | Path) -> KueueQueues:
    """Raises TraceError."""
    path = Path(path)
    found = objects(path)
    queues = tuple(_queue(path, each) for each in found if each["kind"] == "ClusterQueue")
    if not queues:
        raise TraceError(
            "no ClusterQueue in the file; write it with kubectl get clusterqueues,cohorts -o yaml", path
        )
    cohorts = dict(_cohort(path, each) for each in found if each["kind"] == "Cohort")
    fair, strategies = False, QueueSetup(()).strategies
    for each in found:
        if each["kind"] == "Configuration":
            sharing = part(path, "the Configuration", each, "fairSharing")
            fair = bool(sharing.get("enable", bool(sharing)))
            strategies = tuple(sharing.get("preemptionStrategies") or strategies)
    counts: dict[str, int] = {}
    for queue in queues:
        for flavor, quota in queue.quotas.items():
            counts[flavor] = counts.get(flavor, 0) + quota.nominal
    for quotas in cohorts.values():
        for flavor, count in quotas.items():
            counts[flavor] = counts.get(flavor, 0) + count
    counts = {flavor: count for flavor, count in counts.items() if count}
    if not counts:
        raise TraceError(
            f"no ClusterQueue has a quota of GPUs, only of: {_resources(path, found)}; "
            "list nvidia.com/gpu with a nominalQuota",
            path,
        )
    try:
        setup = QueueSetup(queues, cohorts, fair, strategies)
    except ConfigError as error:
        raise TraceError(str(error), path) from None
    return KueueQueues(path, setup, counts)


def _queue(path: Path, given: Data) -> ClusterQueue:
    name = str(part(path, "a ClusterQueue", given, "metadata").get("name", ""))
    where = f"ClusterQueue '{name}'"
    spec = part(path, where, given, "spec")
    preemption = part(path, where, spec, "preemption")
    borrow = part(path, where, preemption, "borrowWithinCohort")
    fungible = part(path, where, spec, "flavorFungibility")
    threshold = borrow.get("maxPriorityThreshold")
    weight = part(path, where, spec, "fairSharing").get("weight", 1)
    try:
        return ClusterQueue(
            name,
            _quotas(path, where, spec),
            str(spec.get("cohortName") or spec.get("cohort") or ""),
            spec.get("queueingStrategy", "BestEffortFIFO"),
            preemption.get("withinClusterQueue", "Never"),
            preemption.get("reclaimWithinCohort", "Never"),
            borrow.get("policy", "Never"),
            None if threshold is None else float(threshold),
            _weight(path, where, weight),
            cast(WhenBorrow, _now(fungible, "whenCanBorrow", "Borrow", "Borrow")),
            cast(WhenPreempt, _now(fungible, "whenCanPreempt", "Preempt", "TryNextFlavor")),
        )
    except (ConfigError, TypeError, ValueError) as error:
        text = str(error) if where in str(error) else f"{where}: {error}"
        raise TraceError(text, path) from None


def _now(fungible: Data, key: str, stops: str, default: str) -> str:
    """The policy; newer files call the first choice MayStopSearch."""
    found = str(fungible.get(key) or default)
    return stops if found == "MayStopSearch" else found


def _quotas(path: Path, where: str, spec: Data) -> dict[str, Quota]:
    """GPU quotas by flavor, in the order of the file."""
    found: dict[str, Quota] = {}
    for group in entries(path, where, spec, "resourceGroups"):
        for flavor in entries(path, where, group, "flavors"):
            for resource in entries(path, where, flavor, "resources"):
                if is_gpu(str(resource.get("name", ""))):
                    found[str(flavor.get("name", ""))] = Quota(
                        devices(path, where, resource.get("nominalQuota", 0)),
                        *(
                            None if resource.get(key) is None else devices(path, where, resource[key])
                            for key in ("borrowingLimit", "lendingLimit")
                        ),
                    )
    return found


def _resources(path: Path, found: list[Data]) -> str:
    """Names of the resources that queues have quotas of."""
    names: dict[str, None] = {}
    for each in found:
        if each["kind"] == "ClusterQueue":
            for group in entries(
                path, "a ClusterQueue", part(path, "a ClusterQueue", each, "spec"), "resourceGroups"
            ):
                names |= dict.fromkeys(map(str, group.get("coveredResources") or ()))
    return ", ".join(list(names)[:8]) or "nothing"


def _cohort(path: Path, given: Data) -> tuple[str, dict[str, int]]:
    name = str(part(path, "a Cohort", given, "metadata").get("name", ""))
    where = f"Cohort '{name}'"
    spec = part(path, where, given, "spec")
    above = spec.get("parentName") or spec.get("parent")
    if above:
        raise TraceError(
            f"{where} has the parent '{above}'; cohorts of cohorts are not modelled, name one cohort per queue",
            path,
        )
    return name, {flavor: quota.nominal for flavor, quota in _quotas(path, where, spec).items()}


def _weight(path: Path, where: str, value: object) -> float:
    text = str(value)
    try:
        return float(text[:-1]) / 1000.0 if text.endswith("m") else float(text)
    except ValueError:
        raise TraceError(
            f"{where}: weight '{text[:40]}' is no number; write 2, or 500m for a half", path
        ) from None
