"""No large message is copied in the event loop, nor by what keeps the interpreter from it meanwhile: 0.4 ms a MiB."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from aiohttp import web

from eunomia.serving.fronts.body import LARGE, body_of
from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.protocol.errors import Unavailable

Asked = list[bytes | memoryview]


def process(monkeypatch: pytest.MonkeyPatch, answer: Sequence[memoryview]) -> tuple[JsonProcess, Asked]:
    """One that is not there; no answer = it has ended. And what it was asked."""
    work, asked = JsonProcess(16 * LARGE), Asked()

    async def ask(_: Any, __: str, ___: int, ____: Any, pieces: Asked) -> tuple[Any, Sequence[memoryview]]:
        asked.extend(pieces)
        if not answer:
            raise Unavailable("it has ended")
        return {}, answer

    monkeypatch.setattr(work, "_ask", ask)
    return work, asked


def test_large_json_goes_to_its_process_from_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    work, asked = process(monkeypatch, ())
    body = memoryview(b" " * LARGE)
    with pytest.raises(Unavailable):
        asyncio.run(work.read("m", "", body, LARGE - 8, "gold"))
    assert len(asked[0]) == LARGE - 8
    assert np.shares_memory(np.frombuffer(asked[0], np.uint8), np.frombuffer(body, np.uint8))


def test_what_was_inflated_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    large = memoryview(bytes(LARGE))
    work, _ = process(monkeypatch, [large])
    assert asyncio.run(work.inflate(bytes(LARGE), LARGE, "gold")) is large


def test_pieces_of_a_large_body_are_joined_by_what_leaves_the_interpreter_to_others() -> None:
    pieces = deque([b"a" * LARGE, b"b" * LARGE, b""])

    async def readany() -> bytes:
        return pieces.popleft()

    asked = SimpleNamespace(content=SimpleNamespace(readany=readany), headers={}, content_length=None)
    whole = asyncio.run(body_of(cast(web.Request, asked), 4 * LARGE))
    assert isinstance(whole, memoryview), "NumPy's: bytes are joined by Python, and nobody else runs"
    assert whole == b"a" * LARGE + b"b" * LARGE
