"""Write a network as code: activations go in, layers are recorded, a DnnModel comes out.

Networks are built as they are deployed: batch normalization is folded into its convolution, which keeps one
bias per channel. Activation functions are applied where the layer writes its result. Concatenation costs
nothing, because every branch writes to its own part of the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TypedDict, Unpack

from eunomia.core.errors import ModelError
from eunomia.workload.model import DnnModel, Layer, LayerKind

SOFTMAX_OPS = 5  # per element: maximum, subtract, exponential, sum, divide
NORM_OPS = 6  # per element: two for the mean and the variance, subtract, scale by deviation, scale, shift

Size = int | tuple[int, int]


class ConvForm(TypedDict, total=False):
    """How a convolution differs from a plain one: one group, no dilation, with bias, without batch normalization."""

    groups: int
    dilation: Size
    bias: bool
    norm: bool


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation: its shape, and the layers that write it (none for an input, several after concat).

    Token sequences have ``height`` tokens of ``channels`` features and ``width`` 1.
    """

    channels: int
    height: int
    width: int
    producers: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.channels * self.height * self.width


def pair(value: Size) -> tuple[int, int]:
    """Height and width of a size given as one number or as two."""
    return (value, value) if isinstance(value, int) else value


def window_output(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    """Positions of a sliding window along one side, ``padding`` on both ends."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    steps = -(-room // stride) if ceil else room // stride
    if ceil and steps * stride >= size + padding:  # a window must start inside the input
        steps -= 1
    if room < 0:
        raise ModelError(
            f"a window of {kernel} (dilation {dilation}) does not fit into {size} + 2 x {padding}"
        )
    return steps + 1


class NetworkBuilder:
    """Collects layers and edges in the order of the calls, which is a topological order."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source
        self._layers: list[Layer] = []
        self._edges: list[tuple[int, int]] = []
        self._folded = 0
        self._shared = 0

    def build(self) -> DnnModel:
        """The finished network."""
        return DnnModel(
            self.name,
            tuple(self._layers),
            tuple(self._edges),
            self.source,
            folded_params=self._folded,
            shared_params=self._shared,
        )

    def conv(
        self,
        name: str,
        x: Tensor,
        channels: int,
        kernel: Size,
        stride: Size = 1,
        padding: Size | None = None,
        **form: Unpack[ConvForm],
    ) -> Tensor:
        """A convolution; ``padding`` None keeps the size at stride 1; ``norm`` folds a batch
        normalization into it (the convolution itself then has no bias)."""
        groups, norm = form.get("groups", 1), form.get("norm", False)
        (kh, kw), (sh, sw), (dh, dw) = pair(kernel), pair(stride), pair(form.get("dilation", 1))
        ph, pw = (dh * (kh - 1) // 2, dw * (kw - 1) // 2) if padding is None else pair(padding)
        out_h = window_output(x.height, kh, sh, ph, dh, False)
        out_w = window_output(x.width, kw, sw, pw, dw, False)
        self._folded += channels if norm else 0
        layer = Layer(
            name,
            "conv",
            1,
            groups,
            x.channels,
            channels,
            x.height,
            x.width,
            out_h,
            out_w,
            kh,
            kw,
            sh,
            sw,
            dh,
            dw,
            weight_elements=channels * (x.channels // groups) * kh * kw
            + (channels if form.get("bias", True) or norm else 0),
        )
        return self._append(layer, Tensor(channels, out_h, out_w), x)

    def up_conv(self, name: str, x: Tensor, channels: int, kernel: int) -> Tensor:
        """A transposed convolution whose stride equals its kernel, so no two windows overlap.

        It is a product at every input position with ``kernel * kernel * channels`` results, which
        land next to each other: MACs = positions x input channels x results.
        """
        results = channels * kernel * kernel
        layer = Layer(
            name,
            "conv",
            in_channels=x.channels,
            out_channels=results,
            in_h=x.height,
            in_w=x.width,
            out_h=x.height,
            out_w=x.width,
            weight_elements=x.channels * results + channels,
        )
        return self._append(layer, Tensor(channels, x.height * kernel, x.width * kernel), x)

    def dense(
        self, name: str, x: Tensor, channels: int, *, bias: bool = True, shared: bool = False
    ) -> Tensor:
        """A fully connected layer, applied to every token; ``shared`` weights are stored elsewhere too."""
        tokens = x.height * x.width
        weights = x.channels * channels
        self._shared += weights if shared else 0
        layer = Layer(
            name,
            "matmul",
            in_channels=x.channels,
            out_channels=channels,
            in_h=tokens,
            out_h=tokens,
            weight_elements=weights + (channels if bias else 0),
        )
        return self._append(layer, Tensor(channels, x.height, x.width), x)

    def attention_product(
        self, name: str, x: Tensor, *operands: Tensor, heads: int, inner: int, columns: int
    ) -> Tensor:
        """For every head, rows x inner times inner x columns; ``operands`` hold the second factor and
        may reach back to a cache, which is why its size is ``heads * inner * columns``."""
        layer = Layer(
            name,
            "matmul",
            batch=heads,
            in_channels=inner,
            out_channels=columns,
            in_h=x.height,
            out_h=x.height,
            operand_elements=heads * inner * columns,
        )
        return self._append(layer, Tensor(columns, x.height, heads), x, *operands)

    def pool(
        self, name: str, x: Tensor, kernel: Size, stride: Size, padding: Size = 0, *, ceil: bool = False
    ) -> Tensor:
        """Maximum or average pooling: one operation per element of a window."""
        (kh, kw), (sh, sw), (ph, pw) = pair(kernel), pair(stride), pair(padding)
        out_h = window_output(x.height, kh, sh, ph, 1, ceil)
        out_w = window_output(x.width, kw, sw, pw, 1, ceil)
        layer = Layer(
            name,
            "pool",
            1,
            x.channels,
            x.channels,
            x.channels,
            x.height,
            x.width,
            out_h,
            out_w,
            kh,
            kw,
            sh,
            sw,
            ops=x.channels * out_h * out_w * kh * kw,
        )
        return self._append(layer, Tensor(x.channels, out_h, out_w), x)

    def global_pool(self, name: str, x: Tensor) -> Tensor:
        """Average over all positions."""
        return self.pool(name, x, (x.height, x.width), 1)

    def add(self, name: str, x: Tensor, *others: Tensor) -> Tensor:
        """Sum of activations of one shape."""
        return self._pointwise(name, "elementwise", x, len(others), others)

    def scale(self, name: str, x: Tensor, ops: int, *, weights: int = 0) -> Tensor:
        """Any function of single elements, ``ops`` operations each."""
        return self._pointwise(name, "elementwise", x, ops, (), weights)

    def layer_norm(self, name: str, x: Tensor) -> Tensor:
        """Normalization over the features of a token, with scale and shift."""
        return self._pointwise(name, "norm", x, NORM_OPS, (), 2 * x.channels)

    def local_response_norm(self, name: str, x: Tensor, size: int) -> Tensor:
        """AlexNet's normalization over ``size`` neighbouring channels."""
        return self._pointwise(name, "norm", x, 2 * size + 2)

    def softmax(self, name: str, x: Tensor) -> Tensor:
        """Softmax."""
        return self._pointwise(name, "softmax", x, SOFTMAX_OPS)

    def move(self, name: str, x: Tensor, channels: int, height: int, width: int) -> Tensor:
        """Elements copied to another shape or order: upsampling, reorganization."""
        layer = Layer(
            name,
            "reshape",
            in_channels=x.channels,
            in_h=x.height,
            in_w=x.width,
            out_channels=channels,
            out_h=height,
            out_w=width,
        )
        return self._append(layer, Tensor(channels, height, width), x)

    def embed(self, name: str, x: Tensor, rows: int, channels: int) -> Tensor:
        """One row of a table of ``rows`` for every token."""
        layer = Layer(
            name,
            "gather",
            in_h=x.height,
            out_h=x.height,
            out_channels=channels,
            weight_elements=rows * channels,
        )
        return self._append(layer, Tensor(channels, x.height, 1), x)

    def concat(self, *parts: Tensor) -> Tensor:
        """Channels side by side; costs nothing."""
        producers = tuple(sorted({p for part in parts for p in part.producers}))
        return replace(parts[0], channels=sum(part.channels for part in parts), producers=producers)

    def flatten(self, x: Tensor) -> Tensor:
        """All elements as features of one token; costs nothing."""
        return Tensor(x.elements, 1, 1, x.producers)

    def _pointwise(
        self,
        name: str,
        kind: LayerKind,
        x: Tensor,
        ops: int,
        others: tuple[Tensor, ...] = (),
        weights: int = 0,
    ) -> Tensor:
        layer = Layer(
            name,
            kind,
            in_channels=x.channels,
            out_channels=x.channels,
            in_h=x.height,
            in_w=x.width,
            out_h=x.height,
            out_w=x.width,
            weight_elements=weights,
            operand_elements=prod((len(others), x.elements)),
            ops=ops * x.elements,
        )
        return self._append(layer, x, x, *others)

    def _append(self, layer: Layer, shape: Tensor, *inputs: Tensor) -> Tensor:
        index = len(self._layers)
        self._layers.append(layer)
        self._edges.extend({(p, index) for x in inputs for p in x.producers})
        return replace(shape, producers=(index,))
