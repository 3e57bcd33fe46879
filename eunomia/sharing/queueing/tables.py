"""What a device takes: seconds per network and batch size, and the slowdown of pairs."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from eunomia.core.errors import ConfigError, within


@dataclass(frozen=True)
class Network:
    """``batch_s[b - 1]``: seconds of a batch of b alone. It may be interrupted between ``blocks`` equal parts."""

    name: str
    batch_s: tuple[float, ...]
    blocks: int = 1

    def __post_init__(self) -> None:
        if not self.batch_s or not all(math.isfinite(s) and s > 0.0 for s in self.batch_s):
            raise ConfigError(
                f"network '{self.name}': batch times are {list(self.batch_s)}, not all positive"
            )
        if any(after < before for before, after in zip(self.batch_s, self.batch_s[1:], strict=False)):
            raise ConfigError(f"network '{self.name}': a larger batch is faster than a smaller one")
        if self.blocks < 1:
            raise ConfigError(f"network '{self.name}': {self.blocks} blocks; at least 1")


@dataclass(frozen=True)
class ExecutionTables:
    """``slowdown[m][n]``: time of network m beside n over its time alone, at least 1."""

    networks: tuple[Network, ...]
    slowdown: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        size = len(self.networks)
        if not size or len(self.slowdown) != size or any(len(row) != size for row in self.slowdown):
            raise ConfigError(f"{size} networks need a table of {size} x {size} pair slowdowns")
        for network, row in zip(self.networks, self.slowdown, strict=True):
            if not all(math.isfinite(s) and s >= 1.0 for s in row):
                raise ConfigError(f"network '{network.name}': a pair slowdown is below 1 in {list(row)}")

    @cached_property
    def best_s(self) -> tuple[float, ...]:
        """Least seconds per task of each network over all batch sizes."""
        return tuple(min(s / b for b, s in enumerate(n.batch_s, 1)) for n in self.networks)


def read_tables(path: Path) -> ExecutionTables:
    """A TOML file: ``[network.NAME]`` with ``batch_ms``, ``blocks`` and ``beside = { OTHER = slowdown }``.

    A pair that is not given slows both by 2, as if they took turns.
    """
    with within(str(path)):
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8")).get("network", {})
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"cannot be read as TOML: {error}") from None
        if not isinstance(found, dict) or not found:
            raise ConfigError("no table [network.NAME]; each needs batch_ms = [seconds of batch 1, 2, ...]")
        return _tables(found)


def _tables(found: dict[str, dict[str, object]]) -> ExecutionTables:
    names, networks, rows = list(found), [], []
    for name, entry in found.items():
        unknown = set(entry) - {"batch_ms", "blocks", "beside"}
        times, blocks, beside = entry.get("batch_ms"), entry.get("blocks", 1), entry.get("beside", {})
        if unknown or not isinstance(beside, dict) or not set(beside) <= set(names):
            odd = sorted(unknown) or beside
            raise ConfigError(f"network '{name}': {odd} is not a key or network of this file")
        numbers = [*(times if isinstance(times, list) else [""]), *beside.values(), blocks]
        if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
            raise ConfigError(f"network '{name}': batch_ms, blocks and beside hold numbers, not {numbers}")
        networks.append(Network(name, tuple(float(n) / 1e3 for n in times), int(blocks)))  # type: ignore[attr-defined, call-overload]
        rows.append(tuple(float(beside.get(other, 2.0)) for other in names))
    return ExecutionTables(tuple(networks), tuple(rows))
