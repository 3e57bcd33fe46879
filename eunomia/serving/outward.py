"""From outputs to what a client gets: ranked, or put into its memory; what is much, beside the event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from eunomia.serving.devices.answers import Answers
from eunomia.serving.devices.copying import AT_ONCE_BYTES
from eunomia.serving.devices.strings import Value
from eunomia.serving.protocol.ranking import AT_ONCE_VALUES, MOST_VALUES, to_rank, with_classes
from eunomia.serving.protocol.regions import Placing, Regions
from eunomia.serving.protocol.reshape import as_clients_see
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.visit import Inside, Served

T = TypeVar("T")


@dataclass(frozen=True)
class Outward:
    """What takes long holds room of its tenant's meanwhile."""

    bodies: Bodies
    regions: Regions
    answers: Answers

    def served(self, inside: Inside, outputs: Mapping[str, Value]) -> Served:
        """What the client gets, or the rest of the way to it; raises ServingError."""
        wanted, outputs = inside.request.outputs, as_clients_see(inside.ports, outputs)
        if not inside.request.names_classes:
            return self._placed(inside, outputs)
        values, size = to_rank(wanted, outputs)
        ranked = partial(with_classes, wanted, outputs, inside.ports)
        if AT_ONCE_VALUES < values <= MOST_VALUES:
            return Served(outputs, {}, inside.version, partial(self._ranked, inside, size, ranked))
        return self._placed(inside, ranked())

    async def _ranked(self, inside: Inside, size: int, ranked: Callable[[], Mapping[str, Value]]) -> Served:
        served = self._placed(inside, await self._beside(inside, size, ranked))
        return served if served.rest is None else await served.rest()

    def _placed(self, inside: Inside, outputs: Mapping[str, Value]) -> Served:
        if not inside.request.names_memory:
            return Served(outputs, {}, inside.version)
        placing = self.regions.place(inside.grant.name, inside.request, outputs)
        served = Served(outputs, placing.where, inside.version)
        if placing.size > AT_ONCE_BYTES:
            return served._replace(rest=partial(self._written, inside, placing, served))
        placing.carry_out()
        return served

    async def _written(self, inside: Inside, placing: Placing, served: Served) -> Served:
        await self._beside(inside, placing.size, placing.carry_out)
        return served

    async def _beside(self, inside: Inside, size: int, work: Callable[[], T]) -> T:
        with self.bodies.of(inside.grant.name) as room:
            room.need(size)
            return await self.answers.beside(work)
