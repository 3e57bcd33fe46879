"""Connections of a library that shows none: what each has brought, their end, and addresses that get no new ones.

A classic filter at the listening socket drops their first packet in the kernel, which costs this process nothing.
Connections that stand, of the same address too, are not touched.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import ipaddress
import logging
import os
import socket
import struct
import termios
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import unquote

from eunomia.serving.fronts.address import place_of
from eunomia.serving.takeover.sockets import name_of

log = logging.getLogger("eunomia.serving")
RECEIVED = struct.Struct("128xQ")  # of struct tcp_info: tcpi_bytes_received
ATTACH, DETACH = 26, 27  # SO_ATTACH_FILTER, SO_DETACH_FILTER
LOAD_BYTE, LOAD_WORD, JUMP_IF, RETURN = (
    0x30,
    0x20,
    0x15,
    0x06,
)  # BPF: absolute loads, jump if equal to a constant
AND = 0x54
NETWORK = 0xFFF00000  # where the head of the IP packet begins (SKF_NET_OFF)
ALL = 0x00040000  # bytes of a packet that passes
FIRST_S, LONGEST_S = 10.0, 160.0
MOST = 32  # addresses at a time, the newest
DISCARDED = 64 * 1024  # bytes at a time; the kernel copies none of them
Instruction = tuple[int, int, int, int]  # code, how far to jump if it holds and if not, constant


@dataclass(frozen=True)
class Connected:
    """A connection. ``received``: bytes, as the kernel counts them."""

    number: int
    port: int
    peer: str
    received: int

    @property
    def host(self) -> str:
        """Its address; of IPv6 the network of 64 bits."""
        return place_of(unquote(self.peer.partition(":")[2].rpartition(":")[0]))

    def waiting(self, most: int) -> bytes:
        """The first bytes that nobody has read yet; they stay there."""
        with suppress(OSError), _borrowed(self.number) as one:
            return one.recv(most, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        return b""


def connection_at(number: int, port: int) -> Connected | bool:
    """The connection at this port of ours that has this descriptor; otherwise whether anything has it."""
    try:
        with _borrowed(number) as one:
            own = one.getsockname()
            if isinstance(own, tuple) and own[1] == port:
                peer = name_of(one)
                received = _received(one)
                if name_of(one) == peer:  # else another one has the number by now
                    return Connected(number, port, peer, received)
    except (OSError, struct.error) as error:
        return not (isinstance(error, OSError) and error.errno == errno.EBADF)
    return True


def _received(one: socket.socket) -> int:
    counted = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED.size)
    return int(RECEIVED.unpack(counted)[0])


def read_from(number: int) -> int:
    """Bytes of this descriptor's connection that the process has read; 0 where nobody says."""
    waiting = array("i", [0])
    try:
        with _borrowed(number) as one:
            received = _received(one)
            fcntl.ioctl(one, termios.FIONREAD, waiting)
            return received - waiting[0]
    except (OSError, struct.error, ValueError):
        return 0


def end(one: Connected) -> None:
    """If it is still what its descriptor stands for; what waits in its socket is thrown away, as it would be read."""
    room = bytearray(DISCARDED)
    with (
        suppress(OSError),
        socket.socket(fileno=os.dup(one.number)) as own,
    ):  # its number may pass to another one
        if name_of(own) == one.peer:
            own.shutdown(socket.SHUT_RDWR)
            while own.recv_into(room, DISCARDED, socket.MSG_TRUNC | socket.MSG_DONTWAIT):
                pass


@contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """Whoever has it open keeps it. Raises OSError where it is no socket."""
    one = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=number)
    try:
        yield one
    finally:
        one.detach()


class Bars:
    """Which addresses get no new connections, and until when."""

    def __init__(self) -> None:
        self._until_s: dict[str, float] = {}
        self._last_s: dict[str, tuple[float, float]] = {}  # how long the last time, and when that ended
        self._listening: list[int] = []

    def put(self, port: int, host: str, now_s: float) -> float:
        """For so many seconds, twice as long if that is soon after the last time; 0 = it is barred already."""
        if host in self._until_s:
            return 0.0
        last_s, ended_s = self._last_s.get(host, (0.0, 0.0))
        again = last_s > 0.0 and now_s - ended_s < LONGEST_S
        for_s = min(2.0 * last_s, LONGEST_S) if again else FIRST_S
        self._until_s[host] = now_s + for_s
        self._last_s[host] = for_s, now_s + for_s
        for oldest in [*self._until_s][:-MOST]:
            del self._until_s[oldest]
        for oldest in [*self._last_s][: -8 * MOST]:
            del self._last_s[oldest]
        bar(port, self._until_s, self._listening)
        return for_s

    def lift(self, port: int, now_s: float) -> None:
        """Those whose time is over."""
        left = {host: until_s for host, until_s in self._until_s.items() if until_s > now_s}
        if len(left) < len(self._until_s):
            bar(port, left, self._listening)  # if that fails, the next look tries again
            self._until_s = left


def bar(port: int, hosts: Iterable[str], known: list[int] | None = None) -> None:
    """Of these addresses, and of no others, the socket that listens here takes no new connection.

    ``known``: its descriptors the last time; to look through ten thousand takes 100 ms.
    """
    program = b"".join(struct.pack("HBBI", *step) for step in _steps(list(hosts)))
    code = ctypes.create_string_buffer(program)
    told = struct.pack("HL", len(program) // 8, ctypes.addressof(code))
    known = [] if known is None else known
    found = _listening(port, known) or _listening(port, map(int, os.listdir("/proc/self/fd")))
    known[:] = found
    for one in found.values():
        with one:
            try:
                if program:
                    one.setsockopt(socket.SOL_SOCKET, ATTACH, told)
                else:
                    with suppress(FileNotFoundError):  # none is there
                        one.setsockopt(socket.SOL_SOCKET, DETACH, 0)
            except OSError as error:
                log.warning("the system bars no address: %s", error)


def _listening(port: int, numbers: Iterable[int]) -> dict[int, socket.socket]:
    """Copies of those of these descriptors that listen there."""
    found = dict[int, socket.socket]()
    for number in numbers:
        with suppress(OSError), _borrowed(number) as one:
            own = one.getsockname()
            if (
                isinstance(own, tuple)
                and own[1] == port
                and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            ):
                found[number] = socket.socket(fileno=os.dup(number))  # ``dup`` would make it wait
    return found


def _steps(hosts: list[str]) -> Iterator[Instruction]:
    """A program that returns 0 for packets from there."""
    if not hosts:
        return
    addresses = [ipaddress.ip_address(host) for host in hosts]
    fourth = [int(a) for a in addresses if a.version == 4]
    sixth = [int(a) >> 64 for a in addresses if a.version == 6]
    yield from ((LOAD_BYTE, 0, 0, NETWORK), (AND, 0, 0, 0xF0), (JUMP_IF, 0, 2 + 2 * len(fourth), 0x40))
    yield LOAD_WORD, 0, 0, NETWORK + 12
    for address in fourth:
        yield from ((JUMP_IF, 0, 1, address), (RETURN, 0, 0, 0))
    yield RETURN, 0, 0, ALL
    for address in sixth:
        yield from ((LOAD_WORD, 0, 0, NETWORK + 8), (JUMP_IF, 0, 3, address >> 32))
        yield from ((LOAD_WORD, 0, 0, NETWORK + 12), (JUMP_IF, 0, 1, address & 0xFFFFFFFF), (RETURN, 0, 0, 0))
    yield RETURN, 0, 0, ALL
