"""Recorded traffic and measured costs: what a digital twin is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eunomia.serving.retired import Retired

if TYPE_CHECKING:
    from eunomia.serving.service import Service

KEPT = 200_000  # requests; older ones are forgotten
FORMAT = 3
ROW = np.dtype([
    ("arrival_s", "f8"), ("deadline_s", "f8"), ("response_s", "f8"), ("queue_s", "f8"), ("batch", "i4"), ("who", "i4"),
    ("reach_s", "f4"), ("answer_s", "f4"),
])  # fmt: skip


class Recording:
    """The last accepted requests, in order of their answers.

    A ring of records, 48 bytes a request: as Python objects each would take 300, and the server would seem to
    grow for hours until the ring is full.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._rows = np.zeros(kept, ROW)
        self._count = 0
        self._who: dict[tuple[str, str, str], int] = {}  # tenant, network, outcome -> number in the record

    def retired(self, request: Retired, now_s: float) -> None:
        """Note one."""
        who = self._who.setdefault((request.tenant, request.model, request.outcome), len(self._who))
        self._rows[self._count % len(self._rows)] = (
            now_s - request.response_s, request.deadline_s, request.response_s, request.queue_s, request.batch, who,
            request.reach_s, request.answer_s,
        )  # fmt: skip
        self._count += 1

    def requests(self) -> list[list[Any]]:
        """The oldest first.

        Each: arrival, tenant, network, deadline from arrival (None = none), batch, outcome, response, wait for the
        first block, from acceptance until devices knew, from the end of the last run to the answer.
        """
        at = self._count % len(self._rows)
        rows = np.roll(self._rows, -at) if self._count >= len(self._rows) else self._rows[:at]
        names = list(self._who)
        found = []
        for arrival_s, deadline_s, response_s, queue_s, batch, who, reach_s, answer_s in rows.tolist():
            tenant, model, outcome = names[who]
            deadline_s = deadline_s if np.isfinite(deadline_s) else None
            found.append([
                arrival_s, tenant, model, deadline_s, batch, outcome, response_s, queue_s, reach_s, answer_s,
            ])  # fmt: skip
        return found


def export(service: Service) -> dict[str, Any]:
    """Everything that ``eunomia twin`` needs, as JSON: devices, block times, promises, settings, traffic.

    ``turn_s``: what a device loses with every change of request (dispatch/overheads.py); ``spread``: of block times.
    What reading a request and sending its answer take is not in a recording.
    """
    dispatcher, costs = service.pool.dispatcher, service.pool.costs
    return {
        "format": FORMAT, "policy": service.policy_name, "lease_s": dispatcher.options.lease_s,
        "late": dispatcher.options.late, "max_batch": dispatcher.options.max_batch,
        "devices": [device.spec.name for device in service.pool.devices],
        "networks": {
            name: np.where(np.isfinite(t := costs.mean_s[costs.rows(network)]), t, -1.0).tolist()
            for name, network in costs.networks.items()
        },
        "pairs": [
            {"tenant": a.tenant, "model": a.model, "weight": a.weight, "priority": a.priority,
             "slo": None if a.slo is None else {"target": a.slo.target, "kind": a.slo.kind,
                                                "percentile": a.slo.percentile, "window_s": a.slo.window_s,
                                                "window_requests": a.slo.window_requests}}
            for a in dispatcher.agreements
        ],
        "turn_s": dispatcher.overheads.turn_s, "spread": costs.spread,
        "requests": service.recording.requests(),
    }  # fmt: skip
