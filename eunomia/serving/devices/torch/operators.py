"""ONNX operators of convolutional and dense networks as PyTorch functions; what is missing is said by name.

Each entry makes, once per node, a function of the node's input tensors; sizes, axes and bounds must be constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from eunomia.core.arrays import Tensor
from eunomia.core.errors import ModelError

Function = Callable[..., torch.Tensor]
Attributes = Mapping[str, Any]
Constants = Sequence[
    Tensor | None
]  # the node's inputs that are weights, as NumPy arrays; None for the others


def function_of(kind: str, attributes: Attributes, constants: Constants) -> Function:
    """A function of the node's input tensors, in order (None = left out). Raises ModelError."""
    make = OPERATORS.get(kind)
    if make is None:
        raise ModelError(
            f"operator {kind} is not offered on a torch device; offered are {', '.join(sorted(OPERATORS))}"
        )
    return make(attributes, constants)


def _plain(function: Function) -> Callable[[Attributes, Constants], Function]:
    return lambda attributes, constants: function


def _known(constants: Constants, place: int, what: str) -> Tensor | None:
    """An input that must be a constant; None when it is left out."""
    if place >= len(constants):
        return None
    if constants[place] is None:
        raise ModelError(f"{what} must be a constant on a torch device")
    return constants[place]


def _pads(attributes: Attributes) -> tuple[int, ...]:
    """Left, right, top, bottom, as torch pads: the last dimension first."""
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise ModelError("auto_pad is not offered on a torch device; export the network with explicit pads")
    pads = list(attributes.get("pads", ()))
    half = len(pads) // 2
    return tuple(p for n in reversed(range(half)) for p in (pads[n], pads[half + n]))


def _conv(attributes: Attributes, _: Constants) -> Function:
    pads, groups = _pads(attributes), attributes.get("group", 1)

    def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        rank = weight.dim() - 2
        stride = tuple(attributes.get("strides", [1] * rank))
        dilation = tuple(attributes.get("dilations", [1] * rank))
        convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
        if pads and pads[0::2] == pads[1::2]:
            return convolve(x, weight, bias, stride, tuple(reversed(pads[0::2])), dilation, groups)
        return convolve(
            functional.pad(x, pads) if any(pads) else x, weight, bias, stride, 0, dilation, groups
        )

    return run


def _max_pool(attributes: Attributes, _: Constants) -> Function:
    pads, kernel = _pads(attributes), tuple(attributes["kernel_shape"])
    stride = tuple(attributes.get("strides", [1] * len(kernel)))
    ceil = bool(attributes.get("ceil_mode", 0))

    def run(x: torch.Tensor) -> torch.Tensor:
        x = functional.pad(x, pads, value=-torch.inf) if any(pads) else x
        return functional.max_pool2d(x, kernel, stride, ceil_mode=ceil)

    return run


def _average_pool(attributes: Attributes, _: Constants) -> Function:
    pads, kernel = _pads(attributes), tuple(attributes["kernel_shape"])
    stride = tuple(attributes.get("strides", [1] * len(kernel)))
    if any(pads) and not attributes.get("count_include_pad", 0):
        raise ModelError("AveragePool that leaves padding out is not offered on a torch device")
    return lambda x: functional.avg_pool2d(functional.pad(x, pads) if any(pads) else x, kernel, stride)


def _clip(attributes: Attributes, constants: Constants) -> Function:
    low = _known(constants, 1, "Clip's lower bound") if len(constants) > 1 else attributes.get("min")
    high = _known(constants, 2, "Clip's upper bound") if len(constants) > 2 else attributes.get("max")
    bounds = [None if b is None or getattr(b, "size", 1) == 0 else float(b) for b in (low, high)]
    return lambda x, *_: torch.clamp(x, *bounds)


def _gemm(attributes: Attributes, _: Constants) -> Function:
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)

    def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        a = a.T if attributes.get("transA") else a
        b = b.T if attributes.get("transB") else b
        if c is None:
            scaled: torch.Tensor = alpha * (a @ b)
            return scaled
        return torch.addmm(c, a, b, alpha=alpha, beta=beta)

    return run


def _batch_norm(attributes: Attributes, _: Constants) -> Function:
    epsilon = attributes.get("epsilon", 1e-5)
    return lambda x, scale, bias, mean, var: functional.batch_norm(
        x, mean, var, scale, bias, False, 0.0, epsilon
    )


def _axes(attributes: Attributes, constants: Constants, what: str) -> list[int] | None:
    given = _known(constants, 1, f"{what}'s axes")
    given = attributes.get("axes") if given is None else given
    return None if given is None else [int(a) for a in given]


def _reduce_mean(attributes: Attributes, constants: Constants) -> Function:
    axes, keep = _axes(attributes, constants, "ReduceMean"), bool(attributes.get("keepdims", 1))
    return lambda x, *_: x.mean(dim=axes, keepdim=keep) if axes else x.mean()


def _reshape(attributes: Attributes, constants: Constants) -> Function:
    shape = _known(constants, 1, "Reshape's shape")
    assert shape is not None, "Reshape has two inputs"
    wanted = [int(d) for d in shape]
    return lambda x, *_: x.reshape([x.shape[n] if d == 0 else d for n, d in enumerate(wanted)])


def _flatten(attributes: Attributes, _: Constants) -> Function:
    axis = attributes.get("axis", 1)
    return lambda x: x.reshape(int(torch.tensor(x.shape[:axis]).prod()) if axis else 1, -1)


def _squeeze(attributes: Attributes, constants: Constants) -> Function:
    axes = _axes(attributes, constants, "Squeeze")
    return lambda x, *_: x.squeeze() if axes is None else x.squeeze(tuple(axes))


def _unsqueeze(attributes: Attributes, constants: Constants) -> Function:
    axes = sorted(_axes(attributes, constants, "Unsqueeze") or ())

    def run(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        for axis in axes:
            x = x.unsqueeze(axis)
        return x

    return run


OPERATORS: dict[str, Callable[[Attributes, Constants], Function]] = {
    "Add": _plain(torch.add),
    "Sub": _plain(torch.sub),
    "Mul": _plain(torch.mul),
    "Div": _plain(torch.div),
    "Pow": _plain(torch.pow),
    "MatMul": _plain(torch.matmul),
    "Relu": _plain(torch.relu),
    "Erf": _plain(torch.erf),
    "Sigmoid": _plain(torch.sigmoid),
    "Tanh": _plain(torch.tanh),
    "Sqrt": _plain(torch.sqrt),
    "Identity": _plain(lambda x: x),
    "Dropout": _plain(lambda x, *_: x),
    "HardSwish": _plain(functional.hardswish),
    "GlobalAveragePool": _plain(lambda x: x.mean(dim=(2, 3), keepdim=True)),
    "LeakyRelu": lambda a, _: lambda x: functional.leaky_relu(x, a.get("alpha", 0.01)),
    "Softmax": lambda a, _: lambda x: torch.softmax(x, a.get("axis", -1)),
    "Concat": lambda a, _: lambda *xs: torch.cat(xs, a["axis"]),
    "Transpose": lambda a, _: lambda x: x.permute(a.get("perm") or tuple(reversed(range(x.dim())))),
    "Conv": _conv,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "Clip": _clip,
    "Gemm": _gemm,
    "BatchNormalization": _batch_norm,
    "ReduceMean": _reduce_mean,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
