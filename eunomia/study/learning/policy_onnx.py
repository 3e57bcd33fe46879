"""A policy's scores as an ONNX network, built node by node, so that other runtimes can serve it without Eunomia.

Inputs ``jobs`` (n, JOB) and ``overall`` (GLOBAL,), n free; outputs ``score`` (n,) and ``start`` (n,), the network's and
the sub-job's share of the start margin. Placement, pair and share features and the order of starts stay with the
caller (policy/decide.py says how).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.atomic import write_bytes
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, START_JOB, VERSION
from eunomia.learning.policy.network import REACH
from eunomia.learning.policy.weights import Weights

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

OPSET = 17


class _Graph:
    """Nodes and constants as they are added; values have names ``v0``, ``v1``, ..."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def constant(self, value: object) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float64), name))
        return name

    def add(self, operator: str, *inputs: str, out: str | None = None, **attributes: object) -> str:
        from onnx import helper

        name = out or f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operator, list(inputs), [name], None, None, None, None, **attributes)
        )
        return name

    def squash(self, value: str) -> str:
        """a / (1 + |a|)."""
        return self.add("Div", value, self.add("Add", self.add("Abs", value), self.constant(1.0)))


def write_onnx(weights: Weights, path: str | Path) -> None:
    """Write the network. Raises OutputError."""
    from onnx import TensorProto, helper

    graph = _Graph()
    score, start = _linear(graph, weights)
    if weights.kind != "linear":
        hidden = _network(graph, weights)
        score = graph.add("Add", score, graph.add("MatMul", hidden, graph.constant(weights.network["out"])))
        start = graph.add(
            "Add", start, graph.add("MatMul", hidden, graph.constant(weights.network["out_start"]))
        )
    graph.add("Identity", score, out="score")
    graph.add("Identity", start, out="start")
    double = TensorProto.DOUBLE
    inputs = [helper.make_tensor_value_info("jobs", double, ["n", len(JOB)]),
              helper.make_tensor_value_info("overall", double, [len(GLOBAL)])]  # fmt: skip
    outputs = [helper.make_tensor_value_info(name, double, ["n"]) for name in ("score", "start")]
    made = helper.make_graph(graph.nodes, "eunomia", inputs, outputs, graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    entry = model.metadata_props.add()
    entry.key, entry.value = "features_version", str(VERSION)
    write_bytes(path, model.SerializeToString())


def _linear(graph: _Graph, weights: Weights) -> tuple[str, str]:
    """Score of job features; gate and the shares of job and global features in the start margin."""
    score = graph.add("MatMul", "jobs", graph.constant(weights.base + weights.job))
    gate = weights.gate if np.isfinite(weights.gate) else np.finfo(np.float64).max
    picked = np.zeros(len(JOB))
    picked[list(START_JOB)] = weights.start[len(PAIR) + len(GLOBAL) :]
    shared = graph.add(
        "MatMul", "overall", graph.constant(weights.start[len(PAIR) : len(PAIR) + len(GLOBAL)])
    )
    start = graph.add("Add", graph.add("MatMul", "jobs", graph.constant(picked)), shared)
    return score, graph.add("Add", start, graph.constant(gate))


def _network(graph: _Graph, weights: Weights) -> str:
    """Hidden units of every sub-job."""
    net = weights.network
    scaled = graph.add("Sub", "jobs", graph.constant(weights.centre))
    scaled = graph.add("Mul", scaled, graph.constant(1.0 / weights.spread))
    scaled = graph.add("Clip", scaled, graph.constant(-REACH), graph.constant(REACH))
    mine = graph.add("MatMul", scaled, graph.constant(net["W1"][: len(JOB)]))
    shared = graph.add("MatMul", "overall", graph.constant(net["W1"][len(JOB) :]))
    hidden = graph.squash(graph.add("Add", graph.add("Add", mine, shared), graph.constant(net["b1"])))
    if weights.kind == "hidden":
        return hidden
    mean = graph.add("ReduceMean", hidden, axes=[0], keepdims=0)
    most = graph.add("ReduceMax", hidden, axes=[0], keepdims=0)
    pooled = graph.add("Add", graph.add("MatMul", mean, graph.constant(net["M"])),
                       graph.add("MatMul", most, graph.constant(net["Q"])))  # fmt: skip
    second = graph.add("Add", graph.add("MatMul", hidden, graph.constant(net["A"])), pooled)
    return graph.squash(graph.add("Add", second, graph.constant(net["b2"])))
