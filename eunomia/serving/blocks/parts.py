"""Long products in parts: else none stops before it is through.

The logits of a language model are one product, which takes as long as several of its layers. A runtime may add up in
another order where columns are few: a product is left whole unless its parts gave each bit of it for made-up inputs of
several lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.serving.blocks.cut import names_read
from eunomia.serving.blocks.external import MAX_MODEL_BYTES
from eunomia.serving.blocks.optimise import Optimised, session_options
from eunomia.serving.blocks.products import Product, product_of

if TYPE_CHECKING:
    import onnx

LONG = 2.0  # targets that a product lasts before it is worth it
ROWS = 1, 2, 7, 40  # of the inputs by which parts are compared
MOST_BYTES = 768 * 1024**2  # of weights in all that are written anew: a message has room for the others, too
SPARE_BYTES = 64 * 1024**2  # of a message, for all but weights
LAST_AXIS = 11  # of ONNX's operators, from which on an axis may be counted from the end


@dataclass(frozen=True)
class Parted:
    """``model``: some products in parts; ``times_s``: of its nodes."""

    model: onnx.ModelProto
    times_s: Sequence[float]


def in_parts(
    optimised: Optimised, times_s: Sequence[float], target_s: float, *, draft: bool = False
) -> Parted:
    """The network with products that last ``LONG`` targets or more in parts of about one; answers stay, bit by bit.

    ``draft``: not all of them may be possible, and parts have the names of their weights alone.
    """
    whole, folder = Parted(optimised.model, times_s), optimised.path.parent
    given = {port.name for port in optimised.model.graph.input}  # a caller may give such weights
    weights = {w.name: w for w in optimised.model.graph.initializer if w.name not in given}
    opset = next((each.version for each in optimised.model.opset_import if not each.domain), 0)
    long = [n for n, lasted_s in enumerate(times_s) if lasted_s >= LONG * target_s]
    if opset < LAST_AXIS or not long:
        return whole
    made, alike = dict[int, Product](), dict[object, bool]()
    room = min(MOST_BYTES, MAX_MODEL_BYTES - SPARE_BYTES - optimised.path.stat().st_size)
    for n in sorted(long, key=lambda n: -times_s[n]):
        product = product_of(optimised.model.graph.node[n], weights, folder, times_s[n] / target_s)
        if product is None or product.size > room:
            continue
        if product.form not in alike:
            alike[product.form] = draft or _alike(optimised.model, product)
        if alike[product.form]:
            made[n], room = product, room - product.size
    return _with(whole, made, filled=not draft) if made else whole


def _alike(model: onnx.ModelProto, product: Product) -> bool:
    """Whether its parts answer as the whole does, bit by bit; they do not where one of both finds no memory."""
    try:
        whole, parts = _answers(model, product)
        return whole == parts
    except Exception:  # ONNX Runtime's exceptions share no base class
        return False


def _answers(model: onnx.ModelProto, product: Product) -> Iterator[list[bytes]]:
    """To some made-up inputs: of the product by itself, and in parts. One is in memory at a time."""
    import onnxruntime as ort
    from onnx import helper

    name, element = product.node.input[0], helper.np_dtype_to_tensor_dtype(product.element)
    given = helper.make_tensor_value_info(name, element, ["rows", product.length])
    taken = helper.make_tensor_value_info(product.node.output[0], element, None)
    for pieces in ([product.whole()], product.nodes()):
        graph = helper.make_graph([], "product", [given], [taken], product.fixed)
        for node, own in pieces:
            graph.node.append(node)
            graph.initializer.extend(own)
        network = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        content = network.SerializeToString()
        options = session_options(optimised=True)
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        yield [session.run(None, {name: _made_up(product, rows)})[0].tobytes() for rows in ROWS]


def _made_up(product: Product, rows: int) -> Tensor:
    return np.random.default_rng(rows).standard_normal((rows, product.length)).astype(product.element)


def _with(whole: Parted, made: Mapping[int, Product], *, filled: bool) -> Parted:
    """The network with these in place of some nodes, and without weights that nobody reads any more."""
    import onnx

    before, times_s = whole.model.graph, list[float]()
    model = onnx.ModelProto(ir_version=whole.model.ir_version)
    model.opset_import.extend(whole.model.opset_import)
    model.functions.extend(whole.model.functions)
    graph = model.graph
    graph.name = before.name
    graph.input.extend(before.input)
    graph.output.extend(before.output)
    graph.value_info.extend(before.value_info)
    graph.sparse_initializer.extend(before.sparse_initializer)
    for n, node in enumerate(before.node):
        pieces = made[n].nodes(filled=filled) if n in made else [(node, [])]
        for piece, own in pieces:
            graph.node.append(piece)
            graph.initializer.extend(own)
        times_s += made[n].times_s(whole.times_s[n]) if n in made else [whole.times_s[n]]
    read = names_read(graph.node) | {port.name for port in (*graph.output, *graph.input)}
    for weight in before.initializer:
        if weight.name in read and filled:
            graph.initializer.append(weight)
        elif weight.name in read:
            graph.initializer.append(onnx.TensorProto(name=weight.name))
    return Parted(model, times_s)
