"""Around the reading of a message, and the writing of its answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eunomia.serving.protocol.errors import ServingError
from eunomia.serving.protocol.infer import InferRequest
from eunomia.serving.service import Service


@contextmanager
def reading(service: Service, tenant: str, model: str) -> Iterator[None]:
    """One that cannot be read counts for the tenant's rate all the same."""
    try:
        yield
    except ServingError as error:
        service.unreadable(tenant, model, error)
        raise


@contextmanager
def writing(service: Service, tenant: str, request: InferRequest) -> Iterator[None]:
    """An answer that cannot be written was refused, though its network has run."""
    try:
        yield
    except ServingError as error:
        grant = service.directory.by_name(tenant)
        if grant is not None:
            service.refused(grant, request.model, error, request.request_id)
        raise
