"""Lists in lists of JSON, which shall give the rows of a tensor in its own order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from eunomia.serving.protocol.errors import BadRequest

UNLIKE = "lists inside it differ in length: nest them as the shape says, or send one flat list"


def check_nesting(name: str, nested: Sequence[int], shape: Sequence[int]) -> None:
    """``nested``: lengths of the lists, of which one may hold several axes of the shape; raises BadRequest."""
    if len(nested) > 1 and not {*accumulate(nested, mul)} <= {1, *accumulate(shape, mul)}:
        raise BadRequest(
            f"tensor '{name}': its lists are nested as {list(nested)}, which contradicts its shape {list(shape)}: nest "
            "them as the shape says, or send one flat list"
        )
