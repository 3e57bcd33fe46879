"""What a network refuses in an input is its sender's: 400 and the runtime's words; a device's own failure stays 500."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import parser
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from eunomia.serving.blocks.optimise import session_options
from eunomia.serving.blocks.refusal import said
from eunomia.serving.devices import worker
from eunomia.serving.devices.memory import machine_bytes
from eunomia.serving.devices.objection import Objection, failure, objection
from eunomia.serving.devices.piece import live_of, piece_of
from eunomia.serving.devices.worker import kind_of
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import InputFailed, InputRefused, NoRoom
from tests.serving.test_two_devices import Bench

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
TABLE = "w = Constant<value = float[3] {1.0, 2.0, 3.0}>() \n"
NETWORKS: dict[str, tuple[str, dict[str, Any], str]] = {
    "an index": (
        "g (int64[n] i) => (float[n] y) { " + TABLE + " y = Gather(w, i) }", {"i": [7]},
        "Gather: indices element out of data bounds, idx=7 must be within the inclusive range [-3,2]",
    ),
    "an index, checked elsewhere": (
        "g (int64[n] i) => (float[n] y) { " + TABLE + " y = GatherElements(w, i) }", {"i": [7]},
        "GatherElements: GatherElements op: Out of range value in index tensor",
    ),
    "a divisor": ("g (int64[n] x, int64[n] d) => (int64[n] y) { y = Div(x, d) }", {"x": [4], "d": [0]},
                  "Div: Integer division by zero"),
    "a rest": ("g (int64[n] x, int64[n] d) => (int64[n] y) { y = Mod(x, d) }", {"x": [4], "d": [0]},
               "Mod: Integer modulo by zero"),
    "a shape": (
        "g (int64[n] x, int64[k] s) => (int64[a, b] y) { y = Reshape(x, s) }", {"x": [1, 2, 3], "s": [2, 2]},
        "Reshape: The input tensor cannot be reshaped to the requested shape. Input shape:{3}, requested shape:{2,2}",
    ),
    "sizes that do not meet": (
        "g (int64[n] x, int64[k] s) => (int64[a] y) { y = Add(x, s) }", {"x": [1, 2, 3], "s": [2, 2]},
        "Add: Attempting to broadcast an axis by a dimension other than 1. 2 by 3",
    ),
    "a size below zero": ("g (int64[k] s) => (float[a] y) { y = ConstantOfShape(s) }", {"s": [-1]},
                          "ConstantOfShape: Tensor shape.Size() must be >= 0"),
    "a size beyond numbers": ("g (int64[k] s) => (float[a, b] y) { y = ConstantOfShape(s) }", {"s": [10**13] * 2},
                              "ConstantOfShape: Integer overflow"),
    "inside a branch": (
        "g (bool c, int64[n] i) => (float[a] y) { y = If <then_branch = t () => (float[a] q) { " + TABLE +
        " q = Gather(w, i) }, else_branch = e () => (float[a] r) { r = Cast<to = 1>(i) }> (c) }",
        {"c": True, "i": [7]},
        "Gather: indices element out of data bounds, idx=7 must be within the inclusive range [-3,2]",
    ),
    "axes": ("g (int64[n] x) => (int64[n] y) { y = Abs(x) }", {"x": [[1, 2]]},
             "Invalid rank for input: x Got: 2 Expected: 1 Please fix either the inputs/outputs or the model"),
    "a text": ("g (string[n] x) => (float[n] y) { y = Cast<to = 1>(x) }", {"x": np.array(["abc"], object)},
               "Cast: stod"),
}  # fmt: skip


@pytest.mark.parametrize("what", NETWORKS)
def test_the_runtimes_own_words_without_places_in_its_source(what: str) -> None:
    text, feed, words = NETWORKS[what]
    content = parser.parse_model(HEAD + text).SerializeToString()
    session = ort.InferenceSession(content, session_options(), providers=["CPUExecutionProvider"])
    names = [[port.name for port in ports] for ports in (session.get_inputs(), session.get_outputs())]
    with pytest.raises(Objection) as caught:
        piece_of(session, *names).run(live_of({name: np.array(value) for name, value in feed.items()}))
    assert said(str(caught.value)) == words
    assert kind_of(caught.value) == {"memory": False, "input": True}


def test_a_long_objection_is_cut_between_words() -> None:
    assert said("x " * 400) == "x " * 150 + "..."


def test_what_the_runtime_says_of_itself_blames_no_input() -> None:
    for kind in ("EPFail", "EngineError", "DeviceReset", "NotImplemented"):
        error = getattr(runtime, kind)("it failed")
        assert objection(error) is error and not kind_of(error)["input"]
    assert isinstance(objection(runtime.Fail("it failed")), Objection)
    assert not kind_of(KeyError("network 'x' is not loaded here"))["input"]


LACKING = "Failed to allocate memory for requested buffer of size 1"


@pytest.mark.parametrize(
    "error", [MemoryError("8 GiB"), runtime.Fail("std::bad_alloc"), runtime.RuntimeException(LACKING)]
)
def test_a_lack_of_memory_is_no_objection(error: Exception) -> None:
    """Nor without a bound (``memory_mib``): as it was, NumPy's lack of memory for the answer was the client's fault."""
    assert kind_of(objection(error)) == {"memory": True, "input": False}
    said = worker._sentence(objection(error))
    assert (
        said
        == f"it needs more memory than is left of the device's {machine_bytes() // 2**20} MiB (memory_mib)"
    )
    assert type(failure("net", {"why": said, **kind_of(objection(error))})) is NoRoom


@pytest.mark.parametrize(("message", "error", "status"), [
    ({"why": "Gather: no", "input": True}, InputRefused, 400), ({"why": "no", "memory": True}, NoRoom, 413),
    ({"why": "CUDA failure 700"}, InputFailed, 500), ({"why": "not loaded here", "input": False}, InputFailed, 500),
])  # fmt: skip
def test_whose_fault_it_is_decides_the_status(message: dict[str, Any], error: type, status: int) -> None:
    found = failure("net", message)
    assert type(found) is error and found.http == status and "network 'net' " in str(found)
    assert found.of_input, "no promise was broken"


def batch(folder: Path, size: int) -> tuple[Bench, list[Job]]:
    """So many requests that run together on the only device that lives."""
    bench = Bench(folder)
    object.__setattr__(bench.pool.dispatcher.options, "max_batch", size)
    bench.pool.dispatcher.lanes[1].alive = False
    jobs = [bench.job() for _ in range(size)]
    for job in jobs:
        job.group = "like"
        bench.pool.dispatcher.enter(job)
    bench.pool.dispatcher.decide()
    return bench, jobs


def test_of_a_batch_each_runs_again_alone_and_only_the_one_at_fault_is_refused(tmp_path: Path) -> None:
    """As it was, all of a batch failed with it."""

    async def main() -> None:
        bench, jobs = batch(tmp_path, 3)
        execution = bench.pool.execution

        def refuse() -> None:
            (run,) = execution.queues[0]
            failed = {
                "kind": "failed",
                "ticket": run.ticket,
                "why": "Gather: no",
                "input": True,
                "skipped": [],
            }
            execution.on_message(0, failed | {"span_s": [0.0, 0.0]})

        assert len(execution.queues[0][0].job.together) == 2
        refuse()  # all of them
        assert not any(job.payload.over for job in jobs)
        (alone,) = execution.queues[0]
        assert not alone.job.together
        refuse()
        with pytest.raises(InputRefused, match="network 'net' refuses this input: Gather: no"):
            await alone.job.payload.answer
        assert [job.payload.over for job in jobs].count(True) == 1 and execution.queues[0][
            0
        ].job is not alone.job

    asyncio.run(main())


@pytest.mark.parametrize("at_fault", [False, True])
def test_a_network_that_refuses_batches_only_gets_no_more_of_them(tmp_path: Path, at_fault: bool) -> None:
    """A size of 1 in its midst (Reshape): as it was, each batch ran in vain first, for ever, and its tenant paid."""

    async def main() -> None:
        bench, jobs = batch(tmp_path, 2)
        execution = bench.pool.execution
        assert execution.queues[0][0].job.together

        def ends(**how: Any) -> None:
            ends = {"ticket": execution.queues[0][0].ticket, "span_s": [0.0, 0.3], "skipped": []}
            execution.on_message(0, {**ends, **how})

        done = {"kind": "done", "next": 3, "ends_s": [0.0, 0.1, 0.2, 0.3], "tensors": []}
        failed = {"kind": "failed", "why": "Reshape: no", "input": True}
        ends(**failed)
        ends(**done)
        assert not bench.pool.costs.apart, "the other may be at fault"
        ends(**(failed if at_fault else done))
        assert bench.pool.costs.apart == (set() if at_fault else {bench.network.index})

    asyncio.run(main())
