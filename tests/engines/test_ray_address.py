"""Who answers where a Ray cluster should is said in one sentence, within seconds."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from eunomia.core import ray_address
from eunomia.core.errors import ConfigError
from eunomia.core.ray_address import CLIENT, CORE, must_answer

grpc = pytest.importorskip("grpc")


class Answers(grpc.GenericRpcHandler):  # type: ignore[misc, name-defined]
    """As Ray does: some methods, each with a status."""

    def __init__(self, statuses: dict[str, Any]) -> None:
        self.statuses = statuses

    def service(self, call: Any) -> Any:
        def answer(request: bytes, context: Any) -> bytes:
            context.set_code(self.statuses[call.method])
            return b""

        return grpc.unary_unary_rpc_method_handler(answer) if call.method in self.statuses else None


@contextmanager
def served(statuses: dict[str, Any]) -> Iterator[int]:
    """The port of a server of gRPC on this machine."""
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        server.add_generic_rpc_handlers((Answers(statuses),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield port
        server.stop(None).wait()


OK, TOKEN = grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED
FOUND: list[tuple[dict[str, Any], str, str]] = [
    ({CORE: OK}, "", ""),
    ({CLIENT: OK}, "ray://", ""),
    ({CLIENT: OK}, "", "is for Ray's clients; write ray:// before it"),
    ({CORE: OK}, "ray://", "is the cluster's own; leave out ray://"),
    ({}, "", "that server is not Ray's"),
    ({CORE: TOKEN}, "", "it wants a token; set RAY_AUTH_MODE=token"),
    ({CLIENT: TOKEN}, "ray://", "it wants a token; set RAY_AUTH_MODE=token"),
]


@pytest.mark.parametrize(("statuses", "before", "said"), FOUND)
def test_the_server_there_is_told_apart(
    statuses: dict[str, Any], before: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with served(statuses) as port:
        if not said:
            must_answer(f"{before}127.0.0.1:{port}")
            return
        with pytest.raises(
            ConfigError, match=f"no Ray cluster answers at '{before}127.0.0.1:{port}': .*{said}"
        ):
            must_answer(f"{before}127.0.0.1:{port}")


def test_who_has_set_the_token_is_let_through_to_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with served({CORE: TOKEN}) as port:
        must_answer(f"127.0.0.1:{port}")


def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself tries for minutes."""
    monkeypatch.setattr(ray_address, "ANSWERS_S", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ConfigError, match="that server is not Ray's"),
    ):
        must_answer(f"127.0.0.1:{silent.getsockname()[1]}")


@pytest.mark.parametrize(
    "address", ["junk", "127.0.0.1", "http://h:1", "h:0", "h:65536", "ray://h", "::1:6379", "a b:1"]
)
def test_what_is_no_address_is_one_sentence(address: str) -> None:
    with pytest.raises(
        ConfigError, match=f"'{address}' is no address of a Ray cluster; give ray, HOST:PORT or ray://"
    ):
        must_answer(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_nobody_there_is_one_sentence(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(ConfigError, match=r"no Ray cluster answers at .*: start one \(ray start --head\)"):
        must_answer(f"{host}:{port}")


def test_rays_own_client_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        must_answer(f"127.0.0.1:{port}")  # Ray will see
        with pytest.raises(
            ConfigError, match=r"needs grpcio, which is not installed: pip install 'eunomia\[ray\]'"
        ):
            must_answer(f"ray://127.0.0.1:{port}")
