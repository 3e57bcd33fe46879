"""What the operators write to: values that flow along the edges, and the layers collected so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from eunomia.core.errors import ModelError
from eunomia.workload.model import DnnModel, Layer
from eunomia.workload.onnx.node_types import Shape, check_size


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: an activation written by layers, or (``static``) one that is the same in every run."""

    name: str
    shape: Shape
    static: bool = False
    producers: tuple[int, ...] = ()
    exclusive: bool = False  # one node or one function reads it, and it is no output of the network
    roots: frozenset[str] = frozenset()  # stored tensors of weights that a static value is computed from
    learned: bool = True  # of a type that a network may learn

    def __post_init__(self) -> None:
        check_size(self.name, self.shape)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def as_weights(bias: Value | None) -> Value | None:
    """A bias, which counts as weights also where quantization has made whole numbers of it."""
    return bias if bias is None else replace(bias, learned=True)


class Network:
    """Layers and edges while a graph is read; ``fuse`` merges what deployed networks merge."""

    def __init__(self, fuse: bool, stored: dict[str, int]) -> None:
        self.fuse = fuse
        self.layers: list[Layer] = []
        self._edges: set[tuple[int, int]] = set()
        self._stored = stored  # elements of every stored tensor
        self._used: set[str] = set()  # stored tensors that some layer holds or was computed from
        self._biased: set[int] = set()  # layers that have a bias already
        self._closed: set[int] = set()  # layers whose result passes a further function: no folding any more
        self._folded = 0
        self._made = (
            0  # weights that no tensor of the file holds: packed ones, biases of folded normalizations
        )

    def add(
        self,
        layer: Layer,
        inputs: Sequence[Value | None],
        *,
        weights: Sequence[Value | None] = (),
        bias: bool = False,
    ) -> tuple[int, ...]:
        """Append a layer that reads ``inputs``; static ``weights`` are counted into it. Returns its index."""
        index = len(self.layers)
        self.layers.append(layer)
        self._made += layer.weight_elements
        self._edges.update((p, index) for value in inputs if value is not None for p in value.producers)
        for value in weights:
            self._store(index, value)
        if bias:
            self._biased.add(index)
        return (index,)

    def keep(self, values: Sequence[Value | None]) -> None:
        """Count stored weights that are only copied to their place in a result, such as a class token."""
        for value in values:
            if value is not None and value.static and value.learned and value.shape:
                self._used |= value.roots

    def target(self, value: Value, weights: Sequence[Value] = ()) -> int | None:
        """The layer that may take over a function of ``value`` alone, None if there is none.

        A layer cannot take ``weights`` if it reads only parts of its own (a table), or if its second factor
        is an activation: weights distinguish the two kinds of product in costs.
        """
        if not self.fuse or not value.exclusive or len(value.producers) != 1:
            return None
        index = value.producers[0]
        layer = self.layers[index]
        weightless = layer.kind == "gather" or (layer.has_macs and not layer.weight_elements)
        return None if weightless and any(weight.learned for weight in weights) else index

    def absorb(
        self,
        index: int,
        ops: int,
        weights: Sequence[Value],
        *,
        linear: bool = False,
        inputs: Sequence[Value] = (),
    ) -> None:
        """Let layer ``index`` apply ``ops`` further operations to its result, with further weights and inputs."""
        layer = self.layers[index]
        self._edges.update((p, index) for value in inputs for p in value.producers if p != index)
        if not layer.has_macs:
            self.layers[index] = replace(layer, ops=layer.ops + ops)
        for value in weights:
            self._store(index, value)
        (self._biased if linear else self._closed).add(index)

    def fold_norm(self, index: int, channels: int) -> bool:
        """Fold a batch normalization into convolution or product ``index``; False if that is impossible."""
        layer = self.layers[index]
        if not layer.has_macs or not layer.weight_elements or index in self._closed:
            return False
        had_bias = index in self._biased
        if not had_bias:
            self.layers[index] = replace(layer, weight_elements=layer.weight_elements + channels)
            self._made += channels
            self._biased.add(index)
        self._folded += 2 * channels if had_bias else channels
        return True

    def build(self, name: str, source: str, word_bytes: int) -> DnnModel:
        """The finished network; its parameters are the stored tensors that its layers need, each in full."""
        edges = tuple(sorted(self._edges))
        params = self._made + sum(self._stored[root] for root in self._used)
        shared = sum(layer.weight_elements for layer in self.layers) - params
        return DnnModel(
            name,
            tuple(self.layers),
            edges,
            source,
            word_bytes,
            folded_params=self._folded,
            shared_params=shared,
        )

    def _store(self, index: int, value: Value | None) -> None:
        if value is None or not value.static or not value.learned:
            return
        layer = self.layers[index]
        self.layers[index] = replace(layer, weight_elements=layer.weight_elements + value.elements)
        self._used |= value.roots


@dataclass
class Node:
    """One operator as a handler sees it."""

    name: str
    op: str
    domain: str
    inputs: list[Value | None]
    outputs: list[str]
    shapes: list[Shape | None]  # of the outputs
    attributes: dict[str, Any]

    def value(self, index: int) -> Value:
        """A required input."""
        found = self.get(index)
        if found is None:
            raise ModelError(f"it has no input {index}, which the operator requires")
        return found

    def get(self, index: int) -> Value | None:
        """An optional input."""
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, index: int = 0) -> Shape:
        """The shape of an output."""
        found = self.shapes[index] if index < len(self.shapes) else None
        if found is None:
            raise unknown_shape(self.outputs[index] if index < len(self.outputs) else str(index))
        return found

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def activations(self) -> list[Value]:
        """The inputs that are not the same in every run."""
        return [value for value in self.inputs if value is not None and not value.static]


def unknown_shape(name: str) -> ModelError:
    """The error for a tensor ``name`` whose shape no rule has found."""
    return ModelError(
        f"the shape of '{name}' depends on data, or no rule for it is known; export the network with that size fixed"
    )


def image(shape: Shape) -> dict[str, int]:
    """Any shape as batch, channels, height, width of a layer's input: which axis is which matters to
    convolutions only, the others count elements. An empty part of a concatenation counts as one."""
    shape = tuple(max(1, size) for size in shape)
    if len(shape) >= 4:
        return {"batch": shape[0], "channels": shape[1], "h": prod(shape[2:-1]), "w": shape[-1]}
    padded = (1,) * (3 - len(shape)) + shape
    return {"batch": padded[0], "channels": padded[2], "h": padded[1], "w": 1}


def plain_layer(
    name: str, kind: Any, source: Shape, result: Shape, *, operand: int = 0, ops: int = 0, weights: int = 0
) -> Layer:
    """A layer without MACs, from shapes; batch 1 where the two shapes disagree on it."""
    a, b = image(source), image(result)
    if a["batch"] != b["batch"]:
        a, b = image((1, 1, prod(source))), image((1, 1, prod(result)))
    return Layer(
        name, kind, batch=a["batch"], in_channels=a["channels"], in_h=a["h"], in_w=a["w"],
        out_channels=b["channels"], out_h=b["h"], out_w=b["w"],
        operand_elements=operand, ops=ops, weight_elements=weights,
    )  # fmt: skip
