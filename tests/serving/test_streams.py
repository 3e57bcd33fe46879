"""Streams, clients that give up, and calls with a deadline: what needs requests that take their time.

``large`` is a ResNet-50 of many blocks, asked for sixteen pictures at once. Whoever gives up is told so, and the
server stops at the next block: it counts the request as cancelled, and has all its memory for tensors back.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

pytest.importorskip("tritonclient.grpc")

from tests.patience import PATIENCE_S, until_async  # noqa: E402
from tests.serving.live import ADMIN  # noqa: E402
from tests.serving.stock import ROWS_OF_LARGE, Place, Stub, bearer, done, right, stub  # noqa: E402

SENT, WRONG = 20, 5  # requests in a stream; which of them names no network
LONG = 100  # long requests in a stream that is cancelled after the first: never over before that
TRIES = 10  # until the client is faster than the device
AT_ONCE = 6  # single requests, of which all but the first are cancelled
Found = list[tuple[Any, Any]]  # answer, error


def counts(at: Place) -> Counter[str]:
    """Requests so far by their outcome, and ``free``: the server's memory for tensors that nobody holds."""
    request = urllib.request.Request(f"{at.server.url}/metrics", headers=bearer(ADMIN))
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    found: Counter[str] = Counter()
    for line in lines:
        if line.startswith("eunomia_requests_total{"):
            found[line.partition('outcome="')[2].partition('"')[0]] += int(float(line.rsplit(" ", 1)[1]))
        if line.startswith("eunomia_arena_free_bytes "):
            found["free"] = int(float(line.rsplit(" ", 1)[1]))
    return found


async def given_up(s: Stub, before: Counter[str]) -> int:
    """How many the server counts as given up when it is at rest; it holds nothing of them, and serves on.

    None, where whoever gave up did so between two requests, or when the answer was just ready: then once more.
    """

    def at_rest() -> bool:
        _, state = s.place.server.ask("/v2/eunomia/state")
        idle = not state["waiting"] and not state["devices"][0]["running"]
        return idle and counts(s.place)["free"] == before["free"]

    await until_async(at_rest)
    await right("infer afterwards", s.infer, s.exact)
    now = counts(s.place)
    return sum(now[kind] - before[kind] for kind in ("cancelled", "expired"))


