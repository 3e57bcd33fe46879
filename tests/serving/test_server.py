"""Stock clients against a real server: both protocols, shared memory, keys, limits, faults."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from eunomia import serving
from eunomia.core.errors import OutputError
from eunomia.inference.policies import load_policy
from eunomia.serving.devices.device import DeviceSpec
from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.fronts.policy import read_placing
from eunomia.serving.models.convolutional import resnet50
from eunomia.serving.models.entry import Entry
from eunomia.serving.server import Server
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant
from eunomia.workload.tenant import Slo
from tests.patience import PATIENCE_S, until
from tests.serving.live import ADMIN, GOLD, PROMISED_S, SIDE, SILVER, running

tritonhttp = pytest.importorskip("tritonclient.http")
tritongrpc = pytest.importorskip("tritonclient.grpc")
from tritonclient.utils import InferenceServerException  # noqa: E402

IMAGE = np.random.default_rng(0).standard_normal((1, 3, SIDE, SIDE), np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server"), shared_memory=True) as live:
        yield live


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Any]:
    """(module, client) of either protocol."""
    if request.param == "http":
        module, stub = tritonhttp, tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    else:
        module, stub = tritongrpc, tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    yield module, stub
    stub.close()


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def ask(
    module: Any, client: Any, key: str = GOLD, image: np.ndarray = IMAGE, model: str = "small", **more: Any
) -> Any:
    tensor = module.InferInput("image", list(image.shape), "FP32")
    tensor.set_data_from_numpy(image)
    return client.infer(model, [tensor], headers=bearer(key), **more)


def post(server: Server, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_answers_are_those_of_the_whole_network(server: Server, client: Any, tmp_path: Path) -> None:
    module, stub = client
    answer = ask(module, stub, request_id="r-1").as_numpy("logits")
    entry = server.service.repository.entry("small")
    whole = ort.InferenceSession(str(entry.path), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(answer, whole.run(None, {"image": IMAGE})[0])


def test_facts_of_server_and_model(client: Any) -> None:
    module, stub = client
    assert stub.is_server_live() and stub.is_server_ready() and stub.is_model_ready("small")
    more = {} if module is tritonhttp else {"as_json": True}
    metadata = stub.get_model_metadata("small", headers=bearer(GOLD), **more)
    assert metadata["name"] == "small" and metadata["inputs"][0]["name"] == "image"
    assert [int(d) for d in metadata["inputs"][0]["shape"]] == [-1, 3, SIDE, SIDE]
    config = stub.get_model_config("small", headers=bearer(GOLD), **more)
    config = config.get("config", config)
    assert [int(d) for d in config["input"][0]["dims"]] == [3, SIDE, SIDE]


def test_keys_are_needed_and_roles_are_kept(client: Any) -> None:
    module, stub = client
    with pytest.raises(InferenceServerException, match="the API key is not valid"):
        ask(module, stub, key="eun_made-up")
    with pytest.raises(InferenceServerException, match="an API key is needed"):
        stub.get_model_metadata("small")
    with pytest.raises(InferenceServerException, match="'gold' is no administrator"):
        stub.unload_model("small", headers=bearer(GOLD))


def test_a_header_does_not_beat_a_key(server: Server) -> None:
    body = json.dumps({"inputs": []}).encode()
    status, content = post(server, "/v2/models/small/infer", body, {"x-tenant-id": "gold"})
    assert (status, content["reason"]) == (401, "unauthenticated")


def test_a_long_call_deadline_does_not_stretch_the_promise(server: Server) -> None:
    stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    for more, deadline_s in (
        ({"client_timeout": 600.0}, PROMISED_S), ({"client_timeout": 600.0, "timeout": 200_000_000}, 200.0),
        ({"client_timeout": 600.0, "parameters": {"slo_ms": 70_000}}, 70.0),
    ):  # fmt: skip
        ask(tritongrpc, stub, **more)
        assert server.service.books.recording.requests()[-1][3] == pytest.approx(deadline_s)


def test_networks_come_and_go(server: Server, client: Any) -> None:
    module, stub = client
    stub.unload_model("small", headers=bearer(ADMIN))
    with pytest.raises(InferenceServerException, match="model 'small' is not ready: unloaded"):
        ask(module, stub)
    stub.load_model("small", headers=bearer(ADMIN))
    assert ask(module, stub).as_numpy("logits").shape == (1, 10)
    with pytest.raises(InferenceServerException, match="unknown model"):
        stub.load_model("../../etc/passwd" if module is tritongrpc else "elsewhere", headers=bearer(ADMIN))


def test_wrong_requests_are_told_apart(client: Any) -> None:
    module, stub = client
    with pytest.raises(InferenceServerException, match="unknown model 'nope'"):
        ask(module, stub, model="nope")
    with pytest.raises(InferenceServerException, match="takes"):
        ask(module, stub, image=IMAGE[:, :2])
    with pytest.raises(InferenceServerException, match="may send 200000"):
        ask(module, stub, key=SILVER, image=np.repeat(IMAGE, 5, axis=0))
    with pytest.raises(
        InferenceServerException, match="the network alone takes.*timeout is .* away: set a longer"
    ):
        ask(module, stub, timeout=1)


@pytest.mark.parametrize("body, says", [
    (b"{", "is not JSON"), (b"[]", "the body is a JSON array; an object is expected"),
    (b'{"inputs": [], "parameters": [1]}', "parameters is a JSON array; an object is expected, or leave it out"),
    (b'{"inputs": [], "parameters": true}', "parameters is a JSON boolean"), (b"null", "the body is null; an object"),
    (b'{"id": "%s", "inputs": []}' % (b"i" * 201), "id has 201 letters; at most 200"),
    (b'{"inputs": 3}', "list of objects"),
    (b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, -2]}]}', "whole numbers"),
    (b'{"inputs": [{"name": "image", "datatype": "STRING", "shape": [1]}]}', "datatype 'STRING'"),
    (b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [2], "data": [1]}]}', "1 values given"),
    (b'{"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1], "data": [300]}]}', "300 is no value of UINT8"),
    (b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1], "data": ["x"]}]}', '"x" is no value of FP32'),
    (b'{"inputs": [{"name": "other", "datatype": "FP32", "shape": [1], "data": [1]}]}', "takes the inputs image"),
    (b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [99999999999]}]}', "whole numbers from 0"),
])  # fmt: skip
def test_malformed_bodies_get_one_sentence(server: Server, body: bytes, says: str) -> None:
    status, content = post(server, "/v2/models/small/infer", body, bearer(GOLD))
    assert status == 400 and says in content["error"]


def test_a_plain_json_request(server: Server) -> None:
    tensor = {"name": "image", "datatype": "FP32", "shape": list(IMAGE.shape), "data": IMAGE.ravel().tolist()}
    status, content = post(server, "/v2/models/small/infer", json.dumps({"id": "7", "inputs": [tensor]}).encode(),
                           bearer(GOLD))  # fmt: skip
    assert status == 200 and content["id"] == "7" and len(content["outputs"][0]["data"]) == 10


def test_tensors_in_shared_memory(client: Any) -> None:
    shm = pytest.importorskip("tritonclient.utils.shared_memory")
    module, stub = client
    name = f"/gold:test-{os.getpid()}"
    there = shm.create_shared_memory_region("in", name, IMAGE.nbytes)
    try:
        shm.set_shared_memory_region(there, [IMAGE])
        stub.register_system_shared_memory("in", name, IMAGE.nbytes, headers=bearer(GOLD))
        tensor = module.InferInput("image", list(IMAGE.shape), "FP32")
        tensor.set_shared_memory("in", IMAGE.nbytes)
        answer = stub.infer("small", [tensor], headers=bearer(GOLD)).as_numpy("logits")
        np.testing.assert_array_equal(answer, ask(module, stub).as_numpy("logits"))
        with pytest.raises(InferenceServerException, match="no shared memory region"):
            stub.infer("small", [tensor], headers=bearer(SILVER))  # another tenant's
        stub.unregister_system_shared_memory("in", headers=bearer(GOLD))
    finally:
        shm.destroy_shared_memory_region(there)


def test_many_at_once_and_none_is_lost(server: Server) -> None:
    stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
    with ThreadPoolExecutor(8) as crowd:
        answers = list(
            crowd.map(lambda n: ask(tritongrpc, stub, request_id=str(n)).get_response().id, range(40))
        )
    assert answers == [str(n) for n in range(40)]
    assert server.pool.arena.free_bytes == 16 * 1024**2  # all memory came back


def test_a_killed_worker_costs_no_answer(server: Server) -> None:
    stub, deaths = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}"), server.pool.deaths
    with ThreadPoolExecutor(4) as crowd:
        futures = [crowd.submit(ask, tritongrpc, stub) for _ in range(200)]
        until(lambda: server.pool.busy)
        os.kill(server.pool.devices[0].pid, signal.SIGKILL)
        answers = [future.result(PATIENCE_S).as_numpy("logits").shape for future in futures]
    assert answers == [(1, 10)] * 200
    assert server.pool.deaths == deaths + 1 and server.pool.arena.free_bytes == 16 * 1024**2


def bad(view: Any) -> Any:
    raise RuntimeError("no idea")


def test_a_policy_that_raises_is_replaced(tmp_path: Path) -> None:
    with running(tmp_path, policy=bad) as server:
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        assert ask(tritongrpc, stub).as_numpy("logits").shape == (1, 10)
        assert server.guard.counts["raised"] >= 1


def test_statistics_metrics_and_ledger_agree(tmp_path: Path) -> None:
    with running(tmp_path, ledger_dir=tmp_path / "ledger", device_watts=10.0) as server:
        stub = tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
        for _ in range(3):
            ask(tritonhttp, stub)
        with pytest.raises(InferenceServerException):
            ask(tritonhttp, stub, timeout=1)  # refused before it was accepted: counted, but in no indicator
        stats = stub.get_inference_statistics("small", headers=bearer(GOLD))["model_stats"][0]
        assert stats["inference_count"] == 3 and stats["inference_stats"]["success"]["count"] == 3
        assert stats["inference_stats"]["fail"] == {"count": 1, "ns": 0}
        assert 'nv_inference_request_success{model="small",version="1"} 3.0' in metrics(server, "/triton")
        page = "\n".join(metrics(server))
        assert 'eunomia_requests_total{model="small",outcome="hit",tenant="gold"} 3.0' in page
        assert 'eunomia_slo_attainment_ratio{model="small",tenant="gold"} 1.0' in page
        dashboard = json.loads((Path(serving.__file__).parent / "observe" / "grafana.json").read_text())
        asked = re.findall(
            r"eunomia_[a-z_]+", " ".join(t["expr"] for p in dashboard["panels"] for t in p["targets"])
        )
        # appear when the first one happens, and with a learned policy
        late = {"eunomia_preemptions_total", "eunomia_policy_fallbacks", "eunomia_policy_guards"}
        assert len(asked) > 8 and all(name in page for name in asked if name not in late)
        assert server.service.ledger is not None
        usage = server.service.ledger.usage["gold", "small"]
        assert usage.outcomes == {"hit": 3} and usage.energy_j == pytest.approx(10.0 * usage.device_s)


def test_what_the_guards_of_a_learned_policy_counted_is_in_the_metrics(tmp_path: Path) -> None:
    with running(tmp_path, policy=load_policy("eunomia")) as server:
        stub = tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
        for _ in range(3):
            ask(tritonhttp, stub)
        found = dict(
            line.rsplit(" ", 1) for line in metrics(server) if line.startswith("eunomia_policy_guards{")
        )
        counts = server.guard.policy.counts  # type: ignore[attr-defined]
        assert counts["decisions"] >= 3
        for name in ("decisions", "strange", "alarms", "fallback"):
            assert float(found[f'eunomia_policy_guards{{what="{name}"}}']) == counts[name]
        server.guard.replace(load_policy("edf+f"))
        assert not [line for line in metrics(server) if line.startswith("eunomia_policy_guards{")]


def metrics(server: Server, of: str = "") -> list[str]:
    """Lines of /metrics."""
    url = f"http://127.0.0.1:{server.http_port}/metrics{of}"
    with urllib.request.urlopen(
        urllib.request.Request(url, headers=bearer(ADMIN)), timeout=PATIENCE_S
    ) as answer:
        page: str = answer.read().decode()
    return page.splitlines()


def test_refusals_are_counted_by_reason(tmp_path: Path) -> None:
    with running(tmp_path, ledger_dir=tmp_path / "ledger") as server:
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")

        def refused(key: str = GOLD, **more: Any) -> None:
            with pytest.raises(InferenceServerException):
                ask(tritongrpc, stub, key=key, **more)

        for _ in range(5):
            refused(timeout=1)
        refused(SILVER, image=np.repeat(IMAGE, 5, axis=0))
        for model in ("made-up-1", "made-up-2"):
            refused(model=model)
        refused("eun_nobody")  # nobody's: in no count
        server.service.draining = True
        refused()
        server.service.draining = False
        stub.unload_model("small", headers=bearer(ADMIN))
        refused()
        stub.load_model("small", headers=bearer(ADMIN))
        ask(tritongrpc, stub)
        page = metrics(server)
        counted = {line for line in page if line.startswith("eunomia_requests_total{")}
        assert counted == {
            f'eunomia_requests_total{{model="{model}",outcome="{outcome}",tenant="{tenant}"}} {count}.0'
            for model, outcome, tenant, count in (
                ("small", "hopeless", "gold", 5), ("small", "too_large", "silver", 1),
                ("(unknown)", "not_found", "gold", 2), ("small", "unavailable", "gold", 2), ("small", "hit", "gold", 1),
            )
        }  # fmt: skip
        failed = 'nv_inference_request_failure{model="small",reason="hopeless",version="1"} 5.0'
        assert failed in metrics(server, "/triton")
        assert not any("made-up" in line or "nobody" in line for line in page)
        stats = stub.get_inference_statistics("small", headers=bearer(GOLD), as_json=True)["model_stats"][0]
        assert int(stats["inference_stats"]["fail"]["count"]) == 7  # those of gold
        assert [request[5] for request in server.service.books.recording.requests()] == ["hit"]
        assert server.service.ledger is not None
        assert server.service.ledger.usage["gold", "small"].outcomes == {"hit": 1}
        assert 'eunomia_slo_attainment_ratio{model="small",tenant="gold"} 1.0' in page


def test_limits_are_counted_and_nothing_of_a_refused_request_stays(tmp_path: Path) -> None:
    held, hold = holding()
    with running(tmp_path, policy=hold) as server:
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        with ThreadPoolExecutor(2) as crowd:
            inside = [crowd.submit(ask, tritongrpc, stub, SILVER) for _ in range(2)]
            until(lambda: len(server.pool.dispatcher.waiting) == 2)
            for _ in range(3):
                with pytest.raises(InferenceServerException, match="2 are allowed"):
                    ask(tritongrpc, stub, SILVER)
            held.set()
            assert [future.result(PATIENCE_S).as_numpy("logits").shape for future in inside] == [(1, 10)] * 2
        refused = 'eunomia_requests_total{model="(unknown)",outcome="limit",tenant="silver"} 3.0'
        assert refused in metrics(server)
        until(lambda: server.service.limits.active("silver") == 0)


def test_a_port_in_use_is_named_with_its_key(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for key in ("http_port", "grpc_port"):
            says = f"{key} = {port} on '127.0.0.1' cannot be opened: Address already in use"
            with pytest.raises(OutputError, match=says), running(tmp_path, **{key: port}):
                pass


def test_shared_memory_is_among_the_extensions(server: Server, client: Any) -> None:
    module, stub = client
    more = {} if module is tritonhttp else {"as_json": True}
    regions = server.service.regions
    assert "system_shared_memory" in stub.get_server_metadata(**more)["extensions"]
    regions.offered = False
    try:
        assert "system_shared_memory" not in stub.get_server_metadata(**more)["extensions"]
    finally:
        regions.offered = True


def test_what_is_no_http_leaves_no_traceback(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=PATIENCE_S) as line:
        line.sendall(b"PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n" + bytes(9))  # of HTTP/2: test_in_http2.py
        assert line.recv(100).startswith(b"HTTP/1.")
    assert not [record for record in caplog.records if record.exc_info]


def test_administrators_change_tenants(tmp_path: Path) -> None:
    database = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    database.put(Grant("root", role="admin"))
    admin = bearer(database.issue_key("root"))
    with running(tmp_path, directory=database) as server:

        def call(
            method: str, path: str, content: Any = None, headers: dict[str, str] = admin
        ) -> tuple[int, Any]:
            url = f"http://127.0.0.1:{server.http_port}/v2/eunomia/tenants{path}"
            body = None if content is None else json.dumps(content).encode()
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(url, body, headers, method=method), timeout=PATIENCE_S
                ) as a:
                    return a.status, json.loads(a.read())
            except urllib.error.HTTPError as error:
                return error.code, json.loads(error.read())

        promise = {"deadline_s": 5.0, "slo": {"target": 0.9}, "min_deadline_s": 0}
        assert call("PUT", "/acme", {"weight": 2.0, "objectives": {"*": promise}})[0] == 200
        key = call("POST", "/acme/keys")[1]["key"]
        stub = tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
        assert ask(tritonhttp, stub, key=key).as_numpy("logits").shape == (1, 10)
        assert call("PUT", "/acme", {"weight": 9.0}, bearer(key))[0] == 403  # nobody raises its own weight
        dispatcher = server.pool.dispatcher
        assert (dispatcher.agreements[0].weight, dispatcher.indicators[0].count) == (2.0, 1)
        promise["slo"]["target"] = 0.8
        assert call("PUT", "/acme", {"weight": 4.0, "promises": {"*": promise}})[0] == 200
        ask(tritonhttp, stub, key=key)  # the policy sees it from the next request on, by a new window
        assert (dispatcher.agreements[0].weight, dispatcher.indicators[0].count) == (4.0, 1)
        assert dispatcher.agreements[0].slo == dispatcher.indicators[0].slo == Slo(0.8)
        assert call("PUT", "/acme", {"weight": 2.0, "objectives": {"*": promise}})[0] == 200
        ask(tritonhttp, stub, key=key)
        assert (dispatcher.agreements[0].weight, dispatcher.indicators[0].count) == (2.0, 2)
        assert {t["name"]: t["weight"] for t in call("GET", "")[1]} == {"acme": 2.0, "root": 1.0}
        fresh = call("POST", "/acme/keys/rotate")[1]["key"]
        with pytest.raises(InferenceServerException, match="not valid"):
            ask(tritonhttp, stub, key=key)
        ask(tritonhttp, stub, key=fresh)
        assert len(call("GET", "/acme/keys")[1]) == 2
        for method, path, wrong, said in (
            ("POST", "/keys/rotate", {"grase": 4}, "'grase' (4); a rotation takes grace_s"),
            ("POST", "/keys/rotate", {"grace_s": -4}, "grace_s is -4; 0 or a positive number"),
            ("POST", "/keys", {"grace_s": -4}, "'grace_s' (-4); a new key takes lifetime_s"),
            ("POST", "/keys", {"lifetime_s": -4}, "lifetime_s is -4; a positive number"),
            ("DELETE", "/keys", {"hint": fresh[:8]}, "said as ?hint="),
            ("DELETE", "/keys?hnt=eun_", None, "'hnt' ('eun_'); revoking takes hint"),
        ):  # fmt: skip
            status, content = call(method, f"/acme{path}", wrong)
            assert status == 400 and said in content["error"], content
        ask(tritonhttp, stub, key=fresh)
        assert call("DELETE", "/acme/keys")[1] == {"revoked": 1}  # the older one had ended
        for method, path in (("DELETE", "/root"), ("DELETE", "/root/keys"), ("PUT", "/root")):
            status, content = call(method, path, {} if method == "PUT" else None)
            assert status == 400 and "no administrator with a valid key" in content["error"]
        entry = next(t for t in call("GET", "")[1] if t["name"] == "acme")
        assert call("PUT", "/acme", {key: entry[key] for key in entry if key != "name"}) == (200, entry)
        assert call("PUT", "/acme", {})[1]["objectives"] == {}  # replaced whole
        for wrong in ({"weight": -1}, {"wait": 1}, {"role": "king"}, {"objectives": {"*": {}}}, {"models": "all"},
                      {"objectives": {"*": {"deadline_s": 1, "min_deadline_s": 2}}},
                      {"objectives": {"*": {"deadline_s": 1, "slo": {"target": 7}}}}):  # fmt: skip
            status, content = call("PUT", "/acme", wrong)
            assert status == 400 and len(content["error"]) > 10
        assert call("DELETE", "/acme")[0] == 200 and call("DELETE", "/acme")[0] == 404
    database.close()


def test_two_devices_cut_alike_and_hand_requests_over(tmp_path: Path) -> None:
    (tmp_path / "large.onnx").write_bytes(resnet50(side=SIDE, classes=10))
    devices = [DeviceSpec("a"), DeviceSpec("b")]
    block_by_block = DispatchOptions(lease_s=0.0)
    with running(tmp_path, devices=devices, policy=swap, block_s=5e-4, dispatch=block_by_block) as server:
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        stub.load_model("large", headers=bearer(ADMIN))
        whole = ort.InferenceSession(str(tmp_path / "large.onnx"), providers=["CPUExecutionProvider"])
        expected = whole.run(None, {"image": IMAGE})[0]
        for _ in range(3):
            answer = ask(tritongrpc, stub, model="large").as_numpy("logits")
            np.testing.assert_array_equal(answer, expected)
        assert {run.device for run in server.service.books.history.runs} == {
            0,
            1,
        }  # half-done tensors went over
        assert server.pool.arena.free_bytes == 16 * 1024**2
        stub.load_model("large", headers=bearer(ADMIN))  # anew, in place of the old one
        np.testing.assert_array_equal(ask(tritongrpc, stub, model="large").as_numpy("logits"), expected)


def holding() -> tuple[threading.Event, Any]:
    """A policy that starts nothing until the event is set."""
    held, edf = threading.Event(), load_policy("edf")
    return held, lambda view: edf(view) if held.is_set() else []


def swap(view: Any) -> Any:
    """Never the device that ran the last block."""
    job = view.ready[0]
    other = [s for s in view.idle if s != job["accelerator"]]
    return [view.assign(0, other[0])] if other else []


def test_a_client_that_goes_away_leaves_the_queue(tmp_path: Path) -> None:
    held, hold = holding()
    with running(tmp_path, policy=hold) as server:
        stub = tritongrpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}")
        tensor = tritongrpc.InferInput("image", list(IMAGE.shape), "FP32")
        tensor.set_data_from_numpy(IMAGE)
        answers: list[Any] = []
        calls = [
            stub.async_infer("small", [tensor], lambda result, error: answers.append(error), headers=bearer(GOLD))
            for _ in range(100)
        ]  # fmt: skip

        def outcomes(outcome: str) -> int:
            return sum(request[5] == outcome for request in server.service.books.recording.requests())

        until(lambda: len(server.pool.dispatcher.waiting) == 100)
        for call in calls[20:]:
            call.cancel()
        until(lambda: outcomes("cancelled") == 80)
        held.set()
        until(lambda: len(answers) == 100 and not server.pool.busy)
        assert sum(error is None for error in answers) == 20 == outcomes("hit") + outcomes("late")
        assert server.pool.arena.free_bytes == 16 * 1024**2


def test_http_clients_that_go_away_leave_the_queue_too(tmp_path: Path) -> None:
    held, hold = holding()
    with running(tmp_path, policy=hold) as server:
        tensor = {
            "name": "image",
            "datatype": "FP32",
            "shape": list(IMAGE.shape),
            "data": IMAGE.ravel().tolist(),
        }
        body = json.dumps({"inputs": [tensor]})
        lines = [HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S) for _ in range(20)]
        for line in lines:
            line.request("POST", "/v2/models/small/infer", body, bearer(GOLD))
        until(lambda: len(server.pool.dispatcher.waiting) == 20)
        for line in lines[5:]:
            line.close()
        until(lambda: len(server.pool.dispatcher.waiting) == 5)
        held.set()
        assert [line.getresponse().status for line in lines[:5]] == [200] * 5
        found = [request[5] for request in server.service.books.recording.requests()]
        assert found.count("cancelled") == 15 and len(found) == 20
        for line in lines[:5]:
            line.close()
        until(lambda: server.pool.arena.free_bytes == 16 * 1024**2)


def test_a_network_is_loaded_to_the_end_when_its_client_goes_away(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        stub = tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
        stub.unload_model("small", headers=bearer(ADMIN))
        entry = server.service.repository.entry("small")
        line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
        line.request("POST", "/v2/repository/models/small/load", "", bearer(ADMIN))
        until(lambda: entry.state != "UNAVAILABLE")
        line.close()
        until(lambda: entry.state == "READY")
        assert ask(tritonhttp, stub).as_numpy("logits").shape == (1, 10)


def test_a_policy_whose_client_goes_away_is_not_put_in_and_the_next_waits_for_its_thread(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, go_on, inside, most = server.service.shelf, threading.Event(), [], []
    assert shelf is not None
    prepare, before = shelf.prepare, shelf.now.label

    def slowly(name: str, files: Any) -> Any:
        inside.append(name)
        most.append(len(inside))
        go_on.wait(PATIENCE_S)
        inside.remove(name)
        return prepare(name, files)

    def noted(content: Any) -> Any:
        found = read_placing(content)
        asked.append(found[0])
        return found

    asked: list[str] = []
    monkeypatch.setattr(shelf, "prepare", slowly)
    monkeypatch.setattr("eunomia.serving.fronts.policy.read_placing", noted)
    lines = [HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S) for _ in range(2)]
    lines[0].request("PUT", "/v2/eunomia/policy", json.dumps({"name": "fcfs"}), bearer(ADMIN))
    until(lambda: inside == ["fcfs"])
    assert server.service.connections is not None
    count = len(server.service.connections)
    lines[0].close()
    until(lambda: len(server.service.connections or ()) < count)
    lines[1].request("PUT", "/v2/eunomia/policy", json.dumps({"name": "edf"}), bearer(ADMIN))
    until(lambda: asked == ["fcfs", "edf"])
    assert len(metrics(server)) > 1  # the second has had its turns of the event loop, too
    go_on.set()
    answer = lines[1].getresponse()
    assert answer.status == 200 and json.loads(answer.read())["policy"] == "edf"
    assert most == [1, 1]
    assert [placed.label for placed in shelf.earlier] == [before]
    assert post(server, "/v2/eunomia/policy/rollback", b"", bearer(ADMIN))[0] == 200
    assert shelf.now.label == before
    lines[1].close()


def test_a_load_that_fails_in_any_way_is_over(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = tritonhttp.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    stub.unload_model("small", headers=bearer(ADMIN))

    def strange(*_: Any, **__: Any) -> Any:
        raise RuntimeError("as nobody thought")

    with monkeypatch.context() as patch:
        patch.setattr(server.pool, "load", strange)
        status, _ = post(server, "/v2/repository/models/small/load", b"", bearer(ADMIN))
    entry = server.service.repository.entry("small")
    assert (status, entry.state, entry.reason) == (500, "UNAVAILABLE", "as nobody thought")
    stub.load_model("small", headers=bearer(ADMIN))
    assert entry.state == "READY"


def test_a_network_whose_path_is_no_utf8_is_refused_in_words(server: Server) -> None:
    folder = Path(
        os.fsdecode(os.fsencode(server.service.repository.entry("small").path.parent) + b"/mod\xe8les")
    )
    entry = Entry("odd", folder / "odd.onnx")
    server.service.repository._entries["odd"] = entry
    try:
        status, content = post(server, "/v2/repository/models/odd/load", b"", bearer(ADMIN))
    finally:
        del server.service.repository._entries["odd"]
    assert status == 400 and "no UTF-8" in content["error"] and entry.state == "UNAVAILABLE"
    assert entry.ports is None


def test_a_stopped_server_says_how_many_it_left_without_an_answer(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        gold = server.options.directory.by_name("gold")
        assert gold is not None and server.inside == 0
        for _ in range(2):  # as requests that wait for something else than a device
            server.service.limits.enter(gold)
        assert server.inside == 2
    assert server.left == 2
