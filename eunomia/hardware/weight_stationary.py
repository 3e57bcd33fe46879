"""Channel-parallel, weight-stationary arrays: Simba-like (many elements) and NVDLA-like (one wide element).

Each element multiplies ``lanes_in`` channels by ``lanes_out`` filters per cycle; elements split
filters, channels and groups among them. Small groups share one element as a block-diagonal product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Ints
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import Traffic
from eunomia.hardware.nest import Nest, block_sizes, ceil_div
from eunomia.hardware.tiling import Tiling, least_dram


def weight_stationary(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Cost of one layer, or None where it does not fit.

    Cycles, least over all splits of the elements::

        groups' rounds x batch x ceil(K / (lanes_out x elements over K))
            x ceil(C / (lanes_in x elements over C)) x P x Q x R x S
    """
    tiling = least_dram(nest, kind)
    if tiling is None:
        return None
    packed = max(1, min(kind.lanes_in // nest.c, kind.lanes_out // nest.k, nest.groups))
    rounds = -(-nest.groups // packed)
    beside, positions = _kernel(nest, kind)
    c, k = packed * nest.c * beside, packed * nest.k

    splits = _splits(kind, k, c, rounds, nest.batch * nest.p * nest.q * positions)
    i, (input_reads, psum_reads, psum_writes) = _choice(nest, kind, splits, tiling, (k, c, rounds))
    over_k, over_c, cycles = splits.over_k, splits.over_c, splits.cycles
    together = int(splits.over_g[i])
    busiest = _bus_cycles(kind, (input_reads, psum_reads, psum_writes), tiling)
    buffer_bytes = input_reads + psum_reads + psum_writes + tiling.input_bytes + tiling.output_bytes
    if not kind.weights_bypass_buffer:
        buffer_bytes += 2 * tiling.weight_bytes
    used_k, used_c = min(int(over_k[i]), -(-k // kind.lanes_out)), min(int(over_c[i]), -(-c // kind.lanes_in))
    return Traffic(
        compute_cycles=float(cycles[i]),
        buffer_cycles=busiest,
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


def _kernel(nest: Nest, kind: AcceleratorType) -> tuple[int, int]:
    """Kernel elements multiplied side by side, and cycles that a kernel then takes.

    NVDLA's image input (nvdla.org, unit description): kernel columns extend the channels, then rows do.
    """
    if not kind.folds_images or nest.c > 4 or nest.groups > 1:
        return 1, nest.r * nest.s
    columns = max(1, min(nest.s, kind.lanes_in // nest.c))
    rows = max(1, min(nest.r, kind.lanes_in // (nest.c * nest.s)))
    return columns * rows, -(-nest.r // rows) * -(-nest.s // columns)


def _splits(kind: AcceleratorType, k: int, c: int, rounds: int, positions: int) -> _Splits:
    """Divisors of the number of elements, or, for the least latency, every share that is of use."""
    if kind.mapper == "least_latency":
        shares_k, shares_c = _shares(-(-k // kind.lanes_out)), _shares(-(-c // kind.lanes_in))
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
    nest: Nest, kind: AcceleratorType, splits: _Splits, tiling: Tiling, sizes: tuple[int, int, int]
) -> tuple[int, tuple[float, float, float]]:
    """The split of fewest cycles, then fewest buffer bytes; or of least latency, buses counted."""
    k, c, rounds = sizes
    found: list[tuple[float, float, int, tuple[float, float, float]]] = []
    for i in np.argsort(splits.cycles, kind="stable"):
        cycles = float(splits.cycles[i])
        if found and cycles > min(found)[0]:
            break
        moved = _buffered(nest, kind, k, c, int(splits.over_k[i]), int(splits.over_c[i]), rounds)
        if kind.mapper == "least_latency":
            cycles = max(cycles, _bus_cycles(kind, moved, tiling))
        found.append((cycles, sum(moved), int(i), moved))
    _, _, i, moved = min(found)
    return i, moved


def _bus_cycles(kind: AcceleratorType, moved: tuple[float, float, float], tiling: Tiling) -> float:
    """Cycles of the busiest bus; ``moved``: bytes of inputs read, partial sums read and written."""
    input_reads, psum_reads, psum_writes = moved
    return max(
        input_reads / kind.input_bus_bytes,
        psum_reads / kind.psum_read_bus_bytes,
        psum_writes / kind.psum_write_bus_bytes,
        tiling.weight_bytes / kind.weight_bus_bytes,
    )


def _first_bytes(nest: Nest, kind: AcceleratorType) -> float:
    """Inputs and weights of the first output, which the array waits for, and the last output."""
    if kind.mapper == "least_dram":
        return 0.0
    return (2 * nest.r * nest.s * nest.c + 1) * kind.word_bytes


def _buffered(
    nest: Nest, kind: AcceleratorType, k: int, c: int, over_k: int, over_c: int, rounds: int
) -> tuple[float, float, float]:
    """Bytes of inputs read, partial sums read and written, for the weight tile per element of least sum."""
    grid = np.meshgrid(block_sizes(-(-k // over_k), 16), block_sizes(-(-c // over_c), 16), indexing="ij")
    own_k, own_c = (part.ravel() for part in grid)
    ok = own_k * own_c * nest.r * nest.s * kind.word_bytes <= kind.pe_weight_bytes
    if not ok.any():
        ok = (own_k == 1) & (own_c == 1)
    own_k, own_c = own_k[ok], own_c[ok]
    again_k, again_c = ceil_div(k, own_k * over_k), ceil_div(c, own_c * over_c)
    inputs = nest.input_elements * again_k * kind.word_bytes
    writes = nest.output_elements * again_c * kind.psum_bytes
    reads = nest.output_elements * (again_c - 1) * kind.psum_bytes
    best = int(np.argmin(inputs + writes + reads))
    return float(inputs[best]), float(reads[best]), float(writes[best])
