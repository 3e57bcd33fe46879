"""The desk behind a Unix socket: one connection per client, one JSON object per line.

``{"op": "join", "client": NAME}`` first; then ``acquire``, answered by ``{"quota_s": S}`` once the token is there, and
``release`` with ``burst_s`` and ``cut``, answered by ``{"charged_s": S}``; ``renew`` is both in one.
``{"error": SENTENCE}`` ends a connection.
The end of a connection, by whatever cause, gives the token back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import socket
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from eunomia.core.errors import ConfigError, EunomiaError, UnknownNameError
from eunomia.sharing.shares.desk import Desk
from eunomia.sharing.shares.spec import ShareSpec

LONGEST_LINE = 4096
LONGEST_PATH = 100  # bytes: what addresses of Unix sockets hold everywhere


class Front:
    """Speaks to clients for a desk; ``promised``: who may join."""

    def __init__(self, desk: Desk, promised: Iterable[ShareSpec]) -> None:
        self.desk, self.promised = desk, {spec.name: spec for spec in promised}
        self.connected: dict[str, asyncio.StreamWriter] = {}
        desk.on_lost = self._lost

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Serve at ``path``; only its owner may connect. Raises ConfigError where no socket can be made."""
        claim(path)
        try:
            server = await asyncio.start_unix_server(self._client, path, limit=LONGEST_LINE)
        except OSError as error:
            raise ConfigError(f"no socket can be made at '{path}': {error.strerror or error}") from None
        try:
            os.chmod(path, 0o600)
            yield
        finally:
            server.close()
            for writer in [*self.connected.values()]:
                writer.close()
            path.unlink(missing_ok=True)

    def _lost(self, name: str) -> None:
        if (writer := self.connected.get(name)) is not None:
            rules = self.desk.scheduler.rules
            error = (
                f"client '{name}' kept the token {rules.patience_s:g} s beyond its quota; it was taken back"
            )
            writer.write(_line({"error": error}))
            writer.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = ""
        try:
            name = self._join(_asked(await reader.readline()))
            self.connected[name] = writer
            writer.write(_line({"joined": name}))
            while line := await reader.readline():
                writer.write(_line(await self._served(name, _asked(line), reader)))
        except EunomiaError as error:
            writer.write(_line({"error": str(error)}))
        except (OSError, ValueError, asyncio.CancelledError):  # gone, or a line without an end
            pass
        finally:
            if name:
                self.connected.pop(name, None)
                self.desk.leave(name)
            with contextlib.suppress(OSError):
                writer.close()

    def _join(self, asked: dict[str, object]) -> str:
        name = str(asked.get("client"))
        if asked.get("op") != "join" or name not in self.promised:
            raise UnknownNameError("client", name, self.promised)
        if name in self.connected:
            raise ConfigError(f"client '{name}' is connected already; each client connects once")
        self.desk.scheduler.join(self.promised[name])
        return name

    async def _served(
        self, name: str, asked: dict[str, object], reader: asyncio.StreamReader
    ) -> dict[str, object]:
        op, burst_s, cut = asked.get("op"), asked.get("burst_s", 0.0), asked.get("cut") is True
        if not isinstance(burst_s, int | float) or not (math.isfinite(burst_s) and burst_s >= 0.0):
            raise ConfigError(f"burst_s is {burst_s!r}; a number of seconds, 0 or more")
        if op == "acquire":
            return {"quota_s": await self._granted(self.desk.acquire(name), reader)}
        if op == "renew":
            return {"quota_s": await self._granted(self.desk.renew(name, float(burst_s), cut), reader)}
        if op == "release":
            return {"charged_s": self.desk.release(name, float(burst_s), cut)}
        raise UnknownNameError("operation", str(op), ("acquire", "release", "renew"))

    async def _granted(self, asked: Coroutine[None, None, float], reader: asyncio.StreamReader) -> float:
        """The quota; ConnectionError if the client dies or speaks while it waits."""
        grant = asyncio.ensure_future(asked)
        spoke = asyncio.ensure_future(reader.read(1))
        await asyncio.wait((grant, spoke), return_when=asyncio.FIRST_COMPLETED)
        if spoke.done():
            grant.cancel()
            raise ConnectionError("the client went away while it waited")
        spoke.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await spoke
        return await grant


def claim(path: Path) -> None:
    """Remove a socket that nobody listens at; ConfigError for a path that is taken or too long."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise ConfigError(f"'{path}': a socket's path has at most {LONGEST_PATH} bytes; choose a shorter one")
    if not path.exists():
        return
    if not path.is_socket():
        raise ConfigError(f"'{path}' is not a socket; choose another path")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise ConfigError(f"'{path}': another program hands out a token there; choose another path")


def _asked(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{line[:60]!r} is not a JSON object")
    return found


def _line(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"
