"""All platforms that a catalogue and its bounds allow, as columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eunomia.config.plan import PlanConfig, PricedConfig
from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.core.errors import ConfigError

MOST = 5_000_000  # platforms that are looked at
ROUNDING = 1e-9  # a bound of 5 W allows a sum that rounds to 5 W


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Platforms: row c has ``counts[c, t]`` devices of type t and memory ``memory[c]``."""

    names: tuple[str, ...]  # of the types
    counts: Ints  # (platforms, types)
    memory: Ints  # (platforms,) index into the plan's memories
    cost: Floats  # (platforms,) in the plan's currency
    power_w: Floats
    standby_w: Floats
    area_mm2: Floats
    memory_gb_s: tuple[float, ...]  # of the memories; empty = each device has its own
    shape: int  # platforms before bounds
    memories: tuple[str, ...]  # what they are called: ``16 GB/s``

    def __len__(self) -> int:
        return len(self.memory)

    def find(self, counts: Sequence[int], memory: int) -> int | None:
        """Row of the platform with so many of each type; None where the bounds exclude it."""
        keys, order = self._keys
        wanted = np.array([[*counts, memory]])
        if (wanted < 0).any() or (wanted[0] > self._tops).any():
            return None
        at = int(np.searchsorted(keys, _key(wanted, self._tops)[0]))
        found = at < len(keys) and keys[at] == _key(wanted, self._tops)[0]
        return int(order[at]) if found else None

    @cached_property
    def _tops(self) -> Ints:
        return np.asarray(np.column_stack([self.counts, self.memory]).max(axis=0), np.int64)

    @cached_property
    def _keys(self) -> tuple[Ints, Ints]:
        """One number per platform, ascending, and its row."""
        keys = _key(np.column_stack([self.counts, self.memory]), self._tops)
        order = np.argsort(keys)
        return keys[order], order

    @cached_property
    def largest(self) -> Ints:
        """Rows to which nothing can be added within the bounds, neither a device nor a faster memory."""
        rows, keys = np.column_stack([self.counts, self.memory]), self._keys[0]
        own = _key(rows, self._tops)
        *steps, memory = _key(np.eye(rows.shape[1], dtype=np.int64), self._tops)
        larger = [(rows[:, at] < self._tops[at]) & np.isin(own + step, keys) for at, step in enumerate(steps)]
        _, alike = np.unique(own - memory * self.memory, return_inverse=True)  # by their devices
        fastest = np.zeros(len(alike), np.int64)
        np.maximum.at(fastest, alike, self.memory)
        return np.flatnonzero(~np.any([*larger, self.memory < fastest[alike]], axis=0))

    def label(self, row: int) -> str:
        """``2 simba + 1 eyeriss, 16 GB/s``."""
        return self.words(self.counts[row].tolist(), int(self.memory[row]))

    def words(self, counts: Sequence[int], memory: int) -> str:
        """The same of any counts and memory."""
        parts = [f"{n} {name}" for name, n in zip(self.names, counts, strict=True) if n]
        shared = f", {self.memories[memory]}" if self.memories else ""
        return (" + ".join(parts) or "nothing") + shared

    def neighbours(self, row: int) -> list[tuple[str, int]]:
        """Platforms with one device or one step of memory more or less: what changes, and their rows."""
        here, memory, found = self.counts[row].tolist(), int(self.memory[row]), []
        for at, name in enumerate(self.names):
            for step, word in ((-1, "one less"), (1, "one more")):
                other = self.find([*here[:at], here[at] + step, *here[at + 1 :]], memory)
                if other is not None:
                    found.append((f"{word} {name}", other))
        for step in (-1, 1):
            other = self.beside(here, memory, step)
            if other is not None:
                found.append((f"memory of {self.memories[int(self.memory[other])]}", other))
        return found

    def beside(self, counts: Sequence[int], memory: int, step: int) -> int | None:
        """The same devices with the next slower (-1) or faster memory that the bounds allow."""
        ahead = range(memory + step, len(self.memories) if step > 0 else -1, step)
        rows = (self.find(counts, other) for other in ahead)
        return next((row for row in rows if row is not None), None)

    def inside(self, row: int) -> Flags:
        """(platforms,) whether a platform has no more of anything than ``row``."""
        return np.asarray((self.counts <= self.counts[row]).all(axis=1) & (self.memory <= self.memory[row]))


