"""What exporters write: weights in files beside the network, folders of repositories, small number formats."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from eunomia.core.errors import ModelError
from eunomia.serving.blocks import external
from eunomia.serving.blocks.optimise import content_key
from eunomia.serving.devices.network import LoadedNetwork, load_network
from eunomia.serving.devices.piece import live_of
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.checks import check_inputs
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.server import Server
from eunomia.workload.tenant import Agreement
from tests.serving.live import options

WIDTH = 32


def dense(seed: int = 0, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """y = relu(x a) b + c."""
    rng = np.random.default_rng(seed)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(dtype), name)
        for name, shape in (("a", (WIDTH, WIDTH)), ("b", (WIDTH, WIDTH)), ("c", (WIDTH,)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["s"]),
        helper.make_node("Add", ["s", "c"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, kind, ["batch", WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "dense", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(path: Path, model: onnx.ModelProto, *, files: str = "one") -> None:
    """With the weights in one file beside it, or in one each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob("*.data"):
        old.unlink()  # onnx appends
    together = files == "one"
    onnx.save_model(
        model, path, save_as_external_data=True, all_tensors_to_one_file=together,
        location=f"{path.name}.data" if together else None, size_threshold=0,
    )  # fmt: skip


def answer(network: LoadedNetwork, feed: dict[str, Any]) -> np.ndarray:
    live = live_of(feed)
    for n in range(network.blocks):
        live = network.run_block(n, live)
    return next(iter(live.values())).numpy()


def inputs(dtype: Any = np.float32) -> dict[str, Any]:
    return {"x": np.random.default_rng(1).standard_normal((3, WIDTH)).astype(dtype)}


@pytest.mark.parametrize("files", ["one", "each"])
@pytest.mark.parametrize("target_s", [1e-9, 1.0])  # in many blocks, and whole
def test_weights_beside_the_network_are_found(tmp_path: Path, files: str, target_s: float) -> None:
    path = tmp_path / "models" / "net.onnx"
    save(path, dense(), files=files)
    network = load_network(str(path), str(tmp_path / "cache"), {}, target_s)
    feed = inputs()
    np.testing.assert_allclose(
        answer(network, feed), ort.InferenceSession(str(path)).run(None, feed)[0], rtol=1e-5
    )
    for file in path.parent.iterdir():  # the cache stands for itself
        file.rename(file.with_suffix(".gone"))
    assert list((tmp_path / "cache").glob("*.onnx"))


