"""What a load says of its file, its address and the sizes that nobody gave."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

from eunomia.cli.main import app
from eunomia.config.traffic import LoadConfig, traffic_from
from eunomia.core.errors import ConfigError
from eunomia.serving.callers import Callers
from eunomia.serving.load.client import TritonClient
from eunomia.serving.models.entry import Entry
from eunomia.serving.protocol.errors import Unauthenticated
from eunomia.serving.tenants.grants import Grant, StaticDirectory
from eunomia.serving.visit import Caller
from tests.serving.live import GOLD, running

STREAM = {"tenant": "gold", "model": "wide", "key_env": "GOLD_KEY", "deadline_ms": 60_000.0,
          "arrivals": {"process": "periodic", "period_s": 0.1}}  # fmt: skip


def read(**top: Any) -> LoadConfig:
    return traffic_from({**top, "stream": [STREAM]}, (), "load.toml")


@pytest.mark.parametrize(("url", "found"), [
    ("http://127.0.0.1:8000", ("127.0.0.1:8000", "http", False)),
    ("https://box:8443/", ("box:8443", "http", True)),
    ("grpcs://box:8444", ("box:8444", "grpc", True)),
    ("box:8001", ("box:8001", "grpc", False)),
])  # fmt: skip
def test_a_load_file_takes_an_address_as_a_server_prints_it(url: str, found: tuple[str, str, bool]) -> None:
    """As it was, the command line alone did."""
    config = read(url=url)
    assert (config.url, config.protocol, config.tls) == found


@pytest.mark.parametrize(("top", "says"), [
    ({"url": "http://box:8000", "protocol": "grpc"}, "url is 'http://box:8000', and protocol 'grpc': leave"),
    ({"url": "http://"}, "url is ''; it must not be empty"),
    ({"warmup_s": 5.0, "duration_s": 5.0}, r"warmup_s \(5\) is not less than duration_s \(5\)"),
])  # fmt: skip
def test_what_contradicts_itself_or_measures_nothing_is_refused(top: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(**top)


@pytest.mark.parametrize(("url", "protocol", "taken"), [
    ("127.0.0.1:99999", "grpc", False), ("127.0.0.1:x", "http", False), (":8001", "grpc", False),
    ("[::1]", "grpc", False), ("[::1]:8001", "grpc", True), ("box", "http", True), ("box:80/ai", "http", True),
])  # fmt: skip
def test_a_port_that_is_none_is_refused_before_anything_is_asked(
    url: str, protocol: str, taken: bool
) -> None:
    """As it was, 99999 was asked at port 34463."""

    async def make() -> None:
        await TritonClient(url, protocol, [], 1.0).close()

    if taken:
        asyncio.run(make())
    else:
        with pytest.raises(ConfigError, match=f"'{re.escape(url)}' is no address"):
            asyncio.run(make())


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_free_sizes_that_a_network_refuses_as_one_are_named_with_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    """Its inputs must be of three columns, and the file leaves that free."""
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, m] x) => (float[n, k] y)'
        " <float[3, 1] w = {1.0, 2.0, 3.0}> { y = MatMul (x, w) }"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "wide.onnx")
    monkeypatch.setenv("GOLD_KEY", GOLD)
    entry = Entry("wide", tmp_path / "wide.onnx", shapes={"x": [1, 3]})
    with running(tmp_path, networks=[entry], models_dir=None) as server:
        port = server.http_port if protocol == "http" else server.grpc_port
        words = ["load", f"{protocol}://127.0.0.1:{port}", "--model", "wide", "--key-env", "GOLD_KEY",
                 "--rate", "30", "--set", "duration_s=0.3"]  # fmt: skip
        guessed = CliRunner().invoke(app, words)
        assert guessed.exit_code == 1
        assert "'wide' leaves sizes free, and they were sent as 1; give fitting ones" in guessed.stderr
        assert "--set 'shapes={\"x\" = [1, 1]}'" in guessed.stderr.replace("\n", " ")
        given = CliRunner().invoke(app, [*words, "--set", 'shapes={"x" = [1, 3]}'])
        assert given.exit_code == 0 and "leaves sizes free" not in given.stderr
        strange = CliRunner().invoke(app, [*words, "--set", 'shapes={"picture" = [1, 3]}'])
        assert "shapes names 'picture', which is no input; the inputs are: x" in str(strange.exception)


@pytest.mark.parametrize(("asked", "says"), [
    ("default", "no tenant is called 'default': name one"),
    ("iron", "no tenant is called 'iron', and the server has no tenant 'default': name one"),
    ("", "the caller names no tenant, and the server has no tenant 'default': name one"),
])  # fmt: skip
def test_a_tenant_that_is_none_is_named_once(asked: str, says: str) -> None:
    callers = Callers()
    callers.directory, callers.anonymous = StaticDirectory([Grant("gold")]), True
    with pytest.raises(Unauthenticated, match=says):
        callers.identify(Caller(tenant_id=asked or None))
