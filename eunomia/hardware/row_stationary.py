"""Row-stationary mapping, as on Eyeriss: kernel rows stay in the elements, partial sums in the global buffer.

Names follow the JSSC 2017 paper (Chen et al., IEEE JSSC 52(1)): a *pass* runs ``p * t`` filters over
``q * r`` channels of ``n`` images and a strip of ``e`` output rows; ``m`` filters have their partial sums in
the buffer at once. A logical set of R x e elements is cut into pieces no wider than the array. It is copied
as often as it fits: ``r`` copies on other channels, ``t`` on other filters.

Choice of mapping, in this order: least DRAM bytes, then least cycles, then least buffer bytes. The
first makes DRAM traffic fall or stay when the buffer grows. Does badly where real mappers trade a
little DRAM traffic for more parallelism (tiny buffers, very tall strips).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats, Ints
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import Traffic
from eunomia.hardware.nest import Nest, block_sizes, ceil_div

KEPT = 4  # blocks of equal DRAM traffic that go on to the second search


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes that no mapping parameter changes."""

    kernel_rows: int  # kernel rows per set; a kernel taller than the array is folded
    kernel_columns: int  # kernel columns per element; a kernel wider than the scratchpad is folded
    folds: int  # passes that one kernel is spread over
    input_words: int  # scratchpad words of one element
    weight_words: int
    psum_words: int
    bands: int  # sets above each other
    in_h: int  # input rows as stored in DRAM
    in_w: int
    banks: int  # of the buffer, as far as usable
    input_scale: float  # stored input elements / elements of the layer


@dataclass(frozen=True, slots=True)
class Blocks:
    """Block sizes in the buffer, parallel arrays of candidates, with the DRAM bytes that follow."""

    n: Ints  # images
    m: Ints  # filters
    e: Ints  # output rows of a strip
    f: Ints  # output columns of a strip
    kept: npt.NDArray[np.bool_]  # inputs of all channels stay
    input_bytes: Floats
    weight_bytes: Floats
    output_bytes: float


