"""What a refusal tells: when to ask again, what may be asked at all, and which numbers are none."""

from __future__ import annotations

import gzip
import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.serving.dispatch.options import DispatchOptions
from eunomia.serving.models.entry import Entry
from eunomia.serving.models.repository import Repository, _listed
from eunomia.serving.protocol.errors import Unavailable
from eunomia.serving.server import Server
from eunomia.serving.tenants.grants import Grant, StaticDirectory, hash_key
from tests.patience import PATIENCE_S
from tests.serving.live import ADMIN, GOLD, SIDE, SILVER, running

grpc = pytest.importorskip("grpc")
from tritonclient.grpc import service_pb2 as pb  # noqa: E402
from tritonclient.grpc import service_pb2_grpc as stubs  # noqa: E402

SHAPE = [1, 3, SIDE, SIDE]
HUGE = 10**400  # JSON has no largest number
IMAGE = np.zeros(SHAPE, np.float32)


def ask(
    server: Server, method: str, path: str, key: str, body: Any = None
) -> tuple[int, Any, dict[str, str]]:
    """Status, content and headers."""
    line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
    try:
        sent = None if body is None else json.dumps(body)
        line.request(method, path, sent, {"Authorization": f"Bearer {key}"})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read() or b"{}"), dict(answer.headers)
    finally:
        line.close()


def infer(
    server: Server, key: str = GOLD, model: str = "small", **parameters: Any
) -> tuple[int, Any, dict[str, str]]:
    tensor = {"name": "image", "datatype": "FP32", "shape": SHAPE, "data": IMAGE.ravel().tolist()}
    path = f"/v2/models/{model}/infer"
    return ask(server, "POST", path, key, {"inputs": [tensor], "parameters": parameters})


def infer_rpc(server: Server, key: str = GOLD, model: str = "small", **parameters: int) -> Any:
    """The error of a call that is refused."""
    message = pb.ModelInferRequest(model_name=model)
    message.inputs.add(name="image", datatype="FP32", shape=SHAPE)
    message.raw_input_contents.append(IMAGE.tobytes())
    for name, value in parameters.items():
        message.parameters[name].int64_param = value
    address, metadata = f"127.0.0.1:{server.grpc_port}", (("authorization", f"Bearer {key}"),)
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as caught:
        stubs.GRPCInferenceServiceStub(channel).ModelInfer(message, metadata=metadata, timeout=PATIENCE_S)
    return caught.value


def test_what_can_never_be_in_time_is_not_told_to_ask_again(plain: Server) -> None:
    status, content, headers = infer(plain, timeout=1)
    assert (status, content["reason"]) == (503, "hopeless") and "the network alone" in content["error"]
    assert "Retry-After" not in headers and "Retry-After-Ms" not in headers
    error = infer_rpc(plain, timeout=1)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "retry-after-ms" not in dict(error.trailing_metadata())


def test_what_others_have_made_hopeless_is_told_to_ask_again(tmp_path: Path) -> None:
    anybody = StaticDirectory(
        [Grant("gold")], {hash_key(GOLD): "gold"}
    )  # no promise: any deadline may be claimed
    changes = {"dispatch": DispatchOptions(late="drop"), "directory": anybody}
    with running(tmp_path, policy=lambda view: [], **changes) as server:  # as if others had every device
        status, content, headers = infer(server, slo_ms=2000)
    assert status == 503 and "can no longer be met" in content["error"]
    assert content["reason"] == "hopeless" and "Retry-After" in headers


def test_an_unknown_model_is_answered_with_those_that_the_caller_may_use(tmp_path: Path) -> None:
    grants = [
        Grant("gold"), Grant("silver", models=frozenset({"small", "elsewhere"})), Grant("root", role="admin"),
    ]  # fmt: skip
    keys = {hash_key(GOLD): "gold", hash_key(SILVER): "silver", hash_key(ADMIN): "root"}
    names = [f"secret-{n:02d}" for n in range(30)]
    for name in names:
        (tmp_path / f"{name}.onnx").write_bytes(b"no network")
    with running(tmp_path, directory=StaticDirectory(grants, keys)) as server:
        status, content, _ = infer(server, model="nope")
        assert status == 404 and "unknown model 'nope'" in content["error"]
        assert "may use: small; not ready: secret-00, secret-01" in content["error"]
        assert "and 10 more" in content["error"]
        assert len(content["error"]) < 500
        for model in ("nope", "secret-00"):  # of one that others may use, no more is said than of none
            status, content, _ = infer(server, SILVER, model)
            assert (
                status == 404
                and content["error"] == f"Request for unknown model '{model}'; tenant 'silver' may use: small"
            )
            error = infer_rpc(server, SILVER, model)
            assert error.code() is grpc.StatusCode.NOT_FOUND and error.details() == content["error"]
            for path in (f"/v2/models/{model}", f"/v2/models/{model}/config", f"/v2/models/{model}/stats"):
                assert ask(server, "GET", path, SILVER)[:2] == (404, content | {"reason": "not_found"})
        assert ask(server, "GET", "/v2/models/secret-00", GOLD)[0] == 503  # known, not loaded
        assert [m["name"] for m in ask(server, "POST", "/v2/repository/index", SILVER, {})[1]] == ["small"]
        assert len(ask(server, "POST", "/v2/repository/index", ADMIN, {})[1]) == 31
        statistics = ask(server, "GET", "/v2/models/stats", SILVER)[1]["model_stats"]
        assert [m["name"] for m in statistics] == ["small"]


