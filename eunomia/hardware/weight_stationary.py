"""Channel-parallel, weight-stationary arrays: Simba-like (many elements) and NVDLA-like (one wide element).

Each element multiplies ``lanes_in`` channels by ``lanes_out`` filters per cycle; elements split
filters, channels and groups among them. Small groups share one element as a block-diagonal product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import Traffic
from eunomia.hardware.nest import Nest, block_sizes, ceil_div
from eunomia.hardware.tiling import Tiling, least_dram

Moved = tuple[Floats, Floats, Floats] | tuple[float, float, float]
AT_ONCE = 64  # splits tried between two looks at the least so far
TILES = 16  # sizes of a weight tile that are tried


def weight_stationary(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Cost of one layer, or None where it does not fit.

    Cycles, least over all splits of the elements::

        groups' rounds x batch x ceil(K / (lanes_out x elements over K))
            x ceil(C / (lanes_in x elements over C)) x P x Q x R x S

    For the least latency, lanes may stay idle: fewer groups side by side, fewer kernel elements beside the channels.
    """
    tiling = least_dram(nest, kind)
    if tiling is None:
        return None
    found: list[tuple[float, float, int, _Splits, int, tuple[float, float, float], tuple[int, int, int]]] = []
    for packed in _packings(nest, kind):
        for beside, positions in _kernels(nest, kind):
            c, k, rounds = packed * nest.c * beside, packed * nest.k, -(-nest.groups // packed)
            splits = _splits(kind, k, c, rounds, nest.batch * nest.p * nest.q * positions)
            best, i, moved = _choice(nest, kind, splits, tiling, (k, c))
            found.append((best, sum(moved), len(found), splits, i, moved, (k, c, packed)))
    return _traffic(nest, kind, tiling, *min(found, key=lambda one: one[:3])[3:])


def _traffic(
    nest: Nest,
    kind: AcceleratorType,
    tiling: Tiling,
    splits: _Splits,
    i: int,
    moved: tuple[float, float, float],
    sizes: tuple[int, int, int],
) -> Traffic:
    """Work and bytes of the chosen split; ``sizes``: filters and channels of a round, groups packed into one."""
    (k, c, packed), (input_reads, psum_reads, psum_writes) = sizes, moved
    together = int(splits.over_g[i])
    buffer_bytes = input_reads + psum_reads + psum_writes + tiling.input_bytes + tiling.output_bytes
    if not kind.weights_bypass_buffer:
        buffer_bytes += 2 * tiling.weight_bytes
    used_k, used_c = int(splits.over_k[i]), int(splits.over_c[i])
    if kind.mapper == "least_dram":
        used_k, used_c = min(used_k, -(-k // kind.lanes_out)), min(used_c, -(-c // kind.lanes_in))
    return Traffic(
        compute_cycles=float(splits.cycles[i]),
        buffer_cycles=float(_bus_cycles(kind, moved, tiling)),
        dram_input_bytes=tiling.input_bytes,
        dram_weight_bytes=tiling.weight_bytes,
        dram_output_bytes=tiling.output_bytes,
        buffer_bytes=buffer_bytes,
        noc_bytes=input_reads * used_k
        + psum_reads
        + psum_writes
        + tiling.weight_bytes
        + nest.output_elements * (used_c - 1) * kind.psum_bytes,
        pe_bytes=nest.macs
        * (kind.word_bytes * (1 + 1 / kind.lanes_out) + 2 * kind.psum_bytes / kind.lanes_in),
        macs=nest.macs,
        first_bytes=_first_bytes(nest, kind),
        active_pes=used_k * used_c * together,
        mapping={
            "k": tiling.k,
            "c": tiling.c,
            "y": tiling.y,
            "x": tiling.x,
            "over_k": used_k,
            "over_c": used_c,
            "over_groups": together,
            "packed": packed,
        },
    )


@dataclass(frozen=True, slots=True)
class _Splits:
    """Ways to share the elements among filters, channels and groups, parallel arrays."""

    over_k: Ints
    over_c: Ints
    over_g: Ints
    cycles: Ints


def _packings(nest: Nest, kind: AcceleratorType) -> list[int]:
    """Groups that share the lanes of an element: the most, or, for the least latency, any number of use."""
    most = max(1, min(kind.lanes_in // nest.c, kind.lanes_out // nest.k, nest.groups))
    if kind.mapper == "least_dram":
        return [most]
    return [int(n) for n in _shares(nest.groups) if n <= most]


def _kernels(nest: Nest, kind: AcceleratorType) -> list[tuple[int, int]]:
    """Kernel elements multiplied side by side, and cycles that a kernel then takes.

    NVDLA's image input (nvdla.org, unit description): kernel columns extend the channels, then rows do.
    """
    if not kind.folds_images or nest.c > 4 or nest.groups > 1:
        return [(1, nest.r * nest.s)]
    columns = max(1, min(nest.s, kind.lanes_in // nest.c))
    rows = max(1, min(nest.r, kind.lanes_in // (nest.c * nest.s)))
    found = [(columns * rows, -(-nest.r // rows) * -(-nest.s // columns))]
    if kind.mapper == "least_latency":
        found += [(n, nest.r * -(-nest.s // n)) for n in range(1, columns)]
        found += [(nest.s * n, -(-nest.r // n)) for n in range(1, rows)]
    return found


def _splits(kind: AcceleratorType, k: int, c: int, rounds: int, positions: int) -> _Splits:
    """Divisors of the number of elements, or, for the least latency, every share that is of use."""
    if kind.mapper == "least_latency":
        shares_k, shares_c = _shares(k), _shares(c)  # of any lanes: storage of more elements may be worth it
    else:
        shares_k = shares_c = np.array([d for d in range(1, kind.pes + 1) if kind.pes % d == 0], np.int64)
    grid = np.meshgrid(shares_k, shares_c, indexing="ij")
    over_k, over_c = (part.ravel() for part in grid)
    fits = over_k * over_c <= kind.pes
    over_k, over_c = over_k[fits], over_c[fits]
    over_g = np.minimum(rounds, kind.pes // (over_k * over_c))
    own_k, own_c = ceil_div(k, kind.lanes_out * over_k), ceil_div(c, kind.lanes_in * over_c)
    cycles = ceil_div(rounds, over_g) * own_k * own_c * positions
    return _Splits(over_k, over_c, over_g, cycles)


def _shares(units: int) -> Ints:
    """The smallest share for every number of turns that ``units`` may take: 1 among them, ``units`` too."""
    root = int(units**0.5) + 1
    return np.unique([-(-units // n) for n in range(1, root + 1)] + list(range(1, min(units, root) + 1)))


def _choice(
    nest: Nest, kind: AcceleratorType, splits: _Splits, tiling: Tiling, sizes: tuple[int, int]
) -> tuple[float, int, tuple[float, float, float]]:
    """The split of fewest cycles, then fewest buffer bytes; or of least latency, buses counted."""
    order = np.argsort(splits.cycles, kind="stable")
    best, cycles = np.inf, splits.cycles[order].astype(np.float64)
    found: list[tuple[float, float, int, tuple[float, float, float]]] = []
    for start in range(0, len(order), AT_ONCE):
        rows = order[start : start + AT_ONCE][cycles[start : start + AT_ONCE] <= best]
        if not len(rows):
            break
        moved = _buffered(nest, kind, sizes, splits.over_k[rows], splits.over_c[rows])
        busy = splits.cycles[rows].astype(np.float64)
        if kind.mapper == "least_latency":
            busy = np.maximum(busy, _bus_cycles(kind, moved, tiling))
        one = int(np.lexsort((rows, moved[0] + moved[1] + moved[2], busy))[0])
        chosen = float(moved[0][one]), float(moved[1][one]), float(moved[2][one])
        found.append((float(busy[one]), sum(chosen), int(rows[one]), chosen))
        best = min(best, float(busy[one]))
    least, _, i, moved_by = min(found)
    return least, i, moved_by


def _bus_cycles(kind: AcceleratorType, moved: Moved, tiling: Tiling) -> Floats:
    """Cycles of the busiest bus; ``moved``: bytes of inputs read, partial sums read and written."""
    input_reads, psum_reads, psum_writes = moved
    busiest = np.maximum(input_reads / kind.input_bus_bytes, tiling.weight_bytes / kind.weight_bus_bytes)
    sums = np.maximum(psum_reads / kind.psum_read_bus_bytes, psum_writes / kind.psum_write_bus_bytes)
    return np.asarray(np.maximum(busiest, sums))


def _first_bytes(nest: Nest, kind: AcceleratorType) -> float:
    """Inputs and weights of the first output, which the array waits for, and the last output."""
    if kind.mapper == "least_dram":
        return 0.0
    return (2 * nest.r * nest.s * nest.c + 1) * kind.word_bytes


def _buffered(
    nest: Nest, kind: AcceleratorType, sizes: tuple[int, int], over_k: Ints, over_c: Ints
) -> tuple[Floats, Floats, Floats]:
    """Bytes of inputs read, partial sums read and written, for the weight tile per element of least sum."""
    k, c = sizes
    own_k, own_c = _blocks(k, over_k)[:, :, None], _blocks(c, over_c)[:, None, :]
    ok = own_k * own_c * nest.r * nest.s * kind.word_bytes <= kind.pe_weight_bytes
    ok |= (own_k == 1) & (own_c == 1)
    again_k, again_c = ceil_div(k, own_k * over_k[:, None, None]), ceil_div(c, own_c * over_c[:, None, None])
    inputs = nest.input_elements * kind.word_bytes * again_k
    sums = nest.output_elements * kind.psum_bytes * (2.0 * again_c - 1.0)
    best = np.where(ok, inputs + sums, np.inf).reshape(len(over_k), -1).argmin(axis=1)
    at = np.arange(len(over_k))
    k_turns, c_turns = again_k[at, best // own_c.shape[2], 0], again_c[at, 0, best % own_c.shape[2]]
    outputs = float(nest.output_elements * kind.psum_bytes)
    return nest.input_elements * kind.word_bytes * k_turns, outputs * (c_turns - 1.0), outputs * c_turns


def _blocks(size: int, over: Ints) -> Ints:
    """(splits, TILES) sizes of a part of ``size``, the last repeated."""
    shares, back = np.unique(over, return_inverse=True)
    rows = np.ones((len(shares), TILES), np.int64)
    for row, share in zip(rows, shares, strict=True):
        found = block_sizes(-(-size // int(share)), TILES)
        row[: len(found)] = found
    return rows[back]
