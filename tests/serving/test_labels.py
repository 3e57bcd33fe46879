"""Names of classes stand in a file beside the network, as Triton's repositories have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.config.server import server_from
from eunomia.core.errors import ConfigError, ModelError
from eunomia.serving.devices.messages import Ports
from eunomia.serving.models.convolutional import mobilenet_v2
from eunomia.serving.models.entry import Entry
from eunomia.serving.models.labels import LONGEST, MOST_BYTES, read_labels
from eunomia.serving.protocol.infer import WantedOutput
from eunomia.serving.protocol.ranking import MOST_VALUES, with_classes
from eunomia.serving.server import Server
from eunomia.study.serving.beforehand import check_files
from eunomia.study.serving.server import _beside, _entry
from tests.serving.live import ADMIN, GOLD, SIDE, ask, running

IMAGE = np.random.default_rng(3).random((1, 3, SIDE, SIDE), np.float32)


def test_worked_by_hand() -> None:
    """Classes without a line, and those whose line is empty, have no label."""
    port: Any = {"name": "y", "datatype": "FP32", "shape": [-1, 4]}
    ports: Ports = {"inputs": [port], "outputs": [port], "labels": {"y": ("cat", "", "a: b"), "z": ("dog",)}}
    values = np.array([[0.5, 2.25, -1.0, 2.0]], np.float32)
    (found,) = with_classes([WantedOutput("y", classes=4)], {"y": values}, ports).values()
    assert found.texts() == ["2.250000:1", "2.000000:3", "0.500000:0:cat", "-1.000000:2:a: b"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        (b"tench\ngoldfish\n", ("tench", "goldfish", "")),
        (b"\xef\xbb\xbfK\xc3\xa4se\r\n\r\nBrot", ("Käse", "", "Brot")),
        (b"", ("",)),
        (b"\n" * (MOST_VALUES + 5), ("",) * MOST_VALUES),
    ],
)
def test_lines_are_labels(tmp_path: Path, content: bytes, labels: tuple[str, ...]) -> None:
    (tmp_path / "labels.txt").write_bytes(content)
    assert read_labels({"y": str(tmp_path / "labels.txt")}) == {"y": labels}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "is no file; give the path of a text file with one label a line"),
        (bytes(MOST_BYTES + 1), f"has more than {MOST_BYTES} bytes"),
        (b"a\nb\n\xff\n", "is no UTF-8 in line 3"),
        (
            b"a\n" + b"b" * (LONGEST + 1),
            f"has {LONGEST + 1} letters in line 2; a label has at most {LONGEST}",
        ),
    ],
)
def test_what_is_no_label_file_is_one_sentence(tmp_path: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / "labels.txt").write_bytes(content)
    with pytest.raises(ConfigError, match=f"labels of output 'y': '.*labels.txt' {says}"):
        read_labels({"y": str(tmp_path / "labels.txt")})


def test_the_server_file_names_them_from_its_folder_and_faults_show_before_the_start(tmp_path: Path) -> None:
    network = {"name": "m", "builtin": "mobilenet-v2", "labels": {"logits": "labels.txt"}}
    table = {"device": [{"name": "cpu"}], "tenant": [{"name": "default"}], "network": [network],
             "anonymous": True, "http_port": 0, "grpc_port": 0}  # fmt: skip
    config = server_from(table, (), "server.toml", tmp_path)
    with pytest.raises(ConfigError, match="network 'm': labels of output 'logits': .* is no file"):
        check_files(config)
    (tmp_path / "labels.txt").write_text("tench\n")
    check_files(server_from(table, (), "server.toml", tmp_path))
    assert _entry(config.network[0], tmp_path).labels == {"logits": str(tmp_path / "labels.txt")}


def load(server: Server) -> tuple[int, Any]:
    return ask(server, "POST", "/v2/repository/models/net/load", ADMIN)


def classes(server: Server) -> list[str]:
    """By the stock client over gRPC."""
    module = pytest.importorskip("tritonclient.grpc")
    tensor = module.InferInput("image", list(IMAGE.shape), "FP32")
    tensor.set_data_from_numpy(IMAGE)
    wanted = [module.InferRequestedOutput("logits", class_count=10)]
    with module.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as stub:
        found = stub.infer("net", [tensor], outputs=wanted, headers={"authorization": f"Bearer {GOLD}"})
    return sorted(text.decode().split(":", 1)[1] for text in found.as_numpy("logits").ravel())


def test_beside_a_network_of_the_folder_they_are_read_at_each_load(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "model.onnx").write_bytes(mobilenet_v2(side=SIDE, classes=10))
    options, labels = tmp_path / "net" / "config.toml", tmp_path / "net" / "labels.txt"
    options.write_text('labels = { logits = "labels.txt" }')
    bare = [str(n) for n in range(10)]
    with running(tmp_path, beside=_beside) as server:
        status, content = load(server)
        assert status == 400 and "'net/labels.txt' is no file" in content["error"].replace(
            str(tmp_path) + "/", ""
        )
        labels.write_text("tench\ngoldfish")
        assert load(server)[0] == 200
        assert classes(server) == ["0:tench", "1:goldfish", *bare[2:]]
        options.write_text('labels = { words = "labels.txt" }')
        status, content = load(server)
        assert status == 400 and "labels names 'words', which is no output: it has logits" in content["error"]
        assert classes(server) == ["0:tench", "1:goldfish", *bare[2:]], "as it was, it serves on"
        options.unlink()
        assert load(server)[0] == 200 and classes(server) == bare


@pytest.mark.parametrize("file", ["config.toml", "config.pbtxt"])
def test_a_folder_of_networks_shows_no_file_from_elsewhere(tmp_path: Path, file: str) -> None:
    """Who brings a network along read whatever the server may read, class by class."""
    secret, home = tmp_path / "secret.txt", tmp_path / "models" / "net"
    secret.write_text("hidden")
    home.mkdir(parents=True)
    (home / "model.onnx").write_bytes(mobilenet_v2(side=SIDE, classes=10))
    text = 'output { name: "logits" label_filename: "labels.txt" }'
    (home / file).write_text(f'labels = {{ logits = "{secret}" }}' if file == "config.toml" else text)
    (home / "labels.txt").symlink_to(secret)
    with running(tmp_path, models_dir=tmp_path / "models", beside=_beside) as server:
        status, content = load(server)
        assert status == 400 and "leads out of the folder of networks; put the file itself there" in str(
            content
        )
        (home / "..data").mkdir()
        (home / "..data" / "labels.txt").write_text("tench")
        (home / "labels.txt").unlink()
        (home / "labels.txt").symlink_to("..data/labels.txt")  # as Kubernetes has it
        (home / "config.toml").write_text('labels = { logits = "labels.txt" }')
        assert load(server)[0] == 200 and classes(server)[0] == "0:tench"


def test_a_network_of_the_file_with_labels_of_no_output_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "small.onnx").write_bytes(mobilenet_v2(side=SIDE, classes=10))
    (tmp_path / "labels.txt").write_text("tench")
    entry = Entry("small", tmp_path / "small.onnx", labels={"words": str(tmp_path / "labels.txt")})
    with pytest.raises(ModelError, match="labels names 'words', which is no output"):  # noqa: SIM117
        with running(tmp_path, networks=[entry]):
            pass
