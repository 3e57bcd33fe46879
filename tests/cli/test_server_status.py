"""Exit status of what starts a server or speaks with one: docs/cli.md, line by line."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell

pytest.importorskip("tritonclient.grpc")
SERVER = """
anonymous = true
http_port = 0
grpc_port = 0
[[device]]
name = "cpu"
[[network]]
name = "pictures"
onnx = "pictures.onnx"
[[tenant]]
name = "default"
"""


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nothing listens."""
    with socket.socket() as held:  # bound and never listening: refused, and nobody else's
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def server_file(folder: Path, more: str = "") -> Path:
    (folder / "pictures.onnx").write_bytes(b"no network")
    path = folder / "server.toml"
    path.write_text(more + SERVER)
    return path


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_load_where_no_server_answers(shell: Shell, nobody: str, protocol: str) -> None:
    done = shell("load", nobody, "--model", "m", "--set", f"protocol={protocol}")
    assert (
        done.code == 1 and f"model 'm' cannot be asked at {nobody}" in done.err and done.err.count("\n") == 1
    )


@pytest.mark.parametrize(
    "scheme, protocol", [("http", "HTTP"), ("https", "HTTP"), ("grpc", "gRPC"), ("grpcs", "gRPC")]
)
def test_load_takes_the_address_that_a_server_prints(
    shell: Shell, nobody: str, scheme: str, protocol: str
) -> None:
    done = shell("load", f"{scheme}://{nobody}/", "--model", "m")
    assert done.code == 1 and f"model 'm' cannot be asked at {nobody} over {protocol}" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("scheme", ["tcp", "unix"])
def test_load_takes_no_other_url(shell: Shell, nobody: str, scheme: str) -> None:
    done = shell("load", f"{scheme}://{nobody}", "--model", "m")
    assert done.code == 2 and "write HOST:PORT" in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("words", [
    ("load", "127.0.0.1:1"), ("load", "127.0.0.1:1", "--model", "m", "--key-env", "EUNOMIA_NO_KEY"),
    ("load", "none.toml"), ("twin", "record", "127.0.0.1:1"), ("twin", "predict", "none.json"),
    ("promote", "http://127.0.0.1:1"), ("promote", "127.0.0.1:1", "edf"), ("serve", "none.toml"),
])  # fmt: skip
def test_what_is_asked_for_wrongly(
    shell: Shell, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EUNOMIA_NO_KEY", raising=False)
    assert shell(*words).code == 2


@pytest.mark.parametrize("words", [
    ("twin", "record", "URL"), ("promote", "URL", "edf"), ("promote", "URL", "edf", "--check"),
    ("promote", "URL", "--rollback"),
])  # fmt: skip
def test_a_server_that_does_not_answer(shell: Shell, nobody: str, words: tuple[str, ...]) -> None:
    done = shell(*(f"http://{nobody}" if word == "URL" else word for word in words))
    assert done.code == (2 if words[0] == "promote" else 1) and "does not answer" in done.err


def test_a_network_that_cannot_be_used(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])  # where its devices find the package, installed or not
    done = shell("serve", server_file(tmp_path, f"cache_dir = {json.dumps(str(tmp_path))}\n"), "--quiet")
    assert done.code == 1 and "model 'pictures' does not load" in done.err


def test_a_server_file_that_is_wrong(shell: Shell, tmp_path: Path) -> None:
    assert shell("serve", server_file(tmp_path), "--policy", "no_such_policy").code == 2
    assert shell("serve", server_file(tmp_path, "no_such_key = 1\n")).code == 2
    done = shell("serve", server_file(tmp_path, 'database = "postgresql://127.0.0.1:1/none"\n'))
    assert done.code == 1 and "does not answer" in done.err


def test_a_recording_that_is_too_short_to_judge_by_is_a_check_not_passed() -> None:
    from eunomia.core.errors import EunomiaError
    from eunomia.study.serving.promotion import judge
    from eunomia.study.serving.twin import twin_of
    from tests.serving.test_promotion import traffic

    with pytest.raises(EunomiaError, match="200 are needed") as caught:
        judge(twin_of(traffic(count=150)), "edf+f", "fcfs")
    assert caught.value.exit_code == 1
