"""Networks that others made and messages of clients that others wrote: answered rightly, or told what to send."""

from __future__ import annotations

import json
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
from eunomia.serving.devices.cutting import PLAN, prepare
from eunomia.serving.devices.ports import ports_of
from eunomia.serving.models.entry import Entry
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S
from tests.serving.live import ADMIN, GOLD, SILVER, ask, running

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
BOTH = "g (float[n, 2] x) => (float[n, 2] y, float[n, 2] z) { y = Relu (x) \n z = Neg (x) }"
X = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, -2]}
EXAMPLE = 'send {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 1]}]}'


def summed(count: int, letters: int) -> onnx.ModelProto:
    """So many inputs, whose names have so many letters."""
    names = [f"x{n}".ljust(letters, "n") for n in range(count)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in names]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph([helper.make_node("Sum", names, ["y"])], "g", ports, out)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def attention() -> onnx.ModelProto:
    """ONNX Runtime's attention with a cache: of 2 heads, of which keys and values have 1."""
    wide = {"query": 32, "key": 16, "value": 16}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", "s", d]) for n, d in wide.items()]
    for name in ("past_key", "past_value"):
        inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", 1, "p", 16]))
    inputs.append(helper.make_tensor_value_info("last", TensorProto.INT32, ["b"]))
    inputs.append(helper.make_tensor_value_info("total", TensorProto.INT32, []))
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "s", 32])]
    for name in ("present_key", "present_value"):
        out.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", 1, "t", 16]))
    names = [port.name for port in inputs], [port.name for port in out]
    node = helper.make_node(
        "GroupQueryAttention", *names, domain="com.microsoft", num_heads=2, kv_num_heads=1
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", inputs, out)
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def deep() -> onnx.ModelProto:
    """What goes in and out of a decoder of 120 layers, in the names that exporters give it."""
    ports = [
        [helper.make_tensor_value_info(f"{name}.{n}.{kind}", TensorProto.FLOAT, ["b", 1, "p", 2])
         for n in range(120) for kind in ("key", "value")]
        for name in ("past_key_values", "present")
    ]  # fmt: skip
    nodes = [helper.make_node("Neg", [a.name], [b.name]) for a, b in zip(*ports, strict=True)]
    return helper.make_model(
        helper.make_graph(nodes, "g", *ports), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("foreign")
    models = {"both": parser.parse_model(HEAD + BOTH), "many": summed(100, 240)}
    long = [f"y{n}".ljust(999, "n") for n in range(150)]  # in an answer they take 150 KB
    text = ", ".join(f"float[n] {name}" for name in long)
    nodes = "\n".join(f"{name} = Neg (x)" for name in long)
    models["long"] = parser.parse_model(f"{HEAD}g (float[n] x) => ({text}) {{ {nodes} }}")
    models |= {"attention": attention(), "deep": deep()}
    for name, model in models.items():
        onnx.save(model, folder / f"{name}.onnx")
    entries = [Entry(name, folder / f"{name}.onnx") for name in models]
    with running(folder, networks=entries, models_dir=None) as found:
        yield found


def infer(server: Server, body: Any, model: str = "both") -> tuple[int, Any]:
    return ask(server, "POST", f"/v2/models/{model}/infer", GOLD, body)


def test_a_network_whose_description_is_long_is_served(server: Server) -> None:
    """As it was, a message above 128 KiB was cut off, and the start of the server never ended."""
    status, content = infer(server, {"inputs": [{**X, "shape": [2]}]}, "long")
    assert status == 200 and [o["data"] for o in content["outputs"]] == [[-1.0, 2.0]] * 150
    names = [port["name"] for port in ask(server, "GET", "/v2/models/many", GOLD)[1]["inputs"]]
    status, content = infer(server, {"inputs": [{**X, "shape": [2], "name": name} for name in names]}, "many")
    assert (status, content["outputs"][0]["data"]) == (200, [100.0, -200.0])


@pytest.mark.parametrize(
    "more",
    [
        {"id": None},
        {"parameters": None},
        {"outputs": None},
        {"inputs": [{**X, "parameters": None}]},
        {"outputs": [{"name": name, "parameters": None, "data": None, "shape": None} for name in "yz"]},
        {"parameters": {"priority": None, "timeout": None, "slo_ms": None}},
        {"inputs": [{**X, "parameters": {"shared_memory_offset": None, "binary_data_size": None}}]},
        {"id": None, "outputs": None, "inputs": [{**X, "shape": [5000, 2], "data": [1.5, -2.5] * 5000}]},
    ],
)
def test_null_is_left_out(server: Server, more: dict[str, Any]) -> None:
    """Clients made of classes write it for each field that nobody set; it was refused."""
    (given,) = more.get("inputs", [X])
    status, content = infer(server, {"inputs": [X], **more})
    assert status == 200, content
    x = np.array(given["data"])
    found = {o["name"]: o["data"] for o in content["outputs"]}
    assert found == {"y": np.maximum(x, 0).tolist(), "z": (-x).tolist()}


def test_data_of_null_is_none(server: Server) -> None:
    for more in ({}, {"parameters": {"rest": "r" * 40_000}}):
        status, content = infer(server, {"inputs": [{**X, "data": None, **more}]})
        assert status == 400 and "null is no value" not in content["error"]


@pytest.mark.parametrize("body", [{"parameters": None}, {"parameters": {"config": None}}])
def test_null_is_left_out_of_a_load(server: Server, body: Any) -> None:
    """It was refused as parameters, of which a load takes none."""
    status, content = ask(server, "POST", "/v2/repository/models/both/load", ADMIN, body)
    assert status == 200, content


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"instances": [[1, 2]]}, "the body has 'instances', of another protocol; this is V2, which has 'inputs'"),
        ({"messages": [], "model": "both"},
         "the body has 'messages', of another protocol; this is V2, which has 'inputs'"),
        ({"inputs": {"x": [[1, 2]]}}, "'inputs' must be a list of objects"),
        ({"inputs": [[1, 2]]}, "'inputs' must be a list of objects"),
        ({"Inputs": [X]}, "'inputs' is missing (write 'Inputs' as 'inputs')"),
        ({}, "'inputs' is missing"),
        ({"inputs": [{"name": "x", "dataType": "FP32", "shape": [1, 2], "data": [1, 2]}]},
         "tensor 'x' has no 'datatype' (write 'dataType' as 'datatype')"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "data": [1, 2]}]}, "tensor 'x' has no 'shape'"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "data": [1] * 20_000}]}, "tensor 'x' has no 'shape'"),
        ({"inputs": [{**X, "name": None}]}, "a tensor has no 'name'"),
        (None, "the body is empty"),
    ],
)  # fmt: skip
def test_a_message_of_another_protocol_is_told_what_to_send(server: Server, body: Any, says: str) -> None:
    status, content = infer(server, body)
    assert (status, content["error"]) == (400, f"{says}: {EXAMPLE}")


