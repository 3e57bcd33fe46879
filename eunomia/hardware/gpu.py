"""GPU types by roofline: an estimate for where no measured table exists.

time = max(FLOP / (peak x efficiency), bytes / (bandwidth x efficiency)) + launch overhead, with one
efficiency per operator class. Nothing here was measured for Eunomia, so every cost carries the origin
``estimated``; a measured CSV table (``read_cost_csv``) takes its place. It does badly on small layers,
whose time is launch and occupancy, and it has no L2 caches or fused kernels.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Literal

from eunomia.core.errors import PlatformError
from eunomia.hardware.layer_cost import LayerCost, Traffic
from eunomia.hardware.nest import nest_of
from eunomia.hardware.vector import simple_elements
from eunomia.workload.model import Layer

MAY_BE_ZERO = ("overhead_s", "memory_gb")
OFF = ("memory_gb", "measured")  # by default


@dataclass(frozen=True)
class MeasuredPoints:
    """Times of one network, published: ``gmac`` of a single input says which network of that name is meant."""

    network: str
    gmac: float
    batch: tuple[int, ...]  # rising
    ms: tuple[float, ...]  # of the whole batch
    source: str


@dataclass(frozen=True)
class GpuType:
    """A GPU as a roofline. Peaks are dense rates of the precision named by ``word_bytes``."""

    name: str
    peak_flop_s: float  # of convolutions and products
    vector_flop_s: float  # of everything else
    memory_bytes_s: float
    power_w: float  # board power while busy
    word_bytes: float = 2.0
    conv_efficiency: float = 0.45
    matmul_efficiency: float = 0.6
    depthwise_efficiency: float = 0.03
    vector_efficiency: float = 0.3
    memory_efficiency: float = 0.75
    overhead_s: float = 4e-6  # per layer: launch and tail
    memory_gb: float = 0.0  # which networks must fit; 0 = unlimited
    measured: tuple[MeasuredPoints, ...] = ()  # networks whose times were published: ``measured.py``
    description: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str | tuple):
                continue
            if not math.isfinite(value) or value < 0.0 or (value == 0.0 and field.name not in MAY_BE_ZERO):
                raise PlatformError(
                    f"GPU type '{self.name}': {field.name} is {value}; it must be finite and positive"
                )
            if field.name.endswith("_efficiency") and value > 1.0:
                raise PlatformError(f"GPU type '{self.name}': {field.name} is {value}; it must be at most 1")

    @property
    def link_bytes_s(self) -> float:
        """Memory bandwidth that layers reach."""
        return self.memory_bytes_s * self.memory_efficiency

    @property
    def origin(self) -> Literal["estimated"]:
        """Nothing was measured."""
        return "estimated"

    @cached_property
    def content_hash(self) -> str:
        """Hash over every field that is not off."""
        facts = {name: value for name, value in asdict(self).items() if value or name not in OFF}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def gpu_layer_cost(layer: Layer, kind: GpuType) -> LayerCost:
    """Roofline cost of one layer; energy is board power times latency."""
    if layer.has_macs:
        nest = nest_of(layer)
        read, weights, written = (
            nest.input_elements + nest.extra_elements,
            nest.operand_elements,
            nest.output_elements,
        )
        flop_s = kind.peak_flop_s * _efficiency(layer, kind)
        flop = 2.0 * layer.macs
    else:
        read, weights, written = simple_elements(layer)
        flop_s = kind.vector_flop_s * kind.vector_efficiency
        flop = float(layer.ops)
    compute_s = flop / flop_s + kind.overhead_s
    traffic = Traffic(
        compute_cycles=0.0,
        buffer_cycles=0.0,
        dram_input_bytes=read * kind.word_bytes,
        dram_weight_bytes=weights * kind.word_bytes,
        dram_output_bytes=written * kind.word_bytes,
        buffer_bytes=0.0,
        noc_bytes=0.0,
        pe_bytes=0.0,
        macs=layer.macs,
        vector_ops=layer.ops,
    )
    latency_s = max(compute_s, traffic.dram_bytes / kind.link_bytes_s)
    return LayerCost(
        compute_s, 0.0, traffic.dram_bytes, kind.link_bytes_s, {"board": kind.power_w * latency_s}, traffic
    )


def _efficiency(layer: Layer, kind: GpuType) -> float:
    if layer.groups > 1 and layer.in_channels // layer.groups < 8:
        return kind.depthwise_efficiency
    return kind.conv_efficiency if layer.kind == "conv" else kind.matmul_efficiency
