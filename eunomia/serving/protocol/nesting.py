"""Lists in lists of JSON, which shall give the rows of a tensor in its own order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from operator import mul
from typing import cast

from eunomia.serving.devices.ports import MAX_RANK
from eunomia.serving.protocol.errors import BadRequest

UNLIKE = "lists inside it differ in length: nest them as the shape says, or send one flat list"
TOO_DEEP = f"its lists are nested too deeply: at most {MAX_RANK} in one another are taken"


def flattened(name: str, data: object) -> tuple[list[object], set[type], list[int]]:
    """What lists in lists hold in the end, of which types it is, and the lengths of the lists; raises BadRequest.

    A list may still be among them, beside what is none. A level at a time: a message may hold millions of values.
    """
    level, sizes = [data], list[int]()
    while (kinds := set(map(type, level))) == {list}:
        lists = cast("list[list[object]]", level)
        if len(lists) == 1:
            level = lists[0]
            sizes.append(len(level))
        elif len(lengths := set(map(len, lists))) == 1:
            sizes += lengths
            level = list(chain.from_iterable(lists))
        else:
            raise BadRequest(f"tensor '{name}': {UNLIKE}")
        if len(sizes) > MAX_RANK:
            raise BadRequest(f"tensor '{name}': {TOO_DEEP}")
    return level, kinds, sizes


def check_nesting(name: str, nested: Sequence[int], shape: Sequence[int]) -> None:
    """``nested``: lengths of the lists, of which one may hold several axes of the shape; raises BadRequest."""
    if len(nested) > 1 and not {*accumulate(nested, mul)} <= {1, *accumulate(shape, mul)}:
        raise BadRequest(
            f"tensor '{name}': its lists are nested as {list(nested)}, which contradicts its shape {list(shape)}: nest "
            "them as the shape says, or send one flat list"
        )
