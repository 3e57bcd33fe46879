"""Rules of ``rowwise`` for operators that move entries, and for the sizes that some take."""

from __future__ import annotations

from collections.abc import Sequence

from eunomia.serving.blocks.row_node import Given, Node, Rule
from eunomia.serving.blocks.row_values import (
    ONE,
    ZERO,
    Entry,
    Size,
    Unproven,
    Value,
    along,
    axis_of,
    broadcast,
    capped,
    plain,
    product,
    regrouped,
    some,
    whole,
    without,
)

TO_THE_END = 2**31 - 1  # what exporters write for it, at least


def shape(node: Node) -> Given:
    """The sizes are known, whatever the entries are."""
    sizes = tuple(each * ONE for each in node.value(0).sizes)  # numbers alone
    last = node.integer("end") if "end" in node.attributes else None
    part = sizes[node.integer("start", 0) : last]
    return [Value((Size(len(part)),), entries=part)]


def size(node: Node) -> Given:
    """Of all axes together."""
    return [Value((), entries=(product(node.value(0).sizes),))]


def reshape(node: Node) -> Given:
    """To known sizes: 0 = as before, -1 = the rest."""
    value, wanted = node.value(0), node.entries(1)
    sizes, open_at = list[Size](), None
    for n, entry in enumerate(wanted):
        if entry is None or (entry.factor < 0 and entry != Size(-1)):
            raise Unproven("nothing says to which sizes it reshapes")
        if entry == ZERO and not node.integer("allowzero", 0):
            sizes.append(value.sizes[n])
        elif entry == Size(-1):
            open_at = n
            sizes.append(ONE)
        else:
            sizes.append(entry)
    if open_at is not None:
        rest = product(value.sizes).over(product(sizes))
        if rest is None:
            raise Unproven("nothing says which size is left for -1")
        sizes[open_at] = rest
    return [_same_entries(value, sizes)]


def flatten(node: Node) -> Given:
    """To two axes."""
    value, axis = node.data(0), node.integer("axis", 1)
    axis += value.rank if axis < 0 else 0
    return [regrouped(value, [product(value.sizes[:axis]), product(value.sizes[axis:])])]


def squeeze(node: Node) -> Given:
    """Named axes: without names, one row alone would have its own taken away."""
    value = node.value(0)
    axes = node.axes(1, value.rank)
    if axes is None:
        if value.rows is not None or any(plain(each) is None for each in value.sizes):
            raise Unproven("it takes away axes that it does not name")
        axes = [axis for axis, each in enumerate(value.sizes) if each == ONE]
    left = without(value, axes)
    return [_same_entries(value, left.sizes, left.rows)]


def unsqueeze(node: Node) -> Given:
    """New axes of one entry."""
    value = node.value(0)
    named = node.integers("axes") if "axes" in node.attributes else node.numbers(1)
    rank = value.rank + len(named)
    new = {axis_of(axis, rank) for axis in named}
    old = [axis for axis in range(rank) if axis not in new]
    sizes = [ONE if axis in new else value.sizes[old.index(axis)] for axis in range(rank)]
    return [_same_entries(value, sizes, None if value.rows is None else old[value.rows])]


def _same_entries(value: Value, sizes: Sequence[Size], rows: int | None = None) -> Value:
    """As many in the same order; ``rows``: where they are, if that is known."""
    if value.entries is not None:
        return Value(tuple(sizes), entries=value.entries)
    return regrouped(value, sizes) if rows is None else Value(tuple(sizes), rows)


def transpose(node: Node) -> Given:
    """Axes in another order."""
    value = node.data(0)
    order = node.integers("perm", range(value.rank)[::-1])
    if sorted(order) != [*range(value.rank)]:
        raise Unproven("it names axes that are not there")
    return [
        Value(tuple(value.sizes[n] for n in order), None if value.rows is None else order.index(value.rows))
    ]


