"""A large request is judged by its first bytes: what does not fit the network need not come whole.

Clients repeat them: what was found to fit fits again while grant and network are the same, and nobody has to pause.
"""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.serving.devices.messages import Ports
from eunomia.serving.models.repository import ports_of
from eunomia.serving.protocol.checks import check_inputs, check_outputs
from eunomia.serving.protocol.infer import SMALL_BYTES, InferRequest, SharedRegion, is_plain, read_request
from eunomia.serving.protocol.pieces import Coming
from eunomia.serving.service import Service
from eunomia.serving.tenants.grants import Grant
from eunomia.serving.visit import Caller

WORTH = 256 * 1024  # bytes of a body that is worth it
KEPT = 256  # headers that are remembered


def bytes_to_judge(size: int, header_bytes: int | None) -> int:
    """The length of the JSON that says what a body of so many bytes holds; 0 = wait for all of it."""
    small = header_bytes is not None and 0 < header_bytes <= min(SMALL_BYTES, size)
    return (header_bytes or 0) if small and size >= WORTH else 0


@dataclass(frozen=True, slots=True)
class _Fits:
    """What a header was judged by that fits; the same again fits as long as all of this is the same."""

    request: InferRequest
    grant: Grant
    ports: Ports


class Foresight:
    """Judges requests by their first bytes, those that clients repeat at a glance."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: dict[tuple[tuple[str, str], bytes, int], _Fits] = {}

    def foresee(self, what: tuple[str, str], header: bytes, size: int, caller: Caller) -> None:
        """``what``: network and version; ``header``: the JSON before ``size`` bytes of raw tensors.

        Raises ServingError.
        """
        known = self._known.get((what, header, size))
        if known is not None and self._same(what, known, caller):
            return
        request = read_request(*what, header, Coming(size))
        grant = self._service.identify(caller, request.parameters)
        ports = foresee(self._service, request, grant, caller)
        if is_plain(header):
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[what, header, size] = _Fits(request, grant, ports)

    def _same(self, what: tuple[str, str], known: _Fits, caller: Caller) -> bool:
        service = self._service
        grant = service.identify(caller, known.request.parameters)
        entry = service.repository.entry_for(grant, *what)
        if grant is not known.grant or ports_of(entry) is not known.ports:
            return False
        return not service.holding.watches(grant, service.pool.models[entry.key].network)


def foresee(service: Service, request: InferRequest, grant: Grant, caller: Caller) -> Ports:
    """The ports of its network, which it fits; raises ServingError."""
    entry = service.repository.entry_for(grant, request.model, request.version)
    ports = ports_of(entry)
    service.limits.check_size(grant, request.tensor_bytes, service.pool.arena.most_bytes)
    check_outputs(ports, request)
    arrays = {t.name: t.data for t in request.inputs if not isinstance(t.data, SharedRegion)}
    if len(arrays) == len(request.inputs):
        batch = check_inputs(request.model, ports, arrays, entry.empty, entry.options)
        service.foresee(grant, request, caller, arrays, batch)
    return ports
