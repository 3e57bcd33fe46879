"""What exporters and clients do now and then: odd outputs, empty tensors, a tensor twice, bytes that are no HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, parser

from eunomia.core.errors import ModelError
from eunomia.serving.devices.messages import MAX_TENSORS
from eunomia.serving.devices.ports import ports_of
from eunomia.serving.fronts.lane import Mode
from eunomia.serving.models.entry import Entry
from eunomia.serving.protocol.checks import other_names
from eunomia.serving.protocol.infer import check_tensor
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S
from tests.serving.live import GOLD, ask, running
from tests.serving.speaking import client
from tests.serving.wire import Wire, lane

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
EINSUM = "g (float[b, q, d] x, float[b, k, d] y) => (float[b, q, k] z) "
NETWORKS = {
    "einsum": EINSUM + '{ z = Einsum<equation = "bqd,bkd->bqk">(x, y) }',
    "constant": "g (float[n, 4] x) => (float[n, 4] y, float[2] c) "
    "{ y = Relu(x) \n c = Constant<value = float[2] {1.0, 2.0}>() }",
    "scalars": "g (float x, float y) => (float z) { z = Add (x, y) }",
    "logarithms": "g (float[n] x) => (float[n] y) { y = Log (x) }",
    "past": "g (float[b, n] x, float[b, m] past) => (float[b, k] y) { y = Concat<axis = 1>(past, x) }",
}

LONG = "n" * 1000
NETWORKS["long"] = f"g (float[n] {LONG}) => (float[n] y) {{ y = Relu ({LONG}) }}"
NETWORKS["default"] = "g (float[n] x, float d) => (float[n] y) <float d = {2.0}> { y = Mul (x, d) }"
WIDE = 161  # inputs: a decoder of 80 layers
INPUTS = ", ".join(f"x{n}" for n in range(WIDE))
NETWORKS["wide"] = f"g ({INPUTS.replace('x', 'float[n] x')}) => (float[n] y) {{ y = Sum ({INPUTS}) }}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("odd")
    entries = []
    for name, text in NETWORKS.items():
        onnx.save(parser.parse_model(HEAD + text), folder / f"{name}.onnx")
        entries.append(Entry(name, folder / f"{name}.onnx", empty={"past": True, "einsum": False}.get(name)))
    with running(folder, networks=entries, models_dir=None) as found:
        yield found


def tensor(name: str, *shape: int) -> dict[str, Any]:
    size = int(np.prod(shape))
    return {"name": name, "datatype": "FP32", "shape": list(shape), "data": [0.5 + n for n in range(size)]}


def infer(server: Server, model: str, *inputs: dict[str, Any]) -> tuple[int, Any]:
    return ask(server, "POST", f"/v2/models/{model}/infer", GOLD, {"inputs": inputs})


def test_a_long_name_is_served_and_an_input_with_a_default_is_explained(server: Server) -> None:
    assert infer(server, "long", tensor(LONG, 2))[1]["outputs"][0]["data"] == [0.5, 1.5]
    status, content = infer(server, "long", tensor(f"{LONG}n", 2))
    assert status == 400 and "a tensor's name has 1001 letters; at most 1000 are taken" in content["error"]
    status, content = infer(server, "default", tensor("x", 2), tensor("d"))
    assert status == 400 and content["error"] == (
        "model 'default' takes the inputs x; given: d, x; leave out d: an input to which the file gives a default "
        "keeps it, and others are unknown"
    )
    assert infer(server, "default", tensor("x", 2))[1]["outputs"][0]["data"] == [1.0, 3.0]


@pytest.mark.parametrize(
    ("wanted", "given", "says"),
    [
        (["x"], ["X"], "input 'x' is missing (did you mean it by 'X'?); model 'm' takes the inputs x; given: X"),
        (["image", "mask"], ["imag", "q"], "input 'image' is missing (did you mean it by 'imag'?); input 'mask' is "
         "missing; model 'm' takes the inputs image, mask; given: imag, q; leave out q: an input to which the file"),
        (["x"], [], "input 'x' is missing; model 'm' takes the inputs x; given: none"),
        (["x"], ["d"], "input 'x' is missing; model 'm' takes the inputs x; given: d; leave out d: an input to"),
        (["ab1", "ab2"], ["ab3"], "input 'ab1' is missing (did you mean it by 'ab3'?); input 'ab2' is missing; model"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_before_what_is_too_much(
    wanted: list[str], given: list[str], says: str
) -> None:
    """As it was, one letter that was large was called an unknown input, and no more."""
    assert other_names("m", set(wanted), set(given)).startswith(says)


def test_an_output_that_is_a_weight_is_answered(server: Server, tmp_path: Path) -> None:
    """As it was, such a network did not load, for its last piece had lost the weight."""
    status, content = infer(server, "constant", tensor("x", 2, 4))
    assert status == 200
    assert {o["name"]: o["data"] for o in content["outputs"]}["c"] == [1.0, 2.0]
    assert len(content["outputs"]) == 2


def test_a_path_of_another_protocol_is_told_where_to_go(server: Server) -> None:
    status, said = ask(server, "POST", "/v1/models/scalars:predict", GOLD, {})
    assert (status, said["reason"]) == (404, "not_found")
    assert said["error"].startswith(
        "nothing is served at '/v1/models/scalars:predict'; inference is POST /v2/"
    )
    status, said = ask(server, "PUT", "/v2/models/scalars/infer", GOLD, {})
    assert (status, said["error"]) == (405, "'/v2/models/scalars/infer' takes POST, not PUT")


def test_a_wrong_method_is_told_the_right_ones_in_a_header_too(server: Server) -> None:
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    line.request("DELETE", "/v2/models/scalars/infer", headers={"Authorization": f"Bearer {GOLD}"})
    answer = line.getresponse()
    assert (answer.status, answer.headers["Allow"]) == (405, "POST"), answer.read()
    line.close()


def test_tensors_without_an_axis_go_in_and_come_out(server: Server) -> None:
    """As it was, nobody got an answer of whose outputs one was a single number."""
    status, content = infer(server, "scalars", tensor("x"), tensor("y"))
    assert (status, content["outputs"][0]["shape"], content["outputs"][0]["data"]) == (200, [], [1.0])


@pytest.mark.parametrize("width", [0, 3])
def test_a_decoder_begins_with_an_empty_past(server: Server, tmp_path: Path, width: int) -> None:
    """Exports of language models take keys and values of the tokens so far, of which there are none at first."""
    status, content = infer(server, "past", tensor("x", 2, 3), tensor("past", 2, width))
    onnx.save(parser.parse_model(HEAD + NETWORKS["past"]), tmp_path / "past.onnx")
    feed = {t["name"]: np.array(t["data"], np.float32).reshape(t["shape"])
            for t in (tensor("x", 2, 3), tensor("past", 2, width))}  # fmt: skip
    wanted = ort.InferenceSession(str(tmp_path / "past.onnx")).run(None, feed)[0]
    assert status == 200, content
    assert content["outputs"][0]["data"] == wanted.ravel().tolist()


def test_an_empty_input_kills_no_worker_of_a_network_that_is_said_to_take_none(server: Server) -> None:
    """As it was, ONNX Runtime's Einsum died of it, and the worker that all share with it."""
    (device,) = server.pool.devices
    before = device.pid
    for shapes in (((1, 2, 0), (1, 3, 0)), ((1, 2, 2), (1, 0, 2))):
        x, y = shapes
        status, content = infer(server, "einsum", tensor("x", *x), tensor("y", *y))
        assert status == 400 and "it is empty, which empty = true in the [[network]]" in content["error"]
    assert infer(server, "einsum", tensor("x", 1, 2, 2), tensor("y", 1, 3, 2))[0] == 200
    assert device.pid == before


