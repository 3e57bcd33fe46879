"""A large request is judged by its first bytes: what does not fit the network need not come whole."""

from __future__ import annotations

from eunomia.serving.models.repository import ports_of
from eunomia.serving.protocol.checks import check_inputs, check_outputs
from eunomia.serving.protocol.infer import SMALL_BYTES, SharedRegion, read_request
from eunomia.serving.protocol.pieces import Coming
from eunomia.serving.service import Service
from eunomia.serving.visit import Caller

WORTH = 256 * 1024  # bytes of a body that is worth it


def bytes_to_judge(size: int, header_bytes: int | None) -> int:
    """The length of the JSON that says what a body of so many bytes holds; 0 = wait for all of it."""
    small = header_bytes is not None and 0 < header_bytes <= min(SMALL_BYTES, size)
    return (header_bytes or 0) if small and size >= WORTH else 0


def foresee(service: Service, what: tuple[str, str], header: bytes, size: int, caller: Caller) -> None:
    """``what``: network and version; ``header``: the JSON before ``size`` bytes of raw tensors. Raises ServingError."""
    model, version = what
    request = read_request(model, version, header, Coming(size))
    grant = service.identify(caller, request.parameters)
    entry = service.repository.entry_for(grant, model, version)
    ports = ports_of(entry)
    service.limits.check_size(grant, request.tensor_bytes, service.pool.arena.most_bytes)
    check_outputs(ports, request)
    arrays = {t.name: t.data for t in request.inputs if not isinstance(t.data, SharedRegion)}
    if len(arrays) == len(request.inputs):
        batch = check_inputs(model, ports, arrays, entry.empty)
        service.foresee(grant, request, caller, arrays, batch)