def _as_sizes(entries: Sequence[Entry]) -> Value:
    """A tensor of these sizes, the same everywhere."""
    sizes = [some() if entry is None else entry for entry in entries]
    if any(each.factor < 0 for each in sizes):
        raise Unproven("it names a size below zero")
    return Value(tuple(sizes), next((n for n, each in enumerate(sizes) if each.grows), None))


def expand(node: Node) -> Given:
    """As an operator of two inputs, of which one is the same everywhere."""
    return [broadcast([node.data(0), _as_sizes(node.entries(1))])]


def constant_of_shape(node: Node) -> Given:
    """The same everywhere."""
    return [_as_sizes(node.entries(0))]


def tile(node: Node) -> Given:
    """Rows once, unless each is to be one copy of the whole."""
    value, times = node.data(0), node.entries(1)
    if value.rows is not None and times[value.rows] != ONE:
        raise Unproven("it repeats rows")
    pairs = zip(value.sizes, times, strict=True)
    sizes = [some() if n is None else own if n == ONE else own * n for own, n in pairs]
    rows = next((axis for axis, each in enumerate(sizes) if each.grows), None)
    return [Value(tuple(sizes), rows)]


def concat(node: Node) -> Given:
    """Along another axis than that of rows, all of which have them."""
    values = [node.value(place) for place in range(len(node.given))]
    axis = axis_of(node.integer("axis"), values[0].rank)
    if any(value.counts for value in values) or all(value.entries is not None for value in values):
        parts = [_entries(value) for value in values]
        return [_listed([entry for part in parts for entry in part])]
    values = node.all_data()
    if len({value.rank for value in values}) > 1 or len({value.rows for value in values}) > 1:
        raise Unproven("some of what it puts together has no rows along the same axis")
    along(values[0], [axis])
    lengths = [plain(value.sizes[axis]) for value in values]
    known = [length for length in lengths if length is not None]
    size = Size(sum(known)) if len(known) == len(lengths) else some()
    joined = [_joined([value.sizes[n] for value in values]) for n in range(values[0].rank)]
    if (
        values[0].rows is not None
        and len({value.sizes[value.rows] for value in values if value.rows is not None}) > 1
    ):
        raise Unproven("what it puts together has different numbers of entries for each row")
    return [Value(tuple(size if n == axis else own for n, own in enumerate(joined)), values[0].rows)]


def _joined(sizes: Sequence[Size]) -> Size:
    return sizes[0] if len({*sizes}) == 1 else some()


def _entries(value: Value) -> Sequence[Entry]:
    if value.entries is not None:
        return value.entries
    length = plain(value.sizes[0])
    if not value.fixed or length is None:
        raise Unproven("it works with the number of rows")
    return [None] * length


def _listed(entries: Sequence[Entry]) -> Value:
    return Value((Size(len(entries)),), entries=tuple(entries))


