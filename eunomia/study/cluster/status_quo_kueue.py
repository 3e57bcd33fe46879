"""``whatif --kueue``: a log replayed under ClusterQueues, and with other quotas, weights or policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from eunomia.cluster.operators.kueue_queues import KueueQueues, read_kueue_queues
from eunomia.cluster.policies.kueue.allocator import Kueue
from eunomia.cluster.policies.kueue.model import ClusterQueue, QueueSetup
from eunomia.cluster.traces import JobTrace
from eunomia.core.errors import ConfigError, TraceError, UnknownNameError
from eunomia.study.cluster.build import AllocatorLike
from eunomia.study.cluster.status_quo import Log, StatusQuoWhatIf, compared, instead, other, positive_factor
from eunomia.study.cluster.whatif import Change


def what_if_kueue(
    log: Log,
    queues: str | Path,
    change: Change,
    *,
    quota: Mapping[str, float] | None = None,
    settings: Mapping[str, str] | None = None,
    policy: AllocatorLike | None = None,
) -> StatusQuoWhatIf:
    """Replay a log under ClusterQueues, and with a change. Raises TraceError, ConfigError.

    ``quota``: nominal quotas by ``QUEUE:FLAVOR``. ``settings``: ``QUEUE:KEY`` = value with the keys of Kueue, and
    ``fairSharing``. ``change.weight`` multiplies weights of queues.
    """
    present = read_kueue_queues(queues)
    trace = _known_queues(log.read(), present)
    devices = {name: (count, None) for name, count in present.counts.items()}
    setup, said = present.setup, []
    for key, value in {**(quota or {})}.items():
        setup, text = _with_quota(setup, key, value)
        said.append(text)
    for key, text in (settings or {}).items():
        setup = _with_setting(setup, key, text)
        said.append(f"{key} = {text}")
    for name, factor in change.weight.items():
        setup = _with_queue(setup, name, weight=_queue(setup, name).weight * positive_factor(name, factor))
        said.append(f"queue '{name}': weight times {factor:g}")
    after = other(policy) or Kueue(setup=setup)
    return compared(
        log, trace, devices, change, [*said, *instead(policy, "Kueue")], Kueue(setup=present.setup), after
    )


def _known_queues(trace: JobTrace, queues: KueueQueues) -> JobTrace:
    """Workloads of queues that the file has; the others are left out and counted."""
    names = {queue.name for queue in queues.setup.queues}
    known = np.array([trace.tenants[code] in names for code in trace.tenant])
    if not known.any():
        raise TraceError(
            f"no job belongs to a ClusterQueue of {queues.path.name}; its queues are: {', '.join(sorted(names)[:8])}",
            trace.path,
        )
    left_out = int((~known).sum())
    kept = trace.select(known)
    used = sorted(set(kept.tenant.tolist()))
    kept = replace(
        kept,
        tenants=tuple(kept.tenants[code] for code in used),
        tenant=np.searchsorted(used, kept.tenant).astype(np.int32),
    )
    return kept.with_notes(
        f"{left_out} jobs of queues that {queues.path.name} lacks left out" if left_out else ""
    )


def _queue(setup: QueueSetup, name: str) -> ClusterQueue:
    found = {queue.name: queue for queue in setup.queues}
    if name not in found:
        raise UnknownNameError("ClusterQueue", name, found)
    return found[name]


def _with_queue(setup: QueueSetup, name: str, **values: object) -> QueueSetup:
    one = replace(_queue(setup, name), **values)  # type: ignore[arg-type]
    return replace(setup, queues=tuple(one if queue.name == name else queue for queue in setup.queues))


def _with_quota(setup: QueueSetup, key: str, value: float) -> tuple[QueueSetup, str]:
    """``QUEUE:FLAVOR`` with another nominal quota."""
    name, colon, flavor = key.rpartition(":")
    if not colon or not float(value).is_integer():
        raise ConfigError(
            f"--quota {key}={value:g}: write QUEUE:FLAVOR=COUNT, for example --quota team-a:a100=16"
        )
    quotas = _queue(setup, name).quotas
    if flavor not in quotas:
        raise UnknownNameError("flavor", flavor, quotas, f" of ClusterQueue '{name}'")
    quota = replace(quotas[flavor], nominal=int(value))
    text = f"quota of '{name}' on {flavor}: {quotas[flavor].nominal} -> {int(value)}"
    return _with_queue(setup, name, quotas={**quotas, flavor: quota}), text


FIELDS = {
    "queueingStrategy": "strategy",
    "withinClusterQueue": "within",
    "reclaimWithinCohort": "reclaim",
    "borrowWithinCohort": "borrow_within",
    "whenCanBorrow": "when_can_borrow",
    "whenCanPreempt": "when_can_preempt",
    "cohort": "cohort",
}
LIMITS = {"borrowingLimit": "borrowing_limit", "lendingLimit": "lending_limit"}


def _with_setting(setup: QueueSetup, key: str, text: str) -> QueueSetup:
    """``fairSharing``, ``QUEUE:queueingStrategy``, ``QUEUE:borrowingLimit:FLAVOR`` and the like; ``*`` = all queues."""
    if key == "fairSharing":
        if text not in ("true", "false"):
            raise ConfigError(f"--set fairSharing={text}: write true or false")
        return replace(setup, fair_sharing=text == "true")
    name, _, rest = key.partition(":")
    part, _, flavor = rest.partition(":")
    if part not in {**FIELDS, **LIMITS}:
        raise UnknownNameError(
            "setting", part or key, ["fairSharing", *FIELDS, *LIMITS], " (write QUEUE:SETTING)"
        )
    for each in [queue.name for queue in setup.queues] if name == "*" else [name]:
        if part in FIELDS:
            setup = _with_queue(setup, each, **{FIELDS[part]: text})
            continue
        quotas = _queue(setup, each).quotas
        if flavor not in quotas or not (text.isdigit() or text == "none"):
            raise ConfigError(f"--set {key}={text}: write QUEUE:{part}:FLAVOR=COUNT or =none")
        limit = replace(quotas[flavor], **{LIMITS[part]: None if text == "none" else int(text)})  # type: ignore[arg-type]
        setup = _with_queue(setup, each, quotas={**quotas, flavor: limit})
    return setup
