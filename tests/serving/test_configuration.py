"""Server and load files: the examples are valid, and every slip gets one sentence."""

from __future__ import annotations

import functools
import re
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from eunomia.cli.admin import ask
from eunomia.cli.console import note
from eunomia.config.cluster import load_cluster
from eunomia.config.server import demo_server, load_server, server_from
from eunomia.config.study import read_study
from eunomia.config.traffic import load_traffic, traffic_from
from eunomia.config.training import load_training
from eunomia.core.errors import ConfigError, EunomiaError, OutputError
from eunomia.serving.devices.memory import machine_bytes
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant, hash_key
from eunomia.study.serving import server
from eunomia.study.serving.load import load_streams
from tests.serving.process import process, write_server

EXAMPLES = Path(__file__).parents[2] / "examples" / "serving"

server_options = functools.partial(server.server_options, tell=note)  # as ``eunomia serve`` does


def test_the_example_server(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_server(EXAMPLES / "server.toml")
    for tenant in ("operator", "gold"):
        assert f"tenant.{tenant}.key_sha256.0: there is no key yet: run `eunomia serve key`" in str(
            refused.value
        )
    text = (EXAMPLES / "server.toml").read_text()
    for key in ("eun_operator", "eun_gold"):
        text = text.replace("PASTE-KEY_SHA256-HERE", hash_key(key), 1)
    (tmp_path / "server.toml").write_text(text)
    options = server_options(
        load_server(tmp_path / "server.toml", [f"cache_dir={tmp_path}", "device.core-1.cores=[0]"])
    )
    assert {grant.name for grant in options.directory.all()} == {"operator", "gold"}
    admin, gold = options.directory.by_key("eun_operator"), options.directory.by_key("eun_gold")
    assert admin is not None and admin.role == "admin" and gold is not None and gold.role == "tenant"
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
HASH = hash_key("eun_mine")


@pytest.mark.parametrize("change, says", [
    ({"polizy": "edf"}, "did you mean 'policy'"),
    ({"http_port": 70000}, "http_port"),
    ({"device": []}, "device"),
    ({"anonymous": False}, "nobody could use this server"),
    ({"tenant": [{"name": "a"}, {"name": "a"}]}, "two tenants are called 'a'"),
    ({"network": [{"name": "n"}]}, "network 'n' needs onnx = \"FILE\" or builtin"),
    ({"network": [{"name": "n", "onnx": "a.onnx", "builtin": "resnet50"}]}, "has both onnx and builtin: take one"),
    ({"network": [{"name": "org/net", "builtin": "resnet50"}]},
     r"^server.toml: network.org/net.name: 'org/net' holds '/', .*: write 'org-net'$"),
    ({"network": []}, "nothing to serve: add a .*network.*, or models_dir"),
    ({"tenant": [{"name": "a", "promise": [{"model": "m", "deadline_ms": 1.0}]}]},
     r"tenant 'a' names 'm' \(objectives\), which is none of the networks: n"),
    ({"tenant": [{"name": "a", "models": ["n", "*"]}]}, r"names '\*' \(models\), which is none of the networks"),
    ({"tenant": [{"name": "a", "promise": [{"model": "*", "deadline_ms": 1.0}] * 2}]}, "two objectives for '\\*'"),
    ({"http_port": 9000, "grpc_port": 9000}, "http_port and grpc_port are both 9000: each needs a port of its own"),
    ({"load_all": True}, "load_all is true, and there is no models_dir of which all could be loaded; give one"),
    ({"device": [{"name": "a", "backend": "torch", "spare": True}]}, "nothing stands by for backend = .torch.; take"),
    ({"device": [{"name": "a", "cores": [0, 0]}]}, r"device 'a' has a core twice: cores = \[0, 0\]"),
    ({"tls_cert": "a.pem"}, "both tls_cert and tls_key"),
    ({"tenant": [{"name": "a", "key_sha256": ["short"]}]},
     r"tenant.a.key_sha256.0: this is 5 characters; the key's SHA-256 is expected.*`eunomia serve key`"),
    ({"tenant": [{"name": "a", "key_sha256": [hash_key("eun_change-me")]}]}, "'eun_change-me', which stood in"),
    ({"tenant": [{"name": "a", "key_sha256": ["0" * 62 + "g0"]}]}, r"not hexadecimal \(digit 63 is none"),
    ({"tenant": [{"name": "a", "promise": [{"model": "*", "deadline_ms": -1.0}]}]}, "deadline_ms"),
    ({"tenant": [{"name": "a", "objectives": [{"model": "*", "deadline_ms": 9.0, "min_deadline_ms": 10.0}]}]},
     r"tenant.a.objectives.0: min_deadline_ms \(10\) is .* at most deadline_ms \(9\)"),
    ({"min_deadline_ms": -1.0}, "min_deadline_ms is -1.0; it must be at least 0"),
    ({"device": [{"name": "a", "cores": [9999]}]}, "device 'a' has core 9999; this machine has 0 to .*: give cores ="),
    ({"tenant": [{"name": "a", "key_sha256": ["0" * 64]}, {"name": "b", "key_sha256": ["1" * 64, "0" * 64]}]},
     r"tenants 'a' and 'b' have the same key \(00000000\.\.\.\)"),
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
        "cache_dir": str(tmp_path),
    }
    server_options(server_from(table, (), "f.toml", None))
    shown = " ".join(capsys.readouterr().err.split())
    assert f"note: tenant 'a' names 'm' (objectives), which must be loaded from {tmp_path} first" in shown
    assert server_from({**table, "network": []}, (), "f.toml", None).network == []


def test_hashes_of_ended_keys_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    table = {
        **SERVER,
        "database": url,
        "tenant": [{"name": "a", "key_sha256": [HASH]}],
        "cache_dir": str(tmp_path),
    }
    for ended in (False, True):
        directory: Any = server_options(server_from(table, (), "f.toml", None)).directory
        shown = " ".join(capsys.readouterr().err.split())
        assert (f"the key_sha256 {HASH[:8]}... of tenant 'a' has ended" in shown) == ended
        assert (directory.by_key("eun_mine") is None) == ended
        directory.revoke_keys("a")
        directory.close()


def notes(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_paths_start_from_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "server.toml").write_text(
        'anonymous = true\ndatabase = "sqlite:///state/t.db"\nledger_dir = "ledger"\npolicy_dir = "policies"\n'
        'cache_dir = "cache"\nmodels_dir = "models"\ntls_cert = "c.pem"\ntls_key = "k.pem"\n'
        '[[device]]\nname = "cpu"\n[[tenant]]\nname = "default"\n'
    )
    for folder in (home, tmp_path):  # the same files wherever it is started, also where some exist already
        monkeypatch.chdir(folder)
        (folder / "ledger").mkdir(exist_ok=True)
        config = load_server((home / "server.toml").relative_to(folder))
        assert config.database == f"sqlite:///{home}/state/t.db"
        assert [config.ledger_dir, config.policy_dir, config.cache_dir, config.models_dir] == [
            str(home / name) for name in ("ledger", "policies", "cache", "models")
        ]
        assert [config.tls_cert, config.tls_key] == [str(home / "c.pem"), str(home / "k.pem")]


@pytest.mark.parametrize("key", ["objectives", "promise"])
def test_objectives_are_read_under_their_former_name_too(key: str) -> None:
    agreed = [{"model": "n", "deadline_ms": 5.0, "slo": {"hit_rate": 0.9}}]
    tenant = server_from({**SERVER, "tenant": [{"name": "a", key: agreed}]}, (), "f.toml", None).tenant[0]
    assert [(one.model, one.deadline_ms) for one in tenant.agreed] == [("n", 5.0)]
    assert tenant.named == {"n": "objectives"}


@pytest.mark.parametrize("url", [
    "sqlite://", "sqlite:///:memory:", "sqlite:////var/t.db", "sqlite:///file:t.db?uri=true", "postgresql://u@h/t.db",
])  # fmt: skip
def test_databases_that_stand_where_they_say(url: str, tmp_path: Path) -> None:
    assert server_from({**SERVER, "database": url}, (), "f.toml", tmp_path).database == url
    query = server_from({**SERVER, "database": "sqlite+pysqlite:///t.db?x=1"}, (), "f.toml", tmp_path)
    assert query.database == f"sqlite+pysqlite:///{tmp_path}/t.db?x=1"


def test_a_tenant_of_the_file_that_no_address_can_name_is_pointed_out(tmp_path: Path) -> None:
    """As it was, it stood in the database, and nobody could change it there."""
    tenants = [{"name": name, "key_sha256": [digit * 64]} for name, digit in (("go ld", "0"), ("plain", "1"))]
    table = {**SERVER, "tenant": tenants, "database": "sqlite:///t.db", "cache_dir": "c"}
    said = list[str]()
    options = server.server_options(server_from(table, (), "f.toml", tmp_path), said.append)
    server.close(options.directory)
    assert [text for text in said if "HTTP" in text] == [
        "tenant 'go ld' cannot be changed over HTTP: letters, digits, '.', '_' and '-' make a name there, at most 80"
    ]


def test_a_new_database_and_what_differs_from_it_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {**SERVER, "database": "sqlite:///t.db", "cache_dir": "c"}
    promised = {"name": "default", "weight": 2.0, "promise": [{"model": "n", "deadline_ms": 1.0}]}
    differs = (
        "note: tenant 'default' differs between file and database (weight, objectives); the database counts"
    )
    for tenant, says in (
        ({"name": "default"}, f"note: a new database for tenants and keys: {tmp_path / 't.db'}"),
        ({"name": "default"}, ""),
        (promised, differs),
    ):
        options = server_options(server_from({**table, "tenant": [tenant]}, (), "f.toml", tmp_path))
        shown = notes(capsys)
        assert shown.startswith(says) and bool(says) == bool(shown)
        options.directory.close()  # type: ignore[attr-defined]


def test_what_is_wrong_elsewhere_leaves_no_database_behind(tmp_path: Path) -> None:
    table = {**SERVER, "database": "sqlite:///t.db", "cache_dir": "c", "policy": "no_such_policy"}
    with pytest.raises(EunomiaError, match="no_such_policy"):
        server_options(server_from(table, (), "f.toml", tmp_path))
    assert not (tmp_path / "t.db").exists()


def test_after_a_stop_the_file_of_the_database_is_complete(tmp_path: Path) -> None:
    with process(write_server(tmp_path, database="sqlite:///state/tenants.db")) as server:
        status, answer = server.ask("/v2/eunomia/tenants/gold/keys", {})
        assert status == 200
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["tenants.db"]
    shutil.copy(tmp_path / "state" / "tenants.db", tmp_path / "backup.db")
    directory = DatabaseDirectory(f"sqlite:///{tmp_path / 'backup.db'}")
    assert {grant.name for grant in directory.all()} == {"gold", "silver", "root"}
    assert directory.by_key(answer["key"]) == directory.by_name("gold")
    directory.close()


def test_the_published_key_ends_in_a_database_that_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = DatabaseDirectory(f"sqlite:///{tmp_path / 't.db'}")
    directory.put(Grant("root", role="admin"))
    assert directory.adopt_key("root", hash_key("eun_change-me"))
    directory.close()
    table = {**SERVER, "database": "sqlite:///t.db", "cache_dir": "c"}
    with pytest.raises(ConfigError, match="only key of an administrator .* 'eun_change-me'"):
        server_options(server_from(table, (), "f.toml", tmp_path))
    mine = {"name": "root", "role": "admin", "key_sha256": [HASH]}
    options = server_options(server_from({**table, "tenant": [mine]}, (), "f.toml", tmp_path))
    assert "the key 'eun_change-me' of an earlier example" in notes(capsys)
    assert (
        options.directory.by_key("eun_change-me") is None and options.directory.by_key("eun_mine") is not None
    )
    options.directory.close()  # type: ignore[attr-defined]


def test_what_a_server_cannot_do_without_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ConfigError, match=f"cache_dir = '{tmp_path}/file' cannot be written: File exists; set"
    ):
        server_options(server_from({**SERVER, "cache_dir": "file"}, (), "f.toml", tmp_path))
    torch = server_from(
        {**SERVER, "cache_dir": "c", "device": [{"name": "gpu", "backend": "torch"}]}, (), "f.toml", tmp_path
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"device 'gpu': .* needs the package torch, .* pip install 'eunomia\[learn\]'"
    ):
        server_options(torch)


FIRST = """network = [{ name = "n", builtin = "mobilenet-v2" }]
anonymous = true
"""
TABLES = """
[[device]]
name = "cpu"
[[tenant]]
name = "gold"
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('tenants = [{ name = "gold" }]', "unknown key 'tenants'; did you mean 'tenant'?"),
        (TABLES.replace("[[tenant]]", "[tenant]"), "tenant is one table; write [[tenant]], for each"),
        (TABLES + "http_port = 8000", "tenant.gold: 'http_port' is no key of this table but of the file"),
    ],
)
def test_first_steps_in_toml_that_go_wrong(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "box.toml").write_text(FIRST + text)
    with pytest.raises(ConfigError, match=re.escape(says)):
        load_server(tmp_path / "box.toml")


def test_a_file_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    """Editors of Windows write one: "Invalid statement (at line 1, column 1)" was said of a line without a fault."""
    (tmp_path / "box.toml").write_text(FIRST + TABLES, encoding="utf-8-sig")
    assert load_server(tmp_path / "box.toml").tenant[0].name == "gold"


def test_tables_that_are_missing_are_called_as_they_are_written() -> None:
    for key in ("device", "tenant"):
        lacking = {name: value for name, value in SERVER.items() if name != key}
        with pytest.raises(ConfigError, match=rf"f.toml: there is no \[\[{key}\]\]"):
            server_from(lacking, (), "f.toml", None)


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


def test_traces_and_limits_of_connections(tmp_path: Path) -> None:
    changed = {
        **SERVER,
        "traces": {"sample": 0.5},
        "max_connections": 50,
        "head_s": 2.0,
        "cache_dir": str(tmp_path),
    }
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


def test_devices_that_share_a_core_do_not_spin(tmp_path: Path) -> None:
    devices = [{"name": "a", "cores": [0]}, {"name": "b", "cores": [0]}]
    shared = server_from({**SERVER, "device": devices, "cache_dir": "c"}, (), "server", tmp_path)
    assert [d.spin_s for d in server_options(shared).devices] == [0.0, 0.0]
    alone = server_from({**SERVER, "device": devices[:1], "cache_dir": "c"}, (), "server", tmp_path)
    assert server_options(alone).devices[0].spin_s == pytest.approx(5e-3)


def test_devices_without_a_bound_share_what_the_machine_has() -> None:
    devices = [{"name": name, "cores": [0]} for name in "abc"] + [
        {"name": "d", "cores": [0], "memory_mib": 5.0}
    ]
    made = server_options(server_from({**SERVER, "device": devices}, (), "f.toml", None))
    *unbound, bound = [device.memory_bytes for device in made.devices]
    assert bound == 5 * 2**20 and sum(unbound) <= 0.75 * machine_bytes() and len({*unbound}) == 1


@pytest.mark.parametrize("name", ["gold\n", " gold", "go\tld", "go\x1bld"])
@pytest.mark.parametrize("kind", ["tenant", "network"])
def test_names_that_no_header_can_carry_are_refused(kind: str, name: str) -> None:
    """As it was, a server began that nobody could ask as this tenant, with a log of broken lines."""
    table = {"tenant": {"name": name}, "network": {"name": name, "onnx": "n.onnx"}}[kind]
    with pytest.raises(ConfigError, match="begins or ends with a blank, or holds what cannot be printed"):
        server_from({**SERVER, kind: [table]}, (), "f.toml", None)


@pytest.mark.parametrize(("change", "told"), [
    ({}, True), ({"role": "admin"}, True), ({"role": "admin", "key_sha256": ["0" * 64]}, False),
])  # fmt: skip
def test_a_folder_that_nobody_may_load_from_is_pointed_out(
    change: dict[str, object], told: bool, tmp_path: Path
) -> None:
    """As it was, the server began with no network, and nobody could ever change that."""
    table = {
        **SERVER,
        "models_dir": str(tmp_path),
        "cache_dir": "c",
        "tenant": [{"name": "default"} | change],
    }
    said = list[str]()
    options = server.server_options(server_from(table, (), "f.toml", tmp_path), said.append)
    server.close(options.directory)
    assert any(text.startswith("nobody may load what is in models_dir") for text in said) == told
    table["load_all"] = True  # nobody need
    options = server.server_options(server_from(table, (), "f.toml", tmp_path), said.append)
    server.close(options.directory)
    assert len([text for text in said if text.startswith("nobody may load")]) == told


@pytest.mark.parametrize(
    ("host", "anonymous", "told"),
    [
        ("127.0.0.1", True, False), ("::1", True, False), ("localhost", True, False),
        ("0.0.0.0", True, True), ("::", True, True), ("0.0.0.0", False, False),
    ],
)  # fmt: skip
def test_callers_without_a_key_from_elsewhere_are_pointed_out(
    host: str, anonymous: bool, told: bool, tmp_path: Path
) -> None:
    tenant = {"name": "default", "key_sha256": ["0" * 64]}
    table = {**SERVER, "cache_dir": "c", "host": host, "anonymous": anonymous, "tenant": [tenant]}
    said = list[str]()
    options = server.server_options(server_from(table, (), "f.toml", tmp_path), said.append)
    server.close(options.directory)
    assert any("whoever reaches this machine may send requests" in text for text in said) == told
