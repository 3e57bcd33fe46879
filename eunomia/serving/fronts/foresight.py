"""A large request is judged by its first bytes: what does not fit the network need not come whole.

Clients repeat them: what was found to fit fits again while grant and network are the same, and nobody has to pause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from eunomia.serving.devices.messages import Ports
from eunomia.serving.fit import fit_of
from eunomia.serving.fronts.reading import reading
from eunomia.serving.models.entry import ports_of
from eunomia.serving.protocol.checks import check_outputs
from eunomia.serving.protocol.errors import ServingError
from eunomia.serving.protocol.infer import SMALL_BYTES, InferRequest, SharedRegion
from eunomia.serving.service import Service
from eunomia.serving.tenants.grants import Grant
from eunomia.serving.tenants.kept import Kept
from eunomia.serving.visit import Caller

WORTH = 256 * 1024  # bytes of a body that is worth it
KEPT = 256  # beginnings that are remembered


def bytes_to_judge(size: int, header_bytes: int | None) -> int:
    """The length of the JSON that says what a body of so many bytes holds; 0 = wait for all of it."""
    small = header_bytes is not None and 0 < header_bytes <= min(SMALL_BYTES, size)
    return (header_bytes or 0) if small and size >= WORTH else 0


class Beginning(NamedTuple):
    """``said``: all that its judgement depends on. ``model``: its network, where that is known before it is read.

    ``read``: the request with tensors that have not come; None = the rest may still change it. Raises ServingError.
    ``may_stay``: whether it may be kept.
    """

    said: tuple[str | bytes | int, ...]
    model: str
    read: Callable[[], InferRequest | None]
    may_stay: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Fits:
    """What a beginning was judged by that fits; the same again fits as long as all of this is the same."""

    model: str
    version: str
    parameters: Mapping[str, object]
    grant: Grant
    ports: Ports


class Foresight:
    """Judges requests by their first bytes, those that clients repeat at a glance."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known = Kept[_Fits](KEPT)

    def foresee(self, come: Beginning, caller: Caller, tenant: str) -> None:
        """Raises ServingError where it is in vain; that counts for the tenant."""
        known = self._known.find(tenant, come.said)
        if known is not None and self._same(known, caller):
            return
        with reading(self._service, tenant, come.model):
            request = come.read()
            if request is None:
                return
            grant = self._service.identify(caller, request.parameters)
        try:
            ports = foresee(self._service, request, grant, caller)
        except ServingError as error:
            self._service.refused(grant, request.model, error, request.request_id)
            raise
        if come.may_stay():
            fits = _Fits(request.model, request.version, request.parameters, grant, ports)
            self._known.keep(tenant, come.said, fits)

    def _same(self, known: _Fits, caller: Caller) -> bool:
        service = self._service
        try:
            grant = service.identify(caller, known.parameters)
            entry = service.repository.entry_for(grant, known.model, known.version)
            if grant is known.grant and ports_of(entry) is known.ports:
                return not service.holding.watches(grant, service.pool.models[entry.key].network)
        except ServingError:
            return False  # it is said to the one that is judged anew
        return False


def foresee(service: Service, request: InferRequest, grant: Grant, caller: Caller) -> Ports:
    """The ports of its network, which it fits; raises ServingError."""
    entry = service.repository.entry_for(grant, request.model, request.version)
    ports = ports_of(entry)
    service.limits.check_size(grant, request.tensor_bytes, service.pool.arena.most_bytes)
    check_outputs(ports, request)
    arrays = {t.name: t.data for t in request.inputs if not isinstance(t.data, SharedRegion)}
    if len(arrays) == len(request.inputs):
        service.foresee(
            grant, request, caller, fit_of(request, entry, ports, arrays, service.most_text_bytes)
        )
    return ports
