"""Bodies in pieces are read like bodies in one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eunomia.core.arrays import Tensor
from eunomia.serving.protocol.errors import ServingError
from eunomia.serving.protocol.infer import read_request, split_body
from eunomia.serving.protocol.pieces import Pieces
from tests.serving.made_up import examples

FIRST, SECOND = np.arange(7, dtype="<i2"), np.random.default_rng(0).random((3, 5), np.float32)
JSON = json.dumps({"inputs": [
    {"name": "a", "datatype": "INT16", "shape": [7], "parameters": {"binary_data_size": FIRST.nbytes}},
    {"name": "b", "datatype": "FP32", "shape": [3, 5], "parameters": {"binary_data_size": SECOND.nbytes}},
]}).encode()  # fmt: skip
BODY = JSON + FIRST.tobytes() + SECOND.tobytes()


def read(body: Any, length: int | None) -> Any:
    try:
        request = read_request("m", "", *split_body(body, length))
    except ServingError as error:
        return type(error), str(error)
    return [(t.name, t.datatype, t.shape, array_of(t.data).tolist()) for t in request.inputs]


def array_of(data: Any) -> Tensor:
    if isinstance(data, np.ndarray):
        return data
    target: Tensor = np.empty(data.shape, data.dtype)
    assert (data.ndim, data.size, data.nbytes) == (target.ndim, target.size, target.nbytes)
    data.read_into(target)
    return target


@examples(2.0)
@given(
    cuts=st.lists(st.integers(0, len(BODY)), max_size=6),
    lost=st.integers(0, 3),
    length=st.sampled_from([len(JSON), len(JSON), len(JSON) - 1, 0, None, len(BODY) + 1]),
)
def test_any_pieces(cuts: list[int], lost: int, length: int | None) -> None:
    body = BODY[: len(BODY) - lost]
    at = [0, *sorted(cuts), len(body)]
    pieces = Pieces([body[begin:end] for begin, end in zip(at, at[1:], strict=False)])
    assert len(pieces) == len(body) and bytes(pieces.joined()) == body
    assert read(pieces, length) == read(memoryview(body), length)


@examples()
@given(cuts=st.lists(st.integers(0, 40), max_size=5), begin=st.integers(-5, 45), end=st.integers(-5, 45))
def test_slices_are_those_of_bytes(cuts: list[int], begin: int, end: int) -> None:
    at = [0, *sorted(cuts), 40]
    pieces = Pieces([bytes(range(40))[i:j] for i, j in zip(at, at[1:], strict=False)])
    assert bytes(pieces[begin:end].joined()) == bytes(range(40))[begin:end]
    assert all(len(piece) for piece in pieces[begin:end].pieces)
