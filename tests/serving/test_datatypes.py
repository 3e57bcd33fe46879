"""Every type of tensor that ONNX Runtime takes: in raw bytes and JSON, over HTTP and gRPC, by stock clients."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import TensorProto, helper
from tritonclient.grpc import service_pb2 as pb

from eunomia.serving.devices.arena import FLAGS
from eunomia.serving.devices.messages import DATATYPES, array_at, place
from eunomia.serving.devices.network import load_network
from eunomia.serving.devices.piece import array_of, live_of
from eunomia.serving.devices.strings import Strings, packed
from eunomia.serving.models.entry import Entry
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import check_tensor, read_json, read_request
from eunomia.serving.protocol.json_work import take_numbers_out
from eunomia.serving.protocol.numbers import array_of as array_of_json
from eunomia.serving.protocol.rpc import read_message
from eunomia.serving.protocol.strings import MAX_STRINGS, json_strings, raw_strings
from eunomia.serving.server import Server
from tests.patience import PATIENCE_S
from tests.serving.live import GOLD, ask, options, running

BF16 = np.dtype(ml_dtypes.bfloat16)
TEXTS = ["one", "zwei", "", "三", "a\0b"]
ONNX = {
    "BOOL": TensorProto.BOOL, "UINT8": TensorProto.UINT8, "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32, "UINT64": TensorProto.UINT64, "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16, "INT32": TensorProto.INT32, "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16, "FP32": TensorProto.FLOAT, "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16, "BYTES": TensorProto.STRING,
}  # fmt: skip


NETWORKS = {"echo": [name for name in ONNX if name != "BF16"], "brain": ["BF16", "FP32"]}


def echo(types: list[str]) -> bytes:
    """A network that says what it hears, in these types: ``NAME`` back as ``NAME:0``."""
    nodes, ports = [], ([], [])  # type: ignore[var-annotated]
    for name in types:
        kind = ONNX[name]
        nodes.append(helper.make_node("Identity", [name], [f"{name}:0"]))
        for names, port in zip(ports, (name, f"{name}:0"), strict=True):
            names.append(helper.make_tensor_value_info(port, kind, ["batch", 5]))
    graph = helper.make_graph(nodes, "echo", *ports)
    model: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return model


def values(network: str = "echo") -> dict[str, Any]:
    """Two rows of each type, with extremes."""
    found: dict[str, Any] = {}
    for name in NETWORKS[network]:
        if name == "BYTES":
            found[name] = np.array([TEXTS, TEXTS[::-1]], object)
        elif name in ("FP16", "FP32", "FP64", "BF16"):
            dtype = BF16 if name == "BF16" else np.dtype(f"f{int(name[2:]) // 8}")
            found[name] = np.array([[0.0, -1.5, 65504.0, 1e-7, 0.1], [1, 2, 3, 4, 5]]).astype(dtype)
        elif name == "BOOL":
            found[name] = np.array([[True, False, True, True, False], [False] * 5])
        else:
            info = np.iinfo(name.lower())
            found[name] = np.array([[info.min, info.max, 0, 1, 7], [5, 4, 3, 2, 1]], name.lower())
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("types")
    entries = [*options(folder).networks]
    for name, types in NETWORKS.items():
        (folder / f"{name}.onnx").write_bytes(echo(types))
        entries.append(Entry(name, folder / f"{name}.onnx"))
    with running(folder, networks=entries, shared_memory=True) as live:
        yield live


def plain(array: Any) -> list[Any]:
    """As JSON has it."""
    return array.astype(np.float32).tolist() if array.dtype == BF16 else array.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("network", list(NETWORKS))
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_stock_client_gets_back_what_it_sent(server: Server, protocol: str, network: str) -> None:
    module: Any = pytest.importorskip(f"tritonclient.{protocol}")
    port = server.http_port if protocol == "http" else server.grpc_port
    client = module.InferenceServerClient(f"127.0.0.1:{port}")
    headers = {"authorization": f"Bearer {GOLD}"}
    inputs, outputs = [], []
    for name, array in values(network).items():
        inputs.append(module.InferInput(name, list(array.shape), name))
        inputs[-1].set_data_from_numpy(
            np.char.encode(array.astype(str)).astype(object) if name == "BYTES" else array
        )
        outputs.append(module.InferRequestedOutput(f"{name}:0"))
    result = client.infer(network, inputs, outputs=outputs, headers=headers)
    for name, array in values(network).items():
        found = result.as_numpy(f"{name}:0")
        if name == "BYTES":
            found = np.array([one.decode() for one in found.ravel()], object).reshape(array.shape)
            array = array.astype(str).astype(object)  # the client's own arrays drop trailing zeros
        np.testing.assert_array_equal(found, array, err_msg=name)
        assert name == "BYTES" or found.dtype == array.dtype
    config = client.get_model_config(network, headers=headers)
    kinds = config["input"] if protocol == "http" else config.config.input
    said = (
        {one["name"]: one["data_type"] for one in kinds}
        if protocol == "http"
        else {one.name: one.data_type for one in kinds}
    )
    assert len(said) == len(NETWORKS[network])
    assert protocol == "grpc" or network != "echo" or said["BYTES"] == "TYPE_STRING"
    client.close()


@pytest.mark.parametrize("network", list(NETWORKS))
def test_json_holds_every_type(server: Server, network: str) -> None:
    inputs = [
        {"name": name, "datatype": name, "shape": list(array.shape), "data": plain(array)}
        for name, array in values(network).items()
    ]
    status, content = ask(server, "POST", f"/v2/models/{network}/infer", GOLD, {"inputs": inputs})
    assert status == 200, content
    for entry in content["outputs"]:
        name = entry["name"].removesuffix(":0")
        assert entry["datatype"] == name
        assert entry["data"] == [one for row in plain(values(network)[name]) for one in row], name


def raw_call(server: Server, sizes: dict[str, bytes]) -> tuple[int, bytes, int]:
    """A body as kserve's examples build it by hand: JSON, then raw tensors; status, body, length of its JSON."""
    arrays = values()
    head = json.dumps({
        "inputs": [{"name": n, "datatype": n, "shape": list(arrays[n].shape),
                    "parameters": {"binary_data_size": len(raw)}} for n, raw in sizes.items()],
        "outputs": [{"name": f"{n}:0", "parameters": {"binary_data": True}} for n in sizes],
    }).encode()  # fmt: skip
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    line.request("POST", "/v2/models/echo/versions/1/infer", head + b"".join(sizes.values()), {
        "Authorization": f"Bearer {GOLD}", "Inference-Header-Content-Length": str(len(head)),
        "Content-Type": "application/octet-stream"})  # fmt: skip
    answer = line.getresponse()
    found = answer.status, answer.read(), int(answer.getheader("Inference-Header-Content-Length") or 0)
    line.close()
    return found


