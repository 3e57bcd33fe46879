"""A folder that was made for Triton is served as it is: names of classes, sizes, and what cannot hold is said."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
import tritonclient.http as triton

from eunomia.config.server import load_server
from eunomia.core.errors import ConfigError
from eunomia.serving.models.beside import Beside
from eunomia.serving.models.folder import look_through
from eunomia.serving.models.pbtxt import MOST_BYTES, read_pbtxt, with_tritons
from eunomia.study.serving.beforehand import check_files
from eunomia.study.serving.server import _beside
from tests.serving.live import ADMIN, ask, running
from tests.serving.process import process
from tests.serving.test_beside import load
from tests.serving.test_versions import infer, put

DENSE = """
# as its quick start has it
name: "dense"
platform: "onnxruntime_onnx"
max_batch_size : 8
input [
  { name: "x", data_type: TYPE_FP32, format: FORMAT_NONE, dims: [ 4 ] }
]
output: [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "classes.txt" } ]
instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0 ] } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 }
version_policy: { latest { num_versions: 1 } }
default_model_filename: "model.onnx"
of_a_later_release { what: 3 }
"""


def repository(folder: Path, config: str = DENSE, version: str = "1", file: str = "model.onnx") -> Path:
    """``dense`` as Triton keeps it, with its file of labels."""
    graph = "(float[n, 4] x) => (float[n, 3] y) { w = Constant <value = float[4, 3] "
    graph += "{1,0,0, 0,1,0, 0,0,1, 0,0,0}> () y = MatMul (x, w) }"
    home = folder / "dense"
    (home / version).mkdir(parents=True)
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g ' + graph)
    (home / version / file).write_bytes(model.SerializeToString())
    (home / "config.pbtxt").write_text(config)
    (home / "classes.txt").write_text("cat\ndog\ncow\n")
    return home


def test_it_is_served_with_its_labels_and_sizes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = repository(tmp_path / "models")
    with (
        caplog.at_level(logging.WARNING),
        running(tmp_path, models_dir=tmp_path / "models", beside=_beside) as server,
    ):
        assert load(server, "dense")[0] == 200
        assert "dense/config.pbtxt: not taken: dynamic_batching, instance_group" in caplog.messages
        assert (
            "network 'dense': max_batch_size 8 of config.pbtxt is what clients hear; more rows are taken, too"
            in caplog.messages
        )
        assert ask(server, "GET", "/v2/models/dense/config", ADMIN)[1]["max_batch_size"] == 8
        assert server.pool.models["dense"].shapes == {"x": [1, 4]}
        client = triton.InferenceServerClient(f"127.0.0.1:{server.http_port}")
        tensor = triton.InferInput("x", [2, 4], "FP32")
        tensor.set_data_from_numpy(np.array([[0, 5, 1, 0], [7, 0, 0, 2]], np.float32))
        wanted = triton.InferRequestedOutput("y", class_count=1)
        answer = client.infer(
            "dense", [tensor], outputs=[wanted], headers={"Authorization": f"Bearer {ADMIN}"}
        )
        client.close()
        assert answer.as_numpy("y").ravel().tolist() == [b"5.000000:1:dog", b"7.000000:0:cat"]
        (home / "config.pbtxt").write_text(DENSE.replace("onnxruntime_onnx", "tensorrt_plan"))
        status, content = load(server, "dense")
        assert status == 400 and content["error"].endswith(
            "config.pbtxt says platform 'tensorrt_plan'; networks of ONNX Runtime alone are served"
        )
        assert ask(server, "GET", "/v2/models/dense/ready", ADMIN)[0] == 200, "as before"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("", []),
        ("max_batch_size: 2000000000", ["max_batch_size 2000000000 of config.pbtxt is what"]),
        ('input { name: "x" data_type: TYPE_INT64 }', ["'x' is INT64; the network's is FP32"]),
        ('output { name: "y" data_type: TYPE_STRING }', ["'y' is BYTES; the network's is FP32"]),
        (
            'output { name: "z" data_type: TYPE_FP32 }',
            ["names 'z', and the network has no such tensor; it has x, y"],
        ),
        ('output { name: "y" data_type: TYPE_FP32 }', []),
    ],
)
def test_what_does_not_hold_is_named(
    tmp_path: Path, config: str, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A number of rows and a type that is another were dropped without a word."""
    repository(tmp_path / "models", config)
    with caplog.at_level(logging.WARNING), running(tmp_path, models_dir=tmp_path / "models") as server:
        assert load(server, "dense")[0] == 200
        told = [text for text in caplog.messages if text.startswith("network 'dense': ")]
        assert len(told) == len(said) and all(one in text for one, text in zip(said, told, strict=True))
        rows = ask(server, "GET", "/v2/models/dense/config", ADMIN)[1]["max_batch_size"]
        assert 8 < rows < 2_000_000_000, "as many as fit"


