"""A port that cannot be opened: why, and what to do."""

from __future__ import annotations

import errno
import os
import socket

OWN_ADDRESS = "give host an address of this machine, or 0.0.0.0 for all of them"
REMEDIES = {
    errno.EADDRINUSE: "another program listens there: end it, or take another port (0 = any free one)",
    errno.EACCES: "ports below 1024 want root or CAP_NET_BIND_SERVICE: take one above",
    errno.EADDRNOTAVAIL: OWN_ADDRESS,
}


def why_taken(host: str, port: int) -> str:
    """Why nobody can listen there now; "" = one can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, family, socket.SOCK_STREAM)
        socket.create_server(found[0][4], family=family).close()
    except socket.gaierror as error:
        return f"{error.strerror}; {OWN_ADDRESS}"
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        return f"{why}; {REMEDIES[error.errno]}" if error.errno in REMEDIES else why
    return ""
