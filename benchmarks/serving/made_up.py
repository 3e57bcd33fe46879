"""Requests that nobody would send: made up from the OpenAPI document, from grammars, and by mutation.

schemathesis reads the document; hypothesis makes up messages, JSON and damaged bodies, the same ones at every run;
atheris, where it is installed, looks for inputs that reach new code (``fuzz.py``).
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchmarks.serving import fuzz

TYPES = ("FP32", "FP16", "INT64", "UINT8", "BOOL", "BYTES", "FP128", "")
SHAPES = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4), max_size=12)
PARAMETERS = st.dictionaries(
    st.sampled_from(["timeout", "priority", "slo_ms", "tenant", "shared_memory_region", "shared_memory_byte_size",
                     "shared_memory_offset", "binary_data_size", "other"]),
    st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20) | st.booleans() | st.floats(), max_size=4,
)  # fmt: skip
KEYS = ("inputs", "outputs", "name", "shape", "datatype", "data", "parameters", "binary_data_size", "id",
        "shared_memory_region", "shared_memory_byte_size")  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=30,
)
ENDS = (
    "POST /v2/repository/models/{model}/unload",
    "DELETE /v2/eunomia/tenants/{tenant}",
)  # of what others ask for
LATER = {503, 504}  # refused in words: the server cannot do it now, or not in the time that was given
REFUSALS = {"INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}


@dataclass
class Seen:
    """What a target said to made-up inputs. ``faults``: a sentence per input that it did not stand."""

    name: str
    answers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """Inputs."""
        return sum(self.answers.values())

    def add(self, answer: object, fault: str = "") -> None:
        """One input more."""
        self.answers[str(answer)] += 1
        if fault:
            self.faults.append(fault)


def repeatable(examples: int) -> settings:
    """Settings of hypothesis: so many inputs, the same at every run, none kept."""
    return settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None,
        derandomize=True, phases=[Phase.explicit, Phase.generate],
    )  # fmt: skip


# --- from the OpenAPI document ---------------------------------------------------------------------------


def from_document(
    address: str, key: str, examples: int, known: Mapping[str, str], administrator: str
) -> list[Seen]:
    """Every operation of the document, asked by an administrator.

    ``known``: names of what the server has, put into every other path. ``administrator``: a tenant to leave alone.
    """
    import schemathesis

    schema = schemathesis.openapi.from_url(f"http://{address}/openapi.json")
    headers = {"Authorization": f"Bearer {key}"}
    results: list[Any] = list(schema.get_all_operations())
    return [_operation(result.ok(), headers, examples, known, administrator) for result in results]


def _operation(
    operation: Any, headers: dict[str, str], examples: int, known: Mapping[str, str], administrator: str
) -> Seen:
    seen = Seen(f"{operation.method.upper()} {operation.path}")

    @repeatable(examples)
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        path = case.path_parameters or {}
        if seen.tried % 2 and seen.name not in ENDS:
            path.update({name: known[name] for name in path if name in known})
        if path.get("tenant") == administrator:
            return
        answer = case.call(headers=headers)
        fault = ""
        if answer.status_code >= 500 and answer.status_code not in LATER:
            fault = f"{answer.status_code}: {answer.text}"
        elif answer.status_code >= 400 and "json" in answer.headers.get("Content-Type", ""):
            fault = "" if len(answer.json()["error"]) > 3 else f"{answer.status_code} without a word"
        seen.add(answer.status_code, fault)

    ask()
    return seen


# --- from grammars, to a running server --------------------------------------------------------------------


@st.composite
def messages(draw: st.DrawFn) -> Any:
    """A ModelInferRequest with anything in it."""
    from tritonclient.grpc import service_pb2 as pb

    message = pb.ModelInferRequest(
        model_name=draw(st.sampled_from(["small", "", "../x"]) | st.text(max_size=5)), id=draw(st.text(max_size=5)),
        model_version=draw(st.sampled_from(["", "1", "2"])),
    )  # fmt: skip
    _fill(message.parameters, draw(PARAMETERS))
    for _ in range(draw(st.integers(0, 3))):
        entry = message.inputs.add(
            name=draw(st.sampled_from(["image", "", "x"])),
            datatype=draw(st.sampled_from(TYPES)),
            shape=draw(SHAPES),
        )
        _fill(entry.parameters, draw(PARAMETERS))
        if draw(st.booleans()):
            entry.contents.fp32_contents.extend(draw(st.lists(st.floats(width=32), max_size=4)))
        if draw(st.booleans()):
            entry.contents.int_contents.extend(draw(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4)))
    for _ in range(draw(st.integers(0, 2))):
        _fill(message.outputs.add(name=draw(st.sampled_from(["logits", "y"]))).parameters, draw(PARAMETERS))
    message.raw_input_contents.extend(draw(st.lists(st.binary(max_size=40), max_size=4)))
    return message


def _fill(place: Any, values: dict[str, Any]) -> None:
    """Plain values as InferParameter messages."""
    for key, value in values.items():
        kind = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}[
            type(value)
        ]
        setattr(place[key], kind, value)


def grpc_messages(address: str, key: str, examples: int) -> Seen:
    """Made-up messages to ModelInfer."""
    import grpc
    from tritonclient.grpc import service_pb2_grpc as stubs

    seen = Seen("gRPC messages")
    with grpc.insecure_channel(address) as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)

        @repeatable(examples)
        @given(message=messages())
        def ask(message: Any) -> None:
            try:
                stub.ModelInfer(message, metadata=(("authorization", f"Bearer {key}"),), timeout=20)
            except grpc.RpcError as error:
                code = error.code().name
                seen.add(code, "" if code in REFUSALS and error.details() else f"{code}: {error.details()}")
            else:
                seen.add("OK")

        ask()
    return seen


def http_bodies(address: str, key: str, shape: list[int], examples: int) -> list[Seen]:
    """Damaged binary bodies, and any JSON, to ``small``."""
    tensor_bytes = 4 * int(np.prod(shape))
    head = {"inputs": [{"name": "image", "datatype": "FP32", "shape": shape,
                        "parameters": {"binary_data_size": tensor_bytes}}]}  # fmt: skip
    whole = json.dumps(head).encode() + np.zeros(shape, np.float32).tobytes()
    damaged, written = Seen("damaged binary bodies over HTTP"), Seen("any JSON over HTTP")
    line = http.client.HTTPConnection(address, timeout=60)

    def post(body: bytes, headers: dict[str, str], seen: Seen) -> None:
        line.request("POST", "/v2/models/small/infer", body, {"Authorization": f"Bearer {key}", **headers})
        answer = line.getresponse()
        content = answer.read()
        fine = answer.status == 200 or (answer.status in (400, 404) and json.loads(content)["error"])
        seen.add(answer.status, "" if fine else f"{answer.status}: {content[:200]!r}")

    @repeatable(examples)
    @given(
        at=st.integers(0, 220), put=st.binary(max_size=12), longer=st.just(0) | st.integers(-12, 48),
        length=st.just(len(whole) - tensor_bytes) | st.integers(0, 400),
    )  # fmt: skip
    def damage(at: int, put: bytes, longer: int, length: int) -> None:
        headers = {"Inference-Header-Content-Length": str(length)}
        post(whole[:at] + put + whole[at + max(len(put) + longer, 0) :], headers, damaged)

    @repeatable(examples)
    @given(content=JSON)
    def write(content: Any) -> None:
        post(json.dumps(content).encode(), {}, written)

    damage()
    write()
    line.close()
    return [damaged, written]


# --- by mutation, to the functions that read -----------------------------------------------------------------


def mutated(target: str, examples: int) -> Seen:
    """Pieces cut out of the seed of a target of ``fuzz.py``, and others put in."""
    seed, read = fuzz.SEEDS.get(target, b""), fuzz.TARGETS[target]
    return tried(target, read, examples, st.builds(
        lambda cut, put, at: seed[:at] + put + seed[at + cut :],
        st.integers(0, 200), st.binary(max_size=8), st.integers(0, 200),
    ))  # fmt: skip


def tried(name: str, read: Callable[[bytes], None], examples: int, inputs: Any) -> Seen:
    """What is neither read nor refused in words is a crash."""
    seen = Seen(name)

    @repeatable(examples)
    @given(data=inputs)
    def ask(data: bytes) -> None:
        try:
            read(data)
        except Exception as error:
            seen.add("crash", f"{type(error).__name__}: {error} ({data[:60]!r})")
        else:
            seen.add("read or refused")

    ask()
    return seen


# --- by coverage -----------------------------------------------------------------------------------------------


def guided(target: str, seconds: int) -> Seen | None:
    """atheris on a target, in a process of its own; None where it is not installed."""
    if importlib.util.find_spec("atheris") is None:
        return None
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.serving.fuzz", target, "--seconds", str(seconds), "-seed=1"],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        left = sorted(path.name for path in Path(folder).iterdir())
    return read_fuzzer(target, done.returncode, done.stdout + done.stderr, left)


def read_fuzzer(target: str, status: int, log: str, left: list[str]) -> Seen:
    """What libFuzzer says of a run: inputs, and the files in which it leaves those that were not stood."""
    runs = [int(n) for n in re.findall(r"Done (\d+) runs", log) or re.findall(r"^#(\d+)", log, re.MULTILINE)]
    seen = Seen(target)
    crashes = [
        name for name in left if name.startswith(("crash-", "timeout-", "oom-", "leak-", "slow-unit-"))
    ]
    seen.answers["read or refused"] = max([*runs, 0]) - len(crashes)
    for name in crashes:
        seen.add("crash", name)
    if status != 0 and not crashes:
        seen.faults.append(f"it ended with status {status}: {log.strip()[-200:]}")
    return seen
