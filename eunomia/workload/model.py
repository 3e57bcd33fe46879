"""A neural network as the scheduler sees it: a DAG of layers with shapes, MACs and bytes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Literal, get_args

from eunomia.core.errors import ModelError

LayerKind = Literal["conv", "matmul", "pool", "elementwise", "norm", "softmax", "reshape", "gather"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer, written as a (grouped, dilated) convolution loop nest.

    ``conv``: out[b, k, y, x] = sum over c/groups, kernel_h, kernel_w. A fully connected layer is a
    ``matmul`` with ``out_h`` rows (tokens), ``in_channels`` summed, ``out_channels`` columns, and
    ``batch`` independent products; attention products are ``matmul`` with ``weight_elements = 0``
    and the second activation counted in ``operand_elements``. All other kinds have no MACs and cost
    ``ops`` simple operations and their bytes. Channel counts are totals over groups. A ``gather``
    (embedding) stores ``weight_elements`` but reads only the rows that it outputs.
    """

    name: str
    kind: LayerKind
    batch: int = 1
    groups: int = 1
    in_channels: int = 1
    out_channels: int = 1
    in_h: int = 1
    in_w: int = 1
    out_h: int = 1
    out_w: int = 1
    kernel_h: int = 1
    kernel_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    weight_elements: int = 0  # stored parameters, bias included
    operand_elements: int = 0  # further activations read: residual input, attention operand
    ops: int = 0  # simple operations of layers without MACs

    def __post_init__(self) -> None:
        if self.kind not in get_args(LayerKind):
            kinds = ", ".join(get_args(LayerKind))
            raise ModelError(f"layer '{self.name}' has unknown kind '{self.kind}'; choose one of: {kinds}")
        for name in (
            "batch",
            "groups",
            "in_channels",
            "out_channels",
            "in_h",
            "in_w",
            "out_h",
            "out_w",
            "kernel_h",
            "kernel_w",
            "stride_h",
            "stride_w",
            "dilation_h",
            "dilation_w",
        ):
            if not isinstance(getattr(self, name), int):
                raise ModelError(
                    f"layer '{self.name}' has {name} = {getattr(self, name)!r}; it must be a whole number"
                )
            if getattr(self, name) < 1:
                raise ModelError(
                    f"layer '{self.name}' has {name} = {getattr(self, name)}; it must be at least 1"
                )
        for name in ("weight_elements", "operand_elements", "ops"):
            if getattr(self, name) < 0:
                raise ModelError(
                    f"layer '{self.name}' has {name} = {getattr(self, name)}; it must not be negative"
                )
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ModelError(
                f"layer '{self.name}' has {self.groups} groups, which do not divide its "
                f"{self.in_channels} input and {self.out_channels} output channels"
            )

    @property
    def has_macs(self) -> bool:
        """Whether the layer multiplies and accumulates on the array (convolution, product)."""
        return self.kind in ("conv", "matmul")

    @property
    def macs(self) -> int:
        """Multiply-accumulates; bias additions are not counted."""
        if not self.has_macs:
            return 0
        return self.output_elements * (self.in_channels // self.groups) * self.kernel_h * self.kernel_w

    @property
    def input_elements(self) -> int:
        """Elements of the main input, each counted once; ``operand_elements`` come on top."""
        return self.batch * self.in_channels * self.in_h * self.in_w

    @property
    def output_elements(self) -> int:
        """Elements of the output."""
        return self.batch * self.out_channels * self.out_h * self.out_w

    def with_batch(self, times: int) -> Layer:
        """The same layer for ``times`` as many inputs.

        Products with weights get more rows, because all inputs share the weights; everything else
        gets a larger ``batch``. Weights stay, further operands and operations grow.
        """
        operand, ops = self.operand_elements * times, self.ops * times
        if self.kind == "matmul" and self.weight_elements:
            return replace(
                self, in_h=self.in_h * times, out_h=self.out_h * times, operand_elements=operand, ops=ops
            )
        return replace(self, batch=self.batch * times, operand_elements=operand, ops=ops)

    def shape_key(self) -> tuple[object, ...]:
        """Everything that a cost depends on: two layers with equal keys cost the same."""
        return tuple(value for name, value in asdict(self).items() if name != "name")


@dataclass(frozen=True)
class DnnModel:
    """A network: layers in topological order and the edges between them.

    ``edges`` holds pairs (before, after) of layer indices with before < after, sorted and without
    repeats; a network without parallel branches is a chain. ``source`` says where the shapes come
    from: a paper, a file. Raises ModelError for an empty, unordered or cyclic graph.

    Layers hold what is deployed, so a batch normalization folded into its convolution leaves one bias
    per channel. ``folded_params`` counts what the folding removed: ``params + folded_params`` is the
    training-time count that papers and libraries publish (scale and shift learned, running mean and
    variance not counted). ``shared_params`` is what all layers together hold beyond the stored weights:
    tied embeddings, which each of their layers reads and ``params`` counts once. It is negative where
    layers hold only some rows of a stored table.
    """

    name: str
    layers: tuple[Layer, ...]
    edges: tuple[tuple[int, int], ...]
    source: str = ""
    word_bytes: int = field(default=1)  # bytes of one activation or weight as deployed
    folded_params: int = 0
    shared_params: int = 0

    def __post_init__(self) -> None:
        if not self.layers:
            raise ModelError(f"model '{self.name}' has no layers")
        if self.word_bytes < 1:
            raise ModelError(f"model '{self.name}' has word_bytes = {self.word_bytes}; it must be at least 1")
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "edges", tuple(sorted({(int(a), int(b)) for a, b in self.edges})))
        for before, after in self.edges:
            if not (0 <= before < len(self.layers) and 0 <= after < len(self.layers)):
                raise ModelError(
                    f"model '{self.name}': edge ({before}, {after}) names a layer that does not exist"
                )
            if before >= after:
                raise ModelError(
                    f"model '{self.name}': edge ({before}, {after}) runs backwards, "
                    "so the graph is cyclic or not in topological order"
                )

    @classmethod
    def chain(cls, name: str, layers: list[Layer], source: str = "") -> DnnModel:
        """A network without branches."""
        return cls(name, tuple(layers), tuple((i, i + 1) for i in range(len(layers) - 1)), source)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one inference."""
        return sum(layer.macs for layer in self.layers)

    @property
    def params(self) -> int:
        """Stored parameters as deployed, biases included, shared weights once."""
        return sum(layer.weight_elements for layer in self.layers) - self.shared_params

    def with_batch(self, times: int) -> DnnModel:
        """The same network for ``times`` as many inputs in one inference, named ``name@times``."""
        if times < 1:
            raise ModelError(f"model '{self.name}' has a batch of {times}; it must be at least 1")
        if times == 1:
            return self
        layers = tuple(layer.with_batch(times) for layer in self.layers)
        return replace(self, name=f"{self.name}@{times}", layers=layers)

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the layers that must finish first."""
        before: list[list[int]] = [[] for _ in self.layers]
        for a, b in self.edges:
            before[b].append(a)
        return tuple(map(tuple, before))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the layers that wait for it."""
        after: list[list[int]] = [[] for _ in self.layers]
        for a, b in self.edges:
            after[a].append(b)
        return tuple(map(tuple, after))

    @property
    def is_chain(self) -> bool:
        """Whether no two layers can run at the same time."""
        return self.edges == tuple((i, i + 1) for i in range(len(self.layers) - 1))

    @cached_property
    def content_hash(self) -> str:
        """Hash of layers and edges (names left out): equal networks hash equal."""
        text = json.dumps([[layer.shape_key() for layer in self.layers], self.edges, self.word_bytes])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def elements(*shape: int) -> int:
    """Number of elements of a shape."""
    return prod(shape)
