"""DRAM traffic by a search over tiles in the global buffer, for arrays that are fed from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.nest import Nest, block_sizes, ceil_div

ORDERS = ("rows-filters-channels", "filters-rows-channels", "filters-channels-rows", "rows-channels-filters")


@dataclass(frozen=True, slots=True)
class Tiling:
    """The tile of least DRAM traffic: ``k`` filters, ``c`` channels, ``y`` x ``x`` outputs, loops in ``order``."""

    k: int
    c: int
    y: int
    x: int
    order: str
    input_bytes: float
    weight_bytes: float
    output_bytes: float


def least_dram(nest: Nest, kind: AcceleratorType) -> Tiling | None:
    """The best tiling, or None where not even the smallest tile fits.

    A tensor is read once more for every turn of a loop outside its own tile that it does not depend
    on; partial sums that leave the buffer cost a write and a read each. Batch counts as further rows.
    Candidates do not depend on the buffer, so a larger buffer never means more traffic. Weights that
    bypass the buffer are bounded by the storage of all elements instead.
    """
    sizes = kind.search_blocks
    columns = np.array([nest.q]) if nest.q <= 128 else block_sizes(nest.q, 6)
    grid = np.meshgrid(
        block_sizes(nest.k, sizes),
        block_sizes(nest.c, sizes),
        block_sizes(nest.p, sizes),
        columns,
        indexing="ij",
    )
    k, c, y, x = (part.ravel().astype(np.int64) for part in grid)
    nk, nc = ceil_div(nest.k, k), ceil_div(nest.c, c)
    rows, cols = ceil_div(nest.p, y), ceil_div(nest.q, x)
    ny = rows * cols * nest.batch
    word, psum = kind.word_bytes, kind.psum_bytes

    tile_h = np.minimum((y - 1) * nest.stride_h + nest.span_h, nest.in_h)
    tile_w = np.minimum((x - 1) * nest.stride_w + nest.span_w, nest.in_w)
    used = c * tile_h * tile_w * word + k * y * x * np.where(nc > 1, psum, word)
    weights = k * c * nest.r * nest.s * word
    if kind.weights_bypass_buffer:
        fits = (used <= kind.usable_buffer_bytes) & (weights <= kind.pe_weight_bytes * kind.pes)
    else:
        fits = used + weights <= kind.usable_buffer_bytes
    if not fits.any():
        return None
    k, c, y, x, nk, nc, ny, rows, cols = (v[fits] for v in (k, c, y, x, nk, nc, ny, rows, cols))

    halo = (1 + (rows - 1) * nest.overlap_h / nest.in_h) * (1 + (cols - 1) * nest.overlap_w / nest.in_w)
    once = np.ones_like(nk)
    per_filters = np.where(ny * nc == 1, 1, nk)
    per_rows = np.where(nk * nc == 1, 1, ny)
    input_reads = np.stack([np.where(nc == 1, 1, nk), per_filters, per_filters, once])
    weight_reads = np.stack([per_rows, np.where(nc == 1, 1, ny), once, per_rows])
    spills = np.stack([0 * nk, 0 * nk, np.where(ny > 1, nc - 1, 0), np.where(nk > 1, nc - 1, 0)])

    padded = nest.padded_h * nest.padded_w / (nest.in_h * nest.in_w) if kind.padded_inputs else 1.0
    inputs = (nest.input_elements * padded * halo * input_reads + nest.extra_elements) * word
    outputs = nest.output_elements * (word + 2.0 * spills * psum)
    inputs *= kind.input_compression
    loads = nest.operand_elements * weight_reads * word * kind.weight_compression
    outputs *= kind.output_compression
    total = inputs + loads + outputs
    if kind.mapper == "least_latency":  # a narrow weight bus may be slower than the link
        seconds = np.maximum(total / kind.link_bytes_cycle, loads / kind.weight_bus_bytes)
        total = np.where(seconds <= seconds.min() * (1 + 1e-12), total, np.inf)
    order, best = np.unravel_index(int(np.argmin(total)), inputs.shape)
    return Tiling(
        k=int(k[best]),
        c=int(c[best]),
        y=int(y[best]),
        x=int(x[best]),
        order=ORDERS[order],
        input_bytes=float(inputs[order, best]),
        weight_bytes=float(loads[order, best]),
        output_bytes=float(outputs[order, best]),
    )
