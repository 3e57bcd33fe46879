"""LSTM, GRU and RNN as products over all steps.

The steps of the recurrent product follow each other, which one large product does not show: where
the weights do not fit into a buffer, real hardware reads them once per step and is slower.
"""

from __future__ import annotations

from dataclasses import replace

from eunomia.workload.model import Layer
from eunomia.workload.onnx.network import Network, Node, Value
from eunomia.workload.onnx.operators.product import Sizes, product

_GATE_OPS = {
    "LSTM": 25,
    "DynamicQuantizeLSTM": 25,
    "GRU": 18,
    "RNN": 5,
}  # per element of the state: activations, products, sums


def recurrent(node: Node, net: Network) -> tuple[int, ...]:
    """Per direction: a product of all inputs, a product of all states, and the gates."""
    return _recurrent(node, net, node.value(1), node.value(2))


def quantized_lstm(node: Node, net: Network) -> tuple[int, ...]:
    """DynamicQuantizeLSTM: its weights are transposed, inputs before gates."""
    return _recurrent(node, net, _turned(node.value(1)), _turned(node.value(2)))


def _recurrent(node: Node, net: Network, w: Value, r: Value) -> tuple[int, ...]:
    x, bias = node.value(0), node.get(3)
    directions, gates, inner = w.shape
    state = r.shape[2]
    rows = x.shape[0] * x.shape[1]
    done: tuple[int, ...] = ()
    for index in range(directions):
        name = f"{node.name}.{index}" if directions > 1 else node.name
        factors = (x, _one(w), None if bias is None else _one(bias))
        made = product(node, net, factors, Sizes(rows, inner, gates), f"{name}.input")
        part = Value("", (rows, gates), producers=made)
        made = product(node, net, (part, _one(r), None), Sizes(rows, state, gates), f"{name}.state")
        layer = Layer(
            f"{name}.gates", "elementwise", in_channels=gates, in_h=rows, out_channels=state, out_h=rows,
            ops=_GATE_OPS[node.op] * rows * state,
        )  # fmt: skip
        done += net.add(layer, [Value("", (), producers=made)])
    return done


def _one(value: Value) -> Value:
    """What one direction uses of weights whose first axis is the direction."""
    return replace(value, shape=value.shape[1:])


def _turned(value: Value) -> Value:
    """Weights of directions x inputs x gates as directions x gates x inputs."""
    return replace(value, shape=(value.shape[0], *value.shape[:0:-1]))


HANDLERS = {
    **{("", op): recurrent for op in ("LSTM", "GRU", "RNN")},
    ("com.microsoft", "DynamicQuantizeLSTM"): quantized_lstm,
}
