"""What the guard of a policy takes for an answer that cannot be carried out, case by case."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eunomia.contract.view import Assign
from eunomia.serving.dispatch.guard import illegal

# Requests 7 and 8 are ready with their layers 2 and 0. Device 0 is idle, device 1 runs request 0, device 2 runs
# request 5, device 3 is idle and cannot run request 7.
VIEW: Any = SimpleNamespace(
    ready=np.array([(7, 2), (8, 0)], [("request", int), ("layer", int)]),
    accelerators=np.array([(-1,), (0,), (5,), (-1,)], [("request", int)]),
    latency_s=np.array([[1.0, 1.0, 1.0, np.inf], [1.0, 1.0, 1.0, 1.0]]),
)


@pytest.mark.parametrize("answer, fault", [
    ([], ""), ([Assign(7, 2, 0)], ""), ([Assign(8, 0, 0)], ""), ([Assign(8, 0, 3), Assign(7, 2, 0)], ""),
    ([(7, 2, 0)], "tuple instead of Assign"),
    ([Assign(9, 0, 0)], "block 0 of request 9 is not ready"), ([Assign(7, 0, 0)], "block 0 of request 7 is not ready"),
    ([Assign(7, 2, 0), Assign(7, 2, 3)], "block 2 of request 7 is not ready"),
    ([Assign(8, 0, 1)], "device 1 is not idle"), ([Assign(8, 0, 2)], "device 2 is not idle"),
    ([Assign(8, 0, -1)], "device -1 is not idle"), ([Assign(8, 0, 4)], "device 4 is not idle"),
    ([Assign(7, 2, 0), Assign(8, 0, 0)], "device 0 is not idle"),
    ([Assign(7, 2, 3)], "device 3 cannot run block 2 of request 7"),
])  # fmt: skip
def test_each_illegal_answer_by_name(answer: list[Any], fault: str) -> None:
    assert illegal(VIEW, answer) == fault