def test_no_row_is_no_request(server: Server) -> None:
    """Not where inputs may be empty either: that is so behind the first axis."""
    status, content = infer(server, "past", tensor("x", 0, 3), tensor("past", 0, 2))
    assert status == 400 and "it has no row (its first axis is 0); send one at least" in content["error"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("binary", [True, False])
def test_what_is_no_finite_number_is_answered_as_it_is(server: Server, protocol: str, binary: bool) -> None:
    """JSON said null, which the client read as NaN, and which no request may hold."""
    module: Any = pytest.importorskip(f"tritonclient.{protocol}")
    port = server.http_port if protocol == "http" else server.grpc_port
    given = np.array([np.inf, 0.0, -1.0, 1.0], np.float32)
    one = module.InferInput("x", [4], "FP32")
    one.set_data_from_numpy(given, **({"binary_data": binary} if protocol == "http" else {}))
    wanted = module.InferRequestedOutput("y", **({"binary_data": binary} if protocol == "http" else {}))
    with module.InferenceServerClient(f"127.0.0.1:{port}") as client:
        result = client.infer(
            "logarithms", [one], outputs=[wanted], headers={"authorization": f"Bearer {GOLD}"}
        )
    np.testing.assert_array_equal(result.as_numpy("y"), np.array([np.inf, -np.inf, np.nan, 0.0], np.float32))


def test_an_answer_in_json_may_be_the_next_request(server: Server) -> None:
    first = infer(
        server, "logarithms", {"name": "x", "datatype": "FP32", "shape": [3], "data": [0.0, -1.0, 1.0]}
    )
    assert repr(first[1]["outputs"][0]["data"]) == "[-inf, nan, 0.0]"
    again = {"name": "x", "datatype": "FP32", "shape": [3], "data": first[1]["outputs"][0]["data"]}
    status, content = infer(server, "logarithms", again)
    assert status == 200 and repr(content["outputs"][0]["data"]) == "[nan, nan, -inf]"


def test_a_tensor_that_is_given_twice_is_refused(server: Server) -> None:
    """As it was, the last one counted, and nobody said so."""
    status, content = infer(server, "constant", tensor("x", 2, 4), tensor("x", 1, 4))
    assert status == 400 and "input 'x' is named twice" in content["error"]


FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
MAPS = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, FLOATS))


