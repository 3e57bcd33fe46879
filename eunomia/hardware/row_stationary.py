"""Row-stationary mapping, as on Eyeriss: kernel rows stay in the elements, partial sums in the global buffer.

Choice of mapping with ``mapper = "least_dram"``, in this order: least DRAM bytes, then least cycles, then
least buffer bytes. The first makes DRAM traffic fall or stay when the buffer grows; latency may then rise.
``mapper = "least_latency"``: ``row_stationary_fastest.py``.
"""

from __future__ import annotations

import numpy as np

from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import Traffic
from eunomia.hardware.nest import Nest, block_sizes, ceil_div
from eunomia.hardware.row_stationary_fastest import fastest
from eunomia.hardware.row_stationary_passes import (
    Blocks,
    Shape,
    costs_of,
    elements_of,
    fitting_blocks,
    passes_of,
    shape_of,
    steps,
    traffic_of,
)

KEPT = 4  # blocks of equal DRAM traffic that go on to the second search


def row_stationary(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Cost of one layer, or None where not even the smallest tile fits into the buffer."""
    if kind.mapper == "least_latency":
        return fastest(nest, kind)
    shape = shape_of(nest, kind)
    blocks = _least_dram(nest, kind, shape)
    return None if blocks is None else _best_passes(nest, kind, shape, blocks)


def _least_dram(nest: Nest, kind: AcceleratorType, shape: Shape) -> Blocks | None:
    """Blocks of least DRAM bytes; among equals those with the most partial sums."""
    tallest = nest.p if kind.sequential_strips else kind.array_columns * shape.bands
    sizes = kind.search_blocks
    rows = block_sizes(nest.p, sizes)
    rows = np.unique(
        np.concatenate([rows[rows <= tallest], [min(nest.p, tallest), min(nest.p, kind.array_columns)]])
    )
    columns = np.array([nest.q]) if nest.q <= 256 else block_sizes(nest.q, 6)
    images, filters = block_sizes(nest.batch, sizes), block_sizes(nest.k, sizes)
    blocks = fitting_blocks(nest, kind, shape, rows, columns, images, filters)
    if blocks is None:
        return None
    total = blocks.input_bytes + blocks.weight_bytes
    best = np.flatnonzero(total <= total.min() * (1 + 1e-12))
    return blocks.at(best[np.argsort(-(blocks.n * blocks.m * blocks.e)[best], kind="stable")][:KEPT])


def _best_passes(nest: Nest, kind: AcceleratorType, shape: Shape, blocks: Blocks) -> Traffic:
    """Passes of fewest cycles over the given blocks; equal cycles go to the fewest buffer bytes."""
    cuts = 2 if kind.sequential_strips else 1
    rows = np.repeat(np.arange(len(blocks.n)), cuts)
    blocks = blocks.at(rows)
    turns = np.where(np.arange(len(rows)) % cuts > 0, ceil_div(blocks.e, kind.array_columns), 1)
    copies = steps(max(1, min(nest.c, shape.bands * kind.array_columns)))
    passes = passes_of(nest, kind, shape, blocks, turns, elements_of(nest, kind, shape, copies))
    costs = costs_of(nest, kind, shape, blocks, passes)
    pick = int(np.lexsort((costs.compute, costs.buffered, np.maximum(costs.compute, costs.buses)))[0])
    return traffic_of(nest, kind, shape, blocks, passes, pick)