def test_rows_of_a_network_without_batches(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = repository(tmp_path / "models", "max_batch_size: 8")
    graph = "g (float[2] x) => (float[2] y) { y = Add (x, x) }"
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> ' + graph)
    (home / "1" / "model.onnx").write_bytes(model.SerializeToString())
    with caplog.at_level(logging.WARNING), running(tmp_path, models_dir=tmp_path / "models") as server:
        assert load(server, "dense")[0] == 200
        assert any("max_batch_size 8 of config.pbtxt does not hold: " in said for said in caplog.messages)
        assert ask(server, "GET", "/v2/models/dense/config", ADMIN)[1]["max_batch_size"] == 0


def test_all_of_it_is_loaded_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One by one, by an administrator, was the only way; what does not load holds nobody up."""
    folder = tmp_path / "models"
    repository(folder)
    (folder / "broken.onnx").write_bytes(b"no network")
    with caplog.at_level(logging.WARNING), running(tmp_path, models_dir=folder, load_all=True) as server:
        assert ask(server, "GET", "/v2/models/dense/ready", ADMIN)[0] == 200
        states = {
            one["name"]: one["state"] for one in ask(server, "POST", "/v2/repository/index", ADMIN, {})[1]
        }
        assert states == {"broken": "UNAVAILABLE", "dense": "READY", "small": "READY"}
        assert any(said.startswith("network 'broken' does not load: ") for said in caplog.messages)


def test_a_restart_with_all_serves_the_newest_that_loads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The version that had served was loaded again for ever, and what had gone was missed at each start."""
    put(tmp_path, 1)
    (tmp_path / "models" / "gone.onnx").write_bytes((tmp_path / "models/times/1/model.onnx").read_bytes())
    everything = {"models_dir": tmp_path / "models", "load_all": True}
    with running(tmp_path, **everything) as server:
        assert infer(server) == ("1", 1.0)
    put(tmp_path, 2)
    (tmp_path / "models" / "gone.onnx").unlink()
    with running(tmp_path, **everything) as server:
        assert infer(server) == ("2", 2.0) and not any("has no file now" in said for said in caplog.messages)
    broken = tmp_path / "models" / "times" / "10" / "model.onnx"
    broken.parent.mkdir()
    broken.write_bytes(b"no network")
    with running(tmp_path, **everything) as server:
        assert infer(server) == ("2", 2.0) and "network 'times' does not load: " in caplog.text


@pytest.mark.parametrize(
    ("policy", "served", "why"),
    [
        ("all { }", ["1", "2", "10"], ""),
        ("latest { num_versions: 2 }", ["2", "10"], "the newest 2 are served (version_policy)"),
        ("specific { versions: [ 1, 2, 7 ] }", ["1", "2"], "version_policy names others"),
    ],
)
def test_versions_are_those_of_its_policy(
    tmp_path: Path, policy: str, served: list[str], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who had gone back to an older version was served the newest."""
    for version in (1, 2, 10):
        put(tmp_path, version)
    path = tmp_path / "models" / "times" / "config.pbtxt"
    path.write_text(f"version_policy: {{ {policy} }} dynamic_batching {{ }}")
    with running(tmp_path, models_dir=tmp_path / "models", load_all=True) as server:
        networks = server.service.repository
        assert networks.ready_versions("times") == served and infer(server)[0] == served[-1]
        assert {one.reason for one in networks.versions("times") if one.ports is None} == {why} - {""}
        path.write_text("version_policy { specific { versions: 5 } }")
        assert load(server, "times")[0] == 400 and networks.ready_versions("times") == served
    assert caplog.text.count("not taken: dynamic_batching") == 1


def test_a_folder_or_a_network_needs_no_file(tmp_path: Path) -> None:
    """The first that a newcomer tries; a folder was no TOML file, a network no UTF-8."""
    home = repository(tmp_path / "models")
    chosen = ("--set", f"cache_dir={tmp_path / 'cache'}", "--set", "http_port=0", "--set", "grpc_port=0")
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 5, 1, 0]}
    with process(tmp_path / "models", more=chosen) as server:
        status, answer = server.ask("/v2/models/dense/infer", {"inputs": [tensor]}, key="")
        assert status == 200 and answer["outputs"][0]["data"] == [0.0, 5.0, 1.0]
        assert server.ask("/v2/eunomia/tenants", key="")[0] in (401, 403), "nobody is administrator"
    config = load_server(home / "1" / "model.onnx")
    assert [network.name for network in config.network] == ["dense"] and config.host == "127.0.0.1"
    assert load_server(tmp_path / "_ my net (2).onnx").network[0].name == "my-net-2"
    assert load_server(home / "1" / "model.onnx", ["policy=edf"]).policy == "edf"
    (tmp_path / "none").mkdir()
    with pytest.raises(ConfigError, match="none' holds no network: no NAME.onnx"):
        check_files(load_server(tmp_path / "none"), ports=False)
    (tmp_path / "none" / "net").mkdir()
    (tmp_path / "none" / "net" / "config.pbtxt").touch()
    with pytest.raises(
        ConfigError, match="'net/config.pbtxt' is not served: there is no model.onnx in a num"
    ):
        check_files(load_server(tmp_path / "none"), ports=False)
    with pytest.raises(ConfigError, match="dense' is the folder of one network; give the folder around it"):
        check_files(load_server(home), ports=False)  # its versions were served as networks '1' and '2'
    with pytest.raises(ConfigError, match="is empty; give one"):
        load_server("")  # served the working directory


def test_sizes_that_do_not_fit_are_told_to_be_of_that_file(tmp_path: Path) -> None:
    """Nobody had written the 'shapes' of which the reason spoke."""
    repository(tmp_path / "models", config=DENSE.replace("dims: [ 4 ]", "dims: [ 5 ]"))
    with running(tmp_path, models_dir=tmp_path / "models") as server:
        status, content = load(server, "dense")
        assert status == 400 and "does not load: by the dims of config.pbtxt, shapes.x is [1, 5]" in str(
            content
        )


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A server with a slip in ``models_dir`` started without a word, and answered "unknown model"."""
    found = look_through(gone := tmp_path / "gone")
    assert not found.networks and list(found.misnamed.values()) == [
        f"'{gone}' is no folder: nothing of it is served until it is one"
    ]


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = repository(tmp_path)
    assert not look_through(tmp_path).misnamed
    monkeypatch.setattr("os.access", lambda path, mode: path != home)
    assert look_through(tmp_path).misnamed == {home: "'dense' is not served: the folder may not be read"}


def test_a_network_may_be_a_folder_of_its_files(tmp_path: Path) -> None:
    """As Triton's manual has it; it was 'Is a directory'."""
    home = repository(tmp_path / "models", config="\ufeff" + DENSE) / "1"
    (home / "model.onnx").rename(home / "m")
    (home / "model.onnx").mkdir()
    (home / "m").rename(home / "model.onnx" / "model.onnx")
    with running(tmp_path, models_dir=tmp_path / "models") as server:
        assert load(server, "dense")[0] == 200


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('backend: "python"', "says backend 'python'; networks of ONNX Runtime alone"),
        (
            "ensemble_scheduling { step [ { model_name: 'a' model_version: -1 } ] }",
            "it is made of other networks",
        ),
        ("sequence_batching { }", "requests of a sequence share a state"),
        ("model_transaction_policy { decoupled: true }", "a request gets one answer here"),
        (
            'output { name: "y" label_filename: "../../shadow" }',
            "'../../shadow' of 'y' leads out of the network's",
        ),
        (
            'output { name: "y" label_filename: "/etc/passwd" }',
            "'/etc/passwd' of 'y' leads out of the network's",
        ),
        ("input [ { name: 'x' } , ]", "is no configuration as Triton reads it: "),
        ("max_batch_size: many", "is no configuration as Triton reads it: 1:17"),
        ("#" * MOST_BYTES + "\n", f"has more than {MOST_BYTES} bytes"),
        ("\ud800", "is no configuration as Triton reads it: "),
    ],
)
def test_what_cannot_be_served_so_is_said(tmp_path: Path, more: str, says: str) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_bytes(more.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError) as fault:
        read_pbtxt(path)
    assert says in str(fault.value)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ('max_batch_size: 4 input { name: "x" dims: [ 3, 8, 8 ] }', {"x": [1, 3, 8, 8]}),
        ('input { name: "x" dims: [ 2, 3 ] }', {"x": [2, 3]}),
        ('max_batch_size: 4 input { name: "x" dims: [ -1 ] } input { name: "m" dims: [ 7 ] }', {"m": [1, 7]}),
        ('input { name: "x" dims: [ 3, 8 ] reshape { shape: [ 1, 3, 8 ] } }', {"x": [1, 3, 8]}),
        ('max_batch_size: 2 input { name: "x" dims: [ 1 ] reshape { shape: [ ] } }', {"x": [1]}),
        ('input { name: "x" dims: [ 5 ] allow_ragged_batch: true }', {}),
        ('input { name: "x" }', {}),
        ("", {}),
    ],
)
def test_sizes_of_the_trial_are_the_networks_own(
    tmp_path: Path, text: str, shapes: dict[str, list[int]]
) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_text(text)
    assert read_pbtxt(path).shapes == shapes


