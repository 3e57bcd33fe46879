"""Functions outside the event loop, compiled on first use."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.compiler import Flags

from eunomia.core.arrays import Floats
from eunomia.core.compiled import compiled


@compiled(keep=False)
def put(rows: Floats, row: Floats) -> None:
    """Into the first two rows."""
    rows[:2] = row


def test_arrays_of_another_size_are_refused_without_a_text_of_their_shapes() -> None:
    rows = np.zeros((3, 2))
    put(rows, np.ones(2))
    assert rows.tolist() == [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="cannot assign slice from input of different size"):
        put(rows, np.ones(3))
    (code,) = put._from_python.inspect_llvm().values()  # type: ignore[attr-defined]
    assert "different" in code and "unicode" not in code


def test_options_of_compilations_are_equal_where_their_values_are() -> None:
    one, other = Flags(), Flags()
    other.nrt = False  # the default, said aloud
    assert one == other and hash(one) == hash(other)
    other.nrt = True
    assert one != other and one != "options"