@pytest.mark.parametrize("name, value", [
    ("timeout", HUGE), ("slo_ms", HUGE), ("priority", HUGE), ("slo_ms", 1e300), ("timeout", -1),
    ("timeout", True), ("slo_ms", "soon"), ("priority", 1.5),
], ids=lambda given: str(given)[:9])  # fmt: skip
def test_numbers_beyond_all_bounds_are_refused(plain: Server, name: str, value: Any) -> None:
    status, content, _ = infer(plain, **{name: value})
    assert status == 400 and f"parameter '{name}' is" in content["error"]


def test_a_place_for_outputs_that_is_none_is_refused_before_anything_runs(plain: Server) -> None:
    starts = plain.pool.dispatcher.starts
    tensor = {"name": "image", "datatype": "FP32", "shape": SHAPE, "data": IMAGE.ravel().tolist()}
    where = {"shared_memory_region": "nowhere", "shared_memory_byte_size": 40}
    body = {"inputs": [tensor], "outputs": [{"name": "logits", "parameters": where}]}
    status, content, _ = ask(plain, "POST", "/v2/models/small/infer", GOLD, body)
    assert status == 400 and "no shared memory region 'nowhere'" in content["error"]
    assert plain.pool.dispatcher.starts == starts


def test_what_no_memory_could_ever_hold_is_too_large(tmp_path: Path) -> None:
    with running(tmp_path, arena_bytes=4096) as server:
        status, content, headers = infer(server)
        assert (status, content["reason"]) == (413, "too_large") and "Retry-After" not in headers
        assert "the server has room for 4096" in content["error"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_body_that_is_too_large_says_what_helps_both_sides(packed: bool, tmp_path: Path) -> None:
    body = gzip.compress(bytes(5000)) if packed else bytes(5000)
    more = {"Content-Encoding": "gzip"} if packed else {}
    with running(tmp_path, max_body_bytes=4096) as server:
        line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
        line.request("POST", "/v2/models/small/infer", body, {"Authorization": f"Bearer {GOLD}", **more})
        answer = line.getresponse()
        said = json.loads(answer.read())["error"]
        line.close()
    assert answer.status == 413 and said.endswith("send fewer rows at a time")
    if not packed:
        assert said.startswith("the body has 5000 bytes; at most 4096 are taken (the server's max_body_mib)")


def test_of_many_networks_those_that_begin_like_the_unknown_one_are_named() -> None:
    names = [f"model-{n:03}" for n in range(200)] + ["Encoder-large"]
    assert _listed("encodr", names).startswith("Encoder-large, model-000, ")
    assert _listed("model-1", names).startswith("model-100, ") and _listed("x", names).endswith(
        " and 181 more"
    )
    assert _listed("x", []) == "none"
    assert _listed(Long("model-1" * 5000), names).startswith("model-100, ")


class Long(str):
    """As over gRPC: in small letters once for each network, it held the event loop for 10 to 30 ms of 1,000."""

    def lower(self) -> str:
        raise AssertionError("no more than the beginning of a long name is compared")


def test_a_key_that_ends_while_its_request_runs_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = StaticDirectory([Grant("gold")], {hash_key(GOLD): "gold"})
    with running(tmp_path, directory=directory) as server:
        real = server.service.infer

        async def ended(*given: Any) -> Any:
            outputs = await real(*given)
            directory._owner.clear()
            return outputs

        monkeypatch.setattr(server.service, "infer", ended)
        assert [infer(server)[0] for _ in range(2)] == [200, 401]


def test_a_network_that_is_being_loaded_is_worth_asking_again() -> None:
    entries = {state: Entry(state.lower(), Path("x"), state=state) for state in ("LOADING", "UNAVAILABLE")}
    repository = Repository(None, entries=entries.values())  # type: ignore[arg-type]
    for state, again_s in (("LOADING", 1.0), ("UNAVAILABLE", None)):
        with pytest.raises(Unavailable, match="is not ready") as caught:
            repository.ports(state.lower())
        assert caught.value.retry_after_s == again_s


def test_what_ran_for_others_is_not_shown(tmp_path: Path) -> None:
    grants = [Grant("gold"), Grant("silver"), Grant("root", role="admin")]
    keys = {hash_key(GOLD): "gold", hash_key(SILVER): "silver", hash_key(ADMIN): "root"}
    with running(tmp_path, directory=StaticDirectory(grants, keys)) as server:
        assert infer(server)[0] == 200

        def seen(key: str) -> set[tuple[str, str]]:
            return {(run[1], run[2]) for run in ask(server, "GET", "/v2/eunomia/state", key)[1]["runs"]}

        assert seen(GOLD) == seen(ADMIN) == {("gold", "small")} and seen(SILVER) == set()