def test_what_a_toml_file_says_goes_before_it(tmp_path: Path) -> None:
    home = repository(tmp_path)
    own = Beside({"x": [2, 4]}, empty=True, labels={"z": "z.txt"})
    labels = {"y": str(home / "classes.txt"), "z": "z.txt"}
    assert with_tritons(own, home / "config.toml") == Beside(
        {"x": [2, 4]}, True, labels, newest=1, types={"x": "FP32", "y": "FP32"}, most_rows=8
    )
    (home / "config.pbtxt").unlink()
    assert with_tritons(own, home / "config.toml") is own
    assert with_tritons(own, tmp_path / "dense.toml") is own and with_tritons(own, None) is own


def test_a_file_of_another_name_in_a_version_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing was said, and nothing served."""
    repository(tmp_path / "models", file="dense_v2.onnx")
    other = tmp_path / "models" / "tokens" / "1" / "model.py"
    other.parent.mkdir(parents=True)
    other.touch()
    (other.parents[1] / "config.pbtxt").write_text('backend: "python"')
    block = tmp_path / "models" / "cache" / "4aea.blocks" / "0.onnx"  # is no network of anybody's
    block.parent.mkdir(parents=True)
    block.touch()
    with caplog.at_level(logging.WARNING), running(tmp_path, models_dir=tmp_path / "models"):
        assert any("'dense/1/dense_v2.onnx' is not served: rename it to" in said for said in caplog.messages)
        assert any("'tokens/config.pbtxt' is not served: there is no" in said for said in caplog.messages)
        assert not any("'dense/config.pbtxt'" in said for said in caplog.messages), "one line is enough"
        assert not any("0.onnx" in said for said in caplog.messages)


def test_the_file_may_have_another_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of Triton's own keys the one that says which file is served: it was 'rename it'."""
    said = DENSE.replace("model.onnx", "dense_v2.onnx").replace('name: "dense"\n', 'name: "dense" # "', 1)
    home = repository(tmp_path / "models", config=said, file="dense_v2.onnx")
    (home / "1" / "older.onnx").write_bytes(b"not meant")
    with caplog.at_level(logging.WARNING), running(tmp_path, models_dir=tmp_path / "models") as server:
        assert load(server, "dense")[0] == 200
    assert [said for said in caplog.messages if "is not served" in said] == [
        "models_dir: 'dense/1/older.onnx' is not served: rename it to NAME.onnx, NAME/model.onnx or NAME/N/model.onnx; "
        "NAME has at most 100 of a-z, A-Z, 0-9, '.', '_' and '-', of which the first is a letter or digit"
    ]


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ('name: "a" default_model_filename: "b.onnx"', {"1/b.onnx"}),
        ("default_model_filename : 'b.onnx'", {"1/b.onnx"}),
        ('# default_model_filename: "b.onnx"', set()),
        ("name: 'default_model_filename: \"b.onnx\"'", set()),
        ('default_model_filename: "../1/b.onnx"', set()),
        ('default_model_filename: "b.plan"', set()),
        ('default_model_filename: "none.onnx"', set()),
    ],
)
def test_a_name_leads_to_a_file_beside_the_others(tmp_path: Path, text: str, files: set[str]) -> None:
    home = tmp_path / "net"
    (home / "1").mkdir(parents=True)
    (home / "1" / "b.onnx").touch()
    (home / "1" / "b.plan").touch()
    (home / "config.pbtxt").write_text(text)
    found = look_through(tmp_path)
    assert {path.relative_to(home).as_posix() for path, _ in found.networks.values()} == files
    assert bool(files) != any("b.onnx" in why for why in found.misnamed.values())