def row_stationary(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Cost of one layer, or None where not even the smallest tile fits into the buffer."""
    shape = _shape(nest, kind)
    blocks = _least_dram(nest, kind, shape)
    return None if blocks is None else _best_passes(nest, kind, shape, blocks)


def _shape(nest: Nest, kind: AcceleratorType) -> Shape:
    input_words = max(1, int(kind.pe_input_bytes // kind.word_bytes))
    weight_words = max(1, int(kind.pe_weight_bytes // kind.word_bytes))
    row_folds = -(-nest.r // kind.array_rows)
    column_folds = -(-nest.s // min(input_words, weight_words))
    kernel_rows = -(-nest.r // row_folds)
    padded = kind.padded_inputs
    in_h, in_w = (nest.padded_h, nest.padded_w) if padded else (nest.in_h, nest.in_w)
    return Shape(
        kernel_rows=kernel_rows,
        kernel_columns=-(-nest.s // column_folds),
        folds=row_folds * column_folds,
        input_words=input_words,
        weight_words=weight_words,
        psum_words=max(1, int(kind.pe_psum_bytes // kind.psum_bytes)),
        bands=kind.array_rows // kernel_rows,
        in_h=in_h,
        in_w=in_w,
        banks=kind.usable_buffer_bytes // kind.buffer_bank_bytes,
        input_scale=in_h * in_w / (nest.in_h * nest.in_w),
    )


def _tile_rows(nest: Nest, e: Ints) -> Ints:
    return np.minimum((e - 1) * nest.stride_h + nest.span_h, nest.padded_h)


def _tile_columns(nest: Nest, f: Ints) -> Ints:
    return np.minimum((f - 1) * nest.stride_w + nest.span_w, nest.padded_w)


def _banks(kind: AcceleratorType, size: npt.ArrayLike) -> Ints:
    return np.asarray(np.ceil(np.asarray(size) / kind.buffer_bank_bytes), np.int64)


def _least_dram(nest: Nest, kind: AcceleratorType, shape: Shape) -> Blocks | None:
    """Blocks of least DRAM bytes: inputs are read once per filter block, weights once per image block and strip."""
    tallest = nest.p if kind.sequential_strips else kind.array_columns * shape.bands
    sizes = kind.search_blocks
    rows = block_sizes(nest.p, sizes)
    rows = np.unique(
        np.concatenate([rows[rows <= tallest], [min(nest.p, tallest), min(nest.p, kind.array_columns)]])
    )
    columns = np.array([nest.q]) if nest.q <= 256 else block_sizes(nest.q, 6)
    images = block_sizes(nest.batch, sizes)
    grid = np.meshgrid(images, block_sizes(nest.k, sizes), rows, columns, [False, True], indexing="ij")
    n, m, e, f = (part.ravel().astype(np.int64) for part in grid[:4])
    kept = grid[4].ravel().astype(bool)

    channels = np.where(kept, nest.c, 1)
    tile = n * channels * _tile_rows(nest, e) * _tile_columns(nest, f) * kind.word_bytes
    psums = n * m * e * f * kind.psum_bytes
    fits = _banks(kind, psums) + _banks(kind, tile) <= shape.banks
    fits &= ~kept | kind.keeps_inputs | (nest.c == 1)
    if not fits.any():
        return None
    n, m, e, f, kept = n[fits], m[fits], e[fits], f[fits], kept[fits]

    strips_h, strips_w = ceil_div(nest.p, e), ceil_div(nest.q, f)
    halo = (1 + (strips_h - 1) * nest.overlap_h / shape.in_h) * (
        1 + (strips_w - 1) * nest.overlap_w / shape.in_w
    )
    reads = np.where(kept, 1, ceil_div(nest.k, m))
    input_bytes = nest.input_elements * shape.input_scale * halo * reads * kind.word_bytes
    input_bytes = (input_bytes + nest.extra_elements * kind.word_bytes) * kind.input_compression
    weight_reads = ceil_div(nest.batch, n) * strips_h * strips_w
    weights_once = nest.operand_elements * kind.word_bytes * kind.weight_compression
    weight_bytes = np.asarray(weight_reads * weights_once, np.float64)
    output_bytes = nest.output_elements * kind.word_bytes * kind.output_compression

    total = input_bytes + weight_bytes
    best = np.flatnonzero(total <= total.min() * (1 + 1e-12))
    best = best[np.argsort(-(n * m * e)[best], kind="stable")][:KEPT]
    return Blocks(
        n[best], m[best], e[best], f[best], kept[best], input_bytes[best], weight_bytes[best], output_bytes
    )


@dataclass(frozen=True, slots=True)
class Passes:
    """Candidate passes, parallel arrays: ``p, q`` per element, ``r, t`` copies of a set."""

    at: Ints  # row of Blocks
    n: Ints
    m: Ints
    e: Ints  # rows of a set
    f: Ints
    strips: Ints  # sets of e rows that follow each other while the weights stay
    p: Ints
    q: Ints
    r: Ints
    t: Ints
    groups: Ints  # groups side by side


def _best_passes(nest: Nest, kind: AcceleratorType, shape: Shape, blocks: Blocks) -> Traffic:
    """Passes of fewest cycles over the given blocks; equal cycles go to the fewest buffer bytes."""
    passes = _candidates(nest, kind, shape, blocks)
    n, m, e, f, p, q, r, t = (getattr(passes, name) for name in "nmefpqrt")
    depth = ceil_div(nest.c, q * r) * shape.folds  # passes that one output is accumulated over
    tiles = ceil_div(nest.p, blocks.e[passes.at]) * ceil_div(nest.q, f) * ceil_div(nest.batch, n)
    filter_blocks = ceil_div(nest.k, m) * ceil_div(m, p * t)
    rounds = ceil_div(nest.groups, passes.groups) * tiles * filter_blocks * depth

    turns = n * passes.strips  # sets that run one after another in a pass
    rows = _tile_rows(nest, e) * q * r * passes.groups
    weights = passes.groups * p * t * q * r * shape.kernel_rows * shape.kernel_columns * kind.word_bytes
    load = weights / kind.weight_bus_bytes
    window = passes.strips * rows * shape.kernel_columns * kind.word_bytes / kind.input_bus_bytes
    multiply = turns * f * p * q * shape.kernel_columns
    exposed = np.zeros_like(load) if kind.pe_double_buffered else load
    compute = rounds * (multiply + (0.0 if kind.pe_double_buffered else window) + exposed)

    inputs = turns * rows * _tile_columns(nest, f) * kind.word_bytes
    outputs = turns * e * f * p * t * passes.groups * kind.psum_bytes
    busiest = np.maximum(inputs / kind.input_bus_bytes, outputs / kind.psum_write_bus_bytes)
    busiest = np.maximum(busiest, outputs / kind.psum_read_bus_bytes * (depth - 1) / depth)
    buses = rounds * (np.maximum(busiest, load) + exposed)

    psum_bytes = nest.output_elements * (2 * depth - 1) * kind.psum_bytes
    buffered = psum_bytes + rounds * inputs + blocks.input_bytes[passes.at]
    pick = int(np.lexsort((compute, buffered, np.maximum(compute, buses)))[0])
    block = int(passes.at[pick])
    hops = nest.output_elements * float(depth[pick] * (shape.kernel_rows * r[pick] - 1)) * kind.psum_bytes
    names = ("n", "m", "e", "p", "q", "r", "t", "strips", "groups")
    mapping = {name: int(getattr(passes, name)[pick]) for name in names}
    return Traffic(
        compute_cycles=float(compute[pick]),
        buffer_cycles=float(buses[pick]),
        dram_input_bytes=float(blocks.input_bytes[block]),
        dram_weight_bytes=float(blocks.weight_bytes[block]),
        dram_output_bytes=blocks.output_bytes,
        buffer_bytes=float(buffered[pick]),
        noc_bytes=float(buffered[pick] + blocks.weight_bytes[block]) + hops,
        pe_bytes=float(nest.macs) * (2 * kind.word_bytes + 2 * kind.psum_bytes),
        macs=nest.macs,
        active_pes=int((shape.kernel_rows * e * r * t * passes.groups)[pick]),
        mapping={**mapping, "depth": int(depth[pick])},
    )


def _candidates(nest: Nest, kind: AcceleratorType, shape: Shape, blocks: Blocks) -> Passes:
    """All passes that scratchpads, array and buffer allow."""
    deepest = kind.max_accumulation or nest.c
    most_q = max(1, min(nest.c, shape.input_words // shape.kernel_columns, deepest))
    most_sets = shape.bands * kind.array_columns
    filters = _steps(min(nest.k, shape.psum_words))
    copies = _steps(max(1, min(nest.c, most_sets)))
    element = np.meshgrid(filters, _steps(most_q), copies, indexing="ij")
    p, q, r = (part.ravel().astype(np.int64) for part in element)
    ok = (
        (p * q * shape.kernel_columns <= shape.weight_words)
        & (q * (r - 1) < nest.c)
        & ((q * r <= deepest) | (r == 1))
    )
    cuts = 2 if kind.sequential_strips else 1
    grid = np.meshgrid(np.arange(len(blocks.n)), np.arange(cuts), np.flatnonzero(ok), indexing="ij")
    at, cut, chosen = (part.ravel().astype(np.int64) for part in grid)
    p, q, r = p[chosen], q[chosen], r[chosen]

    n, m, f = blocks.n[at], blocks.m[at], blocks.f[at]
    turns = np.where(cut > 0, ceil_div(blocks.e[at], kind.array_columns), 1)
    e = ceil_div(blocks.e[at], turns)
    width = ceil_div(e, kind.array_columns)  # pieces that one logical set is cut into
    sets = np.where(width > 1, shape.bands // width, shape.bands * (kind.array_columns // e))
    by_p = ceil_div(m, p)
    t = ceil_div(by_p, ceil_div(by_p, np.maximum(1, sets // r)))
    channels = np.where(blocks.kept[at], nest.c, np.minimum(q * r, nest.c))
    tile = n * channels * _tile_rows(nest, blocks.e[at]) * _tile_columns(nest, f) * kind.word_bytes
    used = _banks(kind, n * m * blocks.e[at] * f * kind.psum_bytes) + _banks(kind, tile)
    ok = (p <= m) & (r <= sets) & (used <= shape.banks)
    groups = np.minimum(nest.groups, np.minimum(sets // (r * t), shape.banks // np.maximum(used, 1)))
    found = (v[ok] for v in (at, n, m, e, f, turns, p, q, r, t, np.maximum(1, groups)))
    return Passes(*found)


def _steps(most: int) -> Ints:
    """1, 2, 3, 4, then steps of a quarter or less, up to ``most``."""
    values, value = [], 1
    while value < most:
        values.append(value)
        value += max(1, value // 8 * 2)
    return np.array([*values, most], np.int64)
