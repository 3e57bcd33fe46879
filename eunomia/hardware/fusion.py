"""Chains of layers whose activations stay on chip: less DRAM traffic, never more time.

A tensor between two layers may stay in the global buffer, whole, while it is written and while it is read. The buffer
is smaller by it for both layers' mappings. It does stay where the sum of the chain's DRAM bytes is least, and only if
no roof of a layer rises: neither its compute nor its buffer time. A chain is so never slower than its layers, at any
share of the bandwidth. It runs as one: nothing preempts it, and it stays on one accelerator.

    latency of a chain = sum of its layers' isolated latencies, or its DRAM bytes / share if that is longer

Under contention that is a lower bound: layers bound by DRAM and by the array may hide each other's time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from eunomia.core.errors import PlatformError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.dataflow import layer_cost
from eunomia.hardware.gpu import GpuType, gpu_layer_cost
from eunomia.hardware.layer_cost import LayerCost, Traffic, price
from eunomia.workload.chain import Chain, joined, links
from eunomia.workload.model import DnnModel, Layer

NO_MORE = 1 + 1e-12  # rounding


@dataclass(frozen=True)
class Held:
    """A way through a chain: the cost of each layer, and whether its output stays on chip."""

    costs: tuple[LayerCost, ...]
    kept: tuple[bool, ...]

    @property
    def worth(self) -> tuple[float, float]:
        """DRAM bytes, then latency: less is better."""
        return sum(cost.dram_bytes for cost in self.costs), sum(cost.latency_s for cost in self.costs)


def chain_cost(chain: Chain, kind: AcceleratorType | GpuType) -> LayerCost:
    """All layers of a chain on one type. Raises PlatformError where one cannot run."""
    found = best_way(chain.parts, kind)
    split: dict[str, float] = {}
    for cost in found.costs:
        for level, joules in cost.energy_split_j.items():
            split[level] = split.get(level, 0.0) + joules
    latency_s = sum(cost.latency_s for cost in found.costs)
    moved = _sum([cost.traffic for cost in found.costs])
    return LayerCost(latency_s, 0.0, moved.dram_bytes, kind.link_bytes_s, split, moved)


def best_way(parts: Sequence[Layer], kind: AcceleratorType | GpuType) -> Held:
    """Which tensors stay on chip: least DRAM bytes, layer by layer from the front."""
    ways: dict[bool, Held] = {False: Held((), ())}  # by whether the next layer finds its input on chip
    for number, layer in enumerate(parts):
        alone = _alone(layer, kind)
        after: dict[bool, Held] = {}
        for found, way in ways.items():
            for keep in (False, True) if number + 1 < len(parts) else (False,):
                cost = alone if not (found or keep) else _on_chip(layer, kind, alone, found, keep)
                if cost is None:
                    continue
                longer = Held((*way.costs, cost), (*way.kept, keep))
                if keep not in after or longer.worth < after[keep].worth:
                    after[keep] = longer
        ways = after
    return ways[False]


def fused(model: DnnModel, kinds: Sequence[AcceleratorType | GpuType], most: int) -> DnnModel:
    """The network with chains of up to ``most`` layers as one, wherever a type keeps their activations on chip.

    Raises ConfigError never: a network without such chains stays as it is.
    """
    every = list(links(model))
    if most < 2 or not every:
        return model
    held: set[tuple[int, int]] = set()
    for kind in kinds:
        for chain in _runs(every):
            try:
                way = best_way([model.layers[n] for n in chain], kind)
            except PlatformError:
                continue
            held |= {
                pair
                for pair, kept in zip(zip(chain, chain[1:], strict=False), way.kept, strict=False)
                if kept
            }
    return joined(model, sorted(held), most)


def _runs(every: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The longest chains along links."""
    follows, start = dict(every), {after for _, after in every}
    runs = []
    for first in follows:
        if first in start:
            continue
        run = [first]
        while run[-1] in follows:
            run.append(follows[run[-1]])
        runs.append(run)
    return runs


def _alone(layer: Layer, kind: AcceleratorType | GpuType) -> LayerCost:
    return gpu_layer_cost(layer, kind) if isinstance(kind, GpuType) else layer_cost(layer, kind)


def _on_chip(
    layer: Layer, kind: AcceleratorType | GpuType, alone: LayerCost, found: bool, keep: bool
) -> LayerCost | None:
    """The layer with its input, its output or both on chip; None where a roof would rise or there is no room."""
    if isinstance(kind, GpuType) or kind.package is not None:
        return None
    words = layer.input_elements * found + layer.output_elements * keep
    bank = kind.buffer_bank_bytes
    left = kind.buffer_bytes - math.ceil(words * kind.word_bytes / bank) * bank
    if left <= kind.weight_prefetch_bytes:
        return None
    try:
        cost = layer_cost(layer, kind.with_(buffer_bytes=left))
    except PlatformError:
        return None
    traffic = replace(
        cost.traffic,
        dram_input_bytes=0.0 if found else cost.traffic.dram_input_bytes,
        dram_output_bytes=0.0 if keep else cost.traffic.dram_output_bytes,
    )
    cost = price(traffic, kind)
    slower = cost.compute_s > alone.compute_s * NO_MORE or cost.buffer_s > alone.buffer_s * NO_MORE
    return None if slower or cost.dram_bytes > alone.dram_bytes * NO_MORE else cost


def _sum(parts: Sequence[Traffic]) -> Traffic:
    """Work and bytes of all."""
    total = {
        name: sum(getattr(part, name) for part in parts)
        for name in Traffic.__dataclass_fields__
        if name not in ("active_pes", "mapping")
    }
    return Traffic(**total, active_pes=max(part.active_pes for part in parts))
