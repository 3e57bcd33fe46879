"""One request between a protocol and the service: who asks, and what was accepted."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from eunomia.serving.devices.answers import Answer
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.strings import Value
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.models.entry import named
from eunomia.serving.protocol.infer import InferRequest, SharedRegion
from eunomia.serving.tenants.grants import Grant


@dataclass(frozen=True)
class Caller:
    """A caller as a protocol shows it: the API key, names in headers, and the time that is left."""

    key: str | None = None
    fairness_id: str | None = None
    tenant_id: str | None = None
    deadline_s: float = math.inf  # seconds from now, from the transport
    traceparent: str | None = None
    local: bool = False  # on the server's machine


@dataclass(frozen=True, slots=True)
class Inside:
    """An accepted request: whoever entered it waits for ``answer`` and then leaves, or abandons it."""

    grant: Grant
    request: InferRequest
    size: int  # bytes of tensors
    job: Job
    answer: Answer
    ports: Ports

    @property
    def version(self) -> str:
        """Of the network that serves it."""
        return named(self.job.network.name)[1]


class Served(NamedTuple):
    """All outputs of the network, those that are put into the client's memory, and its version.

    ``rest``: what is still to be done beside the event loop, which gives the answer; None = nothing.
    """

    outputs: Mapping[str, Value]
    in_regions: Mapping[str, SharedRegion]
    version: str
    rest: Callable[[], Awaitable[Served]] | None = None
