"""Rules of ``rowwise`` for layers of networks: convolutions, recurrent ones, attention, tables."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.serving.blocks.row_node import Given, Node, Rule
from eunomia.serving.blocks.row_values import (
    ONE,
    Size,
    Unproven,
    Value,
    along,
    broadcast,
    plain,
    some,
)

STRETCHED_IN_PLACE = {
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
}


def _windows(node: Node, value: Value, kernel: Sequence[Size]) -> list[Size]:
    """Sizes of the axes behind the second, after windows have gone over them."""
    count = value.rank - 2
    strides, dilations = node.integers("strides", [1] * count), node.integers("dilations", [1] * count)
    pads, how = node.integers("pads", [0] * 2 * count), node.text("auto_pad", "NOTSET")
    found = []
    for n in range(count):
        length, window = plain(value.sizes[n + 2]), plain(kernel[n])
        if length is None or window is None or node.integer("ceil_mode", 0):
            found.append(some())
        elif how.startswith("SAME"):
            found.append(Size(-(-length // strides[n])))
        else:
            padded = length + (pads[n] + pads[n + count] if how == "NOTSET" else 0)
            found.append(Size(max((padded - dilations[n] * (window - 1) - 1) // strides[n] + 1, 0)))
    return found


def convolved(node: Node) -> Given:
    """Rows first; what is added to the sum may have rows too."""
    value, weights = node.first(0, 3), node.fixed(1)
    node.others_fixed(0, 3)
    sizes = (value.sizes[0], weights.sizes[0], *_windows(node, value, weights.sizes[2:]))
    found = Value(sizes, value.rows)
    if node.has(3):
        added = node.first(3, 3)
        if added.rows != found.rows or added.sizes[0] != found.sizes[0]:
            raise Unproven("it adds what has other rows")
    return [found]


def convolved_back(node: Node) -> Given:
    """The other way round."""
    value = node.first(0, 3)
    node.others_fixed(0)
    channels = plain(node.fixed(1).sizes[1])
    wide = some() if channels is None else Size(channels * node.integer("group", 1))
    return [Value((value.sizes[0], wide, *(some() for _ in value.sizes[2:])), value.rows)]


def convolved_small(node: Node) -> Given:
    """Of small whole numbers, with one scale for all rows."""
    value, weights = node.first(0, 3), node.fixed(3)
    node.others_fixed(0)
    node.one_number(1, 2, 6, 7)
    if node.integer("channels_last", 0):
        return [Value((value.sizes[0], *(some() for _ in value.sizes[1:])), value.rows)]
    return [Value((value.sizes[0], weights.sizes[0], *_windows(node, value, weights.sizes[2:])), value.rows)]


def pooled(node: Node) -> Given:
    """Rows first; where the largest were is counted over all rows, and is left out."""
    value = node.first(0, 3)
    node.others_fixed(0)
    if node.kind == "NhwcMaxPool" or node.integer("channels_last", 0):
        return [Value((value.sizes[0], *(some() for _ in value.sizes[1:])), value.rows)]
    kernel = [Size(length) for length in node.integers("kernel_shape")]
    return [Value((*value.sizes[:2], *_windows(node, value, kernel)), value.rows)]


def pooled_whole(node: Node) -> Given:
    """Over all but the first two axes."""
    value = node.first(0, 3)
    node.others_fixed(0)
    if node.integer("channels_last", 0):
        return [along(value, range(1, value.rank - 1), ONE)]
    return [along(value, range(2, value.rank), ONE)]


def reordered(node: Node) -> Given:
    """Between layouts of the processor, within each row."""
    value = node.first(0, 3)
    if node.integer("channels_last", 0):
        return [Value((value.sizes[0], *(some() for _ in value.sizes[1:])), value.rows)]
    channels = node.integer("channels", 0)
    sizes = [value.sizes[0], Size(channels) if channels else value.sizes[1], *value.sizes[2:]]
    return [Value(tuple(sizes), value.rows)]


def stretched(node: Node) -> Given:
    """In place along the axis of rows."""
    value = node.first(0, 3)
    node.others_fixed(0, 3)
    if (
        "axes" in node.attributes
        or node.text("coordinate_transformation_mode", "half_pixel") not in STRETCHED_IN_PLACE
    ):
        raise Unproven("nothing says that it leaves each row where it is")
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unproven("nothing says that it leaves each row where it is")
    given = node.constants[2] if node.has(2) and len(node.constants) > 2 else None
    behind = [some() for _ in value.sizes[1:]]
    if node.has(3):
        first, *entries = node.entries(3)
        kept, behind = first == value.sizes[0], [entry or some() for entry in entries]
    elif "scales" in node.attributes:
        scales = node.attributes["scales"]
        kept = isinstance(scales, Sequence) and scales[0] == 1
    elif node.opset < 11:
        given = node.constants[1] if len(node.constants) > 1 else None
        kept = given is not None and float(given.ravel()[0]) == 1.0
    else:
        kept = given is not None and given.size > 0 and float(given.ravel()[0]) == 1.0
    if not kept:
        raise Unproven("nothing says that it leaves each row where it is")
    return [Value((value.sizes[0], *behind), value.rows)]


def by_channel(node: Node) -> Given:
    """With weights of each channel, behind the rows."""
    value = node.first(0, 2)
    node.others_fixed(0)
    if node.integer("training_mode", 0) or node.outputs > 1:
        raise Unproven("it trains")
    return [value]


def moved_inside(node: Node) -> Given:
    """Between channels and places of each row."""
    value = node.first(0, 3)
    return [Value((value.sizes[0], *(some() for _ in value.sizes[1:])), value.rows)]


def recurrent(node: Node) -> Given:
    """Rows side by side, steps one after the other."""
    first = node.integer("layout", 0)
    value, own = node.data(0), 0 if first else 1
    node.others_fixed(0, 4, 5, 6)
    lengths = [(0, own), (5, own), (6, own), (4, 0)]
    there = [(node.data(place), axis) for place, axis in lengths if node.has(place)]
    if value.rank != 3 or any(v.rows != axis or v.sizes[axis] != value.sizes[own] for v, axis in there):
        raise Unproven("rows do not lie side by side")
    if node.kind != "LSTM":
        node.absent(6)
    ways = Size(2 if node.text("direction", "forward") == "bidirectional" else 1)
    rows, wide = value.sizes[own], Size(node.integer("hidden_size"))
    steps = value.sizes[1 - own]
    if first:
        last = Value((rows, ways, wide), 0)
        return [Value((rows, steps, ways, wide), 0), last, last]
    last = Value((ways, rows, wide), 1)
    return [Value((steps, ways, rows, wide), 2), last, last]


def skipped(node: Node) -> Given:
    """Sums of two, normalised along the last axis; the sum is the last of four."""
    value = broadcast([node.data(0), node.data(1)])
    node.others_fixed(0, 1)
    if any(weight.rank > 1 for weight in node.all_data()[2:]):
        raise Unproven("it has weights for more axes than it works along")
    value = along(value, [-1])
    return [value, None, None, value]


def embedded(node: Node) -> Given:
    """Tables of words, places and kinds, normalised along the last axis."""
    words = node.first(0, 2)
    rows = [node.first(place, 2) for place in (1, 7, 8) if node.has(place)]
    node.others_fixed(0, 1, 7, 8)
    if any(v.rows != words.rows and v.sizes[0] != ONE for v in rows):
        raise Unproven("some of what it adds up has no rows")
    if any(v.rows == 0 and v.sizes[0] != words.sizes[0] for v in rows):
        raise Unproven("some of what it adds up has other rows")
    found = Value((*words.sizes, node.fixed(2).sizes[-1]), words.rows)
    return [found, Value(words.sizes[:1], words.rows), found]


def attention(node: Node) -> Given:
    """Each row looks at itself; what was before is left out, and what is added may be the same for all."""
    first, weights, mask, added = (
        ((0, 1, 2), (3,), 4, 5) if node.kind == "MultiHeadAttention" else ((0,), (1, 2), 3, 5)
    )
    for place in filter(node.has, weights):
        node.fixed(place)
    node.absent(*({*range(len(node.given))} - {*first, *weights, mask, added}))
    own = [node.first(place, 3) for place in filter(node.has, first)]
    own += [node.first(place, 2) for place in filter(node.has, [mask])]
    rows = own[0].sizes[0]
    if any(value.rows != 0 or value.sizes[0] != rows for value in own):
        raise Unproven("rows do not lie along its first axis")
    if node.has(added) and node.first(added, 4).sizes[0] not in (rows, ONE):
        raise Unproven("what it adds has other rows")
    return [Value((rows, some(), some()), 0)]


def of_tables(node: Node) -> Given:
    """Each row of a table by itself: classes or numbers, and how likely they are."""
    value = node.first(0, 2)
    node.others_fixed(0)
    if value.rank != 2 or value.rows is None:
        raise Unproven("it takes something else than a table with a row each")
    answers = [Value((value.sizes[0], some()), 0)] * node.outputs
    if node.kind.endswith("Classifier"):
        answers[0] = Value(value.sizes[:1], 0)
    return answers


def columns(node: Node) -> Given:
    """Some of the last axis."""
    node.fixed(1)
    return [along(node.first(0, 2), [-1], some())]


def scaled(node: Node) -> Given:
    """Each row of a table by itself, with weights of its columns."""
    value = node.first(0, 2)
    if value.rank != 2:
        raise Unproven("it takes something else than a table with a row each")
    return [value]


def entry_by_entry(node: Node) -> Given:
    """By a table of its own."""
    return [node.data(0)]


POOLS = [
    f"{domain}{kind}Pool" for domain in ("", "com.microsoft.nchwc.") for kind in ("Max", "Average", "Lp")
]
TABLES = (
    "TreeEnsembleRegressor TreeEnsembleClassifier TreeEnsemble LinearRegressor LinearClassifier SVMRegressor "
    "SVMClassifier"
)
RULES: dict[str, Rule] = {
    **dict.fromkeys(("Conv", "com.microsoft.FusedConv", "com.microsoft.nchwc.Conv"), convolved),
    **dict.fromkeys(("QLinearConv", "com.microsoft.QLinearConv"), convolved_small),
    **dict.fromkeys((*POOLS, "com.microsoft.NhwcMaxPool", "com.microsoft.QLinearAveragePool"), pooled),
    **{
        name.replace("Max", "GlobalMax")
        .replace("Average", "GlobalAverage")
        .replace("Lp", "GlobalLp"): pooled_whole
        for name in POOLS
    },
    "com.microsoft.QLinearGlobalAveragePool": pooled_whole,
    "ConvTranspose": convolved_back,
    **dict.fromkeys((f"com.microsoft.nchwc.Reorder{kind}" for kind in ("Input", "Output")), reordered),
    **dict.fromkeys(("com.microsoft.nchwc.Upsample", "Resize", "Upsample"), stretched),
    **dict.fromkeys((f"{kind}Normalization" for kind in ("Batch", "Instance", "Group")), by_channel),
    "LRN": by_channel,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), moved_inside),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    "com.microsoft.SkipLayerNormalization": skipped,
    "com.microsoft.SkipSimplifiedLayerNormalization": skipped,
    "com.microsoft.EmbedLayerNormalization": embedded,
    **dict.fromkeys(("com.microsoft.Attention", "com.microsoft.MultiHeadAttention"), attention),
    **dict.fromkeys((f"ai.onnx.ml.{kind}" for kind in TABLES.split()), of_tables),
    "ai.onnx.ml.ArrayFeatureExtractor": columns,
    **dict.fromkeys((f"ai.onnx.ml.{kind}" for kind in ("Scaler", "Normalizer", "Imputer")), scaled),
    **dict.fromkeys(("ai.onnx.ml.Binarizer", "ai.onnx.ml.LabelEncoder"), entry_by_entry),
}
