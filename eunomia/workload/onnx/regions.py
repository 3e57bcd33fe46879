"""Functions of one tensor that the file writes as several nodes: SiLU, GELU by its error function."""

from __future__ import annotations

from collections import defaultdict

import onnx

from eunomia.workload.onnx.equivalents import equivalent
from eunomia.workload.onnx.node_types import domain_of
from eunomia.workload.onnx.operators.pointwise import HANDLERS, pointwise
from eunomia.workload.onnx.shapes import SHAPE_ONLY

LIMIT = 16  # nodes of the longest function looked for

_POINTWISE = frozenset(op for (_, op), handle in HANDLERS.items() if handle is pointwise)


def private_tensors(nodes: list[onnx.NodeProto], stored: set[str], outputs: set[str]) -> set[str]:
    """Tensors that several nodes read, which together are one function of single elements.

    A region starts at a tensor, holds pointwise nodes only, and all it passes on is one result. Its
    first tensor and those inside it may be treated as if one node read them.
    """
    static = _static(nodes, stored)
    readers: dict[str, list[int]] = defaultdict(list)
    for index, node in enumerate(nodes):
        for name in set(filter(None, node.input)) if node.op_type not in SHAPE_ONLY else ():
            readers[name].append(index)
    found: set[str] = set()
    for start, read_by in list(readers.items()):
        if len(read_by) > 1 and start not in static and start not in outputs:
            found |= _region(start, nodes, readers, static, outputs)
    return found


def _region(
    start: str,
    nodes: list[onnx.NodeProto],
    readers: dict[str, list[int]],
    static: set[str],
    outputs: set[str],
) -> set[str]:
    inside, members = {start}, set[int]()
    waiting = set(readers[start])
    while waiting and len(members) < LIMIT:
        index = min(waiting)  # nodes are in topological order
        waiting.remove(index)
        node = nodes[index]
        varying = set(filter(None, node.input)) - static
        plain = equivalent(domain_of(node.domain), node.op_type)
        op = node.op_type if plain is None else plain.op
        if op not in _POINTWISE or not varying <= inside or len(node.output) != 1:
            return set()
        members.add(index)
        inside.add(node.output[0])
        waiting |= set(readers[node.output[0]])
        waiting -= members
        passed_on = {name for name in inside if name in outputs or not set(readers[name]) <= members}
        if passed_on == {node.output[0]}:
            return inside - passed_on
    return set()


def _static(nodes: list[onnx.NodeProto], stored: set[str]) -> set[str]:
    static = set(stored)
    for node in nodes:
        if node.op_type in SHAPE_ONLY or static.issuperset(filter(None, node.input)):
            static.update(node.output)
    return static
