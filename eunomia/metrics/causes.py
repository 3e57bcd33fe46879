"""Where the time of a request went, and why it missed its deadline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.metrics.columns import DROPPED, UNFINISHED, Requests
from eunomia.metrics.statistics import mean

GRACE_S = 1e-9  # a request is a hit when finish <= deadline + GRACE (docs/engine.md)

REASONS = (
    "hopeless on arrival",
    "dropped as hopeless",
    "dropped as expired",
    "queueing",
    "contention",
    "slow accelerator",
    "switching",
    "holding",
)
HOPELESS, DROPPED_HOPELESS, DROPPED_EXPIRED, QUEUEING, CONTENTION, SLOW, SWITCHING, HOLDING = range(8)


@dataclass(frozen=True)
class Split:
    """Parts of the time in the system, seconds, one row per request; they add up to it."""

    queueing_s: Floats  # no layer running
    service_s: Floats  # running, at isolated speed (decision time included)
    contention_s: Floats  # stretch by shared bandwidth
    switch_s: Floats

    @property
    def total_s(self) -> Floats:
        """(n,) time in the system."""
        return self.queueing_s + self.service_s + self.contention_s + self.switch_s


def time_in_system_s(requests: Requests, horizon_s: float) -> Floats:
    """(n,) from arrival to finish, drop or, for unfinished requests, the end of the records."""
    left_s = np.where(np.isnan(requests.finish_s), horizon_s, requests.finish_s)
    return np.maximum(left_s - requests.arrival_s, 0.0)


def split(requests: Requests, horizon_s: float) -> Split:
    """Each request's time in the system = queueing + service + contention + switching, each / all such time.

    Queueing: no layer runs. Running time is divided in proportion to the layers' sums of isolated work (decision time
    included), stretch by contention and switch costs: exact for chains, a fair share for parallel branches. Dropped
    requests count up to the drop, overdue ones up to the last instant on record.

    Misleads: a gate that holds work back turns contention into queueing.
    """
    total = time_in_system_s(requests, horizon_s)
    running = np.minimum(np.nan_to_num(requests.running_s), total)
    work, stretch, switch = (
        np.nan_to_num(x) for x in (requests.work_s, requests.stretch_s, requests.switch_s)
    )
    stretch = np.maximum(stretch, 0.0)
    layers = work + stretch + switch
    scale = np.divide(running, layers, out=np.zeros(len(requests)), where=layers > 0.0)
    queueing = np.where(layers > 0.0, total - running, total)
    return Split(queueing, scale * work, scale * stretch, scale * switch)


def split_shares(parts: Split) -> dict[str, float]:
    """Share of each part in all time in the system; nan when there was none."""
    total = float(parts.total_s.sum())
    return {
        name: float(getattr(parts, f"{name}_s").sum()) / total if total > 0.0 else float("nan")
        for name in ("queueing", "service", "contention", "switch")
    }


def split_means_s(parts: Split) -> dict[str, float]:
    """Mean of each part per request, seconds; nan when there are no requests."""
    return {
        name: mean(getattr(parts, f"{name}_s")) for name in ("queueing", "service", "contention", "switch")
    }


def miss_reason(
    requests: Requests,
    horizon_s: float,
    drops: Literal["apart", "by cause"] = "apart",
    held_s: Mapping[int, float] | None = None,
) -> Ints:
    """(n,) index into REASONS for each request; -1 for requests that did not miss.

    In this order: *hopeless on arrival* when the time allowed is less than iso, the isolated time of
    the model on its best accelerators; *dropped as expired* when the drop came at or after the
    deadline, *dropped as hopeless* when before; else the largest part of the time lost: queueing,
    contention, slow accelerator = max(0, service - iso), switching or holding (ties: in that order).
    ``held_s``: seconds of holding by number of request (eunomia.metrics.holding); None: they count as queueing.
    With ``drops="by cause"`` dropped requests are judged by their lost time too.
    """
    parts = split(requests, horizon_s)
    known = np.array([(held_s or {}).get(number, 0.0) for number in requests.request.tolist()], np.float64)
    held = np.minimum(known, parts.queueing_s)
    lost = np.stack(
        [
            parts.queueing_s - held,
            parts.contention_s,
            np.maximum(0.0, parts.service_s - requests.isolated_s),
            parts.switch_s,
            held,
        ]
    )
    reason = np.argmax(lost, axis=0).astype(np.int64) + QUEUEING if len(requests) else np.empty(0, np.int64)
    if drops == "apart":
        dropped = requests.outcome == DROPPED
        expired = dropped & (requests.finish_s >= requests.deadline_s)
        reason[dropped] = DROPPED_HOPELESS
        reason[expired] = DROPPED_EXPIRED
    allowed_s = requests.deadline_s - requests.arrival_s
    reason[allowed_s + GRACE_S < requests.isolated_s] = HOPELESS
    overdue = (requests.outcome == UNFINISHED) & (requests.deadline_s < horizon_s)
    late = requests.finished & ~requests.hit
    reason[~(late | overdue | (requests.outcome == DROPPED))] = -1
    return reason


def miss_reasons(
    requests: Requests,
    horizon_s: float,
    drops: Literal["apart", "by cause"] = "apart",
    held_s: Mapping[int, float] | None = None,
) -> dict[str, int]:
    """Number of misses by reason, most frequent first; reasons that never occur are left out."""
    reason = miss_reason(requests, horizon_s, drops, held_s)
    count = np.bincount(reason[reason >= 0], minlength=len(REASONS))
    order = np.argsort(-count, kind="stable")
    return {REASONS[index]: int(count[index]) for index in order.tolist() if count[index]}
