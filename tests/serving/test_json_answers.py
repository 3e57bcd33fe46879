"""Large answers as JSON: whatever text ``max_json_mib`` holds is written, and a refusal counts as one."""

from __future__ import annotations

import asyncio
import json
import math
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

from benchmarks.serving.strange import HEAD
from eunomia.serving.devices.messages import DATATYPES
from eunomia.serving.devices.strings import BYTES
from eunomia.serving.fronts.json_process import JsonProcess
from eunomia.serving.models.entry import Entry
from eunomia.serving.options import ServerOptions
from eunomia.serving.protocol.errors import TooLarge
from eunomia.serving.protocol.infer import InferRequest
from eunomia.serving.protocol.json_work import AT_A_TIME, put_numbers_in
from eunomia.serving.protocol.written import write_response
from tests.patience import PATIENCE_S
from tests.serving.live import ADMIN, GOLD, ask, options, running

MIB = 1024**2
NETWORKS = {
    "any": "(int64[1] n) => (float[m] y) { y = ConstantOfShape (n) }",
    "fixed": "(float[1] x) => (float[700000] y) { s = Constant <value = int64[1] {700000}> () y = Expand (x, s) }",
}


def written(array: Any) -> Any:
    return write_response(InferRequest("m", request_id='a"data":[]'), "1", {"y": array}, {})


@pytest.mark.parametrize("datatype", [name for name in DATATYPES if name != BYTES])
def test_numbers_are_written_some_at_a_time(datatype: str) -> None:
    given = (np.arange(AT_A_TIME + 10) % 2).astype(DATATYPES[datatype])
    answer = written(given)
    text = put_numbers_in(answer.content, answer.numbers)
    said = json.loads(text)
    assert said["outputs"][0]["data"] == given.astype(float).tolist() and said["id"] == 'a"data":[]'
    assert put_numbers_in(answer.content, answer.numbers, len(text)) == text
    with pytest.raises(
        TooLarge, match=r"holds 65546 numbers, more than \d+ bytes as JSON, .* \(max_json_mib\)"
    ):
        put_numbers_in(answer.content, answer.numbers, len(text) - 1)


def test_infinity_among_them_is_written_as_before() -> None:
    given = np.zeros(AT_A_TIME + 2)
    given[0], given[-1] = math.inf, math.nan
    answer = written(given)
    found = json.loads(put_numbers_in(answer.content, answer.numbers))["outputs"][0]["data"]
    np.testing.assert_array_equal(found, given)


def test_as_many_numbers_are_written_as_there_is_text_for() -> None:
    """A map of 21 x 256 x 256 numbers was refused, whatever text they take."""

    async def main() -> None:
        work = JsonProcess(16 * MIB)
        try:
            answer = written(np.full((1, 21, 256, 256), 0.5, np.float32))
            text = await work.write(answer, "gold")
            assert len(json.loads(bytes(text))["outputs"][0]["data"]) == 21 * 256 * 256
            with pytest.raises(TooLarge, match="ask for raw tensors"):
                await work.write(written(np.full(MIB, 0.1, np.float32)), "gold")  # 20 MB
            with pytest.raises(TooLarge, match="ask for raw tensors"):
                await work.write(written(np.zeros(9 * MIB, np.uint8)), "gold")
        finally:
            work.close()

    asyncio.run(main())


def test_an_answer_that_is_not_written_counts_as_refused(tmp_path: Path) -> None:
    """It counted as answered alone; and where its size is known, its network does not run."""
    networks = [*options(tmp_path).networks]
    for name, text in NETWORKS.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(parser.parse_model(HEAD + text).SerializeToString())
        networks.append(Entry(name, path))
    with running(tmp_path, networks=networks, max_json_bytes=MIB) as server:
        one = {"shape": [1], "data": [600_000]}
        asked = {
            "any": {"inputs": [{"name": "n", "datatype": "INT64", **one}]},
            "fixed": {"inputs": [{"name": "x", "datatype": "FP32", **one}]},
        }
        for name, ran in (("any", 1), ("fixed", 0)):
            status, said = ask(server, "POST", f"/v2/models/{name}/infer", GOLD, asked[name])
            assert status == 413 and "ask for raw tensors (binary_data)" in said["error"]
            statistics = ask(server, "GET", f"/v2/models/{name}/stats", ADMIN)[1]["model_stats"][0]
            assert statistics["inference_stats"]["fail"]["count"] == 1
            assert statistics["execution_count"] == ran
        binary = {**asked["fixed"], "parameters": {"binary_data_output": True}}
        line = HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE_S)
        key = {"Authorization": f"Bearer {GOLD}"}
        line.request("POST", "/v2/models/fixed/infer", json.dumps(binary), key)
        assert line.getresponse().status == 200
        line.close()


def test_a_picture_of_640_x_640_is_taken_as_numbers_by_default(tmp_path: Path) -> None:
    """25 MB of 17 digits each: Triton takes 64."""
    plain = ServerOptions([], [], options(tmp_path).directory, tmp_path)
    assert 3 * 640 * 640 * len("0.12345678901234567, ") < plain.max_json_bytes <= plain.max_body_bytes
