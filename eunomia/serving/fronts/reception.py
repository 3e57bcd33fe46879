"""The HTTP port: connections are counted from the first moment on, and cost next to nothing until they say something.

The event loop would accept thousands in one turn, and close whoever waits where descriptors run out. So sockets are
accepted here, a few in a turn, and heard by ``hearing``: ten thousand may leave at once. With its first
bytes a connection gets its protocol, addresses in turn. Over TLS one handshake begins in a turn, once the client's
first message is all here; the next when ``REST`` times what it costs have passed. Of more that go on than begin in
``GREETED_S`` (and more than ``FEW``), the oldest of the most crowded address ends: they may all go on in one turn.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import cast

from eunomia.serving.fronts.address import place_of
from eunomia.serving.fronts.certificate import handshake_s
from eunomia.serving.fronts.connections import Connections
from eunomia.serving.fronts.crowds import Crowds
from eunomia.serving.fronts.hearing import Hearing, Standing
from eunomia.serving.fronts.hello import PEEKED, needed
from eunomia.serving.fronts.records import Records
from eunomia.serving.fronts.rota import Rota

log = logging.getLogger("eunomia.serving")
BACKLOG = 1024  # connections that wait to be accepted
ACCEPTED, ALWAYS = 32, 4  # in one turn of the event loop: at most, and even if the turn has taken up enough
REST = 4.0  # so all handshakes together take a quarter of the event loop
GREETED_S, FEW, GREETINGS = 0.2, 32, 256  # handshakes that have begun: at least, and at most
LACKING = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # of an address, such as ::1 where there is no IPv6
ENTERED_S = 2e-4  # of the processor, that the next turns take for one that enters
UNSENT_BYTES = 64 * 1024  # of a connection, that the system keeps for a client which takes nothing
PAUSE_S = 0.05  # until the system, which refused a descriptor, is asked again


async def sockets_at(host: str, port: int) -> list[socket.socket]:
    """That listen, one for each address of the host that this system has; raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made, lacking = list[socket.socket](), OSError(errno.EADDRNOTAVAIL, f"'{host}' has no address here")
    with ExitStack() as opened:
        for family, _, _, _, where in dict.fromkeys(found):
            try:
                made.append(opened.enter_context(socket.create_server(where, family=family, backlog=BACKLOG)))
            except OSError as error:
                if error.errno not in LACKING:
                    raise
                lacking = error
        opened.pop_all()
    if not made:
        raise lacking
    return made


class Reception:
    """``make``: the protocol of a connection that has said something. ``sockets``: where it listens."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        connections: Connections,
        make: Callable[[], Standing],
        rota: Rota,
        hearing: Hearing,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.sockets, self.connections = sockets, connections
        self.loop = asyncio.get_running_loop()
        self.make, self.welcome = make, self.loop.connect_accepted_socket
        self.rota, self.hearing = rota, hearing
        self.greetings: Crowds[Guest] | None = None
        self.most_greetings = GREETINGS
        self.greet: Callable[[str, Callable[[], None]], None] | None = None  # with a handshake, in turn
        if tls is not None:
            self.welcome = partial(self.welcome, ssl=tls, ssl_handshake_timeout=connections.limits.head_s)
            rest_s = REST * handshake_s(tls)
            self.most_greetings = min(max(FEW, int(GREETED_S / rest_s)), GREETINGS)
            self.records = Records(connections.secure)
            self.greet, self.greetings = Rota(rota.turns, most_s=0.0, rest_s=rest_s).join, Crowds()
        self._told = False
        for one in sockets:
            one.setblocking(False)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            self._listen(one)

    def close(self) -> None:
        """No new ones; those that are here stay."""
        for one in self.sockets:
            if one.fileno() >= 0:
                self.loop.remove_reader(one)
                one.close()

    def end(self) -> None:
        """Nobody is served any more."""
        self.close()
        self.connections.end_all()
        self.hearing.close()

    def _listen(self, one: socket.socket) -> None:
        if one.fileno() >= 0:
            self.loop.add_reader(one, self._accept, one)

    def _accept(self, one: socket.socket) -> None:
        self.rota.begin()
        for n in range(ACCEPTED):
            if n >= ALWAYS and self.rota.over:
                return  # the others in the next turn
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
            guest = Guest(self, sock, place_of(str(peer[0])))
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

    __slots__ = ("_came", "_entering", "_reception", "address", "sock")
    transport: asyncio.Transport | None = None

    def __init__(self, reception: Reception, sock: socket.socket, address: str) -> None:
        self._reception, self.sock, self.address = reception, sock, address
        self._entering: asyncio.Task[None] | None = None
        self._came = 0  # bytes, at the last look
        reception.hearing.hear(self, sock.fileno(), self.who)

    @property
    def who(self) -> str:
        """Whose turn it waits for."""
        return self._reception.connections.newcomer_at(self.address)

    @property
    def here(self) -> bool:
        """Whether it has not been ended."""
        return self.sock.fileno() >= 0

    def heard(self) -> None:
        """Its first bytes are here, or it has left."""
        self._reception.rota.do(self.who, self._look)

    def _look(self) -> None:
        if not self.here:
            return
        greet = self._reception.greet
        try:
            came = self.sock.recv(1 if greet is None else PEEKED, socket.MSG_PEEK)
        except BlockingIOError:
            self._reception.hearing.hear(self, self.sock.fileno(), self.who)
            return
        except OSError:
            came = b""
        if not came or (more := 0 if greet is None else needed(came)) is None:
            self._reception.connections.gone(self)
            self.sock.close()
        elif greet is None:
            self._enter()
        elif more and len(came) > self._came:  # else it sends no more, which the library hears
            self._came = len(came)
            self._hear_at(more)
        else:
            self._hear_at(1, again=False)
            self._reception.connections.waits(self, turn=True)
            greet(self.who, self._enter)

    def _hear_at(self, size: int, again: bool = True) -> None:
        """So many bytes are something."""
        with suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        if again:
            self._reception.hearing.hear(self, self.sock.fileno(), self.who)

    def _enter(self) -> None:
        if not self.here:
            return
        self._reception.rota.owe(ENTERED_S)
        self._reception.connections.waits(self, turn=False)
        self._entering = self._reception.loop.create_task(self._entered())
        if (greetings := self._reception.greetings) is not None:
            greetings.join(self.address, self)
            if greetings.total > self._reception.most_greetings:
                self._reception.connections.end(next(iter(next(greetings.largest_first()).waiting)), "most")

    async def _entered(self) -> None:
        here = self._reception
        try:
            await here.welcome(self._made, self.sock)
        except OSError as error:  # as clients make them
            log.debug("no handshake: %s", error)
        finally:
            self.gone()

    def _made(self) -> asyncio.Protocol:
        connection = self._reception.make()
        connection.entered = self.gone
        return cast(asyncio.Protocol, connection)

    def gone(self) -> None:
        """It has ended, or has its protocol: nobody counts twice."""
        self._reception.connections.gone(self)
        self._greeted()

    def _greeted(self) -> None:
        if self._reception.greetings is not None:
            self._reception.greetings.leave(self.address, self)

    def force_close(self) -> None:
        """Whatever it does."""
        if self._entering is None:
            self._reception.hearing.forget(self)
            self.sock.close()
            return
        self._greeted()
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # the transport, which has it now, sees its end
