"""What ``rowwise`` knows of sizes that a graph works out: of numbers of rows, times, shared out, chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eunomia.serving.blocks.row_node import Node
from eunomia.serving.blocks.row_values import ONE, ZERO, Entry, Size, Unproven, Value, broadcast


def arithmetic(work: Callable[[Size, Size], Entry]) -> Callable[[Node], Value]:
    """Of numbers of rows and other sizes, two by two."""

    def rule(node: Node) -> Value:
        a, b = node.entries(0), node.entries(1)
        if max(node.value(0).rank, node.value(1).rank) > 1 or not (1 in (len(a), len(b)) or len(a) == len(b)):
            raise Unproven("it works with the number of rows")
        length = max(len(a), len(b))
        pairs = zip(a * (length // len(a)), b * (length // len(b)), strict=True)
        found = tuple(_worked(work, *pair) for pair in pairs)
        return replace(broadcast([Value(node.value(n).sizes) for n in (0, 1)]), entries=found)

    return rule


def _worked(work: Callable[[Size, Size], Entry], a: Entry, b: Entry) -> Entry:
    found = None if a is None or b is None else work(a, b)
    if found is None and any(each is not None and each.grows for each in (a, b)):
        raise Unproven("it works with the number of rows")
    return found


def _sum(a: Size, b: Size) -> Entry:
    if ZERO in (a, b):
        return b if a == ZERO else a
    return Size(a.factor + b.factor, a.names) * ONE if a.names == b.names else None


def _quotient(a: Size, b: Size) -> Entry:
    if (found := a.over(b)) is not None:
        return found
    known = not (a.names or b.names) and a.factor >= 0 < b.factor
    return Size(a.factor // b.factor) if known else None


def _equal(a: Size, b: Size) -> Entry:
    if a == b:
        return ONE
    known = not (a.names or b.names)
    known |= any(
        not x.names and x.factor < 0 <= y.factor for x, y in ((a, b), (b, a))
    )  # no size is below zero
    return ZERO if known else None


ARITHMETIC: dict[str, Callable[[Node], Value]] = {
    "Mul": arithmetic(Size.__mul__),
    "Add": arithmetic(_sum),
    "Sub": arithmetic(lambda a, b: _sum(a, Size(-b.factor, b.names))),
    "Div": arithmetic(_quotient),
    "Equal": arithmetic(_equal),
}


def chosen(node: Node) -> Value:
    """Of two lists of sizes, where it is known which."""
    known, a, b = (node.entries(n) for n in range(3))
    length = max(map(len, (known, a, b)))
    if any(len(each) not in (1, length) for each in (known, a, b)):
        raise Unproven("it works with the number of rows")
    found = []
    for which, yes, no in zip(*(each * (length // len(each)) for each in (known, a, b)), strict=True):
        if which is None and yes != no and any(e is not None and e.grows for e in (yes, no)):
            raise Unproven("it works with the number of rows")
        found.append((yes if yes == no else None) if which is None else yes if which != ZERO else no)
    return replace(broadcast([Value(node.value(n).sizes) for n in range(3)]), entries=tuple(found))
