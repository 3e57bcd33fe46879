"""Graphs inside nodes: what they read from outside, and the branches and loops among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from eunomia.workload.onnx.node_errors import label


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a branch or a loop stands.

    ``name`` is its own, ``place`` the names from the outermost node to it (``outer/then/inner``). ``path``
    also has the iterations of the loops around it (``loop/3/inner``).
    """

    name: str
    place: str
    path: str

    @classmethod
    def of(cls, node: onnx.NodeProto) -> Spot:
        """A node of the graph itself."""
        return cls(label(node), label(node), label(node))

    def inside(self, node: onnx.NodeProto, branch: str = "", iteration: int | None = None) -> Spot:
        """A node in a branch, or in an iteration, of the node at this spot."""
        name = label(node)
        steps = [branch] if branch else []
        turns = [str(iteration)] if iteration is not None else []
        return Spot(name, "/".join([self.place, *steps, name]), "/".join([self.path, *steps, *turns, name]))


def bodies(node: onnx.NodeProto) -> dict[str, onnx.GraphProto]:
    """The graphs that a node holds, by attribute name."""
    return {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}


def reads(node: onnx.NodeProto) -> set[str]:
    """All tensors that a node depends on, those that its graphs take from outside included."""
    found = {name for name in node.input if name}
    for body in bodies(node).values():
        found |= _taken_from_outside(body)
    return found


def stored_tensors(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto | onnx.SparseTensorProto]:
    """The constants that a graph stores, by name."""
    dense: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {t.name: t for t in graph.initializer}
    return dense | {sparse.values.name: sparse for sparse in graph.sparse_initializer}


def control_nodes(graph: onnx.GraphProto) -> Iterator[tuple[str, Spot]]:
    """Operator and spot of every node that holds graphs, at any depth."""
    waiting = [(node, Spot.of(node)) for node in graph.node]
    while waiting:
        node, spot = waiting.pop()
        for name, body in bodies(node).items():
            branch = name.removesuffix("_branch") if node.op_type == "If" else ""
            waiting += [(inner, spot.inside(inner, branch)) for inner in body.node]
        if bodies(node):
            yield node.op_type, spot


def _taken_from_outside(graph: onnx.GraphProto) -> set[str]:
    own = {entry.name for entry in graph.input} | set(stored_tensors(graph))
    own.update(name for node in graph.node for name in node.output)
    read = {entry.name for entry in graph.output}
    for node in graph.node:
        read |= reads(node)
    return read - own - {""}
