"""Which servers: consolidation, keeping a place, and what being spread costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.cluster.options import Slowdown
from eunomia.cluster.round_core import place
from eunomia.contract.cluster import Cluster
from eunomia.core.arrays import Floats, Ints

STYLES = {"pack": 0, "strided": 1, "spread": 2}


@dataclass(frozen=True, slots=True)
class Held:
    """Devices held, by unit: rows pointer[u]:pointer[u + 1] of ``server`` and ``count`` belong to unit u."""

    pointer: Ints  # (U + 1,)
    server: Ints  # (H,)
    count: Ints  # (H,)

    @property
    def unit(self) -> Ints:
        """Unit of each row, shape (H,)."""
        return np.repeat(np.arange(len(self.pointer) - 1), np.diff(self.pointer))

    def of(self, units: Ints) -> Held:
        """The rows of some units, renumbered; -1 = a unit that holds nothing."""
        low = np.where(units >= 0, self.pointer[units], 0)
        sizes = np.where(units >= 0, self.pointer[units + 1] - low, 0)
        pointer = np.concatenate(([0], np.cumsum(sizes)))
        rows = np.repeat(low - pointer[:-1], sizes) + np.arange(pointer[-1])
        return Held(pointer, self.server[rows], self.count[rows])

    @classmethod
    def none(cls, units: int) -> Held:
        """Nobody holds anything."""
        empty = np.zeros(0, np.int64)
        return cls(np.zeros(units + 1, np.int64), empty, empty)

    @classmethod
    def from_rows(cls, units: int, unit: Ints, server: Ints, count: Ints) -> Held:
        """From rows in any order."""
        order = np.argsort(unit, kind="stable")
        pointer = np.concatenate(([0], np.cumsum(np.bincount(unit, minlength=units))))
        return cls(pointer.astype(np.int64), server[order], count[order])


class Servers:
    """The servers of a cluster, type by type."""

    def __init__(self, cluster: Cluster) -> None:
        self.type, self.size, self.rack = cluster.server_type, cluster.server_size, cluster.server_rack
        kinds = np.arange(len(cluster.types))
        self.start = np.searchsorted(self.type, kinds, "left").astype(np.int64)
        self.end = np.searchsorted(self.type, kinds, "right").astype(np.int64)
        self.largest = np.array(
            [self.size[a:b].max() for a, b in zip(self.start, self.end, strict=True)], np.int64
        )

    def place(
        self, kind: Ints, scale: Ints, before: Held, free: Ints, style: str, standing_first: bool = False
    ) -> Held:
        """Servers for units of one type each (``kind`` -1 = waits); ``free`` (S,) is changed.

        Larger units choose first; a unit stays where it was when those devices are free. ``standing_first``: newcomers
        never take the devices of a unit that stands, as under a scheduler that moves nobody.
        """
        wanting = np.flatnonzero(kind >= 0)
        comes = np.diff(before.pointer)[wanting] == 0 if standing_first else np.zeros(len(wanting), np.bool_)
        order = wanting[np.lexsort((-scale[wanting], comes))]
        out = np.empty((int(scale[wanting].sum()), 3), np.int64)
        rows = place(
            order,
            kind,
            scale,
            before.pointer,
            before.server,
            before.count,
            free,
            self.start,
            self.end,
            self.rack,
            STYLES[style],
            out,
        )
        assert rows >= 0, f"unit {-1 - rows} was given devices that are not there"
        return Held.from_rows(len(kind), out[:rows, 0], out[:rows, 1], out[:rows, 2])

    def level(self, held: Held, kind: Ints, scale: Ints) -> Ints:
        """How spread each unit is, shape (U,): 0 = as few servers as possible, 1 = one rack, 2 = several racks."""
        servers = np.diff(held.pointer)
        fewest = -(-scale // self.largest[np.maximum(kind, 0)])
        spread = servers > fewest
        unit = held.unit
        rack = self.rack[held.server]
        first = (
            rack[np.minimum(held.pointer[:-1], max(len(rack) - 1, 0))] if len(rack) else np.zeros(len(kind))
        )
        racks = np.zeros(len(kind), np.bool_)
        np.logical_or.at(racks, unit, rack != first[unit])
        return np.asarray(np.where(spread, 1 + racks, 0), np.int64)


def spread_speed(slowdown: Slowdown, level: Ints, consolidated: Floats, spread: Floats) -> Floats:
    """Steps/s at each level of spread; ``spread`` is what the table measured for workers on many servers."""
    if slowdown.source == "none":
        return consolidated
    if slowdown.source == "table":
        return np.asarray(np.where(level > 0, spread, consolidated))
    return np.asarray(consolidated / np.array([1.0, slowdown.rack, slowdown.cross_rack])[level])


def same_places(before: Held, after: Held, units: Ints) -> npt.NDArray[np.bool_]:
    """Whether each of these units has exactly the servers and counts that it had."""
    sizes = np.diff(after.pointer)[units]
    same = (np.diff(before.pointer)[units] == sizes) & (sizes > 0)
    candidates = units[same]
    a, b = after.of(candidates), before.of(candidates)
    wrong = (a.server != b.server) | (a.count != b.count)
    differs = np.zeros(len(candidates), np.bool_)
    np.logical_or.at(differs, a.unit[wrong], True)
    same[np.flatnonzero(same)] = ~differs
    return np.asarray(same)
