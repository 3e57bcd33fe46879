"""Layers without MACs: pooling, additions, normalisation, softmax, copies. A vector rate and their bytes."""

from __future__ import annotations

from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import Traffic
from eunomia.workload.model import Layer


def simple_elements(layer: Layer) -> tuple[int, int, int]:
    """Elements read as input, read as parameters, written. A gather reads only the rows that it copies."""
    if layer.kind == "gather":
        return layer.input_elements, layer.output_elements, layer.output_elements
    return layer.input_elements + layer.operand_elements, layer.weight_elements, layer.output_elements


def vector_layer(layer: Layer, kind: AcceleratorType) -> Traffic:
    """cycles = ops / vector rate, at least one; every tensor crosses DRAM and the buffer once."""
    read, parameters, written = (n * kind.word_bytes for n in simple_elements(layer))
    return Traffic(
        compute_cycles=max(1.0, layer.ops / kind.vector_ops_cycle),
        buffer_cycles=max(read / kind.input_bus_bytes, written / kind.psum_write_bus_bytes),
        dram_input_bytes=read * kind.input_compression,
        dram_weight_bytes=parameters * kind.weight_compression,
        dram_output_bytes=written * kind.output_compression,
        buffer_bytes=2.0 * (read + written),
        noc_bytes=read + parameters + written,
        pe_bytes=0.0,
        macs=0,
        vector_ops=layer.ops,
        mapping={},
    )
