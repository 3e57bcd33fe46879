"""What comes into a network and what it answers with: names, datatypes, shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.errors import ModelError
from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES, MAX_TENSORS, Port, Ports
from eunomia.serving.devices.strings import BYTES

if TYPE_CHECKING:
    import onnx

MAX_NAME = 1000  # letters of a tensor's name in a request
MAX_RANK = 16  # axes of a tensor in a request
MOST_WORDS = (
    64 * 1024
)  # bytes of JSON beside the values: a request for all outputs of a decoder of 120 layers
MOST_LETTERS = 32_000  # of inputs and their axes, in a message
CAST, SPLIT = "put a node Cast between it and the network", "give real and imaginary parts as two tensors"
ZIPMAP_OPTION = ("skl2onnx", "OnnxMLTools")  # exporters that can leave maps out


def has_texts(ports: Ports) -> bool:
    """Whether any input or output is of texts."""
    return any(port["datatype"] == BYTES for port in (*ports["inputs"], *ports["outputs"]))


def ports_of(model: onnx.ModelProto) -> Ports:
    """Names, datatypes and shapes of inputs and outputs; -1 = any size. Raises ModelError for what no request names."""
    weights = {w.name for w in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights]
    ports: Ports = {
        "inputs": [_port(v, model) for v in inputs],
        "outputs": [_port(v, model) for v in {v.name: v for v in model.graph.output}.values()],
        "unranked": [v.name for v in inputs if not v.type.tensor_type.HasField("shape")],
        "axes": _axes(inputs),
    }
    check_ports(ports)
    if {v.name for v in model.graph.output} <= {v.name for v in inputs}:
        raise ModelError("it computes nothing: all its outputs are inputs; put a node Identity between them")
    return ports


def check_ports(ports: Ports) -> None:
    """That a request may name them; raises ModelError."""
    if not ports["outputs"]:
        raise ModelError("it has no outputs: its graph must name what it answers with")
    for what, several in (("inputs", ports["inputs"]), ("outputs", ports["outputs"])):
        if len(several) > MAX_TENSORS:
            raise ModelError(
                f"it has {len(several)} {what}; a request has at most {MAX_TENSORS}: join some of them in the file"
            )
        for port in several:
            _check_bounds(port)
    _check_names(ports["inputs"])


def _axes(inputs: Sequence[onnx.ValueInfoProto]) -> dict[str, list[str]]:
    """Names of free axes; none at all where they are too many for a message."""
    found = {v.name: [d.dim_param for d in v.type.tensor_type.shape.dim] for v in inputs}
    named = {name: axes for name, axes in found.items() if any(axes)}
    return (
        named
        if sum(len(text) for pair in named.items() for text in (pair[0], *pair[1])) <= MOST_LETTERS
        else {}
    )


def _check_names(inputs: Sequence[Port]) -> None:
    """That one request may name them all; raises ModelError."""
    said = [{**port, "shape": [1] * len(port["shape"])} for port in inputs]
    if (size := len(json.dumps({"inputs": said}))) > MOST_WORDS:
        raise ModelError(
            f"its {len(inputs)} inputs make requests of {size} bytes beside the values; at most {MOST_WORDS} are "
            "taken: give the inputs shorter names in the file"
        )


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


def _port(value: onnx.ValueInfoProto, model: onnx.ModelProto) -> Port:
    import onnx

    if value.type.WhichOneof("value") != "tensor_type":
        what, remedy = _no_tensor(value, model)
        raise ModelError(f"'{value.name}' is {what}, and only tensors come in and out: {remedy}")
    kind = value.type.tensor_type
    name = onnx.TensorProto.DataType.Name(kind.elem_type)
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        datatype = "BF16" if name == "BFLOAT16" else DATATYPE_OF[dtype]  # older onnx calls it a float
    except KeyError:
        known, remedy = ", ".join(DATATYPES), SPLIT if name.startswith("COMPLEX") else CAST
        raise ModelError(f"tensor '{value.name}' holds {name}; the server takes {known}: {remedy}") from None
    shape = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
    if not kind.HasField("shape"):
        shape = [-1]  # of any rank: the protocol has no word for it
    return {"name": value.name, "datatype": datatype, "shape": shape}


def _no_tensor(value: onnx.ValueInfoProto, model: onnx.ModelProto) -> tuple[str, str]:
    """What it is, and what helps against that."""
    kind, of = str(value.type.WhichOneof("value")).removesuffix("_type"), ""
    if kind == "sequence":
        of = str(value.type.sequence_type.elem_type.WhichOneof("value")).removesuffix("_type")
    if "map" in (kind, of):
        what = "a map" if kind == "map" else "a sequence of maps"
        node = next((n for n in model.graph.node if n.op_type == "ZipMap" and value.name in n.output), None)
        if node is None:
            return what, "export its columns as tensors"
        if model.producer_name in ZIPMAP_OPTION:
            return what, "export it with zipmap=False"
        return (
            what,
            f"take the node ZipMap out of the file, and name its input '{node.input[0]}' as the output",
        )
    if kind == "sequence":
        return f"a sequence of {of}s", "export each of its members as a tensor of its own"
    if kind == "optional":
        return "an optional", "export it as a tensor that is always there"
    return f"a {kind.replace('_', ' ')}", "export it as a dense tensor"
