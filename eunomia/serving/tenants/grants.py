"""What a tenant was granted, and how callers are told apart."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from eunomia.workload.tenant import Slo

Role = Literal["tenant", "admin"]
KEY_PREFIX = "eun_"
DEFAULT_TENANT = "default"


@dataclass(frozen=True)
class Promise:
    """What one tenant was promised for one network: deadline of each request, and objective over many.

    ``min_deadline_s``: the shortest deadline that a client may claim; None = what was promised, 0 = any.
    """

    deadline_s: float
    slo: Slo | None = None
    priority: float = 1.0
    min_deadline_s: float | None = None

    @property
    def shortest_s(self) -> float:
        """No claim of a client makes a deadline shorter than this."""
        return self.deadline_s if self.min_deadline_s is None else self.min_deadline_s


@dataclass(frozen=True)
class Grant:
    """A tenant: its role, its share, its limits, its promises by network.

    ``models``: networks that it may use; None = all. ``promises`` may hold ``"*"`` for every other network.
    ``rate_per_s`` and ``device_s_per_day``: inf = unlimited. ``max_request_bytes`` bounds one body. ``max_block_s``: so
    long a request may hold a device without a boundary; 0 = any, None = as the server has it.
    """

    name: str
    role: Role = "tenant"
    weight: float = 1.0
    rate_per_s: float = float("inf")
    burst: float = 10.0
    max_concurrency: int = 1000
    max_queue: int = 1000
    max_request_bytes: int = 64 * 1024**2
    models: frozenset[str] | None = None
    promises: Mapping[str, Promise] = field(default_factory=dict)
    max_block_s: float | None = None
    device_s_per_day: float = float("inf")

    def may_use(self, model: str) -> bool:
        """Whether this tenant may ask this network."""
        return self.models is None or model in self.models

    def promise(self, model: str) -> Promise | None:
        """What was promised for a network."""
        return self.promises.get(model) or self.promises.get("*")


class Directory(Protocol):
    """Where grants are found; answers come from memory, whatever stands behind it."""

    def by_key(self, key: str) -> Grant | None:
        """The owner of an API key that is valid now."""

    def by_name(self, name: str) -> Grant | None:
        """A tenant by name."""

    def all(self) -> list[Grant]:
        """Every tenant."""


def grant_of(directory: Directory, name: str) -> Grant:
    """A tenant's, or of one that it does not name what it has by default."""
    return directory.by_name(name) or Grant(name)


class StaticDirectory:
    """Tenants of a configuration file. Keys are given by their SHA-256, never in the clear."""

    def __init__(self, grants: list[Grant], key_hashes: Mapping[str, str] | None = None) -> None:
        self._grants = {grant.name: grant for grant in grants}
        self._owner = dict(key_hashes or {})

    def by_key(self, key: str) -> Grant | None:
        """The owner of an API key."""
        return self._grants.get(self._owner.get(hash_key(key), ""))

    def by_name(self, name: str) -> Grant | None:
        """A tenant by name."""
        return self._grants.get(name)

    def all(self) -> list[Grant]:
        """Every tenant."""
        return list(self._grants.values())


def new_key() -> str:
    """A fresh API key: 256 random bits. Show it once; keep only ``hash_key`` of it."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> str:
    """SHA-256: enough for a key of 256 random bits, which nobody can guess from its hash."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