@pytest.mark.parametrize(
    ("kind", "producer", "said"),
    [
        (helper.make_sequence_type_proto(FLOATS), "skl2onnx",
         "a sequence of tensors, .*: export each of its members as a tensor of its own$"),
        (helper.make_optional_type_proto(FLOATS), "pytorch",
         "an optional, and only tensors come in and out: export it as a tensor that is always there$"),
        (MAPS, "skl2onnx", "a sequence of maps, .*: export it with zipmap=False$"),
        (MAPS, "CatBoost", "a sequence of maps, .*: take the node ZipMap out of the file, and name its input 'p' as"),
        (MAPS.sequence_type.elem_type, "", "a map, .*: export its columns as tensors$"),
    ],
)  # fmt: skip
def test_what_is_no_tensor_is_named_with_what_helps_against_it(kind: Any, producer: str, said: str) -> None:
    """CatBoost has no zipmap, and a list of tensors is none: all were told to export without it."""
    ports = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]), helper.make_value_info("s", kind)
    nodes = [helper.make_node("ZipMap", ["p"], ["s"])] if kind == MAPS else []
    graph = helper.make_graph(nodes, "g", [ports[0]], [ports[1]])
    with pytest.raises(ModelError, match=f"'s' is {said}"):
        ports_of(helper.make_model(graph, producer_name=producer))


