"""What type checkers are told about records is what the records are."""

from __future__ import annotations

from typing import get_type_hints

import numpy as np
import pytest

from eunomia.contract import rows
from eunomia.contract.view import ACCELERATOR, READY, SYSTEM

KINDS = {int: "i", float: "f", rows.Numbers: "f", rows.Ints: "i", rows.npt.NDArray[np.uint64]: "u"}


@pytest.mark.parametrize(
    ("protocol", "layout"), [(rows.Ready, READY), (rows.Accelerator, ACCELERATOR), (rows.System, SYSTEM)]
)
def test_fields_and_their_kinds(protocol: type, layout: np.dtype[np.void]) -> None:
    hints = get_type_hints(protocol)
    assert list(hints) == list(layout.names or ())
    assert {name: KINDS[kind] for name, kind in hints.items()} == {
        name: layout[name].base.kind for name in hints
    }
