"""Small ONNX files for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from eunomia.workload.model import DnnModel
from eunomia.workload.onnx import read_onnx

Dim = int | str | None


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: object) -> onnx.NodeProto:
    return helper.make_node(
        op, list(inputs), list(outputs), name=attributes.pop("name", outputs[0]), **attributes
    )


def weights(name: str, *shape: int) -> onnx.TensorProto:
    """A tensor of weights without its data, as a file with external data has it."""
    tensor = TensorProto(
        name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="absent.bin")
    return tensor


def numbers(name: str, values: object, kind: type = np.int64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, kind), name)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[Dim]],
    stored: Sequence[onnx.TensorProto] = (),
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 21,
    contrib: bool = False,
    kinds: dict[str, int] | None = None,
) -> onnx.ModelProto:
    entries = [
        helper.make_tensor_value_info(name, (kinds or {}).get(name, TensorProto.FLOAT), list(shape))
        for name, shape in inputs.items()
    ]
    results = [
        helper.make_value_info(name, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
        for name in outputs
    ]
    made = helper.make_graph(list(nodes), "g", entries, results, list(stored))
    opsets = [helper.make_opsetid("", opset)]
    if contrib:
        opsets.append(helper.make_opsetid("com.microsoft", 1))
    return helper.make_model(made, opset_imports=opsets)


def read(folder: Path, model: onnx.ModelProto, **settings: object) -> DnnModel:
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return read_onnx(path, **settings)  # type: ignore[arg-type]
