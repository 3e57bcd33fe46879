"""What a client of one device is promised, and whether promises can be kept together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from eunomia.core.errors import ConfigError

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ShareSpec:
    """``request``: the part of the device's time that a client gets while it has work.

    ``limit``: the most it may get, also of an idle device. ``memory_bytes``: the most it may hold; None = no cap.
    """

    name: str
    request: float
    limit: float = 1.0
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        if not self.name or any(mark.isspace() or mark in "=:" for mark in self.name):
            raise ConfigError(f"client '{self.name}': a name has no blanks, no = and no :")
        if not (math.isfinite(self.request) and 0.0 < self.request <= 1.0):
            raise ConfigError(
                f"client '{self.name}': request is {self.request}; more than 0, at most 1 (the whole device)"
            )
        if not self.request <= self.limit <= 1.0:
            raise ConfigError(
                f"client '{self.name}': limit is {self.limit}; at least the request ({self.request}), at most 1"
            )
        if self.memory_bytes is not None and self.memory_bytes <= 0:
            raise ConfigError(f"client '{self.name}': memory is {self.memory_bytes} bytes; more than 0")


def check_together(specs: Iterable[ShareSpec], memory_bytes: int | None = None) -> None:
    """Raise ConfigError for names that occur twice, and for more than there is of time or memory."""
    found = list(specs)
    names = [spec.name for spec in found]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"two clients are called '{double}'; give each a name of its own")
    total = sum(spec.request for spec in found)
    if total > 1.0 + ROUNDING:
        raise ConfigError(
            f"requests add up to {total:g}; at most 1, the whole device: lower one or leave one out"
        )
    promised = sum(spec.memory_bytes or 0 for spec in found)
    if memory_bytes is not None and promised > memory_bytes:
        raise ConfigError(
            f"memory caps add up to {promised} bytes; the device has {memory_bytes}, and memory is never over-committed"
        )
