"""Traces: only for those who ask, with the client's own context, and never in the way of an answer."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from eunomia.core.errors import ConfigError
from eunomia.serving.devices.arena import ArenaFull
from eunomia.serving.observe.tracing import TraceOptions, Tracing
from tests.serving.live import GOLD, running
from tests.serving.test_server import ask, bearer, tritongrpc, tritonhttp

memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0{flag}"


def traced(module: Any, stub: Any, flag: int | None, **more: Any) -> None:
    import numpy as np

    image = np.zeros((1, 3, 64, 64), np.float32)
    tensor = module.InferInput("image", list(image.shape), "FP32")
    tensor.set_data_from_numpy(image)
    headers = bearer(GOLD) | ({} if flag is None else {"traceparent": PARENT.format(flag=flag)})
    stub.infer("small", [tensor], headers=headers, **more)


def test_a_client_asks_for_its_trace_over_either_protocol(tmp_path: Path) -> None:
    exporter = memory.InMemorySpanExporter()
    with running(tmp_path, traces=TraceOptions(exporter=exporter)) as server:
        for module, port in ((tritonhttp, server.http_port), (tritongrpc, server.grpc_port)):
            stub = module.InferenceServerClient(f"127.0.0.1:{port}")
            traced(module, stub, None)  # no context: traced by the server's share, which is 0
            traced(module, stub, 0)  # the client says no
            traced(module, stub, 1)
        assert server.service.tracing is not None and not server.service.tracing._open
    spans = exporter.get_finished_spans()
    roots = [s for s in spans if s.name == "infer small"]
    assert len(roots) == 2
    for root in roots:
        assert (
            f"{root.context.trace_id:032x}" == PARENT.split("-")[1]
            and f"{root.parent.span_id:016x}" == PARENT.split("-")[2]
        )
        assert root.attributes["eunomia.tenant"] == "gold" and root.attributes["eunomia.outcome"] == "hit"
        inside = [s for s in spans if s.parent and s.parent.span_id == root.context.span_id]
        assert {s.name for s in inside} == {"wait", "run"}
        assert all(root.start_time <= s.start_time <= s.end_time <= root.end_time for s in inside)
    assert GOLD not in str([s.to_json() for s in spans])


def test_a_share_of_all_and_what_went_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(size: int) -> Any:
        raise ArenaFull("no room")

    exporter = memory.InMemorySpanExporter()
    with running(tmp_path, traces=TraceOptions(sample=1.0, exporter=exporter)) as server:
        monkeypatch.setattr(server.pool.arena, "allocate", full)
        stub = tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
        with pytest.raises(Exception, match="memory for tensors is full"):
            ask(tritonhttp, stub)
    (wait, root) = exporter.get_finished_spans()
    assert root.status.description == "limit" and wait.name == "wait" and root.parent is None


def test_a_request_that_fails_in_a_way_nobody_thought_of_ends_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(job: Any, inputs: Any) -> Any:
        raise RuntimeError("as nobody thought")

    exporter = memory.InMemorySpanExporter()
    with running(tmp_path, traces=TraceOptions(sample=1.0, exporter=exporter)) as server:
        monkeypatch.setattr(server.pool, "submit", broken)
        stub = tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
        with pytest.raises(Exception, match="the server has failed"):
            ask(tritonhttp, stub)
        assert server.service.tracing is not None and not server.service.tracing._open
    (_, root) = exporter.get_finished_spans()
    assert root.status.description == "internal" and root.attributes["eunomia.outcome"] == "internal"


def test_spans_reach_a_collector(tmp_path: Path) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # noqa: N802
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Silent."""

    collector = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=collector.serve_forever)
    thread.start()
    try:
        options = TraceOptions(f"http://127.0.0.1:{collector.server_port}/v1/traces", sample=1.0)
        with running(tmp_path, traces=options) as server:
            ask(tritonhttp, tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}"))
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    import gzip

    plain = [gzip.decompress(b) if b[:2] == b"\x1f\x8b" else b for b in bodies]
    names = [s.name for b in plain for r in ExportTraceServiceRequest.FromString(b).resource_spans
             for scope in r.scope_spans for s in scope.spans]  # fmt: skip
    assert "infer small" in names and "run" in names


def test_a_wrong_endpoint_is_named() -> None:
    with pytest.raises(ConfigError, match="endpoint is 'localhost'"):
        Tracing(TraceOptions("localhost"))
