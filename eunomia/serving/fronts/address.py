"""Where a caller is, as far as callers are told apart by that."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


def in_url(host: str) -> str:
    """As a URL has it: an address of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


@lru_cache(maxsize=4096)
def place_of(host: str) -> str:
    """An address; of IPv6 its network of 64 bits, as one machine may have all addresses of that."""
    host = host.strip("[]").partition("%")[0].removeprefix("::ffff:")
    try:
        return str(ipaddress.IPv6Network((host, 64), strict=False).network_address)
    except ValueError:
        return host
