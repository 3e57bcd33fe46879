"""Large messages over gRPC are refused by what stands before their tensors, if they do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tritonclient.grpc")
from tritonclient.grpc import service_pb2 as pb  # noqa: E402

from eunomia.serving.protocol import fields  # noqa: E402
from eunomia.serving.protocol.errors import BadRequest, ServingError  # noqa: E402
from eunomia.serving.protocol.fields import FIELD_HEAD, STEP, Heading, fields_of  # noqa: E402
from eunomia.serving.protocol.infer import SMALL_BYTES, InferRequest  # noqa: E402
from eunomia.serving.protocol.pieces import Pieces  # noqa: E402
from eunomia.serving.protocol.rpc import foretold, parse_message, read_message, split_message  # noqa: E402
from eunomia.serving.server import Server  # noqa: E402
from tests.serving.live import GOLD, SIDE, SILVER, ask, running  # noqa: E402
from tests.serving.made_up import examples, messages  # noqa: E402
from tests.serving.speaking import OIP, Client, client, message  # noqa: E402
from tests.serving.test_foresight import may_send_little  # noqa: E402

ROWS = 64  # pictures of 48 KiB
SIZE = 4 * ROWS * 3 * SIDE * SIDE
BEGUN = 1000  # bytes of the tensor that come
RIGHT = [ROWS, 3, SIDE, SIDE]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with running(folder, arena_bytes=64 * 1024**2, max_body_bytes=32 * 1024**2) as live:
        yield live


def request(
    shape: list[int], size: int = SIZE, *, model: str = "small", name: str = "image",
    datatype: str = "FP32", output: str = "logits", number: str = "7",
) -> bytes:  # fmt: skip
    """As stock clients write it."""
    asked = pb.ModelInferRequest(model_name=model, id=number)
    asked.inputs.add(name=name, datatype=datatype, shape=shape)
    asked.outputs.add(name=output)
    asked.raw_input_contents.append(bytes(size))
    return bytes(asked.SerializeToString())


def begin(talk: Client, content: bytes, key: str = GOLD) -> int:
    """A call whose message comes as far as the tensor's first bytes."""
    number = talk.begin(OIP + "ModelInfer", key)
    assert talk.push(number, message(content)[: -SIZE + BEGUN]) == b""
    return number


WRONG = [
    ({"shape": [ROWS, 3, SIDE, SIDE + 1]}, 3, "bytes given, FP32"),
    ({"shape": [3, ROWS, SIDE, SIDE]}, 3, "model 'small' takes [-1, 3, 64, 64]"),
    ({"datatype": "INT32"}, 3, "model 'small' takes FP32"),
    ({"name": "picture"}, 3, "takes the inputs image; given: picture"),
    ({"model": "nobody"}, 5, "unknown model 'nobody'"),
    ({"output": "words"}, 3, "has no output 'words'"),
]


