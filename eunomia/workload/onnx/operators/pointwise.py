"""Functions of single elements, and reductions.

A function of one activation is applied where the layer before it writes its result, if nothing else
reads that result: activation functions, biases, scales cost no layer of their own then.
"""

from __future__ import annotations

from math import prod

from eunomia.workload.onnx.network import Network, Node, Value, plain_layer

# operations per element: rough, for layers whose time is the time of their bytes
_SIMPLE = (
    "Abs Add And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Div Equal Floor Greater "
    "GreaterOrEqual IsInf IsNaN LeakyRelu Less LessOrEqual Max Min Mod Mul Neg Not Or PRelu Relu Round Sign Sub "
    "Sum ThresholdedRelu Where Xor Mean Shrink Bernoulli DynamicQuantizeLinear"
)
_COSTLY = (
    "Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Exp Gelu HardSigmoid HardSwish Log Mish Pow "
    "Reciprocal Selu Sigmoid Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh"
)
_REDUCTIONS = (
    "ArgMax ArgMin CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum ReduceSumSquare"
)
_RUNTIME = {  # ONNX Runtime's own
    "Gelu": 4, "FastGelu": 4, "BiasGelu": 5, "QuickGelu": 4, "BiasAdd": 1, "BiasDropout": 1,
}  # fmt: skip

OPS = {op: 1 for op in _SIMPLE.split()} | {op: 4 for op in _COSTLY.split()}


def pointwise(node: Node, net: Network) -> tuple[int, ...]:
    """Any function of single elements, with broadcasting; of single numbers without axes it costs nothing."""
    distinct = {value.name: value for value in node.activations()}.values()
    first, *rest = sorted(distinct, key=lambda value: not value.shape)  # single numbers last
    fixed = [value for value in node.inputs if value is not None and _is_weight(value, node, net)]
    out = node.shape()
    if net.fuse and not out and first.producers:
        return tuple(dict.fromkeys(p for value in (first, *rest) for p in value.producers))
    ops = (_RUNTIME[node.op] if node.domain else OPS[node.op]) * prod(out)
    target = net.target(first, fixed)
    if target is not None and first.elements == prod(out) and all(_joins(value, first) for value in rest):
        net.absorb(target, ops, fixed, linear=node.op == "Add", inputs=rest)
        return first.producers
    operand = sum(value.elements for value in rest)
    layer = plain_layer(node.name, "elementwise", first.shape, out, operand=operand, ops=ops)
    return net.add(layer, [first, *rest], weights=fixed)


def _joins(value: Value, first: Value) -> bool:
    """Whether a further input is at hand where ``first`` is written: another result of the same layer, or
    one number (the scale of a dynamic quantization) that was known before."""
    if not value.shape and max(value.producers, default=-1) < min(first.producers):
        return True
    return value.exclusive and value.producers == first.producers


def _is_weight(value: Value, node: Node, net: Network) -> bool:
    """Whether a fixed input is weights: a table, one slope, or the bias of a product's only column.

    Any other single number belongs to the formula.
    """
    if not value.static or value.elements > 1:
        return value.static
    if node.op == "PRelu":
        return True
    before = [net.layers[index] for x in node.activations() for index in x.producers]
    return (
        node.op == "Add"
        and len(before) == 1
        and before[0].weight_elements > 0
        and before[0].out_channels == 1
    )


def rotary(node: Node, net: Network) -> tuple[int, ...]:
    """RotaryEmbedding: three operations per element; its tables are no learned weights."""
    x = node.value(0)
    layer = plain_layer(node.name, "elementwise", x.shape, x.shape, operand=x.shape[-1], ops=3 * x.elements)
    return net.add(layer, node.activations())


def reduction(node: Node, net: Network) -> tuple[int, ...]:
    """Sums, maxima and the like along axes: one operation per input element."""
    x = node.value(0)
    return net.add(
        plain_layer(node.name, "elementwise", x.shape, node.shape(), ops=x.elements), node.activations()
    )


HANDLERS = {
    **{("", op): pointwise for op in OPS},
    **{("com.microsoft", op): pointwise for op in _RUNTIME},
    **{("", op): reduction for op in _REDUCTIONS.split()},
    ("com.microsoft", "ReduceMean"): reduction,  # the one that QLinearReduceMean stands for
    ("", "RotaryEmbedding"): rotary,
    ("com.microsoft", "RotaryEmbedding"): rotary,
}