@pytest.mark.parametrize(
    ("given", "meant"),
    [("fp32", "FP32"), ("TYPE_FP32", "FP32"), ("float32", "FP32"), ("int64", "INT64"), ("STRING", "BYTES"),
     ("float16", "FP16"), ("bfloat16", "BF16"), ("FLOAT", "FP32"), ("half", "FP16"),
     ("FP128", ""), ("", ""), ("i4,i4", "")],
)  # fmt: skip
def test_a_datatype_in_other_words_is_told_its_own(server: Server, given: str, meant: str) -> None:
    status, content = infer(server, {"inputs": [{**X, "datatype": given}]})
    assert status == 400 and f"datatype '{given}' is not one of BOOL" in content["error"]
    assert content["error"].endswith(f"BYTES: write {meant}" if meant else "BYTES")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/models/both:predict", "/v2/models/both/infer"),
        ("/v1/models/both/versions/1:predict", "/v2/models/both/versions/1/infer"),
        ("/v2/models/both/generate", "/v2/models/both/infer"),
        ("/v2/models/both/versions/2/generate_stream", "/v2/models/both/versions/2/infer"),
        ("/predictions/both", "/v2/models/both/infer"),
        ("/v1/chat/completions", "/v2/models/NAME/infer"),
        ("/invocations", "/v2/models/NAME/infer"),
        ("/v1/models/b%22%20o:predict", "/v2/models/NAME/infer"),
    ],
)
def test_a_path_of_another_protocol_is_told_that_of_its_network(
    server: Server, path: str, meant: str
) -> None:
    status, content = ask(server, "POST", path, GOLD, {"instances": [[1, 2]]})
    assert status == 404 and content["error"].endswith(f"; inference is POST {meant}")


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4", "COMPLEX64"])
@pytest.mark.parametrize("side", ["input", "output"])
def test_types_without_a_word_in_requests_are_refused_when_they_load(kind: str, side: str) -> None:
    strange = helper.make_tensor_value_info("q", TensorProto.DataType.Value(kind), ["n"])
    plain = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    ends = ([strange], [plain]) if side == "input" else ([plain], [strange])
    remedy = "real and imaginary parts as two" if "COMPLEX" in kind else "put a node Cast between it and the"
    with pytest.raises(ModelError, match=f"'q' holds {kind}; the server takes BOOL, .*: .*{remedy}"):
        ports_of(helper.make_model(helper.make_graph([], "g", *ends)))


def test_names_that_fill_a_request_are_refused_when_they_load() -> None:
    """As it was, the network was served, and no request could name its inputs."""
    assert len(ports_of(summed(256, 20))["inputs"]) == 256
    with pytest.raises(ModelError, match="its 200 inputs make requests of .* at most 65536 are taken: give"):
        ports_of(summed(200, 900))


