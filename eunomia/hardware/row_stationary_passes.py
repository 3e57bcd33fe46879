"""What one row-stationary pass costs: sizes of blocks in the buffer, of passes on the array, and their traffic.

Names follow the JSSC 2017 paper (Chen et al., IEEE JSSC 52(1)): a *pass* runs ``p * t`` filters over
``q * r`` channels of ``n`` images and a strip of ``e`` output rows; ``m`` filters have their partial sums in
the buffer at once. A logical set of R x e elements is cut into pieces no wider than the array. It is copied
as often as it fits: ``r`` copies on other channels, ``t`` on other filters.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Floats, Ints
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import Traffic
from eunomia.hardware.nest import Nest, ceil_div


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
    shallowest: float  # times that each output visits the buffer, at least


def shapes_of(nest: Nest, kind: AcceleratorType) -> list[Shape]:
    """Every way to fold a kernel that does not fit: 7 columns in fours of 2 are 8, in threes of 3 they are 9."""
    words = min(kind.pe_input_bytes, kind.pe_weight_bytes) // kind.word_bytes
    tallest, widest = min(nest.r, kind.array_rows), min(nest.s, max(1, int(words)))
    heights = {-(-nest.r // -(-nest.r // n)) for n in range(1, tallest + 1)} if tallest < nest.r else {nest.r}
    widths = {-(-nest.s // -(-nest.s // n)) for n in range(1, widest + 1)} if widest < nest.s else {nest.s}
    return [shape_of(nest, kind, height, width) for height in sorted(heights) for width in sorted(widths)]


def shape_of(nest: Nest, kind: AcceleratorType, height: int = 0, width: int = 0) -> Shape:
    """The sizes for one layer on one type; ``height`` and ``width`` of a folded kernel, 0 = as large as they fit."""
    input_words = max(1, int(kind.pe_input_bytes // kind.word_bytes))
    weight_words = max(1, int(kind.pe_weight_bytes // kind.word_bytes))
    row_folds = -(-nest.r // (height or kind.array_rows))
    column_folds = -(-nest.s // (width or min(input_words, weight_words)))
    kernel_rows = -(-nest.r // row_folds)
    in_h, in_w = (nest.padded_h, nest.padded_w) if kind.padded_inputs else (nest.in_h, nest.in_w)
    rows_words = kind.pass_row_words or nest.c * nest.in_w
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
        shallowest=min(nest.c, nest.c * nest.in_w / rows_words),
    )


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

    @property
    def dram_bytes(self) -> Floats:
        """Bytes over the DRAM link."""
        return self.input_bytes + self.weight_bytes + self.output_bytes

    def at(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Blocks:
        """Some of them."""
        return replace(self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)[:-1]})


def fitting_blocks(
    nest: Nest, kind: AcceleratorType, shape: Shape, rows: Ints, columns: Ints, images: Ints, filters: Ints
) -> Blocks | None:
    """Blocks of these sizes that fit: inputs are read once per filter block, weights once per images and strip."""
    grid = np.meshgrid(images, filters, rows, columns, [False, True], indexing="ij")
    n, m, e, f = (part.ravel().astype(np.int64) for part in grid[:4])
    kept = grid[4].ravel().astype(bool)
    channels = np.where(kept, nest.c, 1)
    fits = buffer_banks(nest, kind, n, m, e, f, channels) <= shape.banks
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
    return Blocks(n, m, e, f, kept, input_bytes, weight_bytes, output_bytes)


def tile_rows(nest: Nest, e: Ints) -> Ints:
    """Input rows under ``e`` output rows."""
    return np.minimum((e - 1) * nest.stride_h + nest.span_h, nest.padded_h)


def tile_columns(nest: Nest, f: Ints) -> Ints:
    """Input columns under ``f`` output columns."""
    return np.minimum((f - 1) * nest.stride_w + nest.span_w, nest.padded_w)


def buffer_banks(
    nest: Nest, kind: AcceleratorType, n: Ints, m: Ints, e: Ints, f: Ints, channels: Ints
) -> Ints:
    """Banks that the partial sums of ``m`` filters and the inputs of ``channels`` channels fill."""
    tile = n * channels * tile_rows(nest, e) * tile_columns(nest, f) * kind.word_bytes
    psums = n * m * e * f * kind.psum_bytes
    size = kind.buffer_bank_bytes
    return np.asarray(np.ceil(psums / size), np.int64) + np.asarray(np.ceil(tile / size), np.int64)


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

    def mapping(self, pick: int) -> dict[str, int]:
        """One of them, by name."""
        return {field.name: int(getattr(self, field.name)[pick]) for field in fields(self)[1:]}


@dataclass(frozen=True, slots=True)
class Elements:
    """What one element and its copies may hold, parallel arrays."""

    p: Ints
    q: Ints
    r: Ints


def elements_of(nest: Nest, kind: AcceleratorType, shape: Shape, copies: Ints) -> Elements:
    """All filters and channels per element that scratchpads allow, with the given copies over channels."""
    deepest = kind.max_accumulation or nest.c
    most_q = max(1, min(nest.c, shape.input_words // shape.kernel_columns, deepest))
    grid = np.meshgrid(steps(min(nest.k, shape.psum_words)), steps(most_q), copies, indexing="ij")
    p, q, r = (part.ravel().astype(np.int64) for part in grid)
    ok = (
        (p * q * shape.kernel_columns <= shape.weight_words)
        & (q * (r - 1) < nest.c)
        & ((q * r <= deepest) | (r == 1))
    )
    return Elements(p[ok], q[ok], r[ok])


def sets_side_by_side(kind: AcceleratorType, shape: Shape, e: Ints) -> Ints:
    """Copies of a set of ``e`` rows that the array holds."""
    width = ceil_div(e, kind.array_columns)  # pieces that one logical set is cut into
    return np.where(width > 1, shape.bands // width, shape.bands * (kind.array_columns // e))


def passes_of(
    nest: Nest,
    kind: AcceleratorType,
    shape: Shape,
    blocks: Blocks,
    turns: Ints,
    elements: Elements,
    most_cycles: float = np.inf,
) -> Passes:
    """All passes over the blocks, row i in ``turns[i]`` sets one after another, that array and buffer allow.

    Passes whose products alone take longer than ``most_cycles`` are left out.
    """
    e = ceil_div(blocks.e, turns)
    sets = sets_side_by_side(kind, shape, e)
    by_p = np.ceil(blocks.m[:, None] / elements.p)  # quotients of small numbers: exact
    beside = np.maximum(1.0, np.floor(sets[:, None] / elements.r))
    copies = np.ceil(by_p / np.ceil(by_p / beside))
    ok = (elements.p <= blocks.m[:, None]) & (elements.r <= sets[:, None])
    if most_cycles < np.inf:
        tiles = ceil_div(nest.p, blocks.e) * ceil_div(nest.q, blocks.f) * ceil_div(nest.batch, blocks.n)
        outer = tiles * ceil_div(nest.k, blocks.m) * blocks.n * turns * blocks.f
        depth = np.ceil(nest.c / (elements.q * elements.r)) * shape.folds
        inner = elements.p * elements.q * depth * shape.kernel_columns
        groups = np.ceil(nest.groups / np.minimum(nest.groups, np.floor(beside / copies)))
        ok &= groups * outer[:, None] * np.ceil(by_p / copies) * inner <= most_cycles
    at, chosen = np.nonzero(ok)
    p, q, r, sets = elements.p[chosen], elements.q[chosen], elements.r[chosen], sets[at]
    t, n, m, f = copies[ok].astype(np.int64), blocks.n[at], blocks.m[at], blocks.f[at]
    channels = np.where(blocks.kept[at], nest.c, np.minimum(q * r, nest.c))
    used = buffer_banks(nest, kind, n, m, blocks.e[at], f, channels)
    ok = used <= shape.banks
    together = np.minimum(nest.groups, np.minimum(sets // (r * t), shape.banks // np.maximum(used, 1)))
    together = np.maximum(1, together)
    return Passes(*(v[ok] for v in (at, n, m, e[at], f, turns[at], p, q, r, t, together)))


@dataclass(frozen=True, slots=True)
class PassCosts:
    """Cycles and bytes of the whole layer, parallel to Passes."""

    compute: Floats
    buses: Floats
    buffered: Floats  # bytes in and out of the buffer
    depth: Ints  # passes that one output is accumulated over
    first: (
        Floats  # bytes that move before and after any overlap: operands of the first pass, sums of the last
    )


def costs_of(nest: Nest, kind: AcceleratorType, shape: Shape, blocks: Blocks, passes: Passes) -> PassCosts:
    """What each pass scheme costs; the weights of a pass are not hidden unless elements are double-buffered."""
    n, m, e, f, p, q, r, t = (getattr(passes, name) for name in "nmefpqrt")
    depth = ceil_div(nest.c, q * r) * shape.folds
    tiles = ceil_div(nest.p, blocks.e[passes.at]) * ceil_div(nest.q, f) * ceil_div(nest.batch, n)
    filter_blocks = ceil_div(nest.k, m) * ceil_div(m, p * t)
    rounds = ceil_div(nest.groups, passes.groups) * tiles * filter_blocks * depth

    turns = n * passes.strips  # sets that run one after another in a pass
    together: Ints | Floats = passes.groups
    if kind.mapper == "least_latency":  # in the mean: fewer in the last round
        together = nest.groups / ceil_div(nest.groups, passes.groups)
    rows = tile_rows(nest, e) * q * r * together
    weights = together * p * t * q * r * shape.kernel_rows * shape.kernel_columns * kind.word_bytes
    load = weights / kind.weight_bus_bytes
    window = passes.strips * rows * shape.kernel_columns * kind.word_bytes / kind.input_bus_bytes
    multiply = turns * f * p * q * shape.kernel_columns
    exposed = np.zeros_like(load) if kind.pe_double_buffered else load
    compute = rounds * (multiply + (0.0 if kind.pe_double_buffered else window) + exposed)

    visits = np.maximum(depth, shape.shallowest)  # of each output to the buffer
    one_input = rows * tile_columns(nest, f) * kind.word_bytes
    one_output = e * f * p * t * together * kind.psum_bytes
    outputs = turns * one_output * (visits / depth)
    busiest = np.maximum(turns * one_input / kind.input_bus_bytes, outputs / kind.psum_write_bus_bytes)
    busiest = np.maximum(busiest, outputs / kind.psum_read_bus_bytes * (visits - 1) / visits)
    buses = rounds * (np.maximum(busiest, load) + exposed)

    psum_bytes = nest.output_elements * (2 * visits - 1) * kind.psum_bytes
    buffered = psum_bytes + rounds * turns * one_input + blocks.input_bytes[passes.at]
    first = (one_input + weights + one_output) / together  # groups start one after another
    return PassCosts(compute, buses, buffered, depth, first)


def traffic_of(
    nest: Nest, kind: AcceleratorType, shape: Shape, blocks: Blocks, passes: Passes, pick: int
) -> Traffic:
    """Work and bytes of the chosen pass scheme."""
    chosen = Passes(*(getattr(passes, field.name)[pick : pick + 1] for field in fields(passes)))
    costs, at = costs_of(nest, kind, shape, blocks, chosen), int(chosen.at[0])
    depth, sets = int(costs.depth[0]), int(chosen.r[0] * chosen.t[0] * chosen.groups[0])
    hops = nest.output_elements * float(depth * (shape.kernel_rows * int(chosen.r[0]) - 1)) * kind.psum_bytes
    buffered, weight_bytes = float(costs.buffered[0]), float(blocks.weight_bytes[at])
    return Traffic(
        compute_cycles=float(costs.compute[0]),
        buffer_cycles=float(costs.buses[0]),
        dram_input_bytes=float(blocks.input_bytes[at]),
        dram_weight_bytes=weight_bytes,
        dram_output_bytes=blocks.output_bytes,
        buffer_bytes=buffered,
        noc_bytes=buffered + weight_bytes + hops,
        pe_bytes=float(nest.macs) * (2 * kind.word_bytes + 2 * kind.psum_bytes),
        macs=nest.macs,
        first_bytes=float(costs.first[0]) if kind.mapper == "least_latency" else 0.0,
        active_pes=shape.kernel_rows * int(chosen.e[0]) * sets,
        mapping={**chosen.mapping(0), "depth": depth},
    )


def steps(most: int) -> Ints:
    """1, 2, 3, 4, then steps of a quarter or less, up to ``most``."""
    values, value = [], 1
    while value < most:
        values.append(value)
        value += max(1, value // 8 * 2)
    return np.array([*values, most], np.int64)