@pytest.mark.parametrize("what", ["inputs", "outputs"])
def test_a_network_of_more_ports_than_a_request_has_is_refused_when_it_loads(what: str) -> None:
    """As it was, it was served and could never be called."""
    ports = [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, [1]) for n in range(MAX_TENSORS + 1)]
    for given, fine in ((ports[1:], True), (ports, False)):
        graph = helper.make_graph([], "g", *((given, ports[:1]) if what == "inputs" else ([], given)))
        if fine:
            assert len(ports_of(helper.make_model(graph))[what]) == MAX_TENSORS  # type: ignore[literal-required]
        else:
            with pytest.raises(ModelError, match=f"it has 257 {what}; a request has at most 256: join some"):
                ports_of(helper.make_model(graph))


@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize(
    ("name", "rank", "says"),
    [
        ("n" * 1000, 16, ""),
        (
            "n" * 1001,
            1,
            f"tensor '{'n' * 40}...' has 1001 letters; those of requests have at most 1000: rename it",
        ),
        ("x", 17, "tensor 'x' has 17 axes; those of requests have at most 16"),
    ],
)
def test_a_port_that_no_request_can_name_is_refused_when_it_loads(
    side: str, name: str, rank: int, says: str
) -> None:
    """As it was, it was READY, and each request was refused."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1] * rank)]
    other = [helper.make_tensor_value_info("other", TensorProto.FLOAT, [1])]
    sides = (ports, other) if side == "inputs" else (other, ports)
    model = helper.make_model(helper.make_graph([], "g", *sides))
    if says:
        with pytest.raises(ModelError, match=re.escape(says)):
            ports_of(model)
    else:
        assert check_tensor(name, "FP32", [1] * rank) and ports_of(model)[side]  # type: ignore[literal-required]


def test_a_decoder_of_many_layers_is_called(server: Server) -> None:
    """A past of keys and values for each layer: 64 inputs were too few for 32 layers."""
    status, content = infer(server, "wide", *(tensor(f"x{n}", 1) for n in range(WIDE)))
    assert (status, content["outputs"][0]["data"]) == (200, [WIDE * 0.5])


def test_a_tensor_of_any_rank_is_no_scalar() -> None:
    port = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    (found,) = ports_of(helper.make_model(helper.make_graph([], "g", [], [port])))["outputs"]
    assert found["shape"] == [-1]


@pytest.mark.parametrize(
    "said, status",
    [
        (b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST /v2 HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", 400),
        (b"POST /v2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello", 400),
        (b"GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"FOO /v2 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ],
)
def test_bytes_that_are_no_http_get_one_sentence_of_json_and_no_line_of_the_log(
    server: Server, said: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A length in two ways, a length that is no number: whoever stands in front might read it otherwise."""
    with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
        line.sendall(said)
        answer = b""
        while piece := line.recv(65536):
            answer += piece
    assert re.match(rb"HTTP/1\.[01] %d " % status, answer)
    assert b'{"error": "this is no HTTP: ' in answer and answer.count(b"HTTP/1.") == 1
    assert b"aiohttp" not in answer
    assert not caplog.records


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("GET", "/v2/", "/v2"),
        ("POST", "/v2/models/past/infer/", "/v2/models/past/infer"),
        ("GET", "/v2/models/past/infer/?a=b", "/v2/models/past/infer"),
        ("GET", "/v2/models/past//", "/v2/models/past"),
    ],
)
def test_a_slash_behind_a_path_is_pointed_at(server: Server, method: str, path: str, meant: str) -> None:
    status, said = ask(server, method, path, GOLD, {} if method == "POST" else None)
    assert (status, said["reason"]) == (404, "not_found")
    assert (
        said["error"]
        == f"nothing is served at {path.partition('?')[0]!r}; leave out the slash behind {meant!r}"
    )


def test_a_slash_behind_a_path_of_nobodys_is_not(server: Server) -> None:
    for path in ("/v3/",):
        status, said = ask(server, "GET", path, GOLD)
        assert status == 404 and said["error"].endswith("; inference is POST /v2/models/NAME/infer")


