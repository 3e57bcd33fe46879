"""Who shares the promises, and what each tenant got of all servers together: ``/v2/eunomia/replicas``."""

from __future__ import annotations

from aiohttp import web

from eunomia.core.data import Json
from eunomia.serving.fronts.caller import caller_of
from eunomia.serving.fronts.openapi import operation
from eunomia.serving.service import Service

PLACE = "/v2/eunomia/replicas"


class ReplicasFront:
    """For administrators; an anonymous server shows it to everybody."""

    PATHS: Json = {
        PLACE: {"get": operation("Replicas, and each tenant's totals over all of them", keyed=True)}
    }

    def __init__(self, service: Service) -> None:
        self.service = service

    def routes(self) -> list[web.RouteDef]:
        """What to add to the application."""
        return [web.get(PLACE, self._get)]

    async def _get(self, http: web.Request) -> web.Response:
        if not self.service.anonymous:
            self.service.require_admin(caller_of(http))
        fleet = self.service.fleet
        return web.json_response(
            {"name": None, "replicas": [], "tenants": {}} if fleet is None else fleet.facts()
        )
