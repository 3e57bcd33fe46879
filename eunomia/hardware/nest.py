"""A layer as the loop nest that the mapping searches read: groups x batch x K x C x P x Q x R x S."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.core.arrays import Ints
from eunomia.workload.model import Layer


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops of one layer; channel counts are per group.

    Products whose second operand is an activation (``weight_elements = 0``) have their own operand
    per batch entry, so their batch counts as groups.
    """

    groups: int
    batch: int  # inferences that share weights
    k: int  # filters per group
    c: int  # input channels per group
    p: int  # output rows
    q: int  # output columns
    r: int  # kernel rows
    s: int  # kernel columns
    stride_h: int
    stride_w: int
    span_h: int  # input rows under one output: (r - 1) dilation + 1
    span_w: int
    in_h: int
    in_w: int
    input_elements: int
    operand_elements: int  # the second operand: weights, or activations of an attention product
    extra_elements: int  # further activations read once
    output_elements: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.groups * self.batch * self.k * self.c * self.p * self.q * self.r * self.s

    @property
    def overlap_h(self) -> int:
        """Input rows that two neighbouring bands of outputs both need."""
        return max(0, self.span_h - self.stride_h)

    @property
    def overlap_w(self) -> int:
        """Input columns that two neighbouring bands of outputs both need."""
        return max(0, self.span_w - self.stride_w)

    @property
    def padded_h(self) -> int:
        """Input rows, zero padding included."""
        return max(self.in_h, (self.p - 1) * self.stride_h + self.span_h)

    @property
    def padded_w(self) -> int:
        """Input columns, zero padding included."""
        return max(self.in_w, (self.q - 1) * self.stride_w + self.span_w)


def nest_of(layer: Layer) -> Nest:
    """The loops of a layer with MACs."""
    kernel = layer.out_channels * (layer.in_channels // layer.groups) * layer.kernel_h * layer.kernel_w
    own = layer.weight_elements == 0 and layer.operand_elements > 0  # one operand per batch entry
    return Nest(
        groups=layer.groups * (layer.batch if own else 1),
        batch=1 if own else layer.batch,
        k=layer.out_channels // layer.groups,
        c=layer.in_channels // layer.groups,
        p=layer.out_h,
        q=layer.out_w,
        r=layer.kernel_h,
        s=layer.kernel_w,
        stride_h=layer.stride_h,
        stride_w=layer.stride_w,
        span_h=(layer.kernel_h - 1) * layer.dilation_h + 1,
        span_w=(layer.kernel_w - 1) * layer.dilation_w + 1,
        in_h=layer.in_h,
        in_w=layer.in_w,
        input_elements=layer.input_elements,
        operand_elements=layer.operand_elements if own else max(layer.weight_elements, kernel),
        extra_elements=0 if own else layer.operand_elements,
        output_elements=layer.output_elements,
    )


def block_sizes(n: int, most: int) -> Ints:
    """Sizes that cut ``n`` into 1, 2, ... 8, 12, 16, 24, ... n blocks, at most ``most`` of them, falling."""
    counts, count = list(range(1, 9)), 8
    while count < n:
        counts += [count * 3 // 2, count * 2]
        count *= 2
    kept = [c for c in counts if c < n][: max(1, most - 1)]
    return np.array(sorted({-(-n // c) for c in [*kept, n]}, reverse=True), np.int64)


def ceil_div(a: npt.NDArray[np.int64] | int, b: npt.NDArray[np.int64] | int) -> Ints:
    """Quotient rounded up, element by element."""
    return np.asarray(-(-np.asarray(a, np.int64) // np.asarray(b, np.int64)), np.int64)