def test_who_begins_in_http2_is_told_where_grpc_is(server: Server) -> None:
    """curl and httpx, told to speak HTTP/2 at once, heard of an empty answer."""
    with client(server.http_port) as talk:
        answer = talk.answers[talk.begin("/v2", GOLD, last=True)]
        while not talk.closed:
            talk.listen_once()
    assert answer.ended and answer.head[":status"] == "505"
    assert json.loads(answer.body)["error"] == (
        f"this port speaks HTTP/1.1, and the request came in HTTP/2; gRPC is on port {server.grpc_port}"
    )


@pytest.mark.parametrize("path", ["/v2/models/past/infer", "/v2/repository/index"])
@pytest.mark.parametrize(
    ("key", "expected", "status"),
    [
        (GOLD, "100-continue", 100),
        (GOLD, "100-Continue", 100),
        (GOLD, "200-ok", 417),
        ("eun_no", "100-continue", 401),
    ],
)
def test_a_client_that_asks_hears_yes_once_its_key_is_known(
    server: Server, path: str, key: str, expected: str, status: int
) -> None:
    body = json.dumps({"inputs": [tensor("x", 1, 1), tensor("past", 1, 2)]}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
        line.sendall(f"{head}Expect: {expected}\r\n\r\n".encode())
        answer = line.recv(65536)
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        if status == 100:
            assert answer == b"HTTP/1.1 100 Continue\r\n\r\n"
            line.sendall(body)
            answer = line.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        else:  # nobody knows whether a body or the next request would come
            assert b"\r\nConnection: close\r\n" in answer
            line.settimeout(PATIENCE_S)
            assert not line.recv(65536)
    assert b"aiohttp" not in answer


@pytest.mark.parametrize(("path", "status"), [("/nope", 404), ("/v2", 405), ("/v2/models/past", 405)])
def test_nobody_hears_yes_twice_or_without_a_key_where_nothing_is(
    server: Server, path: str, status: int
) -> None:
    for key, expected, first in (
        ("eun_no", "100-continue", b"HTTP/1.1 %d " % status),
        (GOLD, "200-ok", b"HTTP/1.1 417 "),
        (GOLD, "100-continue", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 %d " % status),
    ):
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
        with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
            line.sendall(f"{head}Content-Length: 2\r\nExpect: {expected}\r\n\r\n{{}}".encode())
            answer = b"".join(iter(lambda: line.recv(65536), b""))  # noqa: B023
        assert answer.startswith(first) and b'{"error": ' in answer


@pytest.mark.parametrize("expected", ["100-continue", "200-ok"])
def test_what_an_old_client_expects_is_passed_over(server: Server, expected: str) -> None:
    body = json.dumps({"inputs": [tensor("x", 1, 1), tensor("past", 1, 2)]}).encode()
    head = (
        f"POST /v2/models/past/infer HTTP/1.0\r\nAuthorization: Bearer {GOLD}\r\nExpect: {expected}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.http_port), PATIENCE_S) as line:
        line.sendall(head.encode() + body)
        assert line.recv(65536).startswith(b"HTTP/1.0 200 OK\r\n")


def test_a_truth_is_no_number(server: Server) -> None:
    """``true`` was taken for 1."""
    for data in ([True, 1.0], [[1.0], [False]], [[[None]], [[True]]]):
        sent = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": data}
        status, content = infer(server, "past", sent, tensor("past", 1, 2))
        assert status == 400 and "true and false are no values of FP32" in content["error"]


def test_what_comes_behind_an_error_is_thrown_away_also_when_aiohttp_goes_on_by_itself() -> None:
    async def main() -> None:
        line = lane()
        line.connection_made(wire := Wire())
        line._mode = Mode.ALL
        line.data_received(b"FOO /v2 HTTP/1.1\r\nHost: a\r\n")  # held back by aiohttp's parser
        line.data_received(b"X\r\n\r\n")
        assert line._failed
        line._messages.clear()  # aiohttp has taken the error up
        line.data_received(b"")
        line.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
        assert line._failed and not line._messages
        line.connection_lost(None)
        assert wire.sent is not None

    asyncio.run(main())
