"""Systolic arrays, weight-stationary (TPU-like) and output-stationary, over the unrolled matrix product.

Cycles per fold follow SCALE-Sim (Samajdar et al., ISPASS 2020): 2 x rows + columns + T - 2, where T is
the number of vectors streamed through; without the reload, T + rows + columns - 2 once per fold when
``pe_double_buffered`` hides it. A 3x3 kernel, 128 x 128 channels, 28 x 28 outputs on 32 x 32 elements
takes 144 folds x 878 = 126,432 cycles; SCALE-Sim 3.0.0 reports 126,431.

With ``mapper = "least_latency"`` a fold may fill a part of the rows and columns, all folds alike: a larger
array is then never slower.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Ints
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import Traffic
from eunomia.hardware.nest import Nest
from eunomia.hardware.tiling import Tiling, least_dram

Bytes = npt.NDArray[np.floating]


def systolic_weight(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Weights stay: rows hold C x R x S, columns hold K, outputs stream; None where it does not fit."""
    summed, pixels = nest.c * nest.r * nest.s, nest.batch * nest.p * nest.q
    folds = _folds(kind, summed, nest.k)
    reads = pixels * summed * folds.over_columns * nest.groups * kind.word_bytes
    writes = nest.output_elements * folds.over_rows * kind.psum_bytes
    spills = nest.output_elements * (folds.over_rows - 1) * kind.psum_bytes
    return _traffic(nest, kind, folds, pixels, _Moved(reads, spills, writes, np.zeros_like(reads)))


def systolic_output(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Outputs stay: rows hold output pixels, columns hold K, C x R x S streams; None where it does not fit."""
    summed, pixels = nest.c * nest.r * nest.s, nest.batch * nest.p * nest.q
    folds = _folds(kind, pixels, nest.k)
    reads = pixels * summed * folds.over_columns * nest.groups * kind.word_bytes
    writes = np.full(reads.shape, nest.output_elements * kind.psum_bytes)
    weights = nest.operand_elements * folds.over_rows * kind.word_bytes
    return _traffic(nest, kind, folds, summed, _Moved(reads, np.zeros_like(reads), writes, weights))


@dataclass(frozen=True, slots=True)
class _Folds:
    """Ways to cut the product into folds, parallel arrays."""

    over_rows: Ints
    over_columns: Ints
    rows: Ints  # of the array, that a fold takes
    columns: Ints
    active: int  # elements at work in a full fold, where the array is used whole


def _folds(kind: AcceleratorType, on_rows: int, on_columns: int) -> _Folds:
    """The whole array, or, for the least latency, every part of it that is of use."""
    rows, columns = np.array([kind.array_rows]), np.array([kind.array_columns])
    if kind.mapper == "least_latency":
        rows, columns = _parts(on_rows, kind.array_rows), _parts(on_columns, kind.array_columns)
    grid = np.meshgrid(rows, columns, indexing="ij")
    rows, columns = (part.ravel().astype(np.int64) for part in grid)
    active = min(on_rows, kind.array_rows) * min(on_columns, kind.array_columns)
    return _Folds(-(-on_rows // rows), -(-on_columns // columns), rows, columns, active)


def _parts(size: int, most: int) -> Ints:
    """Lengths up to ``most`` that cut ``size`` into equal folds, the smallest for each number of folds."""
    lengths = np.arange(1, most + 1, dtype=np.int64)
    return np.unique(-(-size // -(-size // lengths)))


@dataclass(frozen=True, slots=True)
class _Moved:
    """Bytes between buffer and array, parallel to _Folds; ``weight_bytes``: weights read again and again."""

    input_bytes: Bytes
    spilled_bytes: Bytes  # partial sums that come back
    output_bytes: Bytes
    weight_bytes: Bytes

    @property
    def but_weights(self) -> Bytes:
        return self.input_bytes + self.spilled_bytes + self.output_bytes


def _traffic(
    nest: Nest, kind: AcceleratorType, folds: _Folds, streamed: int, moved: _Moved
) -> Traffic | None:
    tiling = least_dram(nest, kind)
    if tiling is None:
        return None
    rows, columns, count = folds.rows, folds.columns, folds.over_rows * folds.over_columns
    per_fold, once = 2 * rows + columns + streamed - 2, np.zeros_like(rows)
    if kind.pe_double_buffered:
        per_fold, once = np.maximum(streamed, rows), rows + columns - 2
    cycles = np.asarray(nest.groups * count * per_fold + once, np.float64)
    weights = np.maximum(tiling.weight_bytes, moved.weight_bytes)
    busiest = np.maximum(moved.input_bytes / kind.input_bus_bytes, weights / kind.weight_bus_bytes)
    busiest = np.maximum(busiest, moved.spilled_bytes / kind.psum_read_bus_bytes)
    busiest = np.maximum(busiest, moved.output_bytes / kind.psum_write_bus_bytes)
    first = rows * columns * kind.word_bytes if kind.mapper == "least_latency" else np.zeros_like(cycles)
    busy = np.maximum(cycles, busiest) + first / kind.link_bytes_cycle
    i = int(np.lexsort((moved.but_weights, busy))[0])
    return _chosen(nest, kind, folds, moved, tiling, (i, cycles[i], busiest[i], weights[i], first[i]))


def _chosen(
    nest: Nest,
    kind: AcceleratorType,
    folds: _Folds,
    moved: _Moved,
    tiling: Tiling,
    costs: tuple[int, float, float, float, float],
) -> Traffic:
    i, cycles, busiest, weights, first = costs
    stored = 0.0 if kind.weights_bypass_buffer else float(weights) + tiling.weight_bytes
    but_weights = float(moved.but_weights[i])
    count = int(folds.over_rows[i] * folds.over_columns[i])
    active = folds.active if len(folds.rows) == 1 else int(folds.rows[i] * folds.columns[i])
    return Traffic(
        compute_cycles=float(cycles),
        buffer_cycles=float(busiest),
        dram_input_bytes=tiling.input_bytes,
        dram_weight_bytes=tiling.weight_bytes,
        dram_output_bytes=tiling.output_bytes,
        buffer_bytes=but_weights + stored + tiling.input_bytes + tiling.output_bytes,
        noc_bytes=but_weights + float(weights),
        pe_bytes=nest.macs * 2 * (kind.word_bytes + kind.psum_bytes),
        macs=nest.macs,
        first_bytes=float(first),
        active_pes=active,
        mapping={"k": tiling.k, "c": tiling.c, "y": tiling.y, "x": tiling.x, "folds": count},
    )
