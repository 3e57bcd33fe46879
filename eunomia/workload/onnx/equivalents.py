"""The plain operator that computes the same as a quantized or a fused one of ONNX Runtime.

A quantized operator reads a scale and a zero point beside each tensor. What it costs, and the shape of
its result, are those of the plain operator on the tensors alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto

_MS = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A plain operator, and which inputs of the original one are its inputs."""

    op: str
    inputs: tuple[int, ...] | slice
    domain: str = ""
    element: int = 0  # type of the result's elements; 0 = that of the first input
    channels_last: bool = False  # activations are batch, axes, channels, whatever the node says

    def of(self, names: list[str]) -> list[str]:
        """The inputs of the plain operator out of ``names``; absent ones at the end are left out."""
        if isinstance(self.inputs, slice):
            return names[self.inputs]
        picked = [names[index] if index < len(names) else "" for index in self.inputs]
        while picked and not picked[-1]:
            picked.pop()
        return picked


_PLAIN: dict[tuple[str, str], Equivalent] = {
    ("", "ConvInteger"): Equivalent("Conv", (0, 1), element=TensorProto.INT32),
    ("", "MatMulInteger"): Equivalent("MatMul", (0, 1), element=TensorProto.INT32),
    ("", "QLinearConv"): Equivalent("Conv", (0, 3, 8)),
    ("", "QLinearMatMul"): Equivalent("MatMul", (0, 3)),
    (_MS, "QLinearConv"): Equivalent("Conv", (0, 3, 8)),
    (_MS, "QGemm"): Equivalent("Gemm", (0, 3, 6)),
    (_MS, "MatMulInteger16"): Equivalent("MatMul", (0, 1), element=TensorProto.INT32),
    (_MS, "MatMulIntegerToFloat"): Equivalent("MatMul", (0, 1, 6), element=TensorProto.FLOAT),
    (_MS, "DynamicQuantizeMatMul"): Equivalent("MatMul", (0, 1, 4)),
    (_MS, "QLinearAdd"): Equivalent("Add", (0, 3)),
    (_MS, "QLinearMul"): Equivalent("Mul", (0, 3)),
    (_MS, "QLinearWhere"): Equivalent("Where", (0, 1, 4)),
    (_MS, "QLinearSigmoid"): Equivalent("Sigmoid", (0,)),
    (_MS, "QLinearLeakyRelu"): Equivalent("LeakyRelu", (0,)),
    (_MS, "QLinearSoftmax"): Equivalent("Softmax", (0,)),
    (_MS, "QLinearConcat"): Equivalent("Concat", slice(2, None, 3)),
    (_MS, "QLinearAveragePool"): Equivalent("AveragePool", (0,)),
    (_MS, "QLinearGlobalAveragePool"): Equivalent("GlobalAveragePool", (0,)),
    (_MS, "QLinearReduceMean"): Equivalent("ReduceMean", (0,), _MS),
    (_MS, "QAttention"): Equivalent("Attention", (0, 1, 2, 5, 8), _MS, TensorProto.FLOAT),
    (_MS, "QEmbedLayerNormalization"): Equivalent("EmbedLayerNormalization", tuple(range(8)), _MS, TensorProto.FLOAT),
    (_MS, "NhwcMaxPool"): Equivalent("MaxPool", (0,), channels_last=True),
    (_MS, "TransposeMatMul"): Equivalent("FusedMatMul", (0, 1), _MS),
    (_MS, "FusedMatMulActivation"): Equivalent("FusedMatMul", (0, 1), _MS),
    (_MS, "GemmFastGelu"): Equivalent("MatMul", (0, 1, 2)),
    (_MS, "BiasSoftmax"): Equivalent("Softmax", (0, 1)),
    (_MS, "GatherND"): Equivalent("GatherND", (0, 1)),
    (_MS, "GridSample"): Equivalent("GridSample", (0, 1)),
    (_MS, "Pad"): Equivalent("Pad", (0, 1, 2)),
    (_MS, "Trilu"): Equivalent("Trilu", (0, 1)),
}  # fmt: skip


def equivalent(domain: str, op: str) -> Equivalent | None:
    """The plain operator, None for one that is plain already."""
    return _PLAIN.get((domain, op))


def quantizes(op: str) -> bool:
    """Whether an operator has 8-bit tensors where its plain equivalent has floats."""
    return op.startswith(("QLinear", "QGemm", "QAttention", "QEmbed", "DynamicQuantize")) or "Integer" in op


def channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Batch, axes, channels as batch, channels, axes."""
    return (shape[0], shape[-1], *shape[1:-1]) if len(shape) > 2 else shape


def channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Batch, channels, axes as batch, axes, channels."""
    return (shape[0], *shape[2:], shape[1]) if len(shape) > 2 else shape
