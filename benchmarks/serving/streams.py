"""Streams, clients that give up, and calls with a deadline: the rows that need requests that take their time.

``large`` is a ResNet-50 of many blocks, asked for sixteen pictures at once. Whoever gives up must be told so, and the
server must stop at the next block: it counts the request as cancelled, and has all its memory for tensors back.
"""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from benchmarks.serving.stage import KEY, call
from benchmarks.serving.stock import ROWS_OF_LARGE, Place, Row, Stub, bearer, given, identity, sync_stub
from benchmarks.serving.tally import Tally

SENT, WRONG = 20, 5  # requests in a stream; which of them names no network
AT_ONCE = 6  # single requests, of which all but the first are cancelled
GIVEN_UP = ("cancelled", "expired")
PATIENCE_S = 30.0


def server_counts(address: str) -> Counter[str]:
    """Requests so far by their outcome, and ``free``: the server's memory for tensors that nobody holds."""
    request = urllib.request.Request(f"http://{address}/metrics", headers=bearer(KEY))
    with urllib.request.urlopen(request, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    counts: Counter[str] = Counter()
    for line in lines:
        if line.startswith("eunomia_requests_total{"):
            counts[line.partition('outcome="')[2].partition('"')[0]] += int(float(line.rsplit(" ", 1)[1]))
        if line.startswith("eunomia_arena_free_bytes "):
            counts["free"] = int(float(line.rsplit(" ", 1)[1]))
    return counts


async def settled(place: Place, before: Counter[str], count: int, t: Tally) -> None:
    """The server counts as many given up as there were, and holds nothing of them."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        now = await asyncio.to_thread(server_counts, place.live.http)
        more, free = sum(now[kind] - before[kind] for kind in GIVEN_UP), now["free"] == before["free"]
        if (more >= count and free) or time.monotonic() > until_s:
            break
        await asyncio.sleep(0.05)
    t.demand(more == count, f"the server counts {more} given up of {count}")
    t.demand(free, "its memory is free again")


async def wait_for(found: list[Any], count: int) -> None:
    """Until so many are there, or patience ends."""
    until_s = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < until_s:
        await asyncio.sleep(0.01)


# --- streams -------------------------------------------------------------------------------------------


async def stream(s: Stub, t: Tally) -> None:
    """Answers in turn; a wrong request among them gets its error, and the stream goes on."""
    found: list[tuple[Any, Any]] = []
    s.client.start_stream(lambda result, error: found.append((result, error)), headers=s.headers)
    for n in range(SENT):
        s.client.async_stream_infer("small" if n != WRONG else "nobody", [s.tensor()], request_id=str(n))
    await wait_for(found, SENT)
    s.client.stop_stream()
    await told(s, t, found)


async def aio_stream(s: Stub, t: Tally) -> None:
    """The same by ``stream_infer``."""

    async def asked() -> AsyncIterator[dict[str, Any]]:
        for n in range(SENT):
            yield {
                "model_name": "small" if n != WRONG else "nobody",
                "inputs": [s.tensor()],
                "request_id": str(n),
            }

    found = [pair async for pair in s.client.stream_infer(asked(), headers=s.headers)]
    await told(s, t, found)


async def told(s: Stub, t: Tally, found: list[tuple[Any, Any]]) -> None:
    """One answer per request, in order, one of them an error."""

    for n in range(SENT):
        pair = found[n] if n < len(found) else (None, "no answer")
        await t.right(f"request {n}", partial(given, pair), partial(_in_turn, s, n))
    t.demand(len(found) == SENT, f"{len(found)} answers to {SENT} requests, one of them an error in words")


def _in_turn(s: Stub, n: int, pair: tuple[Any, Any]) -> bool:
    result, error = pair
    if n == WRONG:
        return error is not None and "unknown model" in str(error)
    return error is None and s.exact(result) and identity(s, result) == str(n)


async def stream_cancelled(s: Stub, t: Tally) -> None:
    """A stream is cancelled after its first answer."""
    before, found = server_counts(s.place.live.http), []
    s.client.start_stream(lambda result, error: found.append((result, error)), headers=s.headers)
    for _ in range(SENT):
        s.client.async_stream_infer("large", [s.pictures()])
    await wait_for(found, 1)
    await all_there(s.place, 0)
    s.client.stop_stream(cancel_requests=True)
    await given_up(s, t, before, found)


async def aio_stream_cancelled(s: Stub, t: Tally) -> None:
    """The same by ``stream_infer(...).cancel()``."""
    before, found = server_counts(s.place.live.http), []

    async def asked() -> AsyncIterator[dict[str, Any]]:
        for _ in range(SENT):
            yield {"model_name": "large", "inputs": [s.pictures()]}

    answers = s.client.stream_infer(asked(), headers=s.headers)
    try:
        async for pair in answers:
            found.append(pair)
            await all_there(s.place, 0)
            answers.cancel()
    except (asyncio.CancelledError, Exception) as error:
        found.append((None, error))
    await given_up(s, t, before, found)


async def given_up(s: Stub, t: Tally, before: Counter[str], found: list[tuple[Any, Any]]) -> None:
    """At least one answer, the client's own word of the end, nothing after it; the server serves on."""
    t.made += SENT
    errors = [str(error) or type(error).__name__ for _, error in found if error is not None]
    t.demand(0 < len(found) - len(errors) < SENT, f"{len(found) - len(errors)} of {SENT} answered before")
    t.demand(all("ancel" in text for text in errors), f"told: {', '.join(errors) or 'nothing more'}")
    await settled(s.place, before, 1, t)
    await t.right("infer afterwards", s.infer, s.exact)


# --- single requests that are cancelled ------------------------------------------------------------------


async def cancelled(s: Stub, t: Tally) -> None:
    """``async_infer(...).cancel()`` of all but the first."""
    before = server_counts(s.place.live.http)
    found: dict[int, Any] = {}
    calls = [
        s.client.async_infer("large", [s.pictures()],
                             lambda result, error, n=n: found.__setitem__(n, error or result), headers=s.headers)
        for n in range(AT_ONCE)
    ]  # fmt: skip
    await all_there(s.place)
    for one in calls[1:]:
        one.cancel()
    until_s = time.monotonic() + PATIENCE_S
    while len(found) < AT_ONCE and time.monotonic() < until_s:
        await asyncio.sleep(0.01)
    await all_but_the_first(s, t, before, [found.get(n) for n in range(AT_ONCE)])


async def aio_cancelled(s: Stub, t: Tally) -> None:
    """The tasks of all but the first are cancelled; over HTTP the connection ends, over gRPC the call."""
    before = server_counts(s.place.live.http)
    tasks = [asyncio.ensure_future(s.large()) for _ in range(AT_ONCE)]
    await all_there(s.place)
    for task in tasks[1:]:
        task.cancel()
    await all_but_the_first(s, t, before, await asyncio.gather(*tasks, return_exceptions=True))


async def all_there(place: Place, waiting: int = AT_ONCE - 1) -> None:
    """Until the server runs one request, and so many wait."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        _, state = await asyncio.to_thread(call, place.live, "/v2/eunomia/state")
        if state["waiting"] >= waiting and state["devices"][0]["running"]:
            break
        await asyncio.sleep(0.002)


async def all_but_the_first(s: Stub, t: Tally, before: Counter[str], found: list[Any]) -> None:
    """The first has its answer, the others are told that they were cancelled."""
    await t.right(
        "the first", lambda: found[0].as_numpy("logits").shape, lambda shape: shape == (ROWS_OF_LARGE, 10)
    )
    for n in range(1, AT_ONCE):
        said = f"{type(found[n]).__name__} {found[n]}"
        await t.right(f"cancelled {n}", partial(given, said), lambda text: "ancelled" in text)
    await settled(s.place, before, AT_ONCE - 1, t)
    await t.right("infer afterwards", s.infer, s.exact)


# --- deadlines -------------------------------------------------------------------------------------------


async def deadlines(s: Stub, t: Tally) -> None:
    """gRPC's own deadline: kept, too short behind a long request, and hopeless from the start."""
    await t.right("60 s", lambda: s.infer(client_timeout=60.0), s.exact)
    before = server_counts(s.place.live.http)
    with sync_stub("gRPC", s.place) as other:
        for _ in range(AT_ONCE):
            other.client.async_infer(
                "large", [other.pictures()], lambda result, error: None, headers=s.headers
            )
        await all_there(s.place)
        late = "DEADLINE_EXCEEDED|Deadline Exceeded"
        await t.refused("behind long ones", lambda: s.infer(client_timeout=0.05), late)
        await settled(s.place, before, 1, t)
    await t.refused("0.1 ms", lambda: s.infer(client_timeout=1e-4), late + "|the network alone takes")
    await t.right("infer afterwards", lambda: s.infer(client_timeout=60.0), s.exact)


ROWS: dict[str, dict[str, Row]] = {
    "a stream": {"gRPC": stream, "gRPC, asyncio": aio_stream},
    "a stream, cancelled": {"gRPC": stream_cancelled, "gRPC, asyncio": aio_stream_cancelled},
    "single requests, cancelled": {
        "HTTP, asyncio": aio_cancelled, "gRPC": cancelled, "gRPC, asyncio": aio_cancelled},
    "a call's deadline": {"gRPC": deadlines, "gRPC, asyncio": deadlines},
}  # fmt: skip
