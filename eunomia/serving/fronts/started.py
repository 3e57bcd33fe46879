"""What a server answers whose networks are still loading: how far it is, or that it ends before all are there."""

from __future__ import annotations

import re

from eunomia.serving.protocol.errors import Unavailable
from eunomia.serving.service import Service

AGAIN_S = 1.0
MEANWHILE = re.compile(
    r"/v2/health/(live|ready)|/v2/models/[^/]+(/versions/[^/]+)?/ready"
    r"|/inference\.GRPCInferenceService/(ServerLive|ServerReady|ModelReady)|/grpc\.[\w.]+/\w+"
)


def must_have_started(service: Service, path: str = "") -> None:
    """``path``: of an HTTP request, or of a call of gRPC. Raises Unavailable."""
    if service.starting() and not MEANWHILE.fullmatch(path):
        raise Unavailable(service.closed, retry_after_s=AGAIN_S)
