"""The hostile tenant: a process of its own, with raw connections and whatever it likes to write on them."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

ADDRESS = "127.0.0.2"  # where it calls from: not where gold does
ADDRESSES = (f"127.{n // 250 + 1}.{n % 250}.3" for n in count())
BRONZE = "eun_bronze-key"
WAIT_S = 3.0  # for one answer
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Work = Callable[["Bronze"], Awaitable[None]]


@dataclass(frozen=True)
class Attack:
    """``work`` again and again, by ``crowd`` callers at a time. ``refused``: at least one answer says why not."""

    what: str
    work: Work
    crowd: int = 8
    refused: bool = True


@dataclass
class Bronze:
    """One attack. ``told``: how often each status was seen; ``words``: a sentence with each."""

    http: tuple[str, int]
    grpc: str
    until_s: float
    told: Counter[str] = field(default_factory=Counter)
    words: dict[str, str] = field(default_factory=dict)
    number: int = 0
    address: str = ADDRESS  # of its frames by hand: one that floods gets no more connections for a while

    @property
    def over(self) -> bool:
        """Whether the attack has ended."""
        return time.monotonic() >= self.until_s

    @property
    def next(self) -> int:
        """Another number with each look."""
        self.number += 1
        return self.number

    def note(self, status: str, sentence: str = "") -> None:
        """It was told that."""
        self.told[status] += 1
        if sentence:
            self.words.setdefault(status, sentence)

    @asynccontextmanager
    async def line(self) -> Any:
        """A connection over HTTP's port."""
        reader, writer = await asyncio.open_connection(*self.http, local_addr=(ADDRESS, 0))
        try:
            yield reader, writer
        finally:
            writer.close()

    async def say(self, *pieces: bytes) -> None:
        """Bytes on a connection of their own, and the answer to them."""
        async with self.line() as line:
            for piece in pieces:
                line[1].write(piece)
                await line[1].drain()
            await self.hear(line)

    async def ask(self, line: Line, data: bytes) -> None:
        """Bytes on a connection that stays, and the answer to them."""
        line[1].write(data)
        await self.hear(line)

    async def hear(self, line: Line) -> bytes:
        """The next answer, noted."""
        async with asyncio.timeout(WAIT_S):
            head = await line[0].readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0] or 0)
            body = await line[0].readexactly(length)
        self.note(head.split(b" ", 2)[1].decode(), sentence_of(body))
        return body

    async def rest(self, seconds: float = 0.05) -> None:
        """Do nothing for a moment."""
        await asyncio.sleep(seconds)

    async def last(self) -> None:
        """Do nothing until the attack is over."""
        await asyncio.sleep(max(0.0, self.until_s - time.monotonic()))


def sentence_of(body: bytes) -> str:
    """What an answer says of an error."""
    try:
        content = json.loads(body[:100_000])
    except ValueError:
        return ""
    return str(content.get("error", "")) if isinstance(content, dict) else ""


def request(
    method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, key: str = BRONZE
) -> bytes:
    """A request over HTTP; ``headers`` may say another length than the body's."""
    lines = {
        "Host": "x",
        "Content-Length": str(len(body)),
        "Authorization": f"Bearer {key}",
        **(headers or {}),
    }
    lines = {name: value for name, value in lines.items() if value}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode("latin-1") + body


def infer(model: str, body: bytes | Mapping[str, Any], headers: Mapping[str, str] | None = None) -> bytes:
    """An inference request of bronze's, of JSON or of any bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request("POST", f"/v2/models/{model}/infer", content, headers)


def tensors(model: str, *inputs: Mapping[str, Any], raw: bytes = b"", **more: Any) -> bytes:
    """An inference request with these inputs and raw tensors behind them."""
    head = json.dumps({"inputs": inputs, **more}).encode()
    return infer(model, head + raw, {"Inference-Header-Content-Length": str(len(head))} if raw else {})


async def carry_out(attack: Attack, bronze: Bronze) -> None:
    """Until it is over; what the network says of itself is noted, too."""

    async def again() -> None:
        while not bronze.over:
            try:
                await attack.work(bronze)
            except TimeoutError:
                bronze.note("no answer")
            except (OSError, EOFError, ValueError) as error:
                bronze.note(f"closed ({type(error).__name__})")
                await bronze.rest(0.005)
            except Exception as error:  # a library gives up in words of its own
                bronze.note(f"given up ({type(error).__name__})")
                await bronze.rest(0.005)

    crowd = [asyncio.create_task(again()) for _ in range(attack.crowd)]
    await bronze.last()
    _, late = await asyncio.wait(crowd, timeout=0.05)
    for one in late:
        one.cancel()
    await asyncio.wait(crowd)
    for one in crowd:
        if not one.cancelled() and (error := one.exception()) is not None:
            raise error


async def carry_out_all(
    attacks: list[Attack], http: tuple[str, int], grpc: str, seconds: float
) -> list[dict[str, Any]]:
    """Several at a time; what each was told."""
    until_s = time.monotonic() + seconds
    crowd = [Bronze(http, grpc, until_s, address=next(ADDRESSES)) for _ in attacks]
    await asyncio.gather(*(carry_out(attack, bronze) for attack, bronze in zip(attacks, crowd, strict=True)))
    return [{"told": dict(bronze.told), "words": bronze.words} for bronze in crowd]