def raws() -> dict[str, bytes]:
    return {n: bytes(Strings.of(a).raw) if n == "BYTES" else a.tobytes() for n, a in values().items()}


def test_raw_bytes_come_back_as_they_went(server: Server) -> None:
    status, body, length = raw_call(server, raws())
    assert status == 200, body
    assert body[length:] == b"".join(raws().values())


@pytest.mark.parametrize(
    "raw, words",
    [
        (packed([b"a"] * 9), "9 strings given, [2, 5] needs 10"),
        (packed([b"a"] * 10)[:-1], "an element has 1 bytes by its length, 0 are left"),
        (packed([b"a"] * 10) + b"\0", "1 bytes follow the last element"),
        (packed([b"\xff"] * 10), "an element is no UTF-8 text"),
        (b"\xff\xff\xff\xff" * 3, "an element has 4294967295 bytes by its length, 8 are left"),
    ],
)
def test_strings_that_lie_are_refused_in_words(server: Server, raw: bytes, words: str) -> None:
    status, body, _ = raw_call(server, {**raws(), "BYTES": raw})
    assert status == 400 and words in json.loads(body)["error"]


def test_strings_are_bounded_and_texts() -> None:
    for data in (["a", 1], [["a"], [None]], {"a": 1}, 3):
        with pytest.raises(BadRequest, match="a text is expected"):
            json_strings("t", (2,), data)
    with pytest.raises(BadRequest, match="at most 4096 in 1048576 are taken: send fewer rows"):
        raw_strings("t", (MAX_STRINGS + 1,), packed([b""] * (MAX_STRINGS + 1)))
    with pytest.raises(BadRequest, match="send fewer rows"):
        raw_strings("t", (1,), packed([b"a" * 1024**2]))
    with pytest.raises(BadRequest, match="4 strings or more given"):  # and those behind are not looked at
        raw_strings("t", (3,), packed([b"a"] * 4) + b"rest")
    with pytest.raises(BadRequest, match="is no UTF-8 text: surrogates not allowed"):
        json_strings("t", (1,), ["\ud83d"])
    assert json_strings("t", (2, 2), [["a", "b"], ["", "ü"]]).texts() == ["a", "b", "", "ü"]


