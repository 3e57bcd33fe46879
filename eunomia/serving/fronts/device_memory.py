"""The paths of CUDA shared memory, which is not offered."""

from __future__ import annotations

from typing import ClassVar

from aiohttp import web

from eunomia.core.data import Json
from eunomia.serving.fronts.caller import caller_of
from eunomia.serving.fronts.openapi import operation
from eunomia.serving.protocol import device_regions
from eunomia.serving.service import Service

PATH = "/v2/cudasharedmemory"
ONE = f"{PATH}/region/{{region}}"


class DeviceMemoryFront:
    """Whoever has a key hears that there is none."""

    PATHS: ClassVar[Json] = {
        f"{PATH}/status": {"get": operation("Regions: none", keyed=True)},
        f"{PATH}/unregister": {"post": operation("Nothing to forget", keyed=True)},
        f"{ONE}/status": {"get": operation("Refused", keyed=True, names=("region",))},
        f"{ONE}/register": {"post": operation("Refused", keyed=True, names=("region",))},
        f"{ONE}/unregister": {"post": operation("Nothing to forget", keyed=True, names=("region",))},
    }

    def __init__(self, service: Service) -> None:
        self.service = service

    def routes(self) -> list[web.RouteDef]:
        """What to add to the application."""
        return [
            web.get(f"{PATH}/status", self._status),
            web.get(f"{ONE}/status", self._status),
            web.post(f"{ONE}/register", self._register),
            web.post(f"{PATH}/unregister", self._unregister),
            web.post(f"{ONE}/unregister", self._unregister),
        ]

    async def _status(self, http: web.Request) -> web.Response:
        self.service.identify(caller_of(http))
        device_regions.look(http.match_info.get("region", ""))
        return web.json_response([])

    async def _register(self, http: web.Request) -> web.Response:
        self.service.identify(caller_of(http))
        device_regions.register(http.match_info["region"])
        return web.Response()

    async def _unregister(self, http: web.Request) -> web.Response:
        self.service.identify(caller_of(http))
        return web.Response()
