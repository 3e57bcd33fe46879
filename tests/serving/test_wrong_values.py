"""A message whose values are wrong costs hardly more than one whose values are right: no step in Python for each."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import read_request
from eunomia.serving.protocol.rpc import parse_message, read_message
from tests.serving.steps import steps

COUNT = 8000  # values
MORE = COUNT // 10  # steps for what is wrong, and of what else lives in the process
LARGE = 2**70


def body(datatype: str, data: Any) -> bytes:
    tensors = [{"name": "x", "datatype": datatype, "shape": [COUNT], "data": data}]
    return json.dumps({"inputs": tensors}).encode()


def message(datatype: str, field: str, values: list[Any]) -> bytes:
    found = pb.ModelInferRequest()
    entry = found.inputs.add(name="x", datatype=datatype, shape=[COUNT])
    getattr(entry.contents, field).extend(values)
    return found.SerializeToString()  # type: ignore[no-any-return]


def over_http(content: bytes) -> str:
    """What is said of it."""
    try:
        read_request("m", "", content, memoryview(b""))
    except BadRequest as error:
        return str(error)
    return ""


def over_grpc(content: bytes) -> str:
    try:
        read_message(parse_message(content))
    except BadRequest as error:
        return str(error)
    return ""


ZEROS = [0] * (COUNT - 1)
WRONG: list[tuple[str, Any, str]] = [
    ("INT8", [*ZEROS, 300], "300 is no value of INT8"),
    ("INT32", [*ZEROS, 1.5], "1.5 is no value of INT32"),
    ("INT32", [*ZEROS, float("nan")], "NaN is no value of INT32"),
    ("INT64", [*ZEROS, LARGE], f"{LARGE} is no value of INT64"),
    ("UINT64", [*ZEROS, 2**63 + 1], ""),
    ("UINT64", [2**63 + 1, *ZEROS[1:], -1], "-1 is no value of UINT64"),
    ("FP32", [*ZEROS, LARGE], ""),
    ("FP32", [*ZEROS, 10**400], "1000000000"),
    ("FP32", [*ZEROS, None], "null is no value of FP32"),
    ("FP32", [*ZEROS, {"a": 1}], "an object is no value of FP32"),
    ("FP32", [*ZEROS, True], "true and false are no values of FP32"),
    ("FP32", [*ZEROS, [0]], "lists inside it differ in length"),
    ("FP32", [float("inf")] * COUNT, ""),
    ("FP16", [*ZEROS, 70000], "70000 is no value of FP16"),
    ("BF16", [*ZEROS, 1e39], "1e+39 is no value of BF16"),
    ("BOOL", [*ZEROS, None], "null is no value of BOOL"),
    ("BOOL", [*ZEROS, LARGE], ""),
]


@pytest.mark.parametrize(("datatype", "data", "says"), WRONG)
def test_numbers_are_not_judged_one_by_one(datatype: str, data: Any, says: str) -> None:
    """8,000 zeros and a 300 took 40 times as long as 8,000 zeros."""
    right = steps(lambda: over_http(body(datatype, [0] * COUNT)))
    for given in (data, [[one] for one in data] if [0] not in data else data):
        content = body(datatype, given)
        said = over_http(content)
        assert says in said and bool(said) == bool(says)
        assert steps(lambda content=content: over_http(content)) <= right + MORE


@pytest.mark.parametrize(
    ("datatype", "field", "wrong"),
    [("INT8", "int_contents", 300), ("UINT8", "uint_contents", 300), ("INT16", "int_contents", -(2**31))],
)
def test_nor_are_those_of_grpc(datatype: str, field: str, wrong: int) -> None:
    right, content = message(datatype, field, [0] * COUNT), message(datatype, field, [*ZEROS, wrong])
    assert f"{wrong} is no value of {datatype}" in over_grpc(content)
    assert steps(lambda: over_grpc(content)) <= steps(lambda: over_grpc(right)) + MORE


@pytest.mark.parametrize("datatype", ["FP32", "INT32", "BOOL"])
@pytest.mark.parametrize("rows", [1, COUNT // 2])
def test_a_text_among_numbers_does_not_make_a_text_of_each(datatype: str, rows: int) -> None:
    """NumPy took 4 bytes a letter of the longest for every one of them: 500 MB for a message of 32 KB."""
    values = [*ZEROS, "x" * 2 * COUNT]
    data: Any = values if rows == 1 else [values[n : n + 2] for n in range(0, COUNT, 2)]
    content = body(datatype, data)
    tracemalloc.start()
    try:
        assert '"xxxx' in over_http(content) and f"is no value of {datatype}" in over_http(content)
        assert tracemalloc.get_traced_memory()[1] < 50 * len(content)
    finally:
        tracemalloc.stop()


def texts(count: int) -> tuple[bytes, bytes]:
    """So many inputs of one text, over HTTP and gRPC."""
    names = [f"x{n}" for n in range(count)]
    inputs = [{"name": name, "datatype": "BYTES", "shape": [1], "data": ["a"]} for name in names]
    found = pb.ModelInferRequest()
    for name in names:
        found.inputs.add(name=name, datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"a")
    return json.dumps({"inputs": inputs}).encode(), found.SerializeToString()


def test_tensors_of_text_are_not_counted_anew_with_each() -> None:
    """200 of them were looked at 20,000 times."""
    for read, few, many in zip((over_http, over_grpc), texts(50), texts(200), strict=True):
        assert steps(lambda read=read, many=many: read(many)) < 5 * steps(
            lambda read=read, few=few: read(few)
        )
