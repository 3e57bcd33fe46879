"""Systolic arrays, weight-stationary (TPU-like) and output-stationary, over the unrolled matrix product.

Cycles per fold follow SCALE-Sim (Samajdar et al., ISPASS 2020): 2 x rows + columns + T - 2, where T is
the number of vectors streamed through; without the reload, T + rows + columns - 2 once per fold when
``pe_double_buffered`` hides it. A 3x3 kernel, 128 x 128 channels, 28 x 28 outputs on 32 x 32 elements
takes 144 folds x 878 = 126,432 cycles; SCALE-Sim 3.0.0 reports 126,431.
"""

from __future__ import annotations

from dataclasses import dataclass

from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import Traffic
from eunomia.hardware.nest import Nest
from eunomia.hardware.tiling import least_dram


def systolic_weight(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Weights stay: rows hold C x R x S, columns hold K, outputs stream; None where it does not fit."""
    summed, pixels = nest.c * nest.r * nest.s, nest.batch * nest.p * nest.q
    folds_in, folds_out = -(-summed // kind.array_rows), -(-nest.k // kind.array_columns)
    active = min(summed, kind.array_rows) * min(nest.k, kind.array_columns)
    reads = pixels * summed * folds_out * nest.groups * kind.word_bytes
    writes = nest.output_elements * folds_in * kind.psum_bytes
    spills = nest.output_elements * (folds_in - 1) * kind.psum_bytes
    return _traffic(nest, kind, folds_in * folds_out, pixels, active, _Moved(reads, spills, writes))


def systolic_output(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Outputs stay: rows hold output pixels, columns hold K, C x R x S streams; None where it does not fit."""
    summed, pixels = nest.c * nest.r * nest.s, nest.batch * nest.p * nest.q
    folds_in, folds_out = -(-pixels // kind.array_rows), -(-nest.k // kind.array_columns)
    active = min(pixels, kind.array_rows) * min(nest.k, kind.array_columns)
    reads = pixels * summed * folds_out * nest.groups * kind.word_bytes
    writes = nest.output_elements * kind.psum_bytes
    moved = _Moved(reads, 0.0, writes, nest.operand_elements * folds_in * kind.word_bytes)
    return _traffic(nest, kind, folds_in * folds_out, summed, active, moved)


@dataclass(frozen=True, slots=True)
class _Moved:
    """Bytes between buffer and array; ``weight_bytes``: of weights that are read again and again."""

    input_bytes: float
    spilled_bytes: float  # partial sums that come back
    output_bytes: float
    weight_bytes: float = 0.0

    @property
    def but_weights(self) -> float:
        return self.input_bytes + self.spilled_bytes + self.output_bytes


def _traffic(
    nest: Nest, kind: AcceleratorType, folds: int, streamed: int, active: int, moved: _Moved
) -> Traffic | None:
    tiling = least_dram(nest, kind)
    if tiling is None:
        return None
    rows, columns = kind.array_rows, kind.array_columns
    per_fold = max(streamed, rows) if kind.pe_double_buffered else 2 * rows + columns + streamed - 2
    once = rows + columns - 2 if kind.pe_double_buffered else 0
    weights = max(tiling.weight_bytes, moved.weight_bytes)
    busiest = max(
        moved.input_bytes / kind.input_bus_bytes,
        weights / kind.weight_bus_bytes,
        moved.spilled_bytes / kind.psum_read_bus_bytes,
        moved.output_bytes / kind.psum_write_bus_bytes,
    )
    stored = 0.0 if kind.weights_bypass_buffer else weights + tiling.weight_bytes
    return Traffic(
        compute_cycles=float(nest.groups * folds * per_fold + once),
        buffer_cycles=busiest,
        dram_input_bytes=tiling.input_bytes,
        dram_weight_bytes=tiling.weight_bytes,
        dram_output_bytes=tiling.output_bytes,
        buffer_bytes=moved.but_weights + stored + tiling.input_bytes + tiling.output_bytes,
        noc_bytes=moved.but_weights + weights,
        pe_bytes=nest.macs * 2 * (kind.word_bytes + kind.psum_bytes),
        macs=nest.macs,
        active_pes=active,
        mapping={"k": tiling.k, "c": tiling.c, "y": tiling.y, "x": tiling.x, "folds": folds},
    )
