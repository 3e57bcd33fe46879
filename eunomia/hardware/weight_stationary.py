"""Channel-parallel, weight-stationary arrays: Simba-like (many elements) and NVDLA-like (one wide element).

Each element multiplies ``lanes_in`` channels by ``lanes_out`` filters per cycle; elements split
filters, channels and groups among them. Small groups share one element as a block-diagonal product.
"""

from __future__ import annotations

import numpy as np

from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import Traffic
from eunomia.hardware.nest import Nest, block_sizes, ceil_div
from eunomia.hardware.tiling import least_dram


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
    c, k = packed * nest.c, packed * nest.k

    counts = np.array([d for d in range(1, kind.pes + 1) if kind.pes % d == 0], np.int64)
    grid = np.meshgrid(counts, counts, indexing="ij")
    over_k, over_c = (part.ravel() for part in grid)
    over_k, over_c = over_k[over_k * over_c <= kind.pes], over_c[over_k * over_c <= kind.pes]
    over_g = np.minimum(rounds, kind.pes // (over_k * over_c))
    own_k, own_c = ceil_div(k, kind.lanes_out * over_k), ceil_div(c, kind.lanes_in * over_c)
    positions = nest.batch * nest.p * nest.q
    cycles = ceil_div(rounds, over_g) * own_k * own_c * positions * nest.r * nest.s

    best = np.flatnonzero(cycles == cycles.min())
    buffered = [_buffered(nest, kind, int(k), int(c), int(over_k[i]), int(over_c[i]), rounds) for i in best]
    pick = int(np.argmin([sum(b) for b in buffered]))
    i = int(best[pick])
    input_reads, psum_reads, psum_writes = buffered[pick]
    together = int(over_g[i])
    busiest = max(
        input_reads / kind.input_bus_bytes,
        psum_reads / kind.psum_read_bus_bytes,
        psum_writes / kind.psum_write_bus_bytes,
        tiling.weight_bytes / kind.weight_bus_bytes,
    )
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
