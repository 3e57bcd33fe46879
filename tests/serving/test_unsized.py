"""A request of a size that never ran waits until the server knows what it takes, within its deadline and bounds."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from eunomia.serving.dispatch.clock import ManualClock
from eunomia.serving.dispatch.costs import Network
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.server import Server
from eunomia.serving.tenants.bodies import Bodies
from eunomia.serving.tenants.unsized import Later, Unsized, Wait
from tests.patience import PATIENCE_S, until
from tests.serving.live import GOLD, SIDE, SILVER, ask, running


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two pictures are a size that never ran, and may hold the device too long for all that anybody knows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eunomia.serving.tenants.holding.LEAST_S", 0.0)
        patch.setattr("eunomia.serving.tenants.holding.USUAL", 0.0)
        with running(tmp_path_factory.mktemp("server"), max_block_s=1e-6) as server:
            yield server


class Trials:
    """In place of the ladder: what is tried is known when the test says so."""

    def __init__(self, server: Server) -> None:
        self.known: list[asyncio.Future[None]] = []
        self.found: bool | None = None
        self.server, self.loop = server, asyncio.new_event_loop()
        self.loop.close()
        server.service.holding.explore = self.explore
        server.service.holding._probes.clear()

    def explore(self, tenant: str, job: Any, bound_s: float) -> Any:
        self.loop = asyncio.get_running_loop()
        if self.found is None:
            self.known.append(self.loop.create_future())
            return self.known[-1]
        return self.found

    def end(self, *, found: bool) -> None:
        """It is known now: True = too long, False = in vain, so that the first request runs."""
        self.found = found
        for one in self.known:
            self.loop.call_soon_threadsafe(one.set_result, None)

    def waiting(self, count: int) -> None:
        until(lambda: len(self.server.pool.unsized) == count)

    def nothing_left(self) -> None:
        service = self.server.service
        until(lambda: not service.bodies.held and not self.server.pool.unsized)
        until(lambda: not any(service.limits.active(name) for name in ("gold", "silver")))


def stock(server: Server, protocol: str, key: str = GOLD, **parameters: Any) -> Any:
    """Two pictures by the stock client: their answer, or the words of its error."""
    module: Any = pytest.importorskip(f"tritonclient.{protocol}")
    port = server.http_port if protocol == "http" else server.grpc_port
    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        pictures = module.InferInput("image", [2, 3, SIDE, SIDE], "FP32")
        pictures.set_data_from_numpy(np.zeros((2, 3, SIDE, SIDE), np.float32))
        try:
            headers = {"authorization": f"Bearer {key}"}
            return client.infer("small", [pictures], headers=headers, **parameters).as_numpy("logits")
        except module.InferenceServerException as error:
            return f"{error.status()} {error}"


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_it_waits_and_is_then_admitted_or_refused(live: Server, protocol: str) -> None:
    """As it was, the stock clients got UNAVAILABLE, which they do not send again."""
    for found in (False, True):
        trials = Trials(live)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(stock, live, protocol)
            trials.waiting(1)
            assert not answer.done()
            trials.end(found=found)
            got = answer.result(PATIENCE_S)
        if found:
            assert "without a pause" in got
        else:
            assert got.shape == (2, 10)
        trials.nothing_left()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_it_waits_no_longer_than_to_its_deadline(live: Server, protocol: str) -> None:
    trials = Trials(live)
    got = stock(live, protocol, timeout=100_000)  # microseconds
    assert "not known before the request's deadline" in got
    assert "503" in got or "UNAVAILABLE" in got
    trials.nothing_left()
    trials.end(found=True)


def test_those_beyond_the_bound_of_a_tenant_are_told_to_come_again(
    live: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eunomia.serving.tenants.unsized.MOST", 1)
    trials = Trials(live)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(stock, live, "http")
        trials.waiting(1)
        assert "1 requests of tenant 'gold' wait" in stock(live, "http")
        other = pool.submit(stock, live, "http", SILVER)
        trials.waiting(2)
        trials.end(found=True)
        assert "without a pause" in first.result(PATIENCE_S) and "without a pause" in other.result(PATIENCE_S)
    trials.nothing_left()


@pytest.fixture
def books(live: Server, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the audit log is told."""
    noted = list[Any]()
    monkeypatch.setattr(live.service, "note", lambda *line: noted.append(line))
    return noted