@pytest.mark.parametrize("target_s", [1e-9, 1.0])
def test_weights_stay_outside_where_one_message_cannot_hold_them(
    tmp_path: Path, target_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As networks of more than 2 GB need it: no file of the cache but the weights' own holds any."""
    monkeypatch.setattr(external, "EMBEDDED_BYTES", 0)
    path, cache = tmp_path / "models" / "net.onnx", tmp_path / "cache"
    save(path, dense())
    feed, wanted = inputs(), ort.InferenceSession(str(path)).run(None, inputs())[0]
    for _ in range(2):  # made, and found
        network = load_network(str(path), str(cache), {}, target_s)
        np.testing.assert_allclose(answer(network, feed), wanted, rtol=1e-5)
    assert (network.blocks > 1) is (target_s < 1.0)
    (weights,) = cache.glob("*.weights")
    assert weights.stat().st_size >= 2 * 4 * WIDTH * WIDTH
    for file in cache.rglob("*.onnx"):
        assert file.stat().st_size < 2 * WIDTH * WIDTH
    for file in cache.glob("*.blocks/*.weights"):
        assert file.samefile(weights)


def test_other_weights_under_the_same_file_are_another_version(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save(path, dense(0))
    graph, key = path.read_bytes(), content_key(path)
    save(path, dense(1))
    assert path.read_bytes() == graph and content_key(path) != key


def test_missing_and_escaping_weights_are_named(tmp_path: Path) -> None:
    path = tmp_path / "models" / "net.onnx"
    save(path, dense())
    data = path.with_name("net.onnx.data")
    data.rename(tmp_path / "net.onnx.data")
    with pytest.raises(ModelError, match=r"net.onnx has weights in 'net.onnx.data', which is missing"):
        load_network(str(path), str(tmp_path / "cache"), {}, 1.0)
    model = onnx.load(path, load_external_data=False)
    for outside in ("../net.onnx.data", "sub/../../net.onnx.data", str(tmp_path / "net.onnx.data")):
        for tensor in model.graph.initializer:
            next(e for e in tensor.external_data if e.key == "location").value = outside
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelError, match="outside its folder"):
            load_network(str(path), str(tmp_path / "cache"), {}, 1.0)


def test_weights_that_no_memory_holds_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of 400 GB was read for as long as a load may take; then its device was ended."""
    path = tmp_path / "net.onnx"
    save(path, dense())
    with path.with_name("net.onnx.data").open("r+b") as file:
        file.truncate(2**24)
    monkeypatch.setattr("eunomia.serving.devices.memory.machine_bytes", lambda: 2**23)
    with pytest.raises(ModelError, match="with its weights it has 16 MiB, and this machine 8 MiB of memory"):
        content_key(path)


def test_a_folder_in_every_layout_serves_new_weights_after_a_reload(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    for n, where in enumerate(
        ["flat.onnx", "folder/model.onnx", "triton/2/model.onnx", "triton/10/model.onnx"]
    ):
        save(folder / where, dense(n), files="each" if n == 1 else "one")

    async def main() -> None:
        chosen = replace(options(tmp_path), networks=[], models_dir=folder)
        async with Server(chosen) as server:
            pool, repository = server.pool, server.service.repository
            pair = pool.dispatcher.add_pair(Agreement("gold", "any"))

            async def ask(name: str) -> Any:
                network = pool.models[repository.entry(name).key].network
                job = Job(pair, network, server.service.clock.now_s())
                return (await pool.submit(job, inputs()))["y"]

            def wanted(seed: int) -> Any:
                return ort.InferenceSession(dense(seed).SerializeToString()).run(None, inputs())[0]

            for name, seed in (("flat", 0), ("folder", 1), ("triton", 3)):
                await repository.load(name)
                np.testing.assert_allclose(await ask(name), wanted(seed), rtol=1e-5)
            save(folder / "flat.onnx", dense(7))
            await repository.load("flat")
            np.testing.assert_allclose(await ask("flat"), wanted(7), rtol=1e-5)
            (folder / "flat.onnx.data").unlink()
            with pytest.raises(BadRequest, match="model 'flat' does not load: .* is missing"):
                await repository.load("flat")
            np.testing.assert_allclose(await ask("flat"), wanted(7), rtol=1e-5)

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore")  # of the exporter's own
def test_the_default_export_of_pytorch_loads(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    net = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).eval()
    path = tmp_path / "net.onnx"
    torch.onnx.export(
        net, (torch.zeros(3, WIDTH),), str(path), dynamo=True, external_data=True, verbose=False
    )
    assert path.with_name("net.onnx.data").exists()
    network = load_network(str(path), str(tmp_path / "cache"), {}, 1.0)
    x = inputs()["x"]
    with torch.no_grad():
        expected = net(torch.from_numpy(x)).numpy()
    name = network.description()["inputs"][0]["name"]
    np.testing.assert_allclose(answer(network, {name: x}), expected, rtol=1e-4, atol=1e-5)


def test_half_precision_and_int8_networks_load(tmp_path: Path) -> None:
    half = tmp_path / "half.onnx"
    onnx.save(dense(kind=TensorProto.FLOAT16), half)
    network = load_network(str(half), str(tmp_path / "cache"), {}, 1e-9)
    feed = inputs(np.float16)
    expected = ort.InferenceSession(str(half)).run(None, feed)[0]
    np.testing.assert_allclose(answer(network, feed), expected, rtol=1e-2, atol=1e-2)
    quantised = tmp_path / "int8.onnx"
    weight = numpy_helper.from_array(np.eye(WIDTH, dtype=np.int8) * 2, "w")
    nodes = [helper.make_node("MatMulInteger", ["x", "w"], ["y"])]
    graph = helper.make_graph(
        nodes, "int8", [helper.make_tensor_value_info("x", TensorProto.INT8, ["batch", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["batch", WIDTH])], [weight],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), quantised)
    network = load_network(str(quantised), str(tmp_path / "cache"), {}, 1.0)
    x = np.arange(3 * WIDTH, dtype=np.int8).reshape(3, WIDTH)
    np.testing.assert_array_equal(answer(network, {"x": x}), 2 * x.astype(np.int32))


@pytest.mark.parametrize("form", ["dynamic", "QDQ", "QOperator"])
def test_networks_that_were_quantised_load(tmp_path: Path, form: str) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")

    class Samples(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.left = [inputs() for _ in range(3)]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    source, path = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(dense(), source)
    if form == "dynamic":
        quantization.quantize_dynamic(source, path)
    else:
        kind = getattr(quantization.QuantFormat, form)
        quantization.quantize_static(source, path, Samples(), quant_format=kind)
    network = load_network(str(path), str(tmp_path / "cache"), {}, 1e-9)
    expected = ort.InferenceSession(str(path)).run(None, inputs())[0]
    np.testing.assert_allclose(answer(network, inputs()), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_the_older_exporter_of_pytorch_loads_with_free_sizes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(
        torch.nn.Conv1d(4, 8, 3, padding=1), torch.nn.BatchNorm1d(8), torch.nn.GELU()
    ).eval()
    path = tmp_path / "net.onnx"
    torch.onnx.export(
        net, (torch.zeros(1, 4, 16),), str(path), dynamo=False, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "batch", 2: "time"}, "y": {0: "batch", 2: "time"}},
    )  # fmt: skip
    network = load_network(str(path), str(tmp_path / "cache"), {"x": [1, 4, 16]}, 1e-9)
    x = np.random.default_rng(2).standard_normal((2, 4, 40)).astype(np.float32)
    with torch.no_grad():
        expected = net(torch.from_numpy(x)).numpy()
    assert network.description()["inputs"][0]["shape"] == [-1, 4, -1]
    np.testing.assert_allclose(answer(network, {"x": x}), expected, rtol=1e-4, atol=1e-5)


def unranked(path: Path, node: str) -> None:
    """A node whose input and output have no shape, as onnxscript writes ``FLOAT[...]``."""
    image, pooled = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("image", "pooled")
    )
    graph = helper.make_graph([helper.make_node(node, ["image"], ["pooled"])], "unranked", [image], [pooled])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(path))


def test_an_input_without_a_rank_has_that_of_its_trial_shape(tmp_path: Path) -> None:
    """Some exporters leave shapes out; such an input was one axis, and could not be given any other."""
    unranked(tmp_path / "pool.onnx", "GlobalAveragePool")
    with pytest.raises(ModelError, match=r"image \[1\]: .*not say how many axes 'image' has: give all"):
        load_network(str(tmp_path / "pool.onnx"), str(tmp_path), {}, 1.0)
    for size in (8, 4):  # the second is read from the cache
        network = load_network(str(tmp_path / "pool.onnx"), str(tmp_path), {"image": [1, 3, size, size]}, 1.0)
        assert network.ports["inputs"][0]["shape"] == [-1, -1, -1, -1]
    given = np.random.default_rng(0).random((2, 3, 5, 5), np.float32)
    np.testing.assert_allclose(
        answer(network, {"image": given}), given.mean(axis=(2, 3), keepdims=True), rtol=1e-5
    )


def test_who_gives_no_rank_is_told_where_it_can_be_given(tmp_path: Path) -> None:
    """Such a network loads where one axis suits it, and refuses pictures."""
    unranked(tmp_path / "relu.onnx", "Relu")
    picture = {"image": np.zeros((1, 3, 4, 4), np.float32)}
    without, shaped = (
        load_network(str(tmp_path / "relu.onnx"), str(tmp_path), shapes, 1.0).ports
        for shapes in ({}, {"image": [1, 3, 8, 8]})
    )
    with pytest.raises(BadRequest, match=r"takes \[-1\]; its file does not say how many axes that has"):
        check_inputs("relu", without, picture)
    assert check_inputs("relu", shaped, picture) == 1
    with pytest.raises(BadRequest, match=r"takes \[-1, -1, -1, -1\]$"):
        check_inputs("relu", shaped, {"image": np.zeros(3, np.float32)})


def test_one_free_axis_stays_one(tmp_path: Path) -> None:
    """Its file has given a rank: shapes must fit it."""
    line = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "line",
        [line],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(tmp_path / "line.onnx"))
    with pytest.raises(ModelError, match=r"shapes.x is \[2, 3\], but the network has \[-1\] there"):
        load_network(str(tmp_path / "line.onnx"), str(tmp_path), {"x": [2, 3]}, 1.0)


def test_names_and_layout_of_tensorflow_load(tmp_path: Path) -> None:
    """As tf2onnx writes them: colons and slashes in names, pictures with their channels last."""
    rng = np.random.default_rng(3)
    image, logits = "serving_default_image:0", "StatefulPartitionedCall:0"
    weights = [
        numpy_helper.from_array(rng.standard_normal((8, 3, 3, 3)).astype(np.float32), "model/conv/ReadVariableOp:0"),
        numpy_helper.from_array(rng.standard_normal((8, 5)).astype(np.float32), "model/dense/ReadVariableOp:0"),
        numpy_helper.from_array(np.array([-1, 8], np.int64), "new_shape__12"),
    ]  # fmt: skip
    nodes = [
        helper.make_node("Transpose", [image], ["model/conv/Conv2D__6:0"], perm=[0, 3, 1, 2]),
        helper.make_node(
            "Conv", ["model/conv/Conv2D__6:0", weights[0].name], ["model/conv/Conv2D:0"], pads=[1] * 4
        ),
        helper.make_node("Relu", ["model/conv/Conv2D:0"], ["model/conv/Relu:0"]),
        helper.make_node("GlobalAveragePool", ["model/conv/Relu:0"], ["model/pool/Mean:0"]),
        helper.make_node("Reshape", ["model/pool/Mean:0", "new_shape__12"], ["model/pool/Mean__9:0"]),
        helper.make_node("MatMul", ["model/pool/Mean__9:0", weights[1].name], [logits]),
    ]
    graph = helper.make_graph(
        nodes, "tf2onnx", [helper.make_tensor_value_info(image, TensorProto.FLOAT, ["unk__5", 8, 8, 3])],
        [helper.make_tensor_value_info(logits, TensorProto.FLOAT, ["unk__6", 5])], weights,
    )  # fmt: skip
    path = tmp_path / "tf.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)
    network = load_network(str(path), str(tmp_path / "cache"), {}, 1e-9)
    feed = {image: rng.random((2, 8, 8, 3), np.float32)}
    expected = ort.InferenceSession(str(path)).run(None, feed)[0]
    np.testing.assert_allclose(answer(network, feed), expected, rtol=1e-4, atol=1e-5)
    assert [port["name"] for port in network.description()["outputs"]] == [logits]
