"""Which function turns which operator into layers.

A handler gets a node whose result depends on the input of the network; everything else is computed once,
before deployment. It returns the indices of the layers that write its outputs.
"""

from __future__ import annotations

from collections.abc import Callable

from eunomia.core.errors import ModelError
from eunomia.workload.onnx.network import Network, Node
from eunomia.workload.onnx.operators import (
    attention,
    convolution,
    einsum,
    movement,
    normalization,
    pointwise,
    pooling,
    product,
    recurrent,
)

Handler = Callable[[Node, Network], tuple[int, ...]]

_MODULES = (
    convolution, product, einsum, attention, recurrent, pooling, normalization, pointwise, movement
)  # fmt: skip

HANDLERS: dict[tuple[str, str], Handler] = {
    key: h for module in _MODULES for key, h in module.HANDLERS.items()
}


def handler(domain: str, op: str) -> Handler:
    """The function for an operator; raises ModelError that names its domain."""
    found = HANDLERS.get((domain, op))
    if found is None:
        why = "it is not known what it costs"
        if domain == "com.microsoft.nchwc":
            why = (
                "its layout is that of one processor; let ONNX Runtime write the file at ORT_ENABLE_EXTENDED"
            )
        raise ModelError(f"operator '{op}' of domain '{domain or 'ai.onnx'}' is not supported: {why}")
    return found