def _key(rows: Ints, tops: Ints) -> Ints:
    """Each row as one number, whose digits are its entries."""
    weights = np.concatenate([[1], np.cumprod(tops[:-1] + 1)])
    return np.asarray(rows @ weights, np.int64)


def catalogue(plan: PlanConfig, names: Sequence[str], need_gb: float = 0.0) -> Catalogue:
    """Every platform within the bounds, in order of cost. Raises ConfigError where there is none, or too many.

    ``need_gb``: memories that hold less are left out.
    """
    spans = [device.most - device.least + 1 for device in plan.devices]
    memories = sorted(plan.memories, key=lambda memory: memory.gb_s)
    size = math.prod(spans) * len(memories)
    if size > MOST:
        raise ConfigError(
            f"plan '{plan.name}': the catalogue makes {size:,} platforms, at most {MOST:,} are looked at; lower most "
            "of some [[device]], or raise least"
        )
    axes = np.unravel_index(np.arange(size), (*spans, len(memories)))
    least = np.array([device.least for device in plan.devices], np.int64)
    counts = np.column_stack(axes[:-1]).astype(np.int64) + least
    memory = axes[-1].astype(np.int64)

    def total(key: str) -> Floats:
        each = np.array([getattr(device, key) for device in plan.devices])
        shared = np.array([getattr(one, key) for one in memories])
        return np.asarray(counts @ each + shared[memory])

    def price(one: PricedConfig) -> float:
        return one.price + plan.hours * one.rent_per_h

    cost = (
        counts @ np.array([price(d) for d in plan.devices]) + np.array([price(m) for m in memories])[memory]
    )
    power, area, devices = total("power_w"), total("area_mm2"), counts.sum(axis=1)
    found = devices > 0
    holds = np.array([one.gb is None or one.gb >= need_gb for one in memories])
    if not holds.any():
        most_gb = max(one.gb for one in memories if one.gb is not None)
        raise ConfigError(
            f"plan '{plan.name}': the largest [[memory]] has gb = {most_gb:g}, the networks need {need_gb:.3g}: "
            "weights of all, activations of one request; add a larger memory, or smaller networks"
        )
    found &= holds[memory]
    for key, values in (("cost", cost), ("power_w", power), ("area_mm2", area), ("devices", devices)):
        most = getattr(plan.bounds, key)
        if most is None:
            continue
        inside = values <= most * (1.0 + ROUNDING)
        if not (found & inside).any():
            lowest = float(values[found].min())
            raise ConfigError(
                f"plan '{plan.name}': bounds.{key} is {most:g}, but the least of the platforms takes {lowest:g}; "
                "raise it, or add a smaller type to the catalogue"
            )
        found &= inside
    order = np.flatnonzero(found)
    order = order[np.lexsort((area[order], power[order], cost[order]))]
    shared = tuple(one.gb_s for one in memories) if plan.memory else ()
    return Catalogue(
        tuple(names),
        counts[order],
        memory[order],
        cost[order],
        power[order],
        total("standby_w")[order],
        area[order],
        shared,
        size,
        _called(plan) if plan.memory else (),
    )


def _called(plan: PlanConfig) -> tuple[str, ...]:
    """``16 GB/s``; with its place in the file where two are equally fast."""
    listed = sorted(enumerate(plan.memories, 1), key=lambda entry: entry[1].gb_s)
    names = [f"{one.gb_s:g} GB/s" for _, one in listed]
    return tuple(
        f"{name} (memory {n})" if names.count(name) > 1 else name
        for name, (n, _) in zip(names, listed, strict=True)
    )
