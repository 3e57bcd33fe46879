"""Numbers of a message over gRPC, one by one or as raw bytes: which of the two a tensor has."""

from __future__ import annotations

import pytest
from tritonclient.grpc import service_pb2 as pb

from eunomia.serving.devices.messages import DATATYPES
from eunomia.serving.devices.strings import packed
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.rpc import (
    foretold,
    parse_message,
    read_again,
    read_message,
    split_message,
    take_contents_out,
)


@pytest.mark.parametrize("datatype", ["FP16", "FP32", "BYTES"])
def test_empty_contents_beside_raw_ones_are_none(datatype: str) -> None:
    """MLServer's converter sends both: they were taken for a tensor without values."""
    raw = packed([b"a", b"b"]) if datatype == "BYTES" else bytes(2 * DATATYPES[datatype].itemsize)
    message = pb.ModelInferRequest(raw_input_contents=[raw])
    message.inputs.add(name="t", datatype=datatype, shape=[2]).contents.SetInParent()
    rest, tensors = split_message(message.SerializeToString(), 1000)
    text = bytes(rest.joined())
    left, numbers = take_contents_out(text)
    read = [
        read_message(message), read_again(text, tensors), read_again(text, tensors),
        read_message(parse_message(left), tensors, numbers),
    ]  # fmt: skip
    assert [one.inputs[0].data.shape for one in read] == [(2,)] * 4  # type: ignore[union-attr]
    assert read[1].form is read[2].form is not None, "it is known again"
    if datatype != "BYTES":
        early = foretold(text, len(raw), 0)
        assert early is not None and early.inputs[0].nbytes == len(raw)


def test_empty_contents_without_raw_ones_are_a_tensor_without_values() -> None:
    message = pb.ModelInferRequest()
    message.inputs.add(name="t", datatype="FP32", shape=[0, 3]).contents.SetInParent()
    left, numbers = take_contents_out(message.SerializeToString())
    for one in (read_message(message), read_message(parse_message(left), (), numbers)):
        assert one.inputs[0].data.shape == (0, 3)  # type: ignore[union-attr]
    message.inputs[0].shape[0] = 2
    with pytest.raises(BadRequest, match=r"'t': 0 values given, \[2, 3\] needs 6"):
        read_message(message)


def test_numbers_beside_raw_contents_are_refused() -> None:
    """Which of both counts, no client says."""
    message = pb.ModelInferRequest(raw_input_contents=[bytes(8)])
    message.inputs.add(name="t", datatype="FP32", shape=[2]).contents.fp32_contents.extend([1, 2])
    rest, tensors = split_message(message.SerializeToString(), 1000)
    left, numbers = take_contents_out(bytes(rest.joined()))
    for again in (
        lambda: read_message(message),
        lambda: read_again(bytes(rest.joined()), tensors),
        lambda: read_message(parse_message(left), tensors, numbers),
    ):
        with pytest.raises(BadRequest, match="'t' has contents, and the message has raw_input_contents too"):
            again()
