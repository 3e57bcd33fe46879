"""``eunomia serve`` and the signals that stop it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.serving.process import process, write_server


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_server_drains_and_ends_with_0(tmp_path: Path, sent: signal.Signals) -> None:
    with process(write_server(tmp_path)) as server:
        assert server.infer() == 200
        server.process.send_signal(sent)
        assert server.process.wait(PATIENCE_S) == 0


def test_a_server_that_its_parent_protects_from_ctrl_c_serves_on(tmp_path: Path) -> None:
    """As under ``nohup`` and in the background of a shell: SIGINT stays ignored, SIGTERM does not."""
    with process(write_server(tmp_path), ignoring=[signal.SIGINT, signal.SIGTERM]) as server:
        server.process.send_signal(signal.SIGINT)
        assert [server.infer() for _ in range(5)] == [200] * 5
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0
