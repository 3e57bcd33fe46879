"""``eunomia serve`` and the signals that stop it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from eunomia.cli.main import app
from eunomia.cli.serve import Stopped, _announce, _started
from eunomia.core.errors import ModelError
from tests import children
from tests.patience import PATIENCE_S, until
from tests.serving.process import process, write_server


def test_a_server_drains_and_ends_with_0(tmp_path: Path) -> None:
    """By Ctrl-C; SIGTERM below."""
    with process(write_server(tmp_path)) as server:
        assert server.infer() == 200
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE_S) == 0


def test_a_server_that_loads_is_stopped_at_once(tmp_path: Path) -> None:
    """As it was, it loaded to the end, or died of the signal without a word."""
    with children.started(
        children.python("-m", "eunomia", "serve", write_server(tmp_path)), stderr=-1
    ) as child:
        assert child.stderr is not None
        assert child.stderr.readline().startswith("loading 1 network")
        child.send_signal(signal.SIGTERM)
        assert words(child.stderr.read()) == ["stopped before it was ready"]
        assert child.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("swallowed", [False, True])
def test_sigterm_before_the_event_loop_ends_with_0_and_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swallowed: bool
) -> None:
    def check(*_: object, **__: object) -> None:
        with contextlib.suppress(Stopped if swallowed else ZeroDivisionError):
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("eunomia.study.serving.beforehand.check_files", check)
    done = CliRunner().invoke(app, ["serve", str(write_server(tmp_path))])
    assert done.exit_code == 0 and "stopped before it was ready" in done.output
    assert signal.getsignal(signal.SIGTERM) is before


class Starts:
    """A server whose start takes for ever, fails, or is over."""

    def __init__(self, how: str) -> None:
        self.how, self.ended = how, False

    async def __aenter__(self) -> Starts:
        try:
            if self.how == "fails":
                raise ModelError("it does not load")
            if self.how == "waits":
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended = True
            raise
        return self


@pytest.mark.parametrize("how", ["waits", "is over"])
def test_a_start_ends_when_it_is_to_stop(how: str) -> None:
    async def main() -> None:
        server, stop = Starts(how), asyncio.Event()
        asyncio.get_running_loop().call_soon(stop.set)
        assert await _started(server, stop) is (how == "is over")  # type: ignore[arg-type]
        assert server.ended is (how == "waits")

    asyncio.run(main())


def test_why_a_server_does_not_start_is_raised() -> None:
    async def main() -> None:
        with pytest.raises(ModelError, match="it does not load"):
            await _started(Starts("fails"), asyncio.Event())  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_server_that_its_parent_protects_from_ctrl_c_serves_on(tmp_path: Path) -> None:
    """As under ``nohup`` and in the background of a shell: SIGINT and SIGHUP stay ignored, SIGTERM does not."""
    with process(write_server(tmp_path), ignoring=[signal.SIGINT, signal.SIGHUP, signal.SIGTERM]) as server:
        server.process.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGHUP)
        assert [server.infer() for _ in range(5)] == [200] * 5
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_all_processes_ends_no_device_before_its_requests(
    tmp_path: Path, sent: signal.Signals
) -> None:
    """As service managers and ``timeout`` send it: the devices died while the server drained.

    A terminal that was closed (SIGHUP) ended the server at once, with all requests inside.
    """
    with process(write_server(tmp_path), errors=tmp_path / "said.txt") as server:
        assert server.infer() == 200
        os.killpg(server.process.pid, sent)
        assert server.process.wait(PATIENCE_S) == 0
        assert "died" not in (tmp_path / "said.txt").read_text()


def test_ctrl_c_during_the_start_is_one_word(tmp_path: Path) -> None:
    """As it was, a device's process that had just begun died of it, with a traceback."""
    with children.started(
        children.python("-m", "eunomia", "serve", write_server(tmp_path)), stderr=-1
    ) as child:
        until(lambda: worker_imports(child.pid))
        os.killpg(child.pid, signal.SIGINT)
        assert child.stderr is not None
        assert words(child.stderr.read())[1:] == ["stopped before it was ready"]
        assert child.wait(PATIENCE_S) == 0


def words(said: str) -> list[str]:
    """Lines of a start, without the one on how many connections this machine lets it hold."""
    return [line for line in said.splitlines() if "(ulimit -n)" not in line]


def worker_imports(parent: int) -> bool:
    """Whether a device's process of this parent runs its imports by now."""
    for own in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((own / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                worker = "eunomia.serving.devices.worker" in (own / "cmdline").read_text()
                if worker and "_multiarray_umath" in (own / "maps").read_text():
                    return True
    return False


def test_addresses_of_ipv6_stand_in_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    """As they were printed, http://:::8000, no client took them."""
    server = Mock(http_port=8000, grpc_port=8001, options=Mock(host="::", tls=None))
    server.service.repository.entries.return_value = []
    _announce(server, quiet=True, as_json=False)
    assert capsys.readouterr().out == "ready: http://[::]:8000, gRPC [::]:8001\n"
