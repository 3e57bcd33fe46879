"""A port for a program that must be told one: none of those that the system hands out to whoever asks for any."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

LOWEST, HANDED_OUT = (
    20_000,
    32_768,
)  # by Linux: from here on, so that another test may be given it before the program


def free_port() -> int:
    """That nobody listens on now."""
    for port in random.SystemRandom().sample(range(LOWEST, HANDED_OUT), 1000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError(f"no port from {LOWEST} to {HANDED_OUT} is free")
