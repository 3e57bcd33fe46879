"""What can do it: device types by name, in any number and order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError, UnknownNameError


@dataclass(frozen=True, slots=True)
class DeviceType:
    """Devices of one kind: GPU, NPU, CPU, IPU; the name is free.

    ``devices_per_server``: None = all in one server. ``cost_per_hour`` is the price of one device in use.
    ``memory_gib``: None = everything fits. ``servers_per_rack``: None = one rack.
    """

    name: str
    count: int
    devices_per_server: int | None = None
    cost_per_hour: float = 0.0
    memory_gib: float | None = None
    servers_per_rack: int | None = None

    def __post_init__(self) -> None:
        for field, value in (("count", self.count), ("devices_per_server", self.devices_per_server or 1)):
            if not (isinstance(value, (int, np.integer)) and value >= 1):
                raise self._wrong(field, value, "a whole number, at least 1")
        if not (math.isfinite(self.cost_per_hour) and self.cost_per_hour >= 0.0):
            raise self._wrong("cost_per_hour", self.cost_per_hour, "0 or more")
        if self.memory_gib is not None and not self.memory_gib > 0.0:
            raise self._wrong("memory_gib", self.memory_gib, "positive")

    def _wrong(self, name: str, value: object, right: str) -> ConfigError:
        return ConfigError(f"device type '{self.name}': {name} is {value!r}; it must be {right}")

    @property
    def server_sizes(self) -> tuple[int, ...]:
        """Devices of each server; the last one holds the remainder."""
        size = min(self.devices_per_server or self.count, self.count)
        full, rest = divmod(self.count, size)
        return (size,) * full + ((rest,) if rest else ())


@dataclass(frozen=True)
class Cluster:
    """All devices. Column j of every (jobs, types) array is ``types[j]``."""

    types: tuple[DeviceType, ...]

    def __post_init__(self) -> None:
        if not self.types:
            raise ConfigError("a cluster needs at least one device type")
        names = [kind.name for kind in self.types]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"device type '{name}' occurs twice; give its devices as one count")

    @classmethod
    def of(
        cls,
        counts: Mapping[str, int],
        devices_per_server: int | None = None,
        cost_per_hour: Mapping[str, float] | None = None,
    ) -> Cluster:
        """``Cluster.of({"v100": 8, "k80": 8}, devices_per_server=4)``."""
        prices = cost_per_hour or {}
        unknown(prices, counts)
        return cls(
            tuple(
                DeviceType(name, count, devices_per_server, prices.get(name, 0.0))
                for name, count in counts.items()
            )
        )

    def with_counts(self, counts: Mapping[str, int]) -> Cluster:
        """The same cluster with other numbers of devices; 0 removes a type."""
        unknown(counts, self.names)
        changed = [(kind, counts.get(kind.name, kind.count)) for kind in self.types]
        return Cluster(tuple(replace(kind, count=count) for kind, count in changed if count != 0))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the types, in column order."""
        return tuple(kind.name for kind in self.types)

    @cached_property
    def counts(self) -> Ints:
        """Devices per type, shape (J,)."""
        return np.array([kind.count for kind in self.types], np.int64)

    @cached_property
    def cost_per_hour(self) -> Floats:
        """Price of one device in use, per type, shape (J,)."""
        return np.array([kind.cost_per_hour for kind in self.types], np.float64)

    @cached_property
    def memory_gib(self) -> Floats:
        """Memory of one device, per type, shape (J,); inf = everything fits."""
        return np.array([math.inf if k.memory_gib is None else k.memory_gib for k in self.types])

    @cached_property
    def server_type(self) -> Ints:
        """Column of each server's type, shape (S,); servers are numbered type by type."""
        return np.array([j for j, kind in enumerate(self.types) for _ in kind.server_sizes], np.int64)

    @cached_property
    def server_size(self) -> Ints:
        """Devices of each server, shape (S,)."""
        return np.array([size for kind in self.types for size in kind.server_sizes], np.int64)

    @cached_property
    def server_rack(self) -> Ints:
        """Rack of each server, shape (S,); racks are never shared by types."""
        racks: list[int] = []
        for kind in self.types:
            first, servers = (racks[-1] + 1 if racks else 0), len(kind.server_sizes)
            racks += [first + i // (kind.servers_per_rack or servers) for i in range(servers)]
        return np.array(racks, np.int64)

    def column(self, name: str) -> int:
        """Column of a type; raises UnknownNameError."""
        if name not in self.names:
            raise UnknownNameError("device type", name, self.names)
        return self.names.index(name)


def unknown(named: Iterable[str], known: Iterable[str]) -> None:
    """Raise UnknownNameError for the first device type that is named and not known."""
    choices = list(known)
    for name in named:
        if name not in choices:
            raise UnknownNameError("device type", name, choices)
