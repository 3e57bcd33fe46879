"""A user's dataflow: mappings that it proposes, the best of those that fit.

DRAM traffic comes from the tiling search that the other dataflows use. Weights that bypass the buffer come from DRAM
as often as the array fetches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice
from typing import cast

from eunomia.core.errors import ConfigError, EunomiaError
from eunomia.core.registry import made
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.array_mapping import ArrayMapping, Moved, Room, check_mapping, moved_by
from eunomia.hardware.dataflow_names import DATAFLOWS, code_stamp
from eunomia.hardware.layer_cost import DRAM_PRICE, Traffic
from eunomia.hardware.nest import Nest
from eunomia.hardware.tiling import Tiling, least_dram

MOST = 10_000  # mappings of one layer
Proposes = Callable[[Nest, AcceleratorType], Iterable[ArrayMapping]]


def own_dataflow(nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Cost of one layer under the type's own dataflow, or None where nothing fits."""
    proposes = load_dataflow(kind.dataflow, code_stamp(kind.dataflow))
    return best_of(candidates(proposes, nest, kind, f"dataflow '{kind.dataflow}'"), nest, kind)


@cache
def load_dataflow(name: str, stamp: str) -> Proposes:
    """The dataflow of that name, or of ``FILE.py:NAME``; another stamp means other code. Raises ConfigError."""
    return as_dataflow(DATAFLOWS.resolve(name), f"dataflow '{name}'")


def as_dataflow(found: object, what: str) -> Proposes:
    """A function of (nest, type), or what a class without settings makes. Raises ConfigError."""
    proposes = made(found, {}, what) if isinstance(found, type) else found
    if not callable(proposes):
        raise ConfigError(f"{what} is {proposes!r}, which cannot be called with a nest and a type")
    return cast(Proposes, proposes)


def candidates(proposes: Proposes, nest: Nest, kind: AcceleratorType, place: str) -> list[ArrayMapping]:
    """Its mappings, each legal. Raises ConfigError for others, for too many, and for what it raises itself."""
    try:
        found = list(islice(proposes(nest, kind), MOST + 1))
    except EunomiaError:
        raise
    except Exception as error:  # whatever foreign code raises
        raise ConfigError(f"{place}: it raises {type(error).__name__}: {error}") from error
    if len(found) > MOST:
        raise ConfigError(f"{place} gave more than {MOST:,} mappings for a layer; propose the promising ones")
    return [check_mapping(mapping, kind, place) for mapping in found]


def best_of(mappings: list[ArrayMapping], nest: Nest, kind: AcceleratorType) -> Traffic | None:
    """Least latency, of which 1 % goes for fewer DRAM and buffer bytes; with ``least_dram`` fewest DRAM bytes first.

    None where nothing fits.
    """
    tiling = least_dram(nest, kind)
    if tiling is None:
        return None
    found = [
        _traffic(nest, kind, mapping, moved, tiling)
        for mapping in mappings
        if (moved := moved_by(mapping, nest, _room(kind))) is not None
    ]

    def latency(one: Traffic) -> float:
        busy = max(one.compute_cycles, one.buffer_cycles) + one.first_bytes / kind.link_bytes_cycle
        return max(busy, one.dram_bytes / kind.link_bytes_cycle)

    if kind.mapper == "least_dram" and found:
        least = min(one.dram_bytes for one in found)
        found = [one for one in found if one.dram_bytes <= least * (1.0 + 1e-12)]
    longest = (1.0 + DRAM_PRICE) * min(map(latency, found), default=0.0)
    near = [one for one in found if latency(one) <= longest]
    return min(near, key=lambda one: (one.dram_bytes, one.buffer_bytes, latency(one)), default=None)


def _room(kind: AcceleratorType) -> Room:
    lanes = kind.lanes_in * kind.lanes_out
    stored = (kind.pe_weight_bytes, kind.pe_input_bytes, kind.pe_psum_bytes)
    widths = (kind.word_bytes, kind.word_bytes, kind.psum_bytes)
    return Room(*(size / width / lanes for size, width in zip(stored, widths, strict=True)))


def _traffic(
    nest: Nest, kind: AcceleratorType, mapping: ArrayMapping, moved: Moved, tiling: Tiling
) -> Traffic:
    inputs = moved.input_words * kind.word_bytes
    weights = max(moved.weight_words * kind.word_bytes, tiling.weight_bytes)
    read, written = moved.sums_read * kind.psum_bytes, moved.sums_written * kind.psum_bytes
    from_dram = tiling.weight_bytes
    stored = weights + tiling.weight_bytes
    if kind.weights_bypass_buffer:
        from_dram = max(from_dram, moved.weight_words * kind.word_bytes * kind.weight_compression)
        stored = 0.0
    first = moved.first_words * kind.word_bytes if kind.mapper == "least_latency" else 0.0
    return Traffic(
        compute_cycles=float(moved.cycles),
        buffer_cycles=max(
            inputs / kind.input_bus_bytes,
            weights / kind.weight_bus_bytes,
            read / kind.psum_read_bus_bytes,
            written / kind.psum_write_bus_bytes,
        ),
        dram_input_bytes=tiling.input_bytes,
        dram_weight_bytes=from_dram,
        dram_output_bytes=tiling.output_bytes,
        buffer_bytes=inputs + read + written + stored + tiling.input_bytes + tiling.output_bytes,
        noc_bytes=inputs + weights + read + written,
        pe_bytes=nest.macs * 2 * (kind.word_bytes + kind.psum_bytes),
        macs=nest.macs,
        first_bytes=first,
        active_pes=-(-moved.active // (kind.lanes_in * kind.lanes_out)),
        mapping={
            **{f"across_{loop}": count for loop, count in mapping.across.items()},
            **{f"inside_{loop}": count for loop, count in mapping.inside.items()},
        },
    )
