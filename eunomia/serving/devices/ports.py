"""What comes into a network and what it answers with: names, datatypes, shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.errors import ModelError
from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES, MAX_TENSORS, Port, Ports

if TYPE_CHECKING:
    import onnx

MAX_NAME = 1000  # letters of a tensor's name in a request
MAX_RANK = 16  # axes of a tensor in a request


def ports_of(model: onnx.ModelProto) -> Ports:
    """Names, datatypes and shapes of inputs and outputs; -1 = any size. Raises ModelError for what no request names."""
    weights = {w.name for w in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights]
    ports: Ports = {
        "inputs": [_port(v) for v in inputs],
        "outputs": [_port(v) for v in {v.name: v for v in model.graph.output}.values()],
        "unranked": [v.name for v in inputs if not v.type.tensor_type.HasField("shape")],
    }
    if not ports["outputs"]:
        raise ModelError("it has no outputs: its graph must name what it answers with")
    for what, several in (("inputs", ports["inputs"]), ("outputs", ports["outputs"])):
        if len(several) > MAX_TENSORS:
            raise ModelError(f"it has {len(several)} {what}; a request has at most {MAX_TENSORS}")
        for port in several:
            _check_bounds(port)
    return ports


def _check_bounds(port: Port) -> None:
    """That a request may name such a tensor; raises ModelError."""
    name, axes = port["name"], len(port["shape"])
    if len(name) > MAX_NAME:
        raise ModelError(
            f"the name of tensor '{name[:40]}...' has {len(name)} letters; those of requests have at most "
            f"{MAX_NAME}: rename it in the file"
        )
    if axes > MAX_RANK:
        raise ModelError(
            f"tensor '{name}' has {axes} axes; those of requests have at most {MAX_RANK}: join some in the file"
        )


def ranked(ports: Ports, shapes: Mapping[str, Sequence[int]]) -> Ports:
    """The same, but inputs without a rank have that of their trial shape, in which every size is free."""
    unranked = ports.get("unranked", [])
    known = {name: [-1] * len(shapes[name]) for name in unranked if name in shapes}
    inputs: list[Port] = [
        {**port, "shape": known.get(port["name"], port["shape"])} for port in ports["inputs"]
    ]
    return {**ports, "inputs": inputs, "unranked": [name for name in unranked if name not in known]}


def _port(value: onnx.ValueInfoProto) -> Port:
    import onnx

    if (what := value.type.WhichOneof("value")) != "tensor_type":
        raise ModelError(
            f"'{value.name}' is a {str(what).removesuffix('_type')}, and only tensors come in and out: export it as "
            "tensors (of scikit-learn with zipmap=False)"
        )
    kind = value.type.tensor_type
    name = onnx.TensorProto.DataType.Name(kind.elem_type)
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        datatype = "BF16" if name == "BFLOAT16" else DATATYPE_OF[dtype]  # older onnx calls it a float
    except KeyError:
        known = ", ".join(DATATYPES)
        raise ModelError(f"tensor '{value.name}' holds {name}; the server takes {known}") from None
    shape = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
    if not kind.HasField("shape"):
        shape = [-1]  # of any rank: the protocol has no word for it
    return {"name": value.name, "datatype": datatype, "shape": shape}
