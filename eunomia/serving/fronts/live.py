"""The live page and the state that it draws."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from importlib import resources
from itertools import islice

from aiohttp import web

from eunomia.core.data import Json
from eunomia.serving.dispatch.lanes import Lane
from eunomia.serving.fronts.caller import caller_of
from eunomia.serving.fronts.openapi import operation
from eunomia.serving.observe.twin import exported
from eunomia.serving.protocol.json_work import as_text
from eunomia.serving.service import Service

SHOWN_S, MOST_RUNS = 10.0, 500  # of the device timeline
SECURITY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


PATHS: Json = {
    "/v2/eunomia/state": {"get": operation("What the live page draws", keyed=True)},
    "/v2/eunomia/twin": {"get": operation("Block times and recorded traffic, for a digital twin", keyed=True)},
}  # fmt: skip


class LiveFront:
    """``/`` is the page, ``/v2/eunomia/state`` what it asks for. A tenant sees itself, an administrator all.

    An anonymous server shows all of it to everybody: whoever asks may give any tenant's name.
    """

    PATHS = PATHS

    def __init__(self, service: Service) -> None:
        self.service = service

    def routes(self) -> list[web.RouteDef]:
        """What to add to the application."""
        return [
            web.get("/", self._page),
            web.get("/v2/eunomia/state", self._state),
            web.get("/v2/eunomia/twin", self._twin),
        ]

    async def _page(self, _: web.Request) -> web.Response:
        return web.Response(text=page_text(), content_type="text/html", headers=SECURITY)

    async def _twin(self, http: web.Request) -> web.StreamResponse:
        if not self.service.anonymous:
            self.service.require_admin(caller_of(http))
        response = web.StreamResponse(headers={"Content-Type": "application/json; charset=utf-8"})
        await response.prepare(http)
        async for piece in exported(self.service):
            await response.write(piece)
        await response.write_eof()
        return response

    async def _state(self, http: web.Request) -> web.Response:
        only, caller = None, caller_of(http)
        if not self.service.anonymous or caller.key is not None:
            grant = self.service.identify(caller)
            only = self.service.sees(grant)
        state = as_text(state_of(self.service, only))
        return web.Response(
            body=state,
            content_type="application/json",
            charset="utf-8",
            headers={"Cache-Control": "no-store"},
        )


@cache
def page_text() -> str:
    """The page, read once."""
    return resources.files("eunomia.serving.fronts").joinpath("live.html").read_text(encoding="utf-8")


def state_of(service: Service, only: str | None) -> Json:
    """What the page shows: all, or of the tenant ``only`` its own, and a coarse share of all others."""
    dispatcher, now_s = service.pool.dispatcher, service.clock.now_s()
    agreements, history = dispatcher.agreements, service.books.history

    def shown(tenant: object) -> bool:
        return only in (None, tenant)

    def running(lane: Lane) -> str | None:
        tenant = agreements[lane.job.pair].tenant if lane.job else None
        return tenant if shown(tenant) else None

    waiting = Counter(agreements[job.pair].tenant for job in dispatcher.waiting.jobs())
    last = islice((run for run in reversed(history.runs) if shown(run.tenant)), MOST_RUNS)
    runs = [run for run in last if run.end_s > now_s - SHOWN_S][::-1]
    lanes = list(zip(service.pool.devices, dispatcher.lanes, strict=True))
    if only is None:
        of_all: Json = {
            "preemptions": dispatcher.preemptions,
            "arena_free_share": service.pool.arena.free_bytes / max(service.pool.arena.room_bytes, 1),
            "others_share": None,
            "fallbacks": dict(service.fallbacks()),
        }
    else:
        share = history.busy.others(only, now_s, len(lanes))
        of_all = {"preemptions": None, "arena_free_share": None, "others_share": share, "fallbacks": {}}
    return {
        "now_s": now_s,
        "policy": service.policy_name,
        "draining": service.draining,
        "front_end": service.books.front.facts(coarse=only is not None),
        "pairs": [pair for pair in _pairs(service, waiting, now_s) if shown(pair["tenant"])],
        "devices": [
            {
                "name": device.spec.name,
                "alive": lane.alive,
                "restarts": max(device.restarts, 0),
                "pid": device.pid if only is None else None,
                "stands_by": device.stands_by,
                "busy_s": lane.busy_s if only is None else None,
                "running": running(lane),
            }
            for device, lane in lanes
        ],
        "runs": [[r.device, r.tenant, r.model, r.start_s, r.end_s, r.preempted] for r in runs],
        "waiting": waiting.total() if only is None else waiting[only],
        "seconds": history.rates(only),
        "misses": [m for m in reversed(history.misses) if shown(m["tenant"])],
        **of_all,
    }


def _pairs(service: Service, waiting: Counter[str], now_s: float) -> list[Json]:
    dispatcher = service.pool.dispatcher
    rows = []
    for agreement, indicator in zip(dispatcher.agreements, dispatcher.indicators, strict=True):
        indicator.refresh(now_s)
        slo = agreement.slo
        rows.append(
            {
                "tenant": agreement.tenant,
                "model": agreement.model,
                "weight": agreement.weight,
                "kind": slo.kind if slo else "hit_rate",
                "target": slo.target if slo else None,
                "sli": None if math.isnan(indicator.sli) else indicator.sli,
                "count": indicator.count,
                "met": None if slo is None or math.isnan(indicator.sli) else indicator.gap <= 0.0,
                "waiting": waiting[agreement.tenant],
            }
        )
    return sorted(rows, key=lambda row: (str(row["tenant"]), str(row["model"])))
