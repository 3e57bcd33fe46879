"""Sockets of gRPC's library, which opens them itself: how many connections it has, and who gets new ones.

Two processes of one user may listen at one port (SO_REUSEPORT), and the kernel deals new connections out to both. A
filter of one instruction, "the second of those that listen", gives all to the one that came last. Once the first has
left, there is no second, and the kernel deals as before.
"""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

log = logging.getLogger("eunomia.serving")
RETURN_NUMBER = 0x06  # BPF_RET | BPF_K
ATTACH_FILTER = 51  # SO_ATTACH_REUSEPORT_CBPF
SECOND = 1


def connected(port: int) -> int:
    """Connections of this process at a port of its own."""
    return sum(not listens for _, listens in _at(port))


def take_new(port: int) -> None:
    """Who listens here, as the second process at this port, gets all new connections."""
    code = ctypes.create_string_buffer(struct.pack("HBBI", RETURN_NUMBER, 0, 0, SECOND))
    program = struct.pack("HL", 1, ctypes.addressof(code))
    for one, listens in _at(port):
        if listens:
            try:
                one.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, program)
            except OSError as error:
                log.warning("gRPC connections go to the old process, too, until it leaves: %s", error)


def why_taken(host: str, port: int) -> str:
    """Why nobody can listen there now; "" = one can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), port), family=family).close()
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    return ""


def cut(port: int, peers: set[str]) -> None:
    """End this process's connections at a port with those, by gRPC's names of them: ``ipv4:127.0.0.1:4711``."""
    for one, listens in _at(port):
        with suppress(OSError):
            if not listens and name_of(one) in peers:
                one.shutdown(socket.SHUT_RDWR)


def name_of(one: socket.socket) -> str:
    """Of the peer, as gRPC writes it; an IPv4 address is one in IPv6, too."""
    host, number = one.getpeername()[:2]
    host = host.removeprefix("::ffff:")
    return f"ipv6:%5B{quote(host, safe=':')}%5D:{number}" if ":" in host else f"ipv4:{host}:{number}"


def _at(port: int) -> Iterator[tuple[socket.socket, bool]]:
    """Each socket of this process at this port, and whether it listens."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            one = socket.socket(fileno=os.dup(int(name)))
            try:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.getsockname()[1] == port:
                    yield one, bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
            finally:
                one.close()
