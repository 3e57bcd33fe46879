"""``shapes`` of a network: the sizes of its trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from eunomia.config.section import wrong

Size = Annotated[int, Field(ge=0, le=1_000_000)]
TrialShapes = dict[str, list[Size]]


def check_sizes(shapes: Mapping[str, Sequence[int]], empty: bool | None) -> None:
    """That inputs are empty only where they may be: behind the first axis, with ``empty``. Raises a complaint."""
    for name, sizes in shapes.items():
        for n, size in enumerate(sizes):
            if not size and not (n and empty):
                more = "; with empty = true beside shapes, 0 is allowed here" if n else ""
                raise wrong(f"shapes.{name}.{n} is 0; it must be at least 1{more}")
