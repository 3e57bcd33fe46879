"""Read an ONNX graph into a DnnModel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TypeGuard

import onnx

from eunomia.core.errors import ConfigError, ModelError, UnknownNameError
from eunomia.core.own_file import as_path
from eunomia.workload.model import DnnModel
from eunomia.workload.onnx.choices import Choices
from eunomia.workload.onnx.dimensions import bind_inputs
from eunomia.workload.onnx.equivalents import channels_first, equivalent
from eunomia.workload.onnx.file import load_model
from eunomia.workload.onnx.network import Network, Node, Value, unknown_shape
from eunomia.workload.onnx.node_errors import REMEDY, label, naming
from eunomia.workload.onnx.node_types import Shape, attributes_of, domain_of, is_channels_last
from eunomia.workload.onnx.operators import handler
from eunomia.workload.onnx.order import live, topological
from eunomia.workload.onnx.regions import private_tensors
from eunomia.workload.onnx.shapes import SHAPE_ONLY, Shapes
from eunomia.workload.onnx.subgraphs import stored_tensors
from eunomia.workload.onnx.unrolling import Unrolling

WINDOWED = ("Conv", "ConvInteger", "QLinearConv", "MaxPool", "AveragePool", "LpPool")


def read_onnx(
    path: str | Path,
    *,
    batch: int = 1,
    dims: Mapping[str, int] | None = None,
    fuse: bool = True,
    name: str | None = None,
    word_bytes: int = 1,
    branches: Mapping[str, str] | None = None,
    trip_counts: Mapping[str, int] | None = None,
) -> DnnModel:
    """The network in an ONNX file, weights not read.

    ``batch`` is the size of a free batch dimension, ``dims`` of any other free dimension, by its name
    (``{"seq": 128}``) or place (``{"tokens:1": 128}``). ``fuse`` (default) reads the network as it is
    deployed: batch normalization folded into the convolution before it, activation functions, biases
    and scales applied by the layer before them, concatenation for nothing; False keeps a layer for
    each. Shape computations and everything that is the same in every run cost nothing. ``word_bytes``
    is the size of an element as deployed, whatever the file stores.

    ``branches`` says which branch of an If runs (``{"node": "then"}``) and ``trip_counts`` how often a
    Loop does (``{"node": 12}``), where the file itself does not fix it; a node in a branch or a loop is
    named by the path to it, ``outer/then/inner``.

    Raises ModelError for a file that cannot be read, a cyclic or empty graph, or a free dimension without a
    size. So it does for a branch or loop that depends on data, and for an unsupported operator, with its
    domain and node. Raises UnknownNameError for a dimension or node that the file does not have.
    """
    path = as_path(path, "an ONNX file")
    with _naming_file(path):
        _check_sizes(batch, dims or {})
        choices = Choices(branches or {}, trip_counts or {})
        model = load_model(path)
        reader = _Reader(model, bind_inputs(model, batch, dims or {}), choices, fuse)
        return reader.read(name or path.stem, f"ONNX file {path.name}", word_bytes)


def _check_sizes(batch: object, dims: object) -> None:
    """Raise ConfigError for a size that is no whole number."""
    if not _is_whole(batch) or batch < 1:
        raise ConfigError(f"batch = {batch!r}; it must be a whole number, at least 1")
    if not isinstance(dims, Mapping):
        raise ConfigError(f"dims = {dims!r}; give a mapping from names to sizes: {{'seq': 128}}")
    for name, size in dims.items():
        if not _is_whole(size):
            raise ConfigError(f"dims: '{name}' = {size!r}; it must be a whole number")


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    """Let every error name the file, whatever raised it."""
    try:
        yield
    except UnknownNameError as error:
        raise UnknownNameError(error.kind, error.name, error.choices, f" in '{path}'") from error
    except (ConfigError, ModelError) as error:
        kind = ConfigError if isinstance(error, ConfigError) else ModelError
        raise kind(f"'{path}': {error}") from error
    except Exception as error:  # of a library, or of ours, that no inner place has turned into a sentence
        reason = " ".join(str(error).split())
        raise ModelError(f"'{path}' cannot be read ({type(error).__name__}: {reason}); {REMEDY}") from error


class _Reader:
    """Two passes over the graph: shapes while branches and loops are written out, then values and layers."""

    def __init__(
        self, model: onnx.ModelProto, inputs: dict[str, onnx.TypeProto], choices: Choices, fuse: bool
    ) -> None:
        graph = model.graph
        choices.check_names(graph)
        stored = {name: prod(tensor.dims) for name, tensor in stored_tensors(graph).items()}
        self._shapes = Shapes(model, inputs)
        self._outputs = {entry.name for entry in graph.output}
        ordered = live(topological(list(graph.node), {*inputs, *stored}.__contains__), self._outputs)
        opset = max((entry.version for entry in model.opset_import if not domain_of(entry.domain)), default=1)
        self._nodes = live(Unrolling(self._shapes, choices, stored, opset).run(ordered), self._outputs)
        choices.check_met()
        self._read = {name for node in self._nodes for name in node.input if name}
        self._readers = Counter(
            name for node in self._nodes if node.op_type not in SHAPE_ONLY for name in node.input if name
        )
        self._private = private_tensors(self._nodes, set(stored), self._outputs) if fuse else set()
        self._stored = stored
        self._net = Network(fuse, stored)
        self._values: dict[str, Value] = {}
        for entry in inputs:
            self._values[entry] = Value(entry, self._known(entry), exclusive=self._exclusive(entry))
        for entry in stored:
            self._values[entry] = Value(
                entry, self._known(entry), True, roots=frozenset({entry}),
                learned=self._shapes.is_weight_type(entry),
            )  # fmt: skip

    def read(self, name: str, source: str, word_bytes: int) -> DnnModel:
        for proto in self._nodes:
            with naming(proto):
                self._read_node(proto)
        if not self._net.layers:
            raise ModelError("the network holds no layer that computes anything from its input")
        return self._net.build(name, source, word_bytes)

    def _read_node(self, proto: onnx.NodeProto) -> None:
        self._check_window(proto)
        node = self._view(proto)
        if node.op in SHAPE_ONLY or all(value is None or value.static for value in node.inputs):
            self._fixed(node)
            return
        layers = len(self._net.layers)
        handle = handler(node.domain, node.op)  # even if it has nothing to do
        shapes = [shape for shape in node.shapes if shape is not None]
        if shapes and all(prod(shape) == 0 for shape in shapes):
            producers = tuple(dict.fromkeys(p for value in node.activations() for p in value.producers))
        else:
            producers = handle(node, self._net)
        fresh = len(self._net.layers) > layers
        alone = fresh or all(value.exclusive for value in node.activations() if value.shape)
        for name in proto.output:
            if self._needed(name):
                exclusive = alone and self._exclusive(name)
                self._values[name] = Value(name, self._known(name), False, producers, exclusive)

    def _check_window(self, proto: onnx.NodeProto) -> None:
        """Refuse a convolution or pooling whose window does not fit once into its padded input."""
        if proto.op_type not in WINDOWED or proto.input[0] not in self._values:
            return
        source = self._values[proto.input[0]].shape
        sizes = self._shapes.sizes(proto.output[0])
        if all(source) and any(size is not None and size < 1 for size in sizes[2:]):
            raise ModelError(
                f"its window is larger than its input of shape {source} with the padding around it"
            )

    def _fixed(self, node: Node) -> None:
        """Outputs that are the same in every run: computed once, before deployment."""
        roots = _roots(node)
        for name in node.outputs:
            if not self._needed(name):
                continue
            shape = self._known(name)
            if node.op == "Constant" and prod(shape) > 1:  # a stored table; one number belongs to a formula
                self._stored[name], roots = prod(shape), frozenset({name})
            learned = self._shapes.is_weight_type(name)
            self._values[name] = Value(name, shape, True, roots=roots, learned=learned)

    def _view(self, proto: onnx.NodeProto) -> Node:
        """The node as the handlers see it: the plain operator, images with their channels first."""
        names, domain, op = list(proto.input), domain_of(proto.domain), proto.op_type
        plain = equivalent(domain, op)
        if plain is not None:
            names, domain, op = plain.of(names), plain.domain, plain.op
        inputs = [self._values[name] if name else None for name in names]
        shapes = [self._shapes.shape(name) for name in proto.output]
        if plain is not None and is_channels_last(proto, plain):
            first = inputs[0]
            inputs[0] = None if first is None else replace(first, shape=channels_first(first.shape))
            shapes = [None if shape is None else channels_first(shape) for shape in shapes]
        return Node(label(proto), op, domain, inputs, list(proto.output), shapes, attributes_of(proto))

    def _known(self, name: str) -> Shape:
        shape = self._shapes.shape(name)
        if shape is None:
            raise unknown_shape(name)
        return shape

    def _needed(self, name: str) -> bool:
        return bool(name) and (name in self._read or name in self._outputs)

    def _exclusive(self, name: str) -> bool:
        return name in self._private or (self._readers[name] == 1 and name not in self._outputs)


def _roots(node: Node) -> frozenset[str]:
    """The stored weights that a result of fixed inputs is made of.

    Sizes, indices, scales, zero points and scalars are no weights: a mask made of them has no root.
    """
    if node.op in SHAPE_ONLY:
        return frozenset()
    if node.op == "DequantizeLinear":
        return node.value(0).roots
    weights = [value for value in node.inputs if value is not None and value.learned and value.shape]
    return frozenset(root for value in weights for root in value.roots)
