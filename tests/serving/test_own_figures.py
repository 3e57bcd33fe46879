"""A tenant sees what it was served itself; an administrator, and on an anonymous server everybody, sees all."""

from __future__ import annotations

from pathlib import Path

import pytest

from eunomia.serving.server import Server
from tests.serving.live import ADMIN, GOLD, SILVER, ask, running
from tests.serving.test_strangers import TENSOR

grpc = pytest.importorskip("tritonclient.grpc")
IDS = (GOLD, SILVER, ADMIN)


def counted(server: Server, key: str) -> tuple[int, ...]:
    """Requests and the time of the last one by the statistics of both protocols, and hits and misses by the page."""
    (http,) = ask(server, "GET", "/v2/models/stats", key)[1]["model_stats"]
    with grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        (rpc,) = client.get_inference_statistics(headers={"authorization": f"Bearer {key}"}).model_stats
    seconds = ask(server, "GET", "/v2/eunomia/state", key)[1]["seconds"]
    assert int(http["inference_stats"]["success"]["count"]) == rpc.inference_stats.success.count
    assert http["inference_stats"]["fail"]["count"] == rpc.inference_stats.fail.count
    shown = sum(hits + misses for _, hits, misses in seconds)
    return rpc.inference_stats.success.count, rpc.inference_stats.fail.count, bool(rpc.last_inference), shown


def test_nobody_sees_how_much_another_tenant_was_served(tmp_path: Path) -> None:
    """As it was, each saw the sum: with two tenants, the other's requests, their times and that of the last."""
    with running(tmp_path) as server:
        for status, tensor in ((200, TENSOR), (200, TENSOR), (400, {**TENSOR, "shape": [1]})):
            assert ask(server, "POST", "/v2/models/small/infer", GOLD, {"inputs": [tensor]})[0] == status
        assert [counted(server, key) for key in IDS] == [(2, 0, 1, 2), (0, 0, 0, 0), (2, 0, 1, 2)]
        assert ask(server, "POST", "/v2/models/small/infer", SILVER, {"inputs": [TENSOR]})[0] == 200
        assert [counted(server, key)[0] for key in IDS] == [2, 1, 3]


def test_where_anybody_may_name_a_tenant_everybody_sees_all(tmp_path: Path) -> None:
    with running(tmp_path, anonymous=True) as server:
        assert ask(server, "POST", "/v2/models/small/infer", GOLD, {"inputs": [TENSOR]})[0] == 200
        assert [counted(server, key)[0] for key in IDS] == [1, 1, 1]
