"""Requests that clients send again are read and judged at a glance: as if each were the first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pb = pytest.importorskip("tritonclient.grpc.service_pb2")

from eunomia.serving.devices.messages import Ports  # noqa: E402
from eunomia.serving.fit import fit_of  # noqa: E402
from eunomia.serving.models.entry import Entry  # noqa: E402
from eunomia.serving.protocol.errors import ServingError  # noqa: E402
from eunomia.serving.protocol.infer import KNOWN_BYTES, InferRequest, read_request  # noqa: E402
from eunomia.serving.protocol.pieces import ScatteredTensor  # noqa: E402
from eunomia.serving.protocol.rpc import parse_message, read_again, read_message  # noqa: E402

SHAPES = st.lists(st.integers(0, 3), max_size=2)
TYPES = st.sampled_from(["FP32", "INT8", "BOOL", "BYTES", "NONE"])


def said(read: Callable[[], InferRequest]) -> tuple[object, ...]:
    """A request with its tensors' bytes, or why there is none."""
    try:
        request = read()
    except ServingError as error:
        return (type(error),)  # of two faults any is said
    tensors = [
        (t.name, t.datatype, t.shape, t.data.tobytes() if isinstance(t.data, np.ndarray) else t.data)
        for t in request.inputs
    ]
    return request.model, request.version, request.request_id, tensors, request.outputs, request.parameters


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A message without its raw tensors, and those: mostly such as clients send."""
    message, raw = pb.ModelInferRequest(model_name="m", id=draw(st.sampled_from(["", "7"]))), list[bytes]()
    for n in range(draw(st.integers(0, 3))):
        datatype, shape = draw(TYPES), draw(SHAPES)
        one = message.inputs.add(name=f"x{n}", datatype=datatype, shape=shape)
        where = draw(st.sampled_from(["raw", "raw", "raw", "region", "contents"]))
        if where == "region":
            one.parameters["shared_memory_region"].string_param = "r"
            one.parameters["shared_memory_byte_size"].int64_param = draw(st.integers(-1, 8))
        elif where == "contents":
            one.contents.fp32_contents.extend([1.0] * int(np.prod(shape)))
        else:
            size = 1 if datatype in ("INT8", "BOOL") else 4
            raw.append(bytes(int(np.prod(shape)) * size + draw(st.sampled_from([0, 0, 0, 0, 1]))))
    for n in range(draw(st.integers(0, 2))):
        wanted = message.outputs.add(name=f"y{n}")
        if draw(st.booleans()):
            wanted.parameters["classification"].int64_param = draw(st.integers(-1, 2))
    message.parameters["timeout"].int64_param = draw(st.integers(0, 2))
    if draw(st.integers(0, 9)) == 0:
        raw = raw[1:] or [b"more"]
    if draw(st.integers(0, 9)) == 0:
        message.parameters["long"].string_param = "x" * KNOWN_BYTES
    return message.SerializeToString(), raw


@settings(max_examples=200, deadline=None)
@given(messages())
def test_a_message_of_grpc_that_comes_again_says_the_same(sent: tuple[bytes, list[bytes]]) -> None:
    text, raw = sent
    first = said(lambda: read_message(parse_message(text), raw))
    for _ in range(2):
        assert said(lambda: read_again(text, raw)) == first


HEADER = b"""{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": 24}}]}"""


def asked(name: bytes = b"x") -> InferRequest:
    """A request over HTTP, whose tensor lies where it came."""
    return read_request("m", "", HEADER.replace(b'"x"', b'"%s"' % name), memoryview(bytes(24)))


def ports(*sizes: int) -> Ports:
    """A network's."""
    one = [{"name": "x", "datatype": "FP32", "shape": list(sizes)}]
    return {"inputs": one, "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}]}


def test_what_fitted_fits_again_while_its_network_is_the_same() -> None:
    entry, its = Entry("m", Path("m.onnx")), ports(-1, 3)
    request, again = asked(), asked()
    assert request.form is again.form is not None
    first = fit_of(request, entry, its, {t.name: t.data for t in request.inputs})  # type: ignore[misc]
    assert (first.batch, first.shapes, first.alike, first.sizes) == (
        2,
        (("x", (2, 3)),),
        (("x", (3,)),),
        (3,),
    )
    assert fit_of(again, entry, its, {}) is first, "nobody looks at its tensors again"
    other = ports(-1, 4)
    with pytest.raises(ServingError, match=r"has shape \[2, 3\]; model 'm' takes \[-1, 4\]"):
        fit_of(again, entry, other, {t.name: t.data for t in again.inputs})  # type: ignore[misc]
    with pytest.raises(ServingError, match="takes the inputs x; given: z"):
        wrong = asked(b"z")
        fit_of(wrong, entry, its, {t.name: t.data for t in wrong.inputs})  # type: ignore[misc]
    assert fit_of(again, entry, ports(-1, 3), {t.name: t.data for t in again.inputs}) == first  # type: ignore[misc]


def test_a_network_that_may_have_no_empty_inputs_any_more_looks_again() -> None:
    empty = HEADER.replace(b"[2, 3]", b"[2, 0]").replace(b"24", b"0")
    request, its = read_request("m", "", empty, memoryview(b"")), ports(-1, -1)
    entry = Entry("m", Path("m.onnx"), empty=True)
    inputs = {t.name: t.data for t in request.inputs}
    assert fit_of(request, entry, its, inputs).batch == 2  # type: ignore[arg-type]
    entry.empty = False
    with pytest.raises(ServingError, match="it is empty"):
        fit_of(request, entry, its, inputs)  # type: ignore[arg-type]


def test_a_tensor_in_pieces_knows_its_size_after_a_reshape() -> None:
    one = ScatteredTensor(np.dtype("<f4"), (2, 6), None)  # type: ignore[arg-type]
    other = one.reshape((3, 4))
    assert (other.shape, other.ndim, other.size, other.nbytes) == ((3, 4), 2, 12, 48) and one.shape == (2, 6)
