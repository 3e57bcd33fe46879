"""What a server and its successor tell each other, over a Unix socket named after host and HTTP port.

1. The successor connects. The server hands over what it listens at, the lock of its ledger and the names of its
   networks, and goes on as before; its ledger is compacted no more.
2. The successor loads its networks, opens the ledger beside the server's own last lines, begins to serve, and says so.
   If it ends before that, or takes longer than ``SERVING_S`` and hears of it, nothing has happened.
3. The server accepts no more connections, says so, serves those that it has to their ends, and leaves; at once if the
   successor ends before, for nobody else can begin until it has left.
4. The line ends with the server, however it ended. Then the successor counts what the server has written since 2.

The socket has no file (Linux only). Both ends must belong to one user.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from eunomia.core.errors import OutputError

log = logging.getLogger("eunomia.serving")
FORMAT = 2
MOST_BYTES, MOST_FILES = 200_000, 64
ANSWER_S = 10.0  # for a server to hand over
SERVING_S = 600.0  # for a successor to load its networks
AGAIN_S = 1.0  # after a fault
SERVING, LEAVING, TOO_LATE = b"serving", b"leaving", b"too late"


@dataclass(frozen=True)
class Estate:
    """``listening``: descriptors of HTTP, and of gRPC; ``lock``: of the ledger, None without one.

    ``models``: ready networks.
    """

    listening: Sequence[int]
    listening_rpc: Sequence[int]
    lock: int | None
    models: Sequence[str]

    def rpc_at(self, port: int | None) -> list[socket.socket]:
        """Those of gRPC, if they are at that port (0 = any); else they are closed, for nobody would accept."""
        here = [socket.socket(fileno=number) for number in self.listening_rpc]
        if here and port is not None and port in (0, here[0].getsockname()[1]):
            return here
        for one in here:
            log.warning(
                "the server before serves gRPC at port %d, and this one does not: its clients there are refused now; "
                "for no gap, keep the port until they have moved",
                one.getsockname()[1],
            )
            one.close()
        return []


def address_of(host: str, port: int) -> str:
    """Of the line to whoever serves there."""
    return f"\0eunomia-{os.getuid()}-{host}:{port}"


class Successors:
    """The server's end."""

    def __init__(
        self,
        address: str,
        estate: Callable[[], Estate],
        leave: Callable[[], Awaitable[None]],
        stay: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        """``estate``: what to hand over; ``leave``: somebody else serves; ``stay``: nobody does; ``lost``: nobody does
        any more. Raises OSError."""
        self._estate, self._leave, self._stay, self._lost = estate, leave, stay, lost
        self._line = _line()
        self._peer: socket.socket | None = None
        try:
            self._line.bind(address)
            self._line.listen(1)
        except OSError:
            self._line.close()
            raise
        self._task = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while self._peer is None:
            try:
                await self._meet()
            except Exception:  # no files left, say: whoever comes later may take over
                log.exception("a process that would take over could not be met")
                await asyncio.sleep(AGAIN_S)
        self._line.close()
        while await _word(self._peer):
            pass
        self._lost()

    async def _meet(self) -> None:
        peer, _ = await asyncio.get_running_loop().sock_accept(self._line)
        try:
            peer.setblocking(False)
            if _user(peer) == os.getuid() and await self._hand_over(peer):
                self._peer = peer  # ends with this process
        finally:
            if self._peer is None:
                peer.close()

    async def _hand_over(self, peer: socket.socket) -> bool:
        """Whether the successor serves."""
        try:
            serves = await self._offer(peer)
        except Exception:
            self._stay()
            raise
        if not serves:
            self._stay()
            return False
        await self._leave()
        with suppress(OSError):  # it may have died since; what it had begun is lost like that of any server
            peer.send(LEAVING)
        return True

    async def _offer(self, peer: socket.socket) -> bool:
        estate = self._estate()
        told = {
            "format": FORMAT,
            "http": len(estate.listening),
            "lock": estate.lock is not None,
            "models": list(estate.models),
        }
        files = [*estate.listening, *estate.listening_rpc, *([] if estate.lock is None else [estate.lock])]
        try:
            socket.send_fds(peer, [json.dumps(told).encode()], files)
            word = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(peer, MOST_BYTES), SERVING_S)
            return word == SERVING
        except TimeoutError:
            log.warning("a process that would take over has said nothing for %g s; this one stays", SERVING_S)
            with suppress(OSError):
                peer.send(TOO_LATE)
        except OSError:  # it has ended
            pass
        return False

    def close(self) -> None:
        """Everything is written: the successor may count it."""
        self._task.cancel()
        self._line.close()
        if self._peer is not None:
            self._peer.close()


class Predecessor:
    """The successor's end."""

    def __init__(self, line: socket.socket, estate: Estate) -> None:
        self._line, self.estate = line, estate

    @classmethod
    async def find(cls, address: str) -> Predecessor | None:
        """Who serves there; None = nobody. Raises OutputError."""
        line = _line()
        line.settimeout(ANSWER_S)
        try:
            line.connect(address)
        except OSError:
            line.close()
            return None
        try:
            if _user(line) != os.getuid():
                raise ValueError("it belongs to another user")
            data, files, _, _ = await asyncio.to_thread(socket.recv_fds, line, MOST_BYTES, MOST_FILES)
            for file in files:
                os.set_inheritable(file, False)
            told = json.loads(data or b"{}")
            if told.get("format") != FORMAT:
                raise ValueError("it is of another version")
        except (OSError, ValueError) as error:
            line.close()
            where = address.partition("-")[2].partition("-")[2]
            raise OutputError(
                f"the server at {where} does not hand over ({error}): stop it, and start without --takeover"
            ) from None
        lock = files.pop() if told["lock"] else None
        line.setblocking(False)
        http = int(told["http"])
        return cls(line, Estate(files[:http], files[http:], lock, told["models"]))

    def still(self) -> None:
        """Raises OutputError where it has waited too long, and stays."""
        with suppress(OSError):  # it has said nothing yet
            self._refuse(self._line.recv(MOST_BYTES))

    async def leaves(self) -> None:
        """Say that somebody else serves; returns once it begins no more work, or has ended. Raises OutputError."""
        with suppress(OSError):  # what it said before it closed the line can be read
            self._line.send(SERVING)
        self._refuse(await _word(self._line))

    def _refuse(self, word: bytes) -> None:
        if word == TOO_LATE:
            raise OutputError(
                f"the server that runs has waited {SERVING_S:g} s for this one, and stays: start it again, or load less"
            )

    async def gone(self) -> None:
        """It has ended."""
        while await _word(self._line):
            pass

    def close(self) -> None:
        """It may stay; what was not taken is closed."""
        self._line.close()


def _line() -> socket.socket:
    """Messages stay whole; nothing waits."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.setblocking(False)
    return line


async def _word(line: socket.socket) -> bytes:
    """The next one; none = the other process has ended."""
    try:
        return await asyncio.get_running_loop().sock_recv(line, MOST_BYTES)
    except OSError:
        return b""


def _user(peer: socket.socket) -> int:
    """Of the process at the other end."""
    found: int = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    return found
