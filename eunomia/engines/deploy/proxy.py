"""HAProxy before several servers that are not behind a Kubernetes service."""

from __future__ import annotations

import re
from collections.abc import Sequence

from eunomia.core.errors import ConfigError
from eunomia.engines.deploy.plan import GRPC_PORT, HTTP_PORT, Deployment, Files

PLACE = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+)(:(?P<http>[0-9]{1,5})(:(?P<grpc>[0-9]{1,5}))?)?"
)


def render(plan: Deployment) -> Files:
    """``haproxy/haproxy.cfg``."""
    count = plan.replicas if isinstance(plan.replicas, int) else 2
    hosts = plan.hosts or [f"replica-{n}" for n in range(1, count + 1)]
    return {"haproxy/haproxy.cfg": haproxy(hosts)}


def haproxy(hosts: Sequence[str], http: int = HTTP_PORT, grpc: int = GRPC_PORT) -> str:
    """Both protocols to whoever is ready and has the fewest requests.

    ``hosts``: HOST, or HOST:HTTP_PORT:GRPC_PORT. A request goes to another server only while it has not reached one: an
    inference is never run twice.
    """
    places = [_place(host) for host in hosts]
    web = "".join(f"    server {_name(n)} {host}:{port}\n" for n, (host, port, _) in enumerate(places, 1))
    rpc = "".join(
        f"    server {_name(n)} {host}:{port} proto h2 check check-proto h1 port {check}\n"
        for n, (host, check, port) in enumerate(places, 1)
    )
    return f"""\
global
    fd-hard-limit 40100  # of connections: half of this, or of what `ulimit -n` allows (HAProxy 2.5 and later)

defaults
    mode http
    timeout connect 2s
    timeout client 75s
    timeout server 75s
    timeout http-request 10s
    option redispatch 1
    retries 2
    retry-on conn-failure

frontend http
    bind :{http}
    default_backend http

frontend grpc
    bind :{grpc} proto h2
    default_backend grpc

backend http
    http-reuse never
    balance leastconn
    option httpchk GET /v2/health/ready
    default-server check inter 500ms fall 2 rise 2
{web}
backend grpc
    balance leastconn
    option httpchk GET /v2/health/ready
    default-server inter 500ms fall 2 rise 2
{rpc}"""


def _place(text: str) -> tuple[str, int, int]:
    """Host and both ports. Raises ConfigError."""
    found = PLACE.fullmatch(text)
    http, grpc = (int(found["http"] or HTTP_PORT), int(found["grpc"] or GRPC_PORT)) if found else (0, 0)
    if found is None or not (0 < http < 65_536 and 0 < grpc < 65_536):
        raise ConfigError(
            f"--host {text}: write HOST, HOST:HTTP_PORT or HOST:HTTP_PORT:GRPC_PORT with ports from 1 to 65535, "
            "and an IPv6 address in brackets, for example [::1]:8000:8001"
        )
    return found["host"], http, grpc


def _name(number: int) -> str:
    return f"replica-{number}"
