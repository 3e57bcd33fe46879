"""The rows of the conformance page: each can fail, and a live server passes the quick ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tritonclient.grpc")

from benchmarks.serving import fuzz, made_up, roles, stock, stock_calls, streams  # noqa: E402
from benchmarks.serving.conformance import faults_of, operation_row, verdict  # noqa: E402
from benchmarks.serving.made_up import Seen, read_fuzzer  # noqa: E402
from benchmarks.serving.roles import Door  # noqa: E402
from benchmarks.serving.tally import Tally  # noqa: E402
from eunomia.serving.fronts.openapi import document  # noqa: E402
from tests.serving.live import ADMIN, GOLD, SIDE, SILVER, running  # noqa: E402


def bad(*_: object) -> Any:
    raise ValueError("no | such *thing*")


async def later(value: object) -> object:
    return value


def test_a_row_counts_what_went_as_expected_and_what_did_not() -> None:
    async def calls(t: Tally) -> None:
        await t.right("one", lambda: 1)
        await t.right("awaited", lambda: later(2), lambda answer: answer == 2)
        await t.refused("as it should", bad, "nothing|such")

    assert not Tally("row", "client").fine, "nothing was called"
    t = Tally("row", "client")
    asyncio.run(calls(t))
    t.demand(True, "a fact")
    assert t.fine and t.cells() == ["row", "client", "3", "3", "0", "a fact", "yes"]


@pytest.mark.parametrize("call", [
    lambda t: t.right("empty", lambda: 0), lambda t: t.right("raises", bad),
    lambda t: t.right("other", lambda: 3, lambda answer: answer == 4), lambda t: t.refused("not", lambda: 1, "word"),
    lambda t: t.refused("otherwise", bad, "word"),
])  # fmt: skip
def test_a_call_that_goes_otherwise_fails_its_row(call: Any) -> None:
    t = Tally("row", "client")
    asyncio.run(call(t))
    cells = t.cells()
    assert not t.fine and cells[2:5] == ["1", "0", "1"] and cells[-1] == "no"
    assert cells[5].startswith("**") and "|" not in cells[5]


def test_a_fact_that_does_not_hold_fails_its_row() -> None:
    t = Tally("row", "client", made=3)
    t.demand(False, "all memory is free")
    assert not t.fine and "NOT: all memory is free" in t.cells()[5]


@pytest.mark.parametrize("needs, seen, fault", [
    ("tenant", ("401", "401", "200", "200"), ""), ("tenant", ("401", "401", "404", "400"), ""),
    ("admin", ("401", "401", "403", "200"), ""), ("anybody", ("200", "200", "200", "200"), ""),
    ("admin", ("UNAUTHENTICATED", "UNAUTHENTICATED", "PERMISSION_DENIED", "OK"), ""),
    ("tenant", ("200", "401", "200", "200"), "open without a key"),
    ("tenant", ("401", "404", "200", "200"), "open without a key"),
    ("admin", ("401", "401", "200", "200"), "open to a tenant"),
    ("admin", ("401", "401", "403", "403"), "closed to an administrator"),
    ("tenant", ("401", "401", "403", "200"), "closed to a tenant"),
    ("anybody", ("401", "401", "200", "200"), "closed to somebody"),
])  # fmt: skip
def test_a_door_that_is_open_to_the_wrong_or_closed_to_the_right_is_a_fault(
    needs: str, seen: tuple[str, str, str, str], fault: str
) -> None:
    assert Door("GET /x", needs, seen).fault == fault


def test_every_operation_that_answers_5xx_or_was_never_asked_is_a_fault() -> None:
    seen = Seen("GET /x")
    for status in (200, 204, 400, 503):
        seen.add(status)
    assert operation_row(seen) == ["`GET /x`", "4", "2", "1", "1", "0", "yes"]
    seen.add(500, "500: the server has failed")
    assert (
        operation_row(seen)[-2:] == ["1", "**no: 500: the server has failed**"]
        and len(faults_of([seen])) == 1
    )
    assert "nothing was tried" in verdict(Seen("GET /y")) and len(faults_of([Seen("GET /y")])) == 1


def test_what_is_neither_read_nor_refused_in_words_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(made_up.mutated("grant", 20)) == "yes"
    monkeypatch.setitem(fuzz.TARGETS, "grant", bad)
    seen = made_up.mutated("grant", 20)
    assert seen.tried == 20 == len(seen.faults) and seen.answers == {"crash": 20}


def test_what_the_fuzzer_left_is_read() -> None:
    log = "#2\tINITED\n#1024\tpulse\nDone 5000 runs in 2 second(s)\n"
    assert read_fuzzer("http", 0, log, ["seed"]).answers == {"read or refused": 5000}
    crashed = read_fuzzer("http", 77, "#2\tINITED\n#900\tNEW\n==1== ERROR", ["crash-abc"])
    assert crashed.tried == 900 and crashed.answers["crash"] == 1 and crashed.faults == ["crash-abc"]
    assert read_fuzzer("http", 1, "Traceback: it did not start", []).faults


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stock.Place]:
    import onnxruntime as ort

    folder: Path = tmp_path_factory.mktemp("server")
    with running(folder) as server:
        live: Any = SimpleNamespace(
            http=f"127.0.0.1:{server.http_port}", grpc=f"127.0.0.1:{server.grpc_port}"
        )
        image = np.random.default_rng(0).random((1, 3, SIDE, SIDE), np.float32)
        whole = ort.InferenceSession(str(folder / "small.onnx"), providers=["CPUExecutionProvider"])
        yield stock.Place(live, GOLD, SILVER, image, whole.run(["logits"], {"image": image})[0])


@pytest.mark.parametrize("client", stock.CLIENTS)
def test_stock_clients_against_a_live_server(place: stock.Place, client: str) -> None:
    rows = {name: stock_calls.ROWS[name][client] for name in ("tensors, binary and JSON", "wrong requests")}
    if client in streams.ROWS["a stream"]:
        rows["a stream"] = streams.ROWS["a stream"][client]
    for name, row in rows.items():
        t = asyncio.run(stock.run_row(name, client, row, place))
        assert t.fine, t.wrong


def test_an_answer_that_is_not_the_networks_fails_the_row(place: stock.Place) -> None:
    other = stock.Place(place.live, place.key, place.other_key, place.image, place.answer + 1.0)
    t = asyncio.run(stock.run_row("tensors", "gRPC", stock_calls.tensors, other))
    assert not t.fine and t.astray == t.made == 1


def test_every_door_of_a_live_server(place: stock.Place) -> None:
    doors = roles.endpoints(document())
    assert len(doors) > 30 and doors[-1][1].endswith("/unload")
    found = roles.ask_doors(place.live.http, doors[:-1], GOLD, ADMIN)
    found += roles.ask_rpcs(place.live.grpc, GOLD, ADMIN)
    assert [door for door in found if door.fault] == [] and len(found) > 45
    assert len(roles.grouped(found)) < len(found) / 2
