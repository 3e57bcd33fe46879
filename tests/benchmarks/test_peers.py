"""Which rates the race offers, what it starts, and what its clients name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from benchmarks.serving import peers
from benchmarks.serving.load import Stream
from benchmarks.serving.peer_servers import Peer
from benchmarks.table import Options, Table, table

BARE_S = {"mobilenet-v2": 0.005, "resnet50": 0.03}  # 0.8 of the one and 0.2 of the other: 100 a second
STARTED: list[str] = []


class Kept:
    """In place of ``Bench``: keeps nothing, and says of a cell what was offered."""

    def __init__(self, *_: object, **__: object) -> None:
        self.table = table

    def piece(self, compute: partial[Any], **what: object) -> dict[str, Any]:
        if "bare" in what:
            return BARE_S
        if "load" not in what:
            return {"rate_per_s": 40.0}
        wanted: list[Stream] = compute.args[2]
        sent = [round(one.rate_per_s * 10) for one in wanted]
        return {"sent": sent, "hits": [n // 2 for n in sent], "lag_s": 0.001, "cpu_s": 0.002}


@contextlib.contextmanager
def start(name: str) -> Iterator[Peer]:
    STARTED.append(name)
    yield Peer(name, "nowhere:1")


def fake(*_: object) -> Iterator[tuple[Callable[[], Any], dict[str, tuple[str, ...]]]]:
    yield partial(start, "a"), {"a": (), "a, refuses": (peers.SHEDS,)}


def tables(monkeypatch: pytest.MonkeyPatch, *parts: str, **given: str) -> dict[str, Table]:
    monkeypatch.setattr(peers, "Bench", Kept)
    monkeypatch.setattr(peers, "servers", fake)
    options = Options(quick=True, seeds=2, only=parts, given={"seconds": "10", **given})
    return {one.key: one for one in peers.measure(options)}


def test_each_server_is_offered_70_percent_of_its_own_capacity_and_those_of_the_bare_loop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tables(monkeypatch)
    (own,) = found["own"].rows
    assert own[0] == "a" and own[-2:] == (40.0, pytest.approx(0.4))
    assert own[-3].mean == pytest.approx(0.5 * 0.7 * 40.0, abs=0.2)  # half of what was sent, per second
    loads = [(row[0], row[1], round(row[-1].mean)) for row in found["all"].rows]  # type: ignore[union-attr]
    both = ("a", "a, refuses")
    assert loads == [(load, name, round(50.0 * load)) for load in (0.7, 1.0, 1.3) for name in both]
    assert "a, 28.0/s, seed 1: [42, 70, 28] of [84, 140, 56]" in capsys.readouterr().out


def test_a_part_alone_has_its_table_alone_and_what_is_kept_starts_no_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    STARTED.clear()
    assert list(tables(monkeypatch, "own")) == ["own"] and list(tables(monkeypatch, "all")) == ["all"]
    assert not STARTED


def test_a_server_that_does_not_start_is_said_so_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextlib.contextmanager
    def broken() -> Iterator[Peer]:
        raise RuntimeError("many lines\nno port")
        yield

    def both(*_: object) -> Iterator[tuple[Callable[[], Any], dict[str, tuple[str, ...]]]]:
        yield broken, {"b": ()}
        yield from fake()

    def measured(self: Kept, compute: partial[Any], **what: object) -> dict[str, Any]:
        if "server" in what:
            compute.args[0]()
        return Kept.piece(self, compute, **what)

    monkeypatch.setattr(peers, "Bench", type("Starting", (Kept,), {"piece": measured}))
    monkeypatch.setattr(peers, "servers", both)
    STARTED.clear()
    (found,) = peers.measure(Options(seeds=1, only=("own",)))
    assert [row[0] for row in found.rows] == ["a"] and STARTED == ["a"]
    assert "b: did not run: no port" in found.notes


@pytest.mark.parametrize(
    ("asks", "named"),
    [
        ((), {}),
        (("priority",), {"priority": 1}),
        (("priority", "timeout", "sheds"), {"priority": 1, "timeout": 50_000}),
    ],
)
def test_clients_name_what_a_row_says(asks: tuple[str, ...], named: dict[str, int]) -> None:
    sent: list[dict[str, Any]] = []

    async def infer(*_: object, **more: Any) -> None:
        sent.append(more)

    async def one() -> None:
        gold = Stream("gold", "m", deadline_ms=50.0)
        peer = Peer("", "", {"m": {"application": "m"}})
        made = partial(peers.PeerClient, peer, asks)
        async with peers.client("127.0.0.1:1", "grpc", [gold], timeout_s=3.0, made=made) as client:
            client._client.infer = infer  # type: ignore[attr-defined]
            await client.send(0)

    asyncio.run(one())
    headers = {"x-tenant-id": "gold", "application": "m"}
    assert sent == [{"headers": headers, "client_timeout": 3.0, **named}]
