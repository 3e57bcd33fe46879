"""The networks of the field: gold's own, and those that bronze may use."""

from __future__ import annotations

from pathlib import Path

from benchmarks.serving.strange import HEAD, write_networks

WIDTH = 64
LAYER = """
    turned{n} = Transpose <perm = [0, 2, 1]> (x{n})
    scores{n} = MatMul (x{n}, turned{n})
    shares{n} = Softmax <axis = -1> (scores{n})
    x{m} = MatMul (shares{n}, x{n})"""
LAYERS = 4
SQUARE = """(int64[2] x) => (float y) {
    matrix = ConstantOfShape <value = float[1] {1}> (x)
    product = MatMul (matrix, matrix)
    y = ReduceMax <keepdims = 0> (product)
}"""
BOXES = 60_000
CHOSEN = f"""(float[1, {BOXES}, 4] boxes, float[1, 1, {BOXES}] scores) => (int64[n, 3] y) {{
    most = Constant <value = int64[1] {{{BOXES}}}> ()
    share = Constant <value = float[1] {{0.01}}> ()
    least = Constant <value = float[1] {{1.0}}> ()
    y = NonMaxSuppression (boxes, scores, most, share, least)
}}"""


def write_all(folder: Path) -> dict[str, Path]:
    """The files by name: those of ``benchmarks.serving.strange``, and three.

    ``sequence``: attention over as many tokens as its input has; time grows with their square, and what is cut at one
    token is one block. ``square``: two matrices as large as its input says, multiplied by one node.
    ``boxes``: one node that keeps boxes of a score above 1 which no other covers; it takes as long as their square.
    """
    from onnx import parser

    layers = "".join(LAYER.format(n=n, m=n + 1) for n in range(LAYERS))
    text = f"(float[1, n, {WIDTH}] x0) => (float[1, n, {WIDTH}] x{LAYERS}) {{{layers}\n}}"
    path = folder / "sequence.onnx"
    path.write_bytes(parser.parse_model(HEAD + text).SerializeToString())
    square = folder / "square.onnx"
    square.write_bytes(parser.parse_model(HEAD + SQUARE).SerializeToString())
    boxes = folder / "boxes.onnx"
    boxes.write_bytes(parser.parse_model(HEAD + CHOSEN).SerializeToString())
    return {**write_networks(folder), "sequence": path, "square": square, "boxes": boxes}
