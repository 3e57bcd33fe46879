"""The HTTP port: connections are counted from the first moment on, and cost next to nothing until they say something.

The event loop would accept thousands in one turn, and close whoever waits where descriptors run out. So sockets are
accepted here, a few in a turn. With its first bytes a connection gets its protocol, addresses in turn. Over TLS one
handshake begins in a turn. Of more than ``GREETINGS`` that go on, the oldest of the most crowded address ends.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from eunomia.serving.fronts.connections import Connections
from eunomia.serving.fronts.crowds import Crowds
from eunomia.serving.fronts.rota import Rota
from eunomia.serving.observe.turns import Turns

log = logging.getLogger("eunomia.serving")
BACKLOG = 1024  # connections that wait to be accepted
ACCEPTED = 32  # in one turn of the event loop
GREETINGS = 256  # handshakes that have begun
PAUSE_S = 0.05  # until the system, which refused a descriptor, is asked again


async def sockets_at(host: str, port: int) -> list[socket.socket]:
    """That listen, one for each address of the host; raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with ExitStack() as opened:
        made = [
            opened.enter_context(socket.create_server(where, family=family, backlog=BACKLOG))
            for family, _, _, _, where in dict.fromkeys(found)
        ]
        opened.pop_all()
    return made


class Reception:
    """``make``: the protocol of a connection that has said something. ``sockets``: where it listens."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        connections: Connections,
        make: Callable[[], asyncio.Protocol],
        rota: Rota,
        turns: Turns,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.sockets, self.connections = sockets, connections
        self.loop = asyncio.get_running_loop()
        self.welcome = partial(self.loop.connect_accepted_socket, make)
        self.soon = rota.do  # a connection gets its protocol
        self.greetings: Crowds[Guest] | None = None
        if tls is not None:
            self.welcome = partial(self.welcome, ssl=tls, ssl_handshake_timeout=connections.limits.head_s)
            self.soon, self.greetings = Rota(turns, most_s=0.0).join, Crowds()
        self._told = False
        for one in sockets:
            one.setblocking(False)
            self._listen(one)

    def close(self) -> None:
        """No new ones; those that are here stay."""
        for one in self.sockets:
            if one.fileno() >= 0:
                self.loop.remove_reader(one)
                one.close()

    def _listen(self, one: socket.socket) -> None:
        if one.fileno() >= 0:
            self.loop.add_reader(one, self._accept, one)

    def _accept(self, one: socket.socket) -> None:
        for _ in range(ACCEPTED):
            try:
                sock, peer = one.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._refused(one, error)
                return
            sock.setblocking(False)
            guest = Guest(self, sock, str(peer[0]))
            self.connections.admit(guest, guest.address)

    def _refused(self, one: socket.socket, error: OSError) -> None:
        """By the system: others hold more descriptors than was thought."""
        if not self._told:
            self._told = True
            log.warning("connections over HTTP have to wait: %s", error.strerror)
        self.connections.end_one()
        self.loop.remove_reader(one)
        self.loop.call_later(PAUSE_S, self._listen, one)


class Guest:
    """A connection that has not said anything yet, or whose handshake goes on."""

    __slots__ = ("_entering", "_here", "_sock", "address")
    transport: asyncio.Transport | None = None

    def __init__(self, here: Reception, sock: socket.socket, address: str) -> None:
        self._here, self._sock, self.address = here, sock, address
        self._entering: asyncio.Task[None] | None = None
        here.loop.add_reader(sock, self._spoken)

    def _spoken(self) -> None:
        """Its first bytes are here, or it has left."""
        try:
            left = not self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            left = True
        if left:
            self._here.connections.gone(self)
            self.force_close()
        else:
            self._here.loop.remove_reader(self._sock)
            self._here.soon(self.address, self._enter)

    def _enter(self) -> None:
        if self._sock.fileno() < 0:
            return
        self._entering = self._here.loop.create_task(self._entered())
        if (greetings := self._here.greetings) is not None:
            greetings.join(self.address, self)
            if greetings.total > GREETINGS:
                self._here.connections.end(next(iter(next(greetings.largest_first()).waiting)), "most")

    async def _entered(self) -> None:
        here = self._here
        try:
            await here.welcome(self._sock)
        except OSError as error:  # as clients make them
            log.debug("no handshake: %s", error)
        finally:
            here.connections.gone(self)
            self._greeted()

    def _greeted(self) -> None:
        if self._here.greetings is not None:
            self._here.greetings.leave(self.address, self)

    def force_close(self) -> None:
        """Whatever it does."""
        if self._entering is None:
            self._here.loop.remove_reader(self._sock)
            self._sock.close()
            return
        self._greeted()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # the transport, which has it now, sees its end
