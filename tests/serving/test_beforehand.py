"""What is wrong in a server file's paths is said before anything is loaded, all of it at once."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, parser
from typer.testing import CliRunner

from eunomia.cli.main import app
from eunomia.config.server import ServerConfig, server_from
from eunomia.core.errors import ConfigError, ModelError, OutputError
from eunomia.serving.models.entry import Entry
from eunomia.study.serving.beforehand import check_files
from tests.serving.live import running
from tests.serving.process import write_server

RELU = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { y = Relu(x) }'


def config_of(folder: Path, **more: Any) -> ServerConfig:
    """One network that is there, kept files in folders that are not."""
    onnx.save(parser.parse_model(RELU), folder / "relu.onnx")
    table = {
        "anonymous": True, "device": [{"name": "cpu"}], "tenant": [{"name": "default"}], "http_port": 0, "grpc_port": 0,
        "network": [{"name": "relu", "onnx": "relu.onnx"}], "cache_dir": "made/cache", "ledger_dir": "made/ledger",
        "policy_dir": "made/policies", "audit_dir": "made/audit", "database": "sqlite:///made/tenants.db", **more,
    }  # fmt: skip
    return server_from(table, (), "server.toml", folder)


def without_weights() -> bytes:
    """A network whose weights lie in a file beside it."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    weights.ClearField("float_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights.bin")
    model = parser.parse_model(RELU)
    model.graph.initializer.append(weights)
    return bytes(model.SerializeToString())


def test_all_faults_stand_in_one_message_and_nothing_is_made(tmp_path: Path) -> None:
    for name, content in (
        ("empty.onnx", b""),
        ("file", b"x"),
        ("outside.onnx", without_weights()),
        ("c.pem", b"x"),
    ):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.onnx").mkdir()
    networks = [{"name": n, "onnx": f"{n}.onnx"} for n in ("relu", "gone", "empty", "folder", "outside")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = config_of(
            tmp_path, network=networks, models_dir="nowhere", policy=f"{tmp_path}/mine.py:rule", tls_cert="c.pem",
            tls_key="k.pem", ledger_dir="file/ledger", co_runs="file/co.csv", database="sqlite:///file/t.db",
            http_port=taken.getsockname()[1],
        )  # fmt: skip
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(ConfigError) as refused:
            check_files(config)
        port = taken.getsockname()[1]
    assert str(refused.value).replace(f"{tmp_path}/", "").split("\n") == [
        "network 'gone': onnx = 'gone.onnx' cannot be read: No such file or directory; give the path of an ONNX file",
        "network 'empty': onnx = 'empty.onnx' is empty; give the path of an ONNX file",
        "network 'folder': onnx = 'folder.onnx' is no file; give the path of an ONNX file",
        "network 'outside': outside.onnx has weights in 'weights.bin', which is missing: put the file beside it",
        "models_dir = 'nowhere' is no folder that can be read; give one that holds NAME.onnx or NAME/model.onnx",
        "policy = 'mine.py:rule': mine.py cannot be read: No such file or directory; give its path",
        "tls_cert: c.pem holds no certificate in PEM form; give a file with -----BEGIN ...",
        "ledger_dir: nothing can be written into 'file/ledger': 'file' is a file; give another folder",
        "co_runs: nothing can be written into 'file': 'file' is a file; give another folder",
        "database: nothing can be written into 'file': 'file' is a file; give another folder",
        f"http_port = {port} on '127.0.0.1' cannot be opened: Address already in use; another program listens there: "
        "end it, or take another port (0 = any free one)",
    ]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "host, why", [("203.0.113.7", "Cannot assign requested address"), ("no.host.invalid", "")]
)
def test_a_host_of_another_machine_is_refused_with_free_ports_too(
    host: str, why: str, tmp_path: Path
) -> None:
    """As it was, after all networks had loaded, and of a name nobody knows "Unknown error -2"."""
    with pytest.raises(OutputError) as refused:
        check_files(config_of(tmp_path, host=host))
    says = f"http_port = 0 on '{host}' cannot be opened: {why}"
    assert str(refused.value).startswith(says) and "give host an address of this machine" in str(
        refused.value
    )
    assert "Unknown error" not in str(refused.value)


def test_a_right_file_passes_and_makes_nothing(tmp_path: Path) -> None:
    check_files(config_of(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["relu.onnx"]


def test_a_taken_port_alone_is_no_fault_of_the_file_and_none_for_a_successor(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = config_of(tmp_path, grpc_port=taken.getsockname()[1])
        with pytest.raises(OutputError, match="grpc_port"):
            check_files(config)
        check_files(config, ports=False)


@pytest.mark.parametrize("policy", ["gone.json", "gone.toml", "gone.py:rule"])
def test_the_command_says_it_before_it_loads(tmp_path: Path, policy: str) -> None:
    path = write_server(tmp_path, policy=policy)
    (tmp_path / "small.onnx").unlink()
    done = CliRunner().invoke(app, ["serve", str(path)])
    assert isinstance(done.exception, ConfigError)
    first, second = str(done.exception).split("\n")
    assert "network 'small'" in first and f"policy = '{policy}'" in second
    assert not (tmp_path / "cache").exists()


def test_all_networks_that_do_not_load_are_named_at_once(tmp_path: Path) -> None:
    """Of twelve broken files each start named one."""
    names = ["one", "two"]
    for name in names:
        (tmp_path / f"{name}.onnx").write_bytes(b"no network")
    entries = [Entry(name, tmp_path / f"{name}.onnx") for name in names]
    with pytest.raises(ModelError) as refused, running(tmp_path, networks=entries, models_dir=None):
        pass
    lines = str(refused.value).split("\n")
    assert [line.partition(" does not load: ")[0] for line in lines] == ["model 'one'", "model 'two'"]