def test_what_an_older_server_cut_is_checked_too(tmp_path: Path) -> None:
    path, cache = tmp_path / "both.onnx", str(tmp_path / "cache")
    onnx.save(parser.parse_model(HEAD + BOTH), path)
    plan = prepare(str(path), cache, {}, 0.002).folder / PLAN
    told = json.loads(plan.read_text())
    told["ports"]["inputs"][0]["name"] = "n" * 1001
    plan.write_text(json.dumps(told))
    with pytest.raises(ModelError, match="has 1001 letters; those of requests have at most 1000"):
        prepare(str(path), cache, {}, 0.002)


@pytest.mark.parametrize("name", ["x-tenant-id", "x-api-key", "authorization"])
def test_a_header_that_says_who_asks_says_one_thing(server: Server, name: str) -> None:
    """As it was, one of two was taken, and nobody said which."""
    for other, status in ((GOLD, 200), (SILVER, 400)):
        line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
        line.putrequest("GET", "/v2/models/both")
        if name == "x-tenant-id":
            line.putheader("authorization", f"Bearer {GOLD}")
        for key in (GOLD, other):
            line.putheader(name, f"Bearer {key}" if name == "authorization" else key)
        line.endheaders()
        answer = line.getresponse()
        said = answer.read().decode()
        assert answer.status == status, said
        if status == 400:
            assert f"{name} has two values: send it once, with one of them" in said
        line.close()


@pytest.mark.parametrize("name", ["x-tenant-id", "x-api-key", "authorization"])
def test_metadata_that_say_who_asks_say_one_thing(server: Server, name: str) -> None:
    grpc = pytest.importorskip("grpc")
    key = [("authorization", f"Bearer {GOLD}")] if name == "x-tenant-id" else []
    before = "Bearer " if name == "authorization" else ""
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelMetadata")
        asked = b"\x0a\x04both"
        assert call(asked, metadata=[*key, *[(name, before + GOLD)] * 2], timeout=PATIENCE_S)
        with pytest.raises(grpc.RpcError) as caught:
            call(asked, metadata=[*key, (name, before + GOLD), (name, before + SILVER)], timeout=PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == f"{name} has two values: send it once, with one of them"


@pytest.mark.parametrize("tokens", [1, 3])
def test_an_attention_that_is_told_how_long_its_cache_is_begins_with_none(
    server: Server, tmp_path: Path, tokens: int
) -> None:
    """As it was, the trial said 0 to it, or 1, which no prompt of several tokens is; so nobody could begin."""
    onnx.save(attention(), tmp_path / "attention.onnx")
    session = ort.InferenceSession(str(tmp_path / "attention.onnx"))
    draw = np.random.default_rng(0)
    sizes = {"query": (1, tokens, 32), "key": (1, tokens, 16), "value": (1, tokens, 16)}
    feed: dict[str, Any] = {name: draw.random(size, np.float32) for name, size in sizes.items()}
    feed |= {name: np.zeros((1, 1, 0, 16), np.float32) for name in ("past_key", "past_value")}
    feed |= {"last": np.array([tokens - 1], np.int32), "total": np.array(tokens, np.int32)}
    inputs = [
        {"name": name, "datatype": "INT32" if array.dtype == np.int32 else "FP32", "shape": list(array.shape),
         "data": array.ravel().tolist()}
        for name, array in feed.items()
    ]  # fmt: skip
    status, content = infer(server, {"inputs": inputs}, "attention")
    assert status == 200, content
    for output, wanted in zip(content["outputs"], session.run(None, feed), strict=True):
        np.testing.assert_allclose(output["data"], wanted.ravel(), rtol=1e-5)


def test_a_decoder_of_120_layers_is_asked_for_all_its_outputs_as_stock_clients_do(server: Server) -> None:
    """As it was, the words of such a request were too many: 45 KB, of 32."""
    module: Any = pytest.importorskip("tritonclient.http")
    inputs, outputs = [], []
    for port in deep().graph.input:
        inputs.append(module.InferInput(port.name, [1, 1, 2, 2], "FP32"))
        inputs[-1].set_data_from_numpy(np.full((1, 1, 2, 2), len(inputs), np.float32))
        name = port.name.replace("past_key_values", "present")
        outputs.append(module.InferRequestedOutput(name, binary_data=True))
    with module.InferenceServerClient(f"127.0.0.1:{server.http_port}") as client:
        told = {"authorization": f"Bearer {GOLD}"}
        answer = client.infer("deep", inputs, outputs=outputs, headers=told)
    for n, output in enumerate(outputs, 1):
        assert answer.as_numpy(output.name()).tolist() == [[[[-n] * 2] * 2]]
