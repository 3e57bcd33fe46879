"""A port that cannot be opened: why."""

from __future__ import annotations

import os
import socket


def why_taken(host: str, port: int) -> str:
    """Why nobody can listen there now; "" = one can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), port), family=family).close()
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    return ""