@pytest.mark.parametrize(
    ("datatype", "data", "says"),
    [
        ("FP32", [1, None], "null is no value of FP32: numbers, NaN, Infinity and -Infinity are taken"),
        ("FP32", [1, "2"], '"2" is no value of FP32'),
        ("FP32", [[1], [{"a": 1}]], 'an object is no value of FP32'),
        ("FP32", ["x" * 99, 1], f'"{"x" * 49}... is no value of FP32'),
        ("FP32", [10**400, 1], f"1{'0' * 49}... is no value of FP32"),
        ("INT32", [1, 1.5], "1.5 is no value of INT32: whole numbers from -2147483648 to 2147483647, written without"),
        ("INT32", [1, 2.0], "2.0 is no value of INT32"),
        ("INT32", [1, float("nan")], "NaN is no value of INT32"),
        ("INT8", [1, -129], "-129 is no value of INT8: whole numbers from -128 to 127"),
        ("INT64", [2**63, -1], "9223372036854775808 is no value of INT64"),
        ("UINT64", [1, 2**64], "18446744073709551616 is no value of UINT64"),
        ("UINT64", [2**63, -1], "-1 is no value of UINT64"),
        ("BOOL", [True, None], "null is no value of BOOL: true and false are taken"),
        ("FP32", [[1], [2, 3]], "lists inside it differ in length: nest them as the shape says, or send one flat list"),
        ("FP32", np.ones([1] * 17).tolist(), "its lists are nested too deeply: at most 16 in one another are taken"),
        ("FP32", json.loads("[" * 99 + "]" * 99), "its lists are nested too deeply"),
        ("BYTES", [["a"], ["b", "c"]], "lists inside it differ in length"),
        ("FP32", [[math.inf], [1e300]], "1e+300 is no value of FP32: numbers from -3.40282e+38 to 3.40282e+38 are"),
        ("FP32", [-1e39, 1e39], "-1e+39 is no value of FP32"),
        ("FP32", [10**40, 1], "1e+40 is no value of FP32"),
        ("FP16", [float("nan"), 70000], "70000.0 is no value of FP16: numbers from -65504 to 65504 are taken"),
        ("FP16", [1, 70000], "70000 is no value of FP16"),
        ("BF16", [3.4e38, 1], "3.4e+38 is no value of BF16: numbers from -3.38953e+38 to 3.38953e+38 are taken"),
    ],
)  # fmt: skip
def test_what_is_no_value_of_its_type_is_shown(datatype: str, data: Any, says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        array_of_json("t", datatype, (2,), data)
    assert says in str(caught.value) and len(str(caught.value)) < 250


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
def test_what_is_written_as_infinite_stays_so(datatype: str) -> None:
    """What is finite and too large for the type is refused; the largest that it rounds to is not."""
    given = read_json(b'{"data": [Infinity, -Infinity, NaN, 1.0]}')["data"]
    np.testing.assert_array_equal(array_of_json("t", datatype, (4,), given).astype(float), given)  # type: ignore[union-attr]
    most = float(ml_dtypes.finfo(DATATYPES[datatype]).max)
    assert array_of_json("t", datatype, (1,), [most]).astype(float) == most  # type: ignore[union-attr]


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP32", "FP64"])
@pytest.mark.parametrize("number", ["1e400", "-1e999", "9" * 400 + ".0"])
def test_numbers_too_large_to_be_read_are_not_infinite(datatype: str, number: str) -> None:
    for text in (f"[{number}, 1]", f"[[Infinity], [{number}]]", f"[NaN, {number}]", f"[{number}, {10**30}]"):
        body = {"name": "t", "datatype": datatype, "shape": [2], "data": 0}
        sent = json.dumps({"inputs": [body]}).replace('"data": 0', f'"data": {text}').encode()
        for read in (
            lambda sent=sent: read_request("m", "", sent, memoryview(b"")),
            partial(take_numbers_out, sent),
        ):
            with pytest.raises(BadRequest, match=f"tensor 't': .* is no value of {datatype}: numbers from -"):
                read()


def test_whole_numbers_beyond_64_bits_are_numbers() -> None:
    """JavaScript writes 1e20 as a whole number."""
    for datatype, dtype in (("FP32", "f4"), ("FP64", "f8"), ("BF16", BF16)):
        found = array_of_json("t", datatype, (2,), [10**20, 0.5])
        np.testing.assert_array_equal(found, np.array([1e20, 0.5]).astype(dtype))
    assert array_of_json("t", "UINT64", (2,), [2**64 - 1, 0]).tolist() == [2**64 - 1, 0]  # type: ignore[union-attr]


def test_values_in_the_field_of_another_type_are_named() -> None:
    for values in ([1.0], []):
        message = pb.ModelInferRequest()
        entry = message.inputs.add(name="t", datatype="FP32", shape=[1])
        entry.contents.fp64_contents.append(1.0)
        entry.contents.fp32_contents.extend(values)
        if values:
            assert read_message(message).inputs[0].data.tolist() == values  # type: ignore[union-attr]
            continue
        with pytest.raises(
            BadRequest, match="'t': its values are in fp64_contents; those of FP32 belong in fp32_con"
        ):
            read_message(message)


def test_the_same_over_grpc_is_said_in_the_same_words() -> None:
    message = pb.ModelInferRequest()
    message.inputs.add(name="t", datatype="UINT16", shape=[2]).contents.uint_contents.extend([1, 70000])
    with pytest.raises(BadRequest, match="'t': 70000 is no value of UINT16: whole numbers from 0 to 65535"):
        read_message(message)


@pytest.mark.parametrize("datatype", ["FP32", "BYTES"])
@pytest.mark.parametrize(
    ("nested", "shape", "fits"),
    [
        ((16,), (2, 8), True), ((2, 8), (2, 8), True), ((8, 2), (2, 8), False), ((2, 2, 4), (2, 8), False),
        ((1, 16), (16,), True), ((1, 2, 8), (2, 8), True), ((2, 8), (2, 1, 8), True), ((2, 8), (2, 2, 4), True),
        ((4, 4), (2, 8), False), ((2, 0), (2, 0), True), ((1, 1), (), True), ((), (1,), True),
    ],
)  # fmt: skip
def test_lists_are_flat_or_nested_as_the_shape_says(
    datatype: str, nested: tuple[int, ...], shape: tuple[int, ...], fits: bool
) -> None:
    """Those of a transposed array were taken for the array."""
    one: Any = "a" if datatype == "BYTES" else 1.5
    data = np.full(nested, one, object).tolist()
    if fits:
        assert array_of_json("t", datatype, shape, data).shape == shape
    else:
        with pytest.raises(
            BadRequest, match=r"nested as \[.*\], which contradicts its shape \[2, 8\]: nest them"
        ):
            array_of_json("t", datatype, shape, data)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ([1, -2], "the shape holds -2; whole numbers from 0 to 2147483648 are sizes"),
        ([1.5], "the shape holds 1.5"), ([True], "the shape holds True"), ("2", "the shape is '2'; a list of sizes"),
        ([1] * 17, "the shape has 17 sizes; at most 16 are taken"),
    ],
)  # fmt: skip
def test_a_shape_that_is_none_is_shown(shape: Any, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        check_tensor("t", "FP32", shape)


def test_a_type_that_the_network_does_not_take_is_called_as_the_client_calls_it(server: Server) -> None:
    given = [tensor("BF16", [2, 5], 0) | {"datatype": "FP64", "data": [0.5] * 10}]
    given += [tensor("FP32", [2, 5], 0) | {"data": [0.5] * 10}]
    status, content = ask(server, "POST", "/v2/models/brain/infer", GOLD, {"inputs": given})
    assert status == 400
    assert content["error"] == "input 'BF16' holds FP64; model 'brain' takes BF16: convert it before"


def test_strings_of_all_inputs_together_have_one_bound() -> None:
    """A request of many tensors would hold the loop as often as it has tensors."""
    for text, each in ((b"", MAX_STRINGS // 2), (b"a" * 2**19, 1)):
        raw = packed([text] * each)
        for tensors in (1, 3):
            heads = [
                {"name": f"t{n}", "datatype": "BYTES", "shape": [each], "parameters": {"binary_data_size": len(raw)}}
                for n in range(tensors)
            ]  # fmt: skip
            header, behind = json.dumps({"inputs": heads}).encode(), memoryview(raw * tensors)
            message = pb.ModelInferRequest(raw_input_contents=[raw] * tensors)
            for n in range(tensors):
                message.inputs.add(name=f"t{n}", datatype="BYTES", shape=[each])
            if tensors == 1:
                assert len(read_request("m", "", header, behind).inputs) == len(read_message(message).inputs)
                continue
            with pytest.raises(BadRequest, match="taken of one request: send fewer rows"):
                read_request("m", "", header, behind)
            with pytest.raises(BadRequest, match="taken of one request: send fewer rows"):
                read_message(message)


def test_rows_of_strings_are_those_of_an_array() -> None:
    array = np.array([["a", "bb"], ["", "ü"], ["x\0", "三"]], object)
    strings = Strings.of(array)
    np.testing.assert_array_equal(strings.numpy(), array)
    np.testing.assert_array_equal(strings[1:3].numpy(), array[1:3])
    assert strings[slice(None)] is strings and strings.copy() == strings
    assert strings.nbytes == len(strings.raw) == 4 * 6 + len("abbüx\0三".encode())


HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
JOINED = {  # as they were, the first answered with sums over others' rows, the second failed
    "folds": HEAD
    + "(float[n, 2] x) => (float[m, 2] y) <int64[1] axes = {0}> { y = ReduceSum <keepdims = 1> (x, axes) }",
    "weighs": HEAD + "(float[n, 2] x, float[2] w) => (float[n, 2] y) { y = Mul (x, w) }",
}


def tensor(name: str, shape: list[int], value: int) -> dict[str, Any]:
    return {"name": name, "datatype": "FP32", "shape": shape, "data": [value] * 2}


def test_strings_of_several_requests_share_a_batch(tmp_path: Path) -> None:
    """Each gets its own rows."""
    pytest.importorskip("tritonclient.http")
    from concurrent.futures import ThreadPoolExecutor

    (tmp_path / "echo.onnx").write_bytes(texts())
    chosen = replace(options(tmp_path).dispatch, max_batch=8)
    names = ["echo", *JOINED]
    for name, text in JOINED.items():
        (tmp_path / f"{name}.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    networks = [Entry(name, tmp_path / f"{name}.onnx") for name in names]
    with running(tmp_path, networks=networks, dispatch=chosen) as server:

        def summed(n: int) -> bool:
            inputs = [tensor("x", [1, 2], n), tensor("w", [2], n)][: 1 + n % 2]
            path = f"/v2/models/{list(JOINED)[n % 2]}/infer"
            status, content = ask(server, "POST", path, GOLD, {"inputs": inputs})
            wanted = [float(n), float(n)] if n % 2 == 0 else [float(n * n)] * 2
            return status == 200 and content["outputs"][0]["data"] == wanted

        def one(n: int) -> Any:
            rows = 1 + n % 3
            data = [f"{n}-{k}" for k in range(rows)]
            tensor = {"name": "t", "datatype": "BYTES", "shape": [rows], "data": data}
            status, content = ask(server, "POST", "/v2/models/echo/infer", GOLD, {"inputs": [tensor]})
            return status == 200 and content["outputs"][0]["data"] == data

        with ThreadPoolExecutor(8) as crowd:
            assert all(crowd.map(one, range(24)))
            assert all(crowd.map(summed, range(32))), "whose rows are no rows of the batch runs alone"


STRANGERS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"


@pytest.mark.parametrize("name", [
    "test_string_concat", "test_string_concat_utf8", "test_string_concat_zero_dimensional", "test_equal_string",
    "test_regex_full_match_basic",
    "test_div_int8", "test_resize_upsample_sizes_nearest", "test_mod_mixed_sign_int64",  # fail on zeros
    "test_ai_onnx_ml_label_encoder_string_int", "test_cast_FLOAT_to_BFLOAT16", "test_cast_BFLOAT16_to_FLOAT",
])  # fmt: skip
def test_networks_of_strangers_with_texts_bfloat16_and_divisors(name: str, tmp_path: Path) -> None:
    """ONNX's own examples, with their data, as a device runs them: out of the arena and back."""
    path = STRANGERS / name / "model.onnx"
    network = load_network(str(path), str(tmp_path), {}, 1e-3)
    data = sorted((path.parent / "test_data_set_0").glob("*put_*.pb"))
    arrays = [onnx.numpy_helper.to_array(onnx.load_tensor(file)) for file in data]
    ports, memory = network.ports, memoryview(bytearray(FLAGS + 65536))
    found: dict[str, Any] = {}
    given = [a for a, f in zip(arrays, data, strict=True) if "input" in f.name]
    for port, array in zip(ports["inputs"], given, strict=True):
        value: Any = Strings.of(text(array)) if port["datatype"] == "BYTES" else array
        (where,), _ = place([(port["name"], value)], FLAGS)
        target = array_at(memory, where)
        if isinstance(value, Strings):
            value.read_into(target)
            found[port["name"]] = Strings(value.shape, bytes(target)).numpy()
        else:
            target[...] = value
            found[port["name"]] = target.copy()
    live = live_of(found)
    for n in range(network.blocks):
        live = network.run_block(n, live)
    wanted = [a for a, f in zip(arrays, data, strict=True) if "output" in f.name]
    for port, expected in zip(ports["outputs"], wanted, strict=True):
        got = array_of(live[port["name"]])
        if port["datatype"] == "BYTES":
            np.testing.assert_array_equal(Strings.of(got).numpy(), text(expected))
        else:
            assert got.dtype == DATATYPES[port["datatype"]]
            np.testing.assert_array_equal(*(a.astype(float) for a in (got, expected)))


def text(array: Any) -> Any:
    """Texts, whichever way they were read."""
    flat = [one.decode() if isinstance(one, bytes) else str(one) for one in array.ravel().tolist()]
    found = np.empty(array.size, object)
    found[:] = flat
    return found.reshape(array.shape)


def texts() -> bytes:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["t"], ["u"])], "texts",
        [helper.make_tensor_value_info("t", TensorProto.STRING, ["batch"])],
        [helper.make_tensor_value_info("u", TensorProto.STRING, ["batch"])],
    )  # fmt: skip
    model: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return model