@pytest.mark.parametrize("wrong, status, words", WRONG)
def test_what_does_not_fit_is_refused_before_it_has_come(
    server: Server, wrong: dict[str, Any], status: int, words: str
) -> None:
    """As it was, the server waited for the last byte."""
    with client(server.grpc_port) as talk:
        number = begin(talk, request(**{"shape": RIGHT, **wrong}))
        talk.listen(lambda: talk.answers[number].over)
        assert talk.answers[number].status == status and words in talk.answers[number].why
        assert not server.service.bodies.held
        one = request([1, 3, SIDE, SIDE], SIZE // ROWS)
        assert talk.ask(OIP + "ModelInfer", one, GOLD).status == 0


def test_what_is_refused_early_is_counted_like_all_else(server: Server) -> None:
    """Here a tenant's own bound."""

    def counted() -> Any:
        _, state = ask(server, "GET", "/v2/models/small/stats", SILVER)
        return state["model_stats"][0]["inference_stats"]["fail"]["count"]

    before = counted()
    with client(server.grpc_port) as talk:
        number = begin(talk, request(RIGHT), SILVER)
        talk.listen(lambda: talk.answers[number].over)
    assert talk.answers[number].status == 8 and "may send 200000" in talk.answers[number].why
    assert counted() == before + 1


def test_what_fits_is_served_all_the_same(server: Server, number: str = "7") -> None:
    with client(server.grpc_port) as talk:
        answer = talk.ask(OIP + "ModelInfer", request(RIGHT, number=number), GOLD)
    assert answer.status == 0
    found = pb.ModelInferResponse.FromString(answer.messages[0])
    assert found.id == number and list(found.outputs[0].shape) == [ROWS, 10]


def test_what_clients_repeat_is_read_once_whatever_its_id(server: Server) -> None:
    test_what_fits_is_served_all_the_same(server)
    with patch("eunomia.serving.rpc.foresight.foretold", side_effect=AssertionError):
        test_what_fits_is_served_all_the_same(server, "8")


def test_what_fitted_before_is_refused_once_its_grant_has_changed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_what_fits_is_served_all_the_same(server)
    may_send_little(server, monkeypatch)
    with client(server.grpc_port) as talk:
        number = begin(talk, request(RIGHT))
        talk.listen(lambda: talk.answers[number].over)
    assert talk.answers[number].status == 8 and "may send 1000" in talk.answers[number].why


def test_fields_in_another_order_wait_for_the_last(server: Server) -> None:
    """Its network comes last, and counts."""
    other = request(RIGHT, model="nobody") + bytes(
        pb.ModelInferRequest(model_name="small").SerializeToString()
    )
    with client(server.grpc_port) as talk:
        assert talk.ask(OIP + "ModelInfer", other, GOLD).status == 0


def test_a_refused_message_of_a_stream_is_answered_at_once_in_its_turn_and_the_stream_goes_on(
    server: Server,
) -> None:
    one = request([1, 3, SIDE, SIDE], SIZE // ROWS, number="right")
    wrong = request([ROWS, 3, SIDE, SIDE + 1], number="wrong")
    with client(server.grpc_port) as talk:
        number = talk.begin(OIP + "ModelStreamInfer", GOLD)
        answer = talk.answers[number]
        for so_far in (0, 2):
            talk.upload(number, message(one) + message(wrong)[: -SIZE + BEGUN], last=False)
            talk.listen(lambda count=so_far + 2: len(answer.messages) == count)
            assert sum(server.service.bodies.held.values()) < 2 * SMALL_BYTES  # nothing waits for the rest
            talk.upload(number, message(wrong)[-SIZE + BEGUN :], last=False)
        talk.upload(number, message(one), last=True)
        talk.listen(lambda: answer.over)
    found = [pb.ModelStreamInferResponse.FromString(data) for data in answer.messages]
    said = [(one.infer_response.id, "bytes given, FP32" in one.error_message) for one in found]
    assert said == [*[("right", False), ("wrong", True)] * 2, ("right", False)] and answer.status == 0
    assert not server.service.bodies.held


# --- beginnings ------------------------------------------------------------------------------------------


def heading_of(data: bytes, crumb: int) -> tuple[Heading, bool]:
    """What is seen of a message that comes in pieces of a size."""
    heading = Heading(len(data))
    seen = [heading.take(data[at : at + crumb]) for at in range(0, len(data), crumb)]
    return heading, any(seen)


def facts(asked: InferRequest) -> Any:
    """All but the tensors' bytes."""
    tensors = [(t.name, t.datatype, t.shape) for t in asked.inputs]
    told = repr(sorted(asked.parameters.items()))  # protobuf keeps a map in any order
    return asked.model, asked.version, asked.request_id, tensors, repr(asked.outputs), told


@examples(4.0)
@given(asked=messages(), order=st.randoms(), shuffled=st.booleans(), crumb=st.integers(1, 300))
def test_what_a_beginning_says_is_what_the_whole_says(
    asked: Any, order: Any, shuffled: bool, crumb: int
) -> None:
    """In any order of fields, and however it comes: nothing is refused early that is taken when it is whole."""
    data = asked.SerializeToString()
    if shuffled:
        places = [(start, end) for _, start, _, end in fields_of(Pieces([data]), 0, len(data), "it")]
        order.shuffle(places)
        data = b"".join(data[start:end] for start, end in places)
    heading, begun = heading_of(data, crumb)
    if not begun:
        return
    rest, raw = split_message(data, len(data))
    assert bytes(rest.joined()).startswith(heading.content) and len(raw[0]) == heading.first
    assert pb.ModelInferRequest.FromString(heading.content).raw_input_contents == []
    try:
        early = foretold(heading.content, heading.first, heading.left)
    except ServingError:
        with pytest.raises(ServingError):
            read_message(parse_message(bytes(rest.joined())), raw)
        return
    if early is not None:
        try:
            whole = read_message(parse_message(bytes(rest.joined())), raw)
        except ServingError:
            return  # bytes of texts say more than their number
        assert facts(early) == facts(whole)


def test_what_comes_in_crumbs_is_looked_at_once() -> None:
    asked = pb.ModelInferRequest(model_name="m", raw_input_contents=[bytes(100)])
    for n in range(100):
        asked.inputs.add(name=f"x{n}", datatype="FP32", shape=[25])
    data = asked.SerializeToString()
    with patch.object(fields, "_field_at", wraps=fields._field_at) as looked:
        heading, begun = heading_of(data, 1)
    assert begun and (heading.first, heading.left) == (100, 0) and looked.call_count == 102


@pytest.mark.parametrize(
    "many", [b"\x0a\x00", b"\x08\x01", b"\x2a\x82\x04" + bytes(514), b"\x2a\xff\xff\x7f"]
)
def test_a_beginning_without_end_is_given_up(many: bytes) -> None:
    """Small fields without number, inputs without end, one input with very many numbers in it."""
    heading = Heading(2**30)
    content = (many * (4 * SMALL_BYTES))[: 4 * SMALL_BYTES]
    with patch.object(fields, "_field_at", wraps=fields._field_at) as looked:
        for _ in range(100):
            assert not heading.take(content)
    assert looked.call_count <= fields.MAX_FIELDS + 1
    assert len(heading._came) <= SMALL_BYTES + FIELD_HEAD + STEP


@pytest.mark.parametrize(
    "torn", [b"\x3a\xff\xff\xff\xff\x7f", b"\x0a\xff\xff\xff\xff\x7f", b"\x0f" * 20, b"\xff" * 20]
)
def test_a_length_beyond_the_message_is_refused_at_once(torn: bytes) -> None:
    with pytest.raises(BadRequest, match="is no ModelInferRequest"):
        Heading(2**20).take(torn + bytes(20))


def test_sizes_of_several_tensors_are_added_up() -> None:
    """One that does not have its shape's bytes waits for the whole message, which may hold something else there."""
    asked = pb.ModelInferRequest(model_name="m")
    for name, datatype, count in (("a", "FP32", 5), ("b", "INT64", 300), ("c", "UINT8", 7)):
        asked.inputs.add(name=name, datatype=datatype, shape=[count])
    asked.raw_input_contents.extend([bytes(20), bytes(2400), bytes(7)])
    heading, _ = heading_of(asked.SerializeToString(), 1000)
    early = foretold(heading.content, heading.first, heading.left)
    assert early is not None and [t.nbytes for t in early.inputs] == [20, 2400, 7]
    assert foretold(heading.content, heading.first, heading.left + 1) is None
    with pytest.raises(BadRequest, match="'a': 24 bytes given, FP32"):
        foretold(heading.content, 24, heading.left)
    del asked.raw_input_contents[:]
    asked.inputs[1].datatype = "BYTES"
    assert foretold(asked.SerializeToString(), 20, heading.left) is None
