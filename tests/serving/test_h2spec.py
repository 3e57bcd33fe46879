"""h2spec, other people's tests of HTTP/2, against the gRPC port, where the program is on the path.

No package brings it: ``go build ./cmd/h2spec`` in its repository (github.com/summerwind/h2spec) makes it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests import children
from tests.serving.live import running

PROGRAM = shutil.which("h2spec")
IDLE = {"idle: Sends a RST_STREAM frame", "Sends a RST_STREAM frame on a idle stream"}  # as clients in C++ do


@pytest.mark.skipif(PROGRAM is None, reason="h2spec is not installed")
def test_all_of_it_passes_but_what_clients_break(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        done = children.run([str(PROGRAM), "-h", "127.0.0.1", "-p", str(server.grpc_port), "-o", "4"])
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert set(re.findall(r"× \d+: (.+)", said.partition("Failures:")[2])) == IDLE, said
    assert "146 tests, 144 passed, 0 skipped, 2 failed" in said
