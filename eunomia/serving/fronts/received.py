"""What a connection has brought, as the kernel counts it: a library may have read more than it has said."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

RECEIVED = struct.Struct("128xQ")  # of struct tcp_info: tcpi_bytes_received


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


def _received(one: socket.socket) -> int:
    counted = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED.size)
    return int(RECEIVED.unpack(counted)[0])


@contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """Whoever has it open keeps it. Raises OSError where it is no socket."""
    one = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=number)
    try:
        yield one
    finally:
        one.detach()