def split(node: Node) -> Given:
    """Along another axis than that of rows."""
    value = node.value(0)
    axis = axis_of(node.integer("axis", 0), value.rank)
    if "split" in node.attributes:
        lengths: Sequence[Size] = whole(node.integers("split"))
    elif node.has(1):
        lengths = whole(node.numbers(1))
    else:
        length = plain(value.sizes[axis])
        even = length is not None and length % node.outputs == 0
        lengths = [Size((length or 0) // node.outputs) if even else some() for _ in range(node.outputs)]
    if value.entries is not None:
        parts, first = [], 0
        for each in lengths:
            last = first + (-1 if (number := plain(each)) is None else number)
            if last < first:
                raise Unproven("nothing says where it splits")
            parts.append(_listed(value.entries[first:last]))
            first = last
        return parts
    return [along(value, [axis], each) for each in lengths]


def cut_out(node: Node) -> Given:
    """Slices along other axes than that of rows, which may be taken whole.

    Where one starts or ends may be unknown, as long as that is the same in every run.
    """
    value = node.value(0)
    if node.opset < 10:
        given: list[Sequence[Entry]] = [whole(node.integers(name)) for name in ("starts", "ends")]
        axes = node.integers("axes", range(len(given[0])))
        limits: list[Sequence[Entry]] = [*given, [ONE] * len(axes)]
    else:
        node.others_fixed(0)
        count = plain(node.value(1).sizes[0])
        if count is None:
            raise Unproven("nothing says along which axes it cuts")
        axes = node.numbers(3) if node.has(3) else [*range(count)]
        unknown: list[Entry] = [None] * len(axes)
        limits = [(node.value(n).entries or unknown) if node.has(n) else [ONE] * len(axes) for n in (1, 2, 4)]
    if value.entries is not None and value.rank == 1:
        start, end, step = (_number(limit[0]) for limit in limits)
        return [_listed(value.entries[start:end:step])]
    value = node.data(0)
    for axis, start, end, step in zip(axes, *limits, strict=True):
        axis = axis_of(axis, value.rank)
        size = _length(value.sizes[axis], start, end, step)
        value = value if size == value.sizes[axis] else along(value, [axis], size)
    return [value]


def _number(entry: Entry) -> int:
    if entry is None or entry.names:
        raise Unproven("nothing says where it cuts")
    return entry.factor


def _length(own: Size, start: Entry, end: Entry, step: Entry) -> Size:
    """Of a part of an axis; the same size means all of it."""
    length = plain(own)
    if (start, step) == (ZERO, ONE) and end is not None:
        if end == own or (not end.names and end.factor >= TO_THE_END):
            return own
        if length and end.factor == 1 and len(end.names) == 1:
            return capped(length, end.names[0])
    if length is None or any(each is None or each.names for each in (start, end, step)):
        return some()
    part = slice(*(_number(each) for each in (start, end, step)))
    return Size(len(range(length)[part]))


def gather(node: Node) -> Given:
    """Rows may choose from what is the same for all, or the same may be chosen from each of them."""
    value, places = node.value(0), node.value(1)
    axis = axis_of(node.integer("axis", 0), value.rank)
    if value.entries is not None and value.rank == 1 and node.is_number(1):
        return [Value(places.sizes, entries=tuple(value.entries[n] for n in node.numbers(1)))]
    value, places = node.data(0), node.data(1)
    sizes = (*value.sizes[:axis], *places.sizes, *value.sizes[axis + 1 :])
    if value.rows is None:
        return [Value(sizes, None if places.rows is None else axis + places.rows)]
    if places.rows is not None or value.rows == axis:
        raise Unproven("it takes rows from wherever its indices say")
    return [Value(sizes, value.rows + (value.rows > axis) * (places.rank - 1))]


def gather_elements(node: Node) -> Given:
    """Each row from its own."""
    value, places = node.data(0), node.data(1)
    both = value.rows == places.rows and (
        value.rows is None or value.sizes[value.rows] == places.sizes[value.rows]
    )
    if not both:
        raise Unproven("it takes rows from wherever its indices say")
    along(value, [node.integer("axis", 0)])
    return [places]


def gather_nd(node: Node) -> Given:
    """Rows may choose from what is the same for all."""
    value, places = node.fixed(0), node.data(1)
    length = plain(places.sizes[-1])
    if node.integer("batch_dims", 0) or length is None or places.rows == places.rank - 1:
        raise Unproven("it takes rows from wherever its indices say")
    return [Value((*places.sizes[:-1], *value.sizes[length:]), places.rows)]


def pad(node: Node) -> Given:
    """Along other axes than that of rows."""
    value = node.data(0)
    node.others_fixed(0)
    pads = node.integers("pads") if "pads" in node.attributes else node.numbers(1)
    axes = node.axes(3, value.rank) or [*range(value.rank)]
    for n, axis in enumerate(axes):
        before, behind = pads[n], pads[n + len(axes)]
        if before or behind:
            length = plain(value.sizes[axis])
            value = along(value, [axis], some() if length is None else Size(length + before + behind))
    return [value]


RULES: dict[str, Rule] = {
    "Shape": shape,
    "Size": size,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Expand": expand,
    "ConstantOfShape": constant_of_shape,
    "Tile": tile,
    "Concat": concat,
    "Split": split,
    "Slice": cut_out,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Pad": pad,
}