def test_what_waits_is_in_its_tenants_account_and_leaves_with_its_client(
    live: Server, books: list[Any]
) -> None:
    trials = Trials(live)
    raw = np.zeros((2, 3, SIDE, SIDE), np.float32).tobytes()
    head = (b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [2, 3, %d, %d], '
            b'"parameters": {"binary_data_size": %d}}]}' % (SIDE, SIDE, len(raw)))  # fmt: skip
    line = socket.create_connection(("127.0.0.1", live.http_port))
    line.sendall(
        b"POST /v2/models/small/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n"
        b"Inference-Header-Content-Length: %d\r\n\r\n"
        % (GOLD.encode(), len(head) + len(raw), len(head))
        + head
        + raw
    )
    trials.waiting(1)
    assert live.service.bodies.held == {"gold": len(raw)}
    line.close()
    trials.nothing_left()
    trials.end(found=True)
    assert books == [("gold", "small", "", "cancelled")]


def test_a_call_that_is_cancelled_meanwhile_is_in_the_books_once(live: Server, books: list[Any]) -> None:
    """Neither audit log nor metrics knew of it."""
    grpc, trials = pytest.importorskip("tritonclient.grpc"), Trials(live)
    with grpc.InferenceServerClient(f"127.0.0.1:{live.grpc_port}") as client:
        pictures = grpc.InferInput("image", [2, 3, SIDE, SIDE], "FP32")
        pictures.set_data_from_numpy(np.zeros((2, 3, SIDE, SIDE), np.float32))
        headers = {"authorization": f"Bearer {GOLD}"}
        call = client.async_infer(
            "small", [pictures], lambda result, error: None, headers=headers, request_id="7"
        )
        trials.waiting(1)
        call.cancel()
        trials.nothing_left()
    trials.end(found=True)
    assert books == [("gold", "small", "7", "cancelled")]


def test_a_network_that_is_unloaded_meanwhile_stays_for_those_who_wait(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eunomia.serving.tenants.holding.LEAST_S", 0.0)
        patch.setattr("eunomia.serving.tenants.holding.USUAL", 0.0)
        with running(tmp_path, max_block_s=1e-6) as server:
            trials = Trials(server)
            with ThreadPoolExecutor(1) as pool:
                answer = pool.submit(stock, server, "http")
                trials.waiting(1)
                assert ask(server, "POST", "/v2/repository/models/small/unload", "eun_admin-key")[0] == 200
                trials.end(found=False)
                assert answer.result(PATIENCE_S).shape == (2, 10)


def test_a_hundred_that_have_waited_for_the_same_go_on_turn_by_turn() -> None:
    """All in one turn of the event loop, they would hold everybody up."""

    async def main() -> None:
        loop, seen, turn = asyncio.get_running_loop(), list[int](), [0]
        unsized = Unsized(ManualClock(), Bodies(2**20), set(), lambda job: None, Mock())
        known: asyncio.Future[None] = loop.create_future()

        def enter() -> Any:
            seen.append(turn[0])
            done: asyncio.Future[dict[str, Any]] = loop.create_future()
            done.set_result({})
            return done

        def later() -> Later:
            return Later("gold", Job(0, Network(0, "net", 0, 1), 0.0), 1, enter, lambda error: None)

        answers = [unsized.answer(later(), Wait(known)) for _ in range(100)]
        await asyncio.sleep(0)
        known.set_result(None)
        while not all(answer.done() for answer in answers):
            turn[0] += 1
            await asyncio.sleep(0)
        assert len(seen) == 100 and max(Counter(seen).values()) <= 2

    asyncio.run(main())