async def given_up_once(s: Stub, once: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Of one that is given up, by some try, the server says so; it never says so of more than were."""
    before = counts(s.place)
    for tries in range(1, TRIES + 1):
        await once()
        if found := await given_up(s, before):
            assert found <= tries
            return
    raise AssertionError(f"the server knows of none in {TRIES} tries")


async def runs(at: Place) -> None:
    """Until the server runs a request."""
    await until_async(lambda: at.server.ask("/v2/eunomia/state")[1]["devices"][0]["running"])


# --- streams -------------------------------------------------------------------------------------------


async def stream(s: Stub) -> None:
    """Answers in turn; a wrong request among them gets its error, and the stream goes on."""
    found: Found = []
    s.client.start_stream(lambda result, error: found.append((result, error)), headers=s.headers)
    for n in range(SENT):
        s.client.async_stream_infer("small" if n != WRONG else "nobody", [s.tensor()], request_id=str(n))
    await until_async(lambda: len(found) == SENT)
    s.client.stop_stream()
    in_turn(s, found)


async def aio_stream(s: Stub) -> None:
    """The same by ``stream_infer``."""

    async def asked() -> AsyncIterator[dict[str, Any]]:
        for n in range(SENT):
            model = "small" if n != WRONG else "nobody"
            yield {"model_name": model, "inputs": [s.tensor()], "request_id": str(n)}

    in_turn(s, [pair async for pair in s.client.stream_infer(asked(), headers=s.headers)])


def in_turn(s: Stub, found: Found) -> None:
    """One answer per request, in order, one of them an error."""
    assert len(found) == SENT
    for n, (result, error) in enumerate(found):
        if n == WRONG:
            assert "unknown model" in str(error)
        else:
            assert error is None and s.exact(result) and s.identity(result) == str(n)


async def stream_cancelled(s: Stub) -> None:
    """A stream is cancelled after its first answer."""

    async def once() -> None:
        found: Found = []
        s.client.start_stream(lambda result, error: found.append((result, error)), headers=s.headers)
        for _ in range(LONG):
            s.client.async_stream_infer("large", [s.pictures()])
        await until_async(lambda: found)
        await runs(s.place)
        s.client.stop_stream(cancel_requests=True)
        cut_off(found)

    await given_up_once(s, once)


async def aio_stream_cancelled(s: Stub) -> None:
    """The same by ``stream_infer(...).cancel()``."""

    async def asked() -> AsyncIterator[dict[str, Any]]:
        for _ in range(LONG):
            yield {"model_name": "large", "inputs": [s.pictures()]}

    async def once() -> None:
        found: Found = []
        answers = s.client.stream_infer(asked(), headers=s.headers)
        try:
            async for pair in answers:
                found.append(pair)
                await runs(s.place)
                answers.cancel()
        except (asyncio.CancelledError, Exception) as error:
            found.append((None, error))
        cut_off(found)

    await given_up_once(s, once)


def cut_off(found: Found) -> None:
    """At least one answer, the client's own word of the end, nothing after it."""
    errors = [str(error) or type(error).__name__ for _, error in found if error is not None]
    assert 0 < len(found) - len(errors) < LONG and all("ancel" in text for text in errors), errors


# --- single requests that are cancelled ------------------------------------------------------------------


async def cancelled(s: Stub) -> None:
    """``async_infer(...).cancel()`` of all but the first."""

    async def once(before: Counter[str]) -> list[Any]:
        calls, found = [], dict[int, Any]()
        for n in range(AT_ONCE):

            def keep(result: Any, error: Any, n: int = n) -> None:
                found[n] = error or result

            calls.append(s.client.async_infer("large", [s.pictures()], keep, headers=s.headers))
        await all_seen(s.place, before)
        for one in calls[1:]:
            one.cancel()
        await until_async(lambda: len(found) == AT_ONCE)
        return [found[n] for n in range(AT_ONCE)]

    await only_the_first(s, once)


async def aio_cancelled(s: Stub) -> None:
    """The tasks of all but the first are cancelled; over HTTP the connection ends, over gRPC the call."""

    async def once(before: Counter[str]) -> list[Any]:
        infer = s.client.infer
        tasks = [
            asyncio.ensure_future(infer("large", [s.pictures()], headers=s.headers)) for _ in range(AT_ONCE)
        ]
        await all_seen(s.place, before)
        for task in tasks[1:]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    await only_the_first(s, once)


async def all_seen(at: Place, before: Counter[str]) -> None:
    """Until one runs and the others wait, or on a busy machine, until all have had their answers meanwhile."""

    def seen() -> bool:
        _, state = at.server.ask("/v2/eunomia/state")
        all_wait = state["waiting"] >= AT_ONCE - 1 and state["devices"][0]["running"]
        return bool(all_wait) or outcomes(counts(at), before).total() >= AT_ONCE

    await until_async(seen)


def outcomes(now: Counter[str], before: Counter[str]) -> Counter[str]:
    """Of requests since then."""
    return Counter({kind: now[kind] - before[kind] for kind in now if kind != "free"})


async def only_the_first(s: Stub, once: Callable[[Counter[str]], Coroutine[Any, Any, list[Any]]]) -> None:
    """The first has its answer, the others are told that they were cancelled, by the server's count, too.

    On a busy machine the device may be through with some of them before the client has cancelled them: then once more.
    """
    for _ in range(TRIES):
        before = counts(s.place)
        found = await once(before)

        def all_over(before: Counter[str] = before) -> bool:
            now = counts(s.place)
            return now["free"] == before["free"] and outcomes(now, before).total() >= AT_ONCE

        await until_async(all_over)
        became = outcomes(counts(s.place), before)
        assert became.total() == AT_ONCE, became
        if became["cancelled"] + became["expired"] == AT_ONCE - 1 and not isinstance(found[0], Exception):
            break
    assert found[0].as_numpy("logits").shape == (ROWS_OF_LARGE, 10)
    for error in found[1:]:
        assert "ancelled" in f"{type(error).__name__} {error}"
    await right("infer afterwards", s.infer, s.exact)


# --- deadlines -------------------------------------------------------------------------------------------


async def deadlines(s: Stub) -> None:
    """gRPC's own deadline: kept, too short behind long requests, and hopeless from the start."""
    await right("60 s", lambda: s.infer(client_timeout=60.0), s.exact)
    await given_up_once(s, lambda: behind_long_ones(s))
    assert await too_late(s, 1e-6, "large")
    await right("infer afterwards", lambda: s.infer(client_timeout=60.0), s.exact)


async def behind_long_ones(s: Stub) -> None:
    """A request whose 50 ms end while others wait; on a busy machine those may be over before it comes."""
    before, ended = counts(s.place), list[object]()
    async with stub("gRPC", s.place) as other:
        for _ in range(AT_ONCE):
            other.client.async_infer(
                "large", [other.pictures()], lambda result, error: ended.append(error), headers=s.headers
            )
        await all_seen(s.place, before)
        await too_late(s, 0.05)
        await until_async(lambda: len(ended) == AT_ONCE)
    assert ended == [None] * AT_ONCE


async def too_late(s: Stub, timeout_s: float, model: str = "small") -> bool:
    """Whether a request with this deadline is refused for it; no other refusal will do."""
    inputs = [s.tensor() if model == "small" else s.pictures()]
    try:
        await done(s.client.infer(model, inputs, headers=s.headers, client_timeout=timeout_s))
    except Exception as error:
        words = ("DEADLINE_EXCEEDED", "Deadline Exceeded", "the network alone takes")
        assert any(word in str(error) for word in words), f"{type(error).__name__}: {error}"
        return True
    return False


ROWS: list[tuple[str, str, Callable[[Stub], Coroutine[Any, Any, None]]]] = [
    ("a stream", "gRPC", stream),
    ("a stream", "gRPC, asyncio", aio_stream),
    ("a stream, cancelled", "gRPC", stream_cancelled),
    ("a stream, cancelled", "gRPC, asyncio", aio_stream_cancelled),
    ("single requests, cancelled", "HTTP, asyncio", aio_cancelled),
    ("single requests, cancelled", "gRPC", cancelled),
    ("single requests, cancelled", "gRPC, asyncio", aio_cancelled),
    ("a call's deadline", "gRPC", deadlines),
    ("a call's deadline", "gRPC, asyncio", deadlines),
]


@pytest.mark.parametrize("what, client, row", ROWS, ids=[f"{what} by {client}" for what, client, _ in ROWS])
def test_a_stock_client_and_long_requests(
    place: Place, what: str, client: str, row: Callable[[Stub], Coroutine[Any, Any, None]]
) -> None:
    async def asked() -> None:
        async with stub(client, place) as s:
            await row(s)

    asyncio.run(asked())
