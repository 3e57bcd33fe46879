"""Requests that nobody would send, drawn by hypothesis: messages of gRPC, JSON, damaged bodies."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.serving.live import SIDE

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
HEAD = {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 3, SIDE, SIDE],
                    "parameters": {"binary_data_size": 4 * 3 * SIDE * SIDE}}]}  # fmt: skip
HEADER = json.dumps(HEAD).encode()
WHOLE = HEADER + np.zeros((1, 3, SIDE, SIDE), np.float32).tobytes()


def examples(share: float = 1.0) -> settings:
    """Settings of hypothesis: so many times the examples of the profile (``HYPOTHESIS_PROFILE``), none kept."""
    count = max(1, round(share * settings().max_examples))
    return settings(max_examples=count, database=None, suppress_health_check=list(HealthCheck))


def said(seen: Counter[Any]) -> str:
    """Answers and how often each was given, the commonest first."""
    return ", ".join(f"{kind} {count}" for kind, count in seen.most_common())


Damage = tuple[bytes, int]


@st.composite
def damaged(draw: st.DrawFn) -> Damage:
    """A binary body with a piece cut out and another put in, and what the header says of its JSON part's length."""
    at, put, longer = draw(st.integers(0, 220)), draw(st.binary(max_size=12)), draw(st.integers(-12, 48))
    body = WHOLE[:at] + put + WHOLE[at + max(len(put) + longer, 0) :]
    return body, draw(st.just(len(HEADER)) | st.integers(0, 400))


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
