"""Put nodes in an order in which every tensor is written before it is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import onnx

from eunomia.core.errors import ModelError
from eunomia.workload.onnx.node_errors import label
from eunomia.workload.onnx.subgraphs import reads


def topological(nodes: list[onnx.NodeProto], is_given: Callable[[str], bool]) -> list[onnx.NodeProto]:
    """The nodes, each after those it depends on, otherwise in the order of the file.

    ``is_given`` tells the tensors that none of the nodes writes. Raises ModelError for a cycle, for a
    tensor that two nodes write and for one that nobody writes.
    """
    writer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in writer or is_given(name):
                raise ModelError(f"tensor '{name}' is written twice, the second time by node '{label(node)}'")
            writer[name] = index
    missing = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for name in sorted(reads(node)):
            if is_given(name):
                continue
            if name not in writer:
                raise ModelError(
                    f"node '{label(node)}' ({node.op_type}) reads '{name}', which nothing writes"
                )
            readers[writer[name]].append(index)
            missing[index] += 1
    return _sorted(nodes, readers, missing)


def live(nodes: list[onnx.NodeProto], outputs: set[str]) -> list[onnx.NodeProto]:
    """The nodes that some output of the network depends on, order kept."""
    needed = set(outputs)
    kept = []
    for node in reversed(nodes):
        if needed.isdisjoint(node.output):
            continue
        kept.append(node)
        needed |= reads(node)
    return kept[::-1]


def _sorted(
    nodes: list[onnx.NodeProto], readers: list[list[int]], missing: list[int]
) -> list[onnx.NodeProto]:
    if all(index < reader for index, after in enumerate(readers) for reader in after):
        return nodes
    ready = deque(index for index, count in enumerate(missing) if count == 0)
    order = []
    while ready:
        index = ready.popleft()
        order.append(nodes[index])
        for reader in readers[index]:
            missing[reader] -= 1
            if missing[reader] == 0:
                ready.append(reader)
    if len(order) < len(nodes):
        stuck = [label(nodes[index]) for index, count in enumerate(missing) if count]
        shown = ", ".join(f"'{name}'" for name in stuck[:4])
        raise ModelError(f"the graph has a cycle; nodes that wait for each other: {shown}")
    return order
