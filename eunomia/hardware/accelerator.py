"""What an accelerator type is: array, storage, buses, clock, energy. One data file per type."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from eunomia.core.errors import PlatformError
from eunomia.hardware import technology
from eunomia.hardware.dataflow_names import code_stamp, dataflow_names, is_dataflow
from eunomia.hardware.declared import OperatingPoint, Package, declared
from eunomia.hardware.facts import from_table, read_toml

Mapper = Literal["least_dram", "least_latency"]
DECLARED = ("memory_gb", "resident_weight_bytes", "package", "point")  # off by default


@dataclass(frozen=True)
class EnergyCoefficients:
    """Picojoules per operation and per byte moved, with where the figures come from.

    ``illustrative`` figures rank alternatives; they are not joules to be quoted.
    """

    mac_pj: float
    pe_pj_byte: float  # scratchpads and registers inside a processing element
    noc_pj_byte: float  # between buffer and elements, and between elements
    buffer_pj_byte: float
    dram_pj_byte: float
    vector_op_pj: float = 1.0  # one simple operation of a layer without MACs
    static_w: float = 0.0  # leakage and clock, times the isolated latency
    node_nm: int = 65
    source: str = ""
    illustrative: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0.0):
                raise PlatformError(f"energy.{field.name} is {value}; it must be finite and not negative")


@dataclass(frozen=True)
class AcceleratorType:
    """A spatial accelerator: ``array_rows x array_columns`` elements of ``lanes_in x lanes_out`` MACs.

    Storage in bytes, buses and link in bytes per cycle. ``pe_*`` are per processing element.
    The four buses join global buffer and array; the link joins buffer and DRAM.
    """

    name: str
    dataflow: str  # of BUILT_IN, an entry point's, or FILE.py:NAME
    array_rows: int
    array_columns: int
    clock_hz: float
    word_bytes: float  # of weights and activations, whatever the model was trained in
    psum_bytes: float
    pe_input_bytes: int
    pe_weight_bytes: int
    pe_psum_bytes: int
    buffer_bytes: int
    input_bus_bytes: float
    weight_bus_bytes: float
    psum_read_bus_bytes: float
    psum_write_bus_bytes: float
    link_bytes_cycle: float
    vector_ops_cycle: float  # simple operations per cycle of layers without MACs
    energy: EnergyCoefficients
    lanes_in: int = 1  # channels summed side by side inside one element
    lanes_out: int = 1  # filters side by side inside one element
    folds_images: bool = False  # weight-stationary: kernel columns, then rows, beside up to 4 input channels
    weights_bypass_buffer: bool = True
    weight_prefetch_bytes: int = 0  # part of the buffer set aside for weights on their way
    buffer_bank_bytes: int = 1  # a bank holds inputs or partial sums, never both
    double_buffered: bool = False  # half of the buffer holds the next tile
    pe_double_buffered: bool = False  # elements take the next weights while they compute
    keeps_inputs: bool = True  # inputs of all channels may stay in the buffer while filters change
    sequential_strips: bool = True  # row-stationary: weights stay in the elements while strips of rows follow
    padded_inputs: bool = False  # zero padding is stored in DRAM and fetched like data
    max_accumulation: int = 0  # most channels summed per pass; 0 = whatever the storage allows
    pass_row_words: int = 0  # row-stationary: most channels per pass x input row width; 0 = no such limit
    mapper: Mapper = "least_dram"  # what the choice of a mapping puts first; least_latency is the later model
    search_blocks: int = 16  # most block sizes tried per dimension of the tiling search
    input_compression: float = 1.0  # DRAM bytes / raw bytes, per tensor
    weight_compression: float = 1.0
    output_compression: float = 1.0
    memory_gb: float = 0.0  # of its own, which networks must fit; 0 = none of its own
    resident_weight_bytes: float = 0.0  # weights that stay on chip between requests, of all networks together
    package: Package | None = None  # several such chips as one accelerator
    point: tuple[OperatingPoint, ...] = ()  # clocks to choose from, the own one among them
    description: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for what, known, names in (
            ("dataflow", is_dataflow(self.dataflow), dataflow_names()),
            ("mapper", self.mapper in get_args(Mapper), get_args(Mapper)),
        ):
            if not known:
                raise PlatformError(
                    f"accelerator type '{self.name}': unknown {what} '{getattr(self, what)}'; "
                    f"choose one of: {', '.join(names)}"
                )
        may_be_zero = {"weight_prefetch_bytes", "max_accumulation", "pass_row_words", *DECLARED}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if not math.isfinite(value) or value < 0 or (value == 0 and field.name not in may_be_zero):
                raise PlatformError(
                    f"accelerator type '{self.name}': {field.name} is {value}; it must be finite and positive"
                )
        if self.pes * self.lanes_in * self.lanes_out < 1 or self.usable_buffer_bytes < 1:
            raise PlatformError(f"accelerator type '{self.name}': nothing of the buffer is left for data")

    @property
    def pes(self) -> int:
        """Processing elements."""
        return self.array_rows * self.array_columns

    @property
    def macs_cycle(self) -> int:
        """Multiply-accumulates per cycle at full use."""
        return self.pes * self.lanes_in * self.lanes_out

    @property
    def usable_buffer_bytes(self) -> int:
        """Buffer bytes that one tile may fill."""
        free = self.buffer_bytes - self.weight_prefetch_bytes
        return free // 2 if self.double_buffered else free

    @property
    def link_bytes_s(self) -> float:
        """DRAM bandwidth that one accelerator can draw."""
        return self.link_bytes_cycle * self.clock_hz

    @property
    def origin(self) -> str:
        """Where costs of this type come from: the analytical model."""
        return "model"

    @cached_property
    def content_hash(self) -> str:
        """Hash over every field that is not off: a changed type never meets an old cost."""
        facts = {name: value for name, value in asdict(self).items() if value or name not in DECLARED}
        if stamp := code_stamp(self.dataflow):
            facts["dataflow"] = stamp
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def with_(self, **changes: Any) -> AcceleratorType:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Sizes:
    """What energy coefficients follow from when a file gives no figures of its own."""

    node_nm: int
    area_mm2: float
    dram: str
    supply_v: float = 0.0  # 0: the usual one of the node
    idle_w: float = 0.0  # published; 0: clock and leakage by area


def sized_energy(kind: AcceleratorType, sizes: Sizes) -> EnergyCoefficients:
    """Coefficients from the sizes of storage and the process: one basis for all types, so that they compare."""
    if not (math.isfinite(sizes.idle_w) and sizes.idle_w >= 0.0):
        raise PlatformError(f"energy.idle_w is {sizes.idle_w}; it must be finite and not negative")
    scale = technology.energy_factor(sizes.node_nm, sizes.supply_v)
    stored = kind.pe_input_bytes + kind.pe_weight_bytes + kind.pe_psum_bytes
    pe_pj = technology.sram_pj_byte(stored / (kind.lanes_in * kind.lanes_out))
    return EnergyCoefficients(
        mac_pj=technology.product_pj(kind.word_bytes) * scale,
        pe_pj_byte=pe_pj * scale,
        noc_pj_byte=2.0 * pe_pj * scale,  # ratio of Chen et al., ISCA 2016
        buffer_pj_byte=technology.sram_pj_byte(max(kind.buffer_bank_bytes, kind.buffer_bytes / 16)) * scale,
        dram_pj_byte=technology.dram_pj_byte(sizes.dram),
        vector_op_pj=technology.product_pj(kind.word_bytes) * scale,
        static_w=sizes.idle_w
        or technology.clock_w_mm2(sizes.node_nm, kind.clock_hz, sizes.supply_v) * sizes.area_mm2,
        node_nm=sizes.node_nm,
        source=f"{sizes.node_nm} nm, {sizes.area_mm2:g} mm2, {sizes.dram}: eunomia/hardware/technology.py",
        illustrative=False,
    )


def accelerator_from_table(table: Mapping[str, object], source: str) -> AcceleratorType:
    """An accelerator type from a TOML table; ``energy`` is a table of coefficients, or of the sizes they follow.

    Raises PlatformError.
    """
    energy = table.get("energy")
    if not isinstance(energy, dict):
        raise PlatformError(f"{source}: the table [energy] is missing")
    table = {**table, **declared(table, table.get("clock_hz"), source)}
    if "area_mm2" in energy:
        sizes = from_table(Sizes, energy, f"{source}: [energy]")
        none = EnergyCoefficients(0.0, 0.0, 0.0, 0.0, 0.0)
        kind = from_table(AcceleratorType, {**table, "energy": none}, source)
        return kind.with_(energy=sized_energy(kind, sizes))
    coefficients = from_table(EnergyCoefficients, energy, f"{source}: [energy]")
    return from_table(AcceleratorType, {**table, "energy": coefficients}, source)


def read_accelerator(path: str | Path) -> AcceleratorType:
    """An accelerator type from a data file; raises PlatformError."""
    return accelerator_from_table(read_toml(Path(path)), str(path))
