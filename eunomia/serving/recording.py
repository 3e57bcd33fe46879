"""Recorded traffic and measured costs: what a digital twin is made of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eunomia.serving.retired import Retired

if TYPE_CHECKING:
    from eunomia.serving.service import Service

KEPT = 200_000  # requests; older ones are forgotten
FORMAT = 1


@dataclass
class Recording:
    """The last accepted requests, in order of their answers."""

    requests: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def retired(self, request: Retired, now_s: float) -> None:
        """Note one: arrival, pair, relative deadline, batch, outcome, response, wait for the first block."""
        deadline_s = request.deadline_s if np.isfinite(request.deadline_s) else None
        self.requests.append([
            now_s - request.response_s, request.tenant, request.model, deadline_s, request.batch, request.outcome,
            request.response_s, request.queue_s,
        ])  # fmt: skip


def export(service: Service) -> dict[str, Any]:
    """Everything that ``eunomia twin`` needs, as JSON: devices, block times, promises, settings, traffic.

    ``stretch``: device time as the dispatcher sees it over the sum of block times: what messages between
    blocks cost. What reading and answering a request takes is not in a recording.
    """
    dispatcher, costs = service.pool.dispatcher, service.pool.costs
    blocks = max(dispatcher.block_s, 1e-9)
    return {
        "format": FORMAT, "policy": service.policy_name, "lease_s": dispatcher.options.lease_s,
        "late": dispatcher.options.late, "max_batch": dispatcher.options.max_batch,
        "devices": [device.spec.name for device in service.pool.devices],
        "networks": {
            name: np.where(np.isfinite(t := costs.latency_s[costs.rows(network)]), t, -1.0).tolist()
            for name, network in costs.networks.items()
        },
        "pairs": [
            {"tenant": a.tenant, "model": a.model, "weight": a.weight, "priority": a.priority,
             "slo": None if a.slo is None else {"target": a.slo.target, "kind": a.slo.kind,
                                                "percentile": a.slo.percentile, "window_s": a.slo.window_s,
                                                "window_requests": a.slo.window_requests}}
            for a in dispatcher.agreements
        ],
        "stretch": max(1.0, sum(lane.busy_s for lane in dispatcher.lanes) / blocks) if dispatcher.block_s else 1.0,
        "requests": list(service.recording.requests),
    }  # fmt: skip
