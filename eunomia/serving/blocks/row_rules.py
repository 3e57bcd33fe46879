"""Rules of ``rowwise`` for what works entry by entry or along axes, and for products."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.serving.blocks.row_node import Given, Node, Rule
from eunomia.serving.blocks.row_sizes import ARITHMETIC, chosen
from eunomia.serving.blocks.row_values import (
    ONE,
    ZERO,
    Size,
    Unproven,
    Value,
    along,
    axis_of,
    broadcast,
    some,
    without,
)

WHOLE_NUMBERS = 6, 7  # types of ONNX that hold any size
SINGLE_SOFTMAX = 13  # of ONNX's operators, from which on they are along one axis


def entrywise(node: Node) -> Given:
    """Any number of inputs; sizes are worked out where all of them are such."""
    work = (
        ARITHMETIC.get(node.kind)
        if all(v is not None and v.entries is not None for v in node.given)
        else None
    )
    return [broadcast(node.all_data()) if work is None else work(node)]


def same(node: Node) -> Given:
    """As it is."""
    return [node.value(0)]


def cast(node: Node) -> Given:
    """Sizes are whole numbers."""
    if node.value(0).counts and node.integer("to") not in WHOLE_NUMBERS:
        raise Unproven("it works with the number of rows")
    return [node.value(0) if node.integer("to") in WHOLE_NUMBERS else node.data(0)]


def where(node: Node) -> Given:
    """Sizes are chosen where it is known which."""
    if all(value is not None and value.entries is not None for value in node.given):
        return [chosen(node)]
    return entrywise(node)


def dropout(node: Node) -> Given:
    """Nothing, unless it trains."""
    node.absent(2)
    value = node.data(0)
    node.others_fixed(0)
    return [value, value]


def first_alone(node: Node) -> Given:
    """Of the others, nothing but the type."""
    return [node.data(0)]


def reduced(node: Node) -> Given:
    """Along other axes than that of rows; without axes, along all."""
    value = node.data(0)
    axes = node.axes(1, value.rank)
    if not axes and node.integer("noop_with_empty_axes", 0):
        return [value]
    return [_less(value, axes or range(value.rank), node)]


def chosen_place(node: Node) -> Given:
    """The same along one axis."""
    value = node.data(0)
    return [_less(value, [axis_of(node.integer("axis", 0), value.rank)], node)]


def _less(value: Value, axes: Sequence[int], node: Node) -> Value:
    kept = along(value, axes, ONE)
    return kept if node.integer("keepdims", 1) else without(value, axes)


def softmax(node: Node) -> Given:
    """Along one axis, or all from it on."""
    value = node.data(0)
    if node.opset < SINGLE_SOFTMAX:
        return [along(value, range(axis_of(node.integer("axis", 1), value.rank), value.rank))]
    return [along(value, [node.integer("axis", -1)])]


def softmax_from(node: Node) -> Given:
    """After a sum, along all axes from one on."""
    value = broadcast([node.data(0), node.data(1)])
    if node.data(0).rank != node.data(1).rank:
        raise Unproven("it adds a tensor of another rank")
    return [along(value, range(axis_of(node.integer("axis", 1), value.rank), value.rank))]


def normalised(node: Node) -> Given:
    """Along all axes from one on, with weights of their sizes."""
    value = node.data(0)
    node.others_fixed(0)
    axis = axis_of(node.integer("axis", -1), value.rank)
    value = along(value, range(axis, value.rank))
    if any(weight.rank > value.rank - axis for weight in node.all_data()[1:]):
        raise Unproven("it has weights for more axes than it works along")
    return [value]


def along_axis(node: Node) -> Given:
    """Along one axis."""
    return [along(node.data(0), [node.integer("axis", -1)])]


def top(node: Node) -> Given:
    """So many of each row."""
    value, axis = node.data(0), node.integer("axis", -1)
    if "k" in node.attributes:
        size = Size(node.integer("k"))
    else:
        node.fixed(1)
        size = Size(node.numbers(1)[0]) if node.is_number(1) else some()
    found = along(value, [axis], size)
    return [found, found]


def running(node: Node) -> Given:
    """Sums along one axis."""
    return [along(node.data(0), node.numbers(1))]


def one_hot(node: Node) -> Given:
    """One more axis."""
    value = node.data(0)
    node.others_fixed(0)
    axis = axis_of(node.integer("axis", -1), value.rank + 1)
    sizes = (*value.sizes[:axis], some(), *value.sizes[axis:])
    return [Value(sizes, None if value.rows is None else value.rows + (value.rows >= axis))]


def triangle(node: Node) -> Given:
    """Of the last two axes."""
    node.others_fixed(0)
    return [along(node.data(0), [-2, -1])]


def counted(node: Node) -> Given:
    """Numbers that are the same in every run."""
    start, limit, step = (node.fixed(place).entries for place in range(3))
    last = limit[0] if limit and (start, step) == ((ZERO,), (ONE,)) else None
    return [Value((some() if last is None or last.factor < 0 else last,))]


def matmul(node: Node) -> Given:
    """Products, with nothing else that depends on the rows."""
    node.others_fixed(0, 1)
    return [product_of(node.data(0), node.data(1))]


def matmul_with_scale(node: Node) -> Given:
    """The same of small whole numbers, with one scale for all rows."""
    node.others_fixed(0, 1)
    node.one_number(2, *([4] if node.kind == "MatMulIntegerToFloat" else []))
    if any(value.rank > 1 for value in node.all_data()[2:]):
        raise Unproven("one of its scales has several axes")
    return [product_of(node.data(0), node.fixed(1))]


def fused_matmul(node: Node) -> Given:
    """The same, transposed before."""
    if node.integer("transBatchA", 0) or node.integer("transBatchB", 0):
        raise Unproven("it moves axes for which there is no rule")
    node.others_fixed(0, 1)
    a, b = (_turned(node.data(n), node.integer(name, 0)) for n, name in enumerate(("transA", "transB")))
    return [product_of(a, b)]


def gemm(node: Node) -> Given:
    """One product, and something added."""
    a, b = (_turned(node.data(n), node.integer(name, 0)) for n, name in enumerate(("transA", "transB")))
    node.others_fixed(0, 1, 2)
    found = product_of(a, b)
    return [broadcast([found, node.data(2)]) if node.has(2) else found]


def _turned(value: Value, turn: int) -> Value:
    if not turn:
        return value
    if value.rank < 2:
        raise Unproven("it has one axis where two are usual")
    last, rows = value.rank - 1, value.rows
    sizes = (*value.sizes[:-2], value.sizes[last], value.sizes[last - 1])
    return Value(sizes, {last: last - 1, last - 1: last}.get(rows, rows) if rows is not None else None)


def product_of(a: Value, b: Value) -> Value:
    """Matrices on the last two axes; raises Unproven where the sum is over rows."""
    left = a if a.rank > 1 else _one_more(a, 0)
    right = b if b.rank > 1 else _one_more(b, 1)
    if left.rows == left.rank - 1 or right.rows == right.rank - 2:
        raise Unproven("it adds up over rows")
    batch = broadcast([_batch(left), _batch(right)])
    rows = [] if batch.rows is None else [batch.rows]
    rows += [batch.rank] * (left.rows == left.rank - 2) + [batch.rank + 1] * (right.rows == right.rank - 1)
    if len(rows) > 1:
        raise Unproven("rows of its inputs lie along different axes")
    found = Value((*batch.sizes, left.sizes[-2], right.sizes[-1]), rows[0] if rows else None)
    return without(found, [batch.rank] * (a.rank == 1) + [batch.rank + 1] * (b.rank == 1))


def _one_more(value: Value, axis: int) -> Value:
    if value.rank != 1 or value.rows is not None:
        raise Unproven("it adds up over rows")
    return Value((*value.sizes[:axis], ONE, *value.sizes[axis:]))


def _batch(value: Value) -> Value:
    batch = value.rows if value.rows is not None and value.rows < value.rank - 2 else None
    return Value(value.sizes[:-2], batch)


def einsum(node: Node) -> Given:
    """By its letters: that of the rows is in all that has rows, and in the answer."""
    terms, _, answer = node.text("equation").replace(" ", "").partition("->")
    letters = terms.split(",")
    values = node.all_data()
    if "." in terms + answer or not answer or len(letters) != len(values):
        raise Unproven("it has letters for which there is no rule")
    sizes, own = dict[str, Size](), set[str]()
    for term, value in zip(letters, values, strict=True):
        if len(term) != value.rank or len({*term}) != len(term):
            raise Unproven("it has letters for which there is no rule")
        own |= set() if value.rows is None else {term[value.rows]}
    if not own:
        return [Value(tuple(some() for _ in answer))]
    row = min(own)
    for term, value in zip(letters, values, strict=True):
        if len(own) > 1 or (row in term) != (value.rows is not None):
            raise Unproven("it adds up over rows, or mixes them")
        sizes |= {row: value.sizes[value.rows]} if value.rows is not None else {}
    lengths = {value.sizes[value.rows] for value in values if value.rows is not None}
    if len(lengths) > 1 or answer.count(row) != 1:
        raise Unproven("it adds up over rows, or mixes them")
    return [Value(tuple(sizes.get(letter) or some() for letter in answer), answer.index(row))]


ENTRYWISE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip "
    "Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less "
    "LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin "
    "Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Xor"
)
REDUCED = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
MICROSOFT = "Gelu FastGelu QuickGelu BiasGelu BiasAdd"

RULES: dict[str, Rule] = {
    **dict.fromkeys(ENTRYWISE.split(), entrywise),
    **dict.fromkeys((f"com.microsoft.{name}" for name in MICROSOFT.split()), entrywise),
    **dict.fromkeys((f"Reduce{name}" for name in REDUCED.split()), reduced),
    "Identity": same,
    "Cast": cast,
    "CastLike": first_alone,
    "Where": where,
    "Dropout": dropout,
    "ArgMax": chosen_place,
    "ArgMin": chosen_place,
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "Hardmax": softmax,
    "com.microsoft.BiasSoftmax": softmax_from,
    "LayerNormalization": normalised,
    "SimplifiedLayerNormalization": normalised,
    "RMSNormalization": normalised,
    "LpNormalization": along_axis,
    "TopK": top,
    "CumSum": running,
    "OneHot": one_hot,
    "Trilu": triangle,
    "com.microsoft.Trilu": triangle,
    "Range": counted,
    "MatMul": matmul,
    "MatMulInteger": matmul_with_scale,
    "com.microsoft.MatMulIntegerToFloat": matmul_with_scale,
    "com.microsoft.FusedMatMul": fused_matmul,
    "com.microsoft.TransposeMatMul": fused_matmul,
    "Gemm": gemm,
    "com.microsoft.FusedGemm": gemm,
    "Einsum": einsum,
}
