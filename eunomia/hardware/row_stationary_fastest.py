"""The row-stationary mapping of least latency, with DRAM traffic traded at a stated price.

Every mapping that a smaller buffer, array, bus or link allows is also one of the larger, and never costs more
there: the least latency falls or stays when hardware is added. ``DRAM_PRICE`` of it is then given away for
the least DRAM traffic, so latency may rise by that share and no more.

Blocks are visited by a lower bound on their latency, and only as far as the bound allows.
"""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import DRAM_PRICE, Traffic
from eunomia.hardware.nest import Nest, block_sizes, ceil_div
from eunomia.hardware.row_stationary_passes import (
    Blocks,
    Elements,
    PassCosts,
    Passes,
    Shape,
    costs_of,
    elements_of,
    fitting_blocks,
    passes_of,
    sets_side_by_side,
    shapes_of,
    tile_columns,
    tile_rows,
    traffic_of,
)

TURNS = (1, 2, 3, 4, 6, 8, 12, 16)  # sets that one strip may be cut into
COPIES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128)
AT_ONCE = 8  # blocks tried between two looks at the bound


def fastest(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Least DRAM bytes among the mappings within ``DRAM_PRICE`` of the least latency; None where nothing fits."""
    found = [one for shape in shapes_of(nest, kind) if (one := _fastest(nest, kind, shape)) is not None]

    def latency(one: Traffic) -> float:
        busy = max(one.compute_cycles, one.buffer_cycles) + one.first_bytes / kind.link_bytes_cycle
        return max(busy, one.dram_bytes / kind.link_bytes_cycle)

    return min(found, key=latency, default=None)


def _fastest(nest: Nest, kind: AcceleratorType, shape: Shape) -> Traffic | None:
    found = _blocks(nest, kind, shape)
    if found is None:
        return None
    blocks, turns = found
    bound = _bound(nest, kind, shape, blocks, turns)
    elements = elements_of(nest, kind, shape, _copies(nest, kind, shape))

    def tried(rows: Ints, most_cycles: float) -> tuple[Blocks, Passes, PassCosts, Floats]:
        return _tried(nest, kind, shape, blocks.at(rows), turns[rows], elements, most_cycles)

    order, least = np.argsort(bound, kind="stable"), np.inf
    for limit in (float(bound[order[0]]) * wider for wider in (1.03, 1.3, np.inf)):
        for rows in (order[i : i + AT_ONCE] for i in range(0, len(order), AT_ONCE)):
            if bound[rows[0]] >= min(least, limit):
                break
            least = min(least, float(tried(rows, min(least, limit))[-1].min(initial=np.inf)))
        if least <= limit:
            break
    allowed = least * (1 + DRAM_PRICE)
    order = np.flatnonzero(bound <= allowed)
    order = order[np.lexsort((bound[order], blocks.dram_bytes[order]))]
    for rows in (order[i : i + AT_ONCE] for i in range(0, len(order), AT_ONCE)):
        some, passes, costs, cycles = tried(rows, allowed)
        within = np.flatnonzero(cycles <= allowed)
        if len(within):
            dram = some.dram_bytes[passes.at[within]]
            pick = within[np.lexsort((costs.buffered[within], cycles[within], dram))[0]]
            return traffic_of(nest, kind, shape, some, passes, int(pick))
    raise AssertionError("the mapping of least latency was not found again")


def _blocks(nest: Nest, kind: AcceleratorType, shape: Shape) -> tuple[Blocks, Ints] | None:
    """Blocks that fit, each with every number of turns that the array takes; sizes do not depend on the type."""
    sizes = kind.search_blocks
    columns = np.array([nest.q]) if nest.q <= 256 else block_sizes(nest.q, 6)
    images, filters = block_sizes(nest.batch, sizes), block_sizes(nest.k, sizes)
    rows = block_sizes(nest.p, sizes)
    blocks = fitting_blocks(nest, kind, shape, rows, columns, images, filters)
    if blocks is None:
        return None
    cuts = np.array(TURNS if kind.sequential_strips else (1,))
    turns = np.tile(cuts, len(blocks.n))
    blocks = blocks.at(np.repeat(np.arange(len(blocks.n)), len(cuts)))
    fits = (turns <= blocks.e) & (sets_side_by_side(kind, shape, ceil_div(blocks.e, turns)) >= 1)
    return (blocks.at(fits), turns[fits]) if fits.any() else None


def _copies(nest: Nest, kind: AcceleratorType, shape: Shape) -> Ints:
    """Copies of a set over channels: fixed steps and even shares, as far as the array holds them."""
    values = np.union1d(COPIES, block_sizes(nest.c, 12)).astype(np.int64)
    return values[values <= max(1, min(nest.c, shape.bands * kind.array_columns))]


def _tried(
    nest: Nest,
    kind: AcceleratorType,
    shape: Shape,
    blocks: Blocks,
    turns: Ints,
    elements: Elements,
    most_cycles: float,
) -> tuple[Blocks, Passes, PassCosts, Floats]:
    """Passes over some blocks that may take no more than ``most_cycles``, their costs, their latency in cycles."""
    passes = passes_of(nest, kind, shape, blocks, turns, elements, most_cycles)
    costs = costs_of(nest, kind, shape, blocks, passes)
    dram = blocks.dram_bytes[passes.at] / kind.link_bytes_cycle
    busy = np.maximum(costs.compute, costs.buses) + costs.first / kind.link_bytes_cycle
    return blocks, passes, costs, np.maximum(busy, dram)


def _bound(nest: Nest, kind: AcceleratorType, shape: Shape, blocks: Blocks, turns: Ints) -> Floats:
    """Cycles that no pass over a block can beat: all sets busy, weights loaded once per tile, sums on their bus."""
    e = ceil_div(blocks.e, turns)
    sets = sets_side_by_side(kind, shape, e)
    tiles = ceil_div(nest.p, blocks.e) * ceil_div(nest.q, blocks.f) * ceil_div(nest.batch, blocks.n)
    positions = tiles * blocks.n * turns * blocks.f
    products = float(nest.groups * nest.k * nest.c * shape.folds * shape.kernel_columns)
    loads = tiles * (products * shape.kernel_rows * kind.word_bytes / kind.weight_bus_bytes)
    if kind.pe_double_buffered:
        loads = np.zeros_like(loads)
    multiply = positions * products / sets

    room = shape.banks * kind.buffer_bank_bytes / kind.word_bytes
    channels = room // (blocks.n * tile_rows(nest, blocks.e) * tile_columns(nest, blocks.f))
    depth = np.maximum(nest.c / np.where(blocks.kept, nest.c, np.maximum(1, channels)), shape.shallowest)
    outputs = positions * e * np.maximum(1.0, depth) * (nest.groups * nest.k * kind.psum_bytes)
    busy = np.maximum(multiply, outputs / kind.psum_write_bus_bytes) + loads
    return np.asarray(np.maximum(busy, blocks.dram_bytes / kind.link_bytes_cycle) * (1 - 1e-9))
