"""The analytical cost model: (layer, accelerator type) -> LayerCost. See docs/cost-model.md.

Latency is a roof over array, buffer and DRAM; each dataflow brings its own mapping search.
"""

from __future__ import annotations

from collections.abc import Callable

from eunomia.core.errors import PlatformError
from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.layer_cost import LayerCost, Traffic, price
from eunomia.hardware.nest import Nest, nest_of
from eunomia.hardware.own_dataflow import own_dataflow
from eunomia.hardware.package import package_cost
from eunomia.hardware.row_stationary import row_stationary
from eunomia.hardware.systolic import systolic_output, systolic_weight
from eunomia.hardware.vector import vector_layer
from eunomia.hardware.weight_stationary import weight_stationary
from eunomia.workload.model import Layer

MODEL_VERSION = "3"  # raise with every change of the model's numbers: cached tables are rebuilt

_SEARCHES: dict[str, Callable[[Nest, AcceleratorType], Traffic | None]] = {
    "row_stationary": row_stationary,
    "weight_stationary": weight_stationary,
    "systolic_weight": systolic_weight,
    "systolic_output": systolic_output,
}


def layer_cost(layer: Layer, kind: AcceleratorType) -> LayerCost:
    """Cost of one layer on one type, terms apart, batch included.

    Raises PlatformError where not even the smallest tile of the layer fits into the global buffer. Raises ConfigError
    for a dataflow of one's own that breaks its contract.
    """
    if kind.package is not None:
        return package_cost(layer, kind, layer_cost)
    search = _SEARCHES.get(kind.dataflow, own_dataflow)
    traffic = search(nest_of(layer), kind) if layer.has_macs else vector_layer(layer, kind)
    if traffic is None:
        own = f"no mapping of dataflow '{kind.dataflow}' fits its elements, or"
        raise PlatformError(
            f"layer '{layer.name}' does not fit on accelerator type '{kind.name}': "
            f"{'' if kind.dataflow in _SEARCHES else own + ' '}not even its smallest tile "
            f"goes into {kind.usable_buffer_bytes} usable bytes of global buffer"
        )
    return price(traffic, kind)
