"""Who answers at an address: asked before Ray, which tries for minutes and does not say why it fails."""

from __future__ import annotations

import importlib.util
import os
import re
import socket

from eunomia.core.errors import ConfigError

ADDRESS = re.compile(r"(?P<client>ray://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})")
ANSWERS_S = 3.0  # an address that says nothing by then is nobody's
CORE, CLIENT = "/ray.rpc.NodeInfoGcsService/GetClusterId", "/ray.rpc.RayletDriver/ClusterInfo"


def must_answer(address: str) -> None:
    """Raise ConfigError, within seconds, for an address where no cluster answers us."""
    found = ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 65_536:
        raise ConfigError(
            f"'{address}' is no address of a Ray cluster; give ray, HOST:PORT or ray://HOST:PORT"
        )
    host, port = found["host"].strip("[]"), int(found["port"])
    try:
        socket.create_connection((host, port), ANSWERS_S).close()
    except OSError as error:
        raise ConfigError(
            f"no Ray cluster answers at '{address}' ({error}): start one (ray start --head), or correct the address"
        ) from None
    if importlib.util.find_spec("grpc") is None:
        if found["client"]:
            raise ConfigError(f"'{address}' needs grpcio, which is not installed: pip install 'eunomia[ray]'")
        return
    if os.environ.get("RAY_USE_TLS", "0") == "0" and (
        why := _refusal(f"{found['host']}:{port}", found["client"])
    ):
        raise ConfigError(f"no Ray cluster answers at '{address}': {why}")


def _refusal(target: str, client: str | None) -> str:
    """What a server there is instead, or what it asks for; "" for a cluster that takes us in."""
    import grpc

    unknown = grpc.StatusCode.UNIMPLEMENTED
    if (said := _status(target, CLIENT if client else CORE)) == unknown:
        if _status(target, CORE if client else CLIENT) == unknown:
            return "that server is not Ray's"
        return (
            "that port is the cluster's own; leave out ray://"
            if client
            else "that port is for Ray's clients; write ray:// before it"
        )
    if said == grpc.StatusCode.UNAUTHENTICATED and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        return (
            "it wants a token; set RAY_AUTH_MODE=token, and have in ~/.ray/auth_token here what "
            "`ray get-auth-token` prints there"
        )
    if said in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return "that server is not Ray's"
    return ""


def _status(target: str, method: str) -> object:
    import grpc

    with grpc.insecure_channel(target, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(method)(b"", timeout=ANSWERS_S)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK
