"""Server and load files: the examples are valid, and every slip gets one sentence."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from eunomia.cli.admin import ask
from eunomia.cli.load import load_streams
from eunomia.cli.serve import server_options
from eunomia.config.cluster import load_cluster
from eunomia.config.server import demo_server, load_server, server_from
from eunomia.config.study import read_study
from eunomia.config.traffic import load_traffic, traffic_from
from eunomia.config.training import load_training
from eunomia.errors import ConfigError, OutputError

EXAMPLES = Path(__file__).parents[2] / "examples" / "serving"


def test_the_example_server(tmp_path: Path) -> None:
    config = load_server(
        EXAMPLES / "server.toml", [f"database=sqlite:///{tmp_path / 't.db'}", f"cache_dir={tmp_path}"]
    )
    options = server_options(config)
    assert {grant.name for grant in options.directory.all()} == {"operator", "gold"}
    admin = options.directory.by_key("eun_change-me")
    assert admin is not None and admin.role == "admin"
    assert options.networks[0].path.stat().st_size > 10_000_000
    options.directory.close()  # type: ignore[attr-defined]


def test_the_example_load_asks_what_the_demo_offers() -> None:
    load, demo = load_traffic(EXAMPLES / "load.toml"), demo_server()
    assert {s.model for s in load.stream} <= {n.name for n in demo.network}
    assert {s.tenant for s in load.stream} <= {t.name for t in demo.tenant}
    assert len(load_streams(load)) == 3


SERVER = {
    "anonymous": True, "device": [{"name": "cpu"}], "tenant": [{"name": "default"}],
    "network": [{"name": "n", "onnx": "n.onnx"}],
}  # fmt: skip
HASH = "8cd76a068d236475fda07b293c3f769d64f173b9042409a5c68bf1d698530f7d"


@pytest.mark.parametrize("change, says", [
    ({"polizy": "edf"}, "did you mean 'policy'"),
    ({"http_port": 70000}, "http_port"),
    ({"device": []}, "device"),
    ({"anonymous": False}, "nobody could use this server"),
    ({"tenant": [{"name": "a"}, {"name": "a"}]}, "two tenants are called 'a'"),
    ({"network": [{"name": "n"}]}, "network 'n' needs onnx = \"FILE\" or builtin"),
    ({"network": [{"name": "n", "onnx": "a.onnx", "builtin": "resnet50"}]}, "has both onnx and builtin: take one"),
    ({"network": []}, "nothing to serve: add a .*network.*, or models_dir"),
    ({"tenant": [{"name": "a", "promise": [{"model": "m", "deadline_ms": 1.0}]}]},
     r"tenant 'a' names 'm' \(promise\), which is none of the networks: n"),
    ({"tenant": [{"name": "a", "models": ["n", "*"]}]}, r"names '\*' \(models\), which is none of the networks"),
    ({"tenant": [{"name": "a", "promise": [{"model": "*", "deadline_ms": 1.0}] * 2}]}, "two promises for '\\*'"),
    ({"device": [{"name": "a", "cores": [0, 0]}]}, r"device 'a' has a core twice: cores = \[0, 0\]"),
    ({"tls_cert": "a.pem"}, "both tls_cert and tls_key"),
    ({"tenant": [{"name": "a", "key_sha256": ["short"]}]},
     r"tenant.a.key_sha256.0: this is 5 characters; the key's SHA-256 is expected.*`eunomia serve key`"),
    ({"tenant": [{"name": "a", "promise": [{"model": "*", "deadline_ms": -1.0}]}]}, "deadline_ms"),
    ({"tenant": [{"name": "a", "promise": [{"model": "*", "deadline_ms": 9.0, "min_deadline_ms": 10.0}]}]},
     r"tenant.a.promise.0: min_deadline_ms \(10\) is .* at most deadline_ms \(9\)"),
    ({"min_deadline_ms": -1.0}, "min_deadline_ms is -1.0; it must be at least 0"),
    ({"device": [{"name": "a", "cores": [9999]}]}, "device 'a' has core 9999; this machine has 0 to"),
])  # fmt: skip
def test_slips_in_a_server_file(change: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        server_from({**SERVER, **change}, (), "server.toml", None)


def test_a_key_in_place_of_its_hash_is_not_shown() -> None:
    with pytest.raises(ConfigError, match="this is a key; the key's SHA-256 is expected") as error:
        server_from({**SERVER, "tenant": [{"name": "a", "key_sha256": ["eun_secret"]}]}, (), "f.toml", None)
    assert "eun_secret" not in str(error.value)


def test_what_was_set_by_hand_is_blamed_and_not_the_file() -> None:
    with pytest.raises(
        ConfigError, match="^f.toml --set http_port=99999: http_port is 99999; it must be at most 65535"
    ):
        server_from(SERVER, ["http_port=99999"], "f.toml", None)
    with pytest.raises(ConfigError, match="^f.toml: http_port is 99999"):
        server_from({**SERVER, "http_port": 99999}, ["grpc_port=1"], "f.toml", None)


def test_promises_for_networks_that_come_later_are_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = {"model": "m", "deadline_ms": 1.0}
    table = {
        **SERVER,
        "tenant": [{"name": "a", "promise": [later]}],
        "models_dir": str(tmp_path),
        "cache_dir": "c",
    }
    server_options(server_from(table, (), "f.toml", None))
    shown = " ".join(capsys.readouterr().err.split())
    assert f"note: tenant 'a' names 'm' (promise), which must be loaded from {tmp_path} first" in shown
    assert server_from({**table, "network": []}, (), "f.toml", None).network == []


def test_hashes_of_ended_keys_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    table = {**SERVER, "database": url, "tenant": [{"name": "a", "key_sha256": [HASH]}], "cache_dir": "c"}
    for ended in (False, True):
        directory: Any = server_options(server_from(table, (), "f.toml", None)).directory
        shown = " ".join(capsys.readouterr().err.split())
        assert (f"the key_sha256 {HASH[:8]}... of tenant 'a' has ended" in shown) == ended
        assert (directory.by_key("eun_change-me") is None) == ended
        directory.revoke_keys("a")
        directory.close()


@pytest.mark.parametrize("change, says", [
    ({"arrivals": {"process": "closed_loop", "clients": 3, "think_s": 0.1}}, "open loop"),
    ({"arrivals": {"process": "poison", "rate_per_s": 1.0}}, "poisson"),
    ({"key_env": "EUNOMIA_NO_SUCH_KEY"}, "EUNOMIA_NO_SUCH_KEY is not set"),
    ({"deadline_ms": 0.0}, "deadline_ms"),
])  # fmt: skip
def test_slips_in_a_load_file(change: dict[str, object], says: str) -> None:
    stream = {
        "tenant": "t",
        "model": "m",
        "deadline_ms": 1.0,
        "arrivals": {"process": "poisson", "rate_per_s": 1.0},
    }
    with pytest.raises(ConfigError, match=says):
        load_streams(traffic_from({"stream": [{**stream, **change}]}, (), "load.toml"))


@pytest.mark.parametrize("load, what", [
    (load_server, "server file"), (load_traffic, "load file"), (load_cluster, "cluster file"), (read_study, "study"),
    (load_training, "training file"),
])  # fmt: skip
def test_a_missing_file_is_called_what_it_is(load: Any, what: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot read the {what} .*nowhere.toml: No such file"):
        load(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=f"a {what} is TOML"):
        load(tmp_path / "bad.toml")


def test_traces_and_limits_of_connections() -> None:
    changed = {**SERVER, "traces": {"sample": 0.5}, "max_connections": 50, "head_s": 2.0, "cache_dir": "c"}
    options = server_options(server_from(changed, (), "server.toml", None))
    assert options.traces is not None and options.traces.sample == 0.5
    assert (options.connections.most, options.connections.head_s) == (50, 2.0)
    with pytest.raises(ConfigError, match="sample"):
        server_from({**SERVER, "traces": {"sample": 2.0}}, (), "server.toml", None)


def test_a_port_that_does_not_speak_http_is_called_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            line, _ = server.accept()
            line.recv(1000)
            line.sendall(b"\x00\x00\x12\x04 not HTTP at all\r\n")
            line.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(OutputError, match="is that the gRPC port"):
            ask(f"http://127.0.0.1:{server.getsockname()[1]}", "/v2/eunomia/twin", None)
        thread.join()


def test_devices_that_share_a_core_do_not_spin() -> None:
    devices = [{"name": "a", "cores": [0]}, {"name": "b", "cores": [0]}]
    shared = server_from({**SERVER, "device": devices}, (), "server", None)
    assert [d.spin_s for d in server_options(shared).devices] == [0.0, 0.0]
    alone = server_from({**SERVER, "device": devices[:1]}, (), "server", None)
    assert server_options(alone).devices[0].spin_s == pytest.approx(5e-3)
