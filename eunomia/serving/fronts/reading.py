"""Around the reading of a message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from eunomia.serving.protocol.errors import ServingError
from eunomia.serving.service import Service


@contextmanager
def reading(service: Service, tenant: str, model: str) -> Iterator[None]:
    """One that cannot be read counts for the tenant's rate all the same."""
    try:
        yield
    except ServingError as error:
        service.unreadable(tenant, model, error)
        raise
