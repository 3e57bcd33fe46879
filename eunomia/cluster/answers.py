"""Is an allocator's answer legal? If not, one sentence that names policy, job and value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.errors import PolicyError

TOLERANCE = 1e-5
NameOf = Callable[[int], str]


def check(
    policy: str, view: ClusterView, answer: Allocation, needs: Needs, name_of: NameOf, mixed: bool
) -> None:
    """Raise PolicyError for an answer that breaks the contract of ``view.Allocation``. ``name_of``: job id of "
    "a row."""
    shape = (len(view), len(view.cluster.types))
    values = answer.shares if needs.answer == "shares" else answer.devices
    kind = "shares" if needs.answer == "shares" else "devices"
    if values is None:
        raise PolicyError(f"policy '{policy}' announced {kind} and gave none")
    if values.shape != shape:
        raise PolicyError(
            f"policy '{policy}' gave {kind} of shape {values.shape}; jobs and types make it {shape}"
        )
    wrong = np.argwhere(~np.isfinite(values) | (values < -TOLERANCE))
    if len(wrong):
        m, j = wrong[0]
        raise PolicyError(
            f"policy '{policy}' gave job '{name_of(m)}' {values[m, j]} on '{view.cluster.names[j]}'; "
            f"{kind} must be finite and at least 0"
        )
    scale = view.scale if answer.scale is None else answer.scale
    if answer.scale is not None and (answer.scale.shape != view.scale.shape or (answer.scale < 1).any()):
        raise PolicyError(
            f"policy '{policy}' gave scale factors that are not one number of at least 1 per job"
        )
    if kind == "shares":
        _check_shares(policy, view, answer, scale, name_of)
    else:
        _check_gangs(policy, view, answer, scale, name_of, mixed)
        if not needs.overcommits:
            _check_capacity(policy, view, answer)


def _check_shares(policy, view, answer, scale, name_of) -> None:  # type: ignore[no-untyped-def]
    total = answer.shares.sum(axis=1)
    used = (answer.shares * scale[:, None]).sum(axis=0)
    if answer.pairs is not None and len(answer.pairs.first):
        per_pair = answer.pairs.shares.sum(axis=1)
        np.add.at(total, answer.pairs.first, per_pair)
        np.add.at(total, answer.pairs.second, per_pair)
        used = used + (answer.pairs.shares * scale[answer.pairs.first, None]).sum(axis=0)
    if len(total) and total.max() > 1.0 + TOLERANCE:
        m = int(total.argmax())
        raise PolicyError(
            f"policy '{policy}' gave job '{name_of(m)}' shares that sum to {total[m]:.6g}; at most 1 fits"
        )
    over = used - view.cluster.counts * (1.0 + TOLERANCE) - TOLERANCE
    if (over > 0.0).any():
        j = int(over.argmax())
        raise PolicyError(
            f"policy '{policy}' gave out {used[j]:.6g} devices of type '{view.cluster.names[j]}', which has "
            f"{view.cluster.counts[j]}"
        )


def _check_gangs(policy, view, answer, scale, name_of, mixed) -> None:  # type: ignore[no-untyped-def]
    held = answer.devices
    total = held.sum(axis=1)
    rows = np.flatnonzero(total)
    spread = (held[rows] > 0).sum(axis=1) > 1
    if spread.any() and not mixed:
        raise PolicyError(
            f"policy '{policy}' put job '{name_of(rows[spread][0])}' on several types; a gang keeps to one"
        )
    short = total[rows] != scale[rows]
    if short.any():
        m = rows[short][0]
        raise PolicyError(
            f"policy '{policy}' gave job '{name_of(m)}' {total[m]} devices; it runs on {scale[m]} or none"
        )
    stuck = np.argwhere((held > 0) & ~(view.throughput > 0.0))
    if len(stuck) and answer.scale is None:
        m, j = stuck[0]
        raise PolicyError(
            f"policy '{policy}' put job '{name_of(m)}' on '{view.cluster.names[j]}', where its throughput is 0"
        )


def _check_capacity(policy: str, view: ClusterView, answer: Allocation) -> None:
    assert answer.devices is not None
    used = answer.devices.sum(axis=0)
    if answer.pairs is not None and len(answer.pairs.first):
        used = used + answer.pairs.shares.sum(axis=0)
    over = used > view.capacity
    if over.any():
        j = int(np.argmax(over))
        raise PolicyError(
            f"policy '{policy}' gave out {used[j]:g} devices of type "
            f"'{view.cluster.names[j]}'; {view.capacity[j]} work now"
        )
