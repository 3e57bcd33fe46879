"""Messages between the front end and its devices, and tensors on their way through the arena."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunomia.serving.devices.answers import Answers
from eunomia.serving.devices.arena import FLAGS, PAGE, Arena
from eunomia.serving.devices.messages import DATATYPES, array_at, pair, receive, send
from eunomia.serving.devices.strings import BYTES, Strings
from eunomia.serving.protocol.errors import BadRequest
from eunomia.serving.protocol.infer import (
    InferRequest,
    InputTensor,
    SharedRegion,
    WantedOutput,
)
from eunomia.serving.protocol.raw import raw_array
from eunomia.serving.protocol.regions import Opened, Regions, RegionTensor
from eunomia.serving.protocol.written import write_response


@pytest.mark.parametrize(
    "wrong",
    [
        {"offset": -64},
        {"offset": 0},
        {"offset": FLAGS - 8},
        {"offset": FLAGS + PAGE},
        {"offset": 2**70},
        {"shape": [PAGE]},
        {"shape": [2**33, 2**33]},
        {"shape": [2**62, 4]},
        {"shape": [-1]},
        {"shape": [-1, -1]},
    ],
)
def test_no_message_reaches_beyond_the_arena(wrong: dict[str, Any]) -> None:
    memory = memoryview(bytearray(FLAGS + PAGE))
    right = {"name": "x", "datatype": "FP64", "shape": [2, PAGE // 16], "offset": FLAGS}
    assert array_at(memory, right).nbytes == PAGE
    with pytest.raises(ValueError, match="outside the arena"):
        array_at(memory, right | wrong)


@pytest.mark.parametrize("why", ["no such file", os.fsdecode(b"/mod\xe8les/pictures.onnx: no such file")])
def test_a_message_arrives_as_it_was_sent(why: str) -> None:
    here, there = pair()
    message = {"kind": "refused", "model": "small#1", "why": why, "span_s": [0.1, 1e-300]}
    send(here, message)
    assert receive(there) == message
    here.close()
    assert receive(there) is None
    there.close()


@pytest.mark.parametrize("letters", [100, 40_000, 900_000])
def test_a_message_of_any_length_arrives_whole_and_in_its_turn(letters: int) -> None:
    """As it was, one above 128 KiB was cut there, or not sent at all: a server waited for ever for its networks."""
    here, there = pair()
    here.setblocking(False)
    there.setblocking(False)
    files = len(os.listdir("/proc/self/fd"))
    messages = [{"kind": "loaded", "names": "n" * size} for size in (1, letters, 2, letters, 3)]
    for message in messages:
        send(here, message)
    assert [receive(there, wait=False) for _ in messages] == messages
    with pytest.raises(BlockingIOError):
        receive(there, wait=False)
    assert len(os.listdir("/proc/self/fd")) == files
    here.close()
    there.close()


def write(regions: Regions, wanted: InferRequest, outputs: dict[str, Any]) -> Mapping[str, SharedRegion]:
    """What was put where gold wants it."""
    placing = regions.place("gold", wanted, outputs)
    placing.carry_out()
    return placing.where


@pytest.mark.parametrize("datatype", [name for name in DATATYPES if name != BYTES])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 3)])
def test_tensors_of_every_type_through_shared_memory(
    tmp_path: Path, datatype: str, shape: tuple[int, ...]
) -> None:
    given = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(DATATYPES[datatype])
    (tmp_path / "memory").write_bytes(bytes(64) + given.tobytes() + bytes(64))
    regions, region = Regions(str(tmp_path), owned=False), SharedRegion("all", 64, given.nbytes)
    regions.register("gold", "all", "memory", 0, 128 + given.nbytes)
    target = np.empty(shape, DATATYPES[datatype])
    regions.tensor("gold", InputTensor("x", datatype, shape, region)).read_into(target)
    np.testing.assert_array_equal(target, given)

    wanted = InferRequest("m", outputs=(WantedOutput("y", True, region),))
    assert write(regions, wanted, {"y": given[..., ::-1] if shape else given}) == {"y": region}
    content = (tmp_path / "memory").read_bytes()
    assert content[:64] == content[64 + given.nbytes :] == bytes(64)
    back = raw_array("y", datatype, shape, content[64 : 64 + given.nbytes])
    np.testing.assert_array_equal(back, given[..., ::-1] if shape else given)
    regions.unregister("gold", "")

    written = write_response(InferRequest("m", all_binary=True), "1", {"y": given}, {})
    assert b"".join(written.raw) == given.tobytes()


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_texts_through_shared_memory(tmp_path: Path, shape: tuple[int, ...]) -> None:
    texts = np.array([f"{n}ü" * n for n in range(int(np.prod(shape)))], object).reshape(shape)
    given = Strings.of(texts)
    (tmp_path / "memory").write_bytes(bytes(64) + bytes(given.raw) + bytes(64))
    regions, region = Regions(str(tmp_path), owned=False), SharedRegion("all", 64, given.nbytes)
    regions.register("gold", "all", "memory", 0, 128 + given.nbytes)
    found = regions.tensor("gold", InputTensor("x", BYTES, shape, region))
    assert isinstance(found, Strings)
    np.testing.assert_array_equal(found.numpy(), texts)
    with pytest.raises(BadRequest, match="given, .* needs 7"):
        regions.tensor("gold", InputTensor("x", BYTES, (7,), region))
    large = SharedRegion("all", 64, 2**21)
    with pytest.raises(BadRequest, match="bytes of text; at most"):
        regions.tensor("gold", InputTensor("x", BYTES, (7,), large))
    wanted = InferRequest("m", outputs=(WantedOutput("y", True, region),))
    back = Strings.of(np.flip(texts))
    assert write(regions, wanted, {"y": back}) == {"y": region}
    assert (tmp_path / "memory").read_bytes() == bytes(64) + bytes(back.raw) + bytes(64)
    regions.unregister("gold", "")


@pytest.mark.parametrize("most", [1, 7, 64])
def test_a_system_that_moves_few_bytes_per_call_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    preadv, pwrite = os.preadv, os.pwrite  # Linux moves at most 2 GiB less a page at once
    monkeypatch.setattr(os, "preadv", lambda file, rooms, at: preadv(file, [rooms[0][:most]], at))
    monkeypatch.setattr(os, "pwrite", lambda file, content, at: pwrite(file, content[:most], at))
    given = np.arange(25, dtype="<f4")
    (tmp_path / "memory").write_bytes(bytes(64) + given.tobytes())
    regions, region = Regions(str(tmp_path), owned=False), SharedRegion("all", 64, given.nbytes)
    regions.register("gold", "all", "memory", 0, 64 + given.nbytes)
    tensor, target = regions.tensor("gold", InputTensor("x", "FP32", (25,), region)), np.empty(25, "<f4")
    tensor.read_into(target)
    np.testing.assert_array_equal(target, given)
    wanted = InferRequest("m", outputs=(WantedOutput("y", True, region),))
    write(regions, wanted, {"y": given[::-1]})
    np.testing.assert_array_equal(np.frombuffer((tmp_path / "memory").read_bytes()[64:], "<f4"), given[::-1])
    os.truncate(tmp_path / "memory", 100)
    with pytest.raises(BadRequest, match="has become smaller"):
        tensor.read_into(target)
    with pytest.raises(BadRequest, match="has become smaller"):
        write(regions, wanted, {"y": given})
    regions.unregister("gold", "")


def test_memory_that_cannot_be_written_is_the_clients_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, content: Any, at: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "memory").write_bytes(bytes(16))
    regions = Regions(str(tmp_path), owned=False)
    regions.register("gold", "all", "memory", 0, 16)
    monkeypatch.setattr(os, "pwrite", full)
    wanted = InferRequest("m", outputs=(WantedOutput("y", True, SharedRegion("all", 0, 16)),))
    with pytest.raises(BadRequest, match="'all' cannot be written: No space left"):
        write(regions, wanted, {"y": np.zeros(4, "<f4")})
    regions.unregister("gold", "")


def test_memory_that_cannot_be_read_is_the_clients_fault(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)  # reading a folder is an error of the system
    gone = RegionTensor("all", np.dtype("<f2"), (4,), Opened(folder), 0)
    with pytest.raises(BadRequest, match="'all' cannot be read"):
        gone.read_into(np.empty(4, "<f2"))


class Broken:
    """A tensor whose reading fails in a way that nobody thought of."""

    dtype, shape, ndim, size, nbytes = np.dtype("<f4"), (4,), 1, 4, 16

    def read_into(self, target: Any) -> None:
        raise RuntimeError("as nobody thought")


@pytest.mark.parametrize(
    ("tensor", "error"), [(Broken(), RuntimeError), (np.zeros(3, np.complex64), KeyError)]
)
def test_a_tensor_that_cannot_be_taken_in_holds_no_memory(tensor: Any, error: type[Exception]) -> None:
    arena = Arena.create(4 * PAGE)
    answers = Answers(arena, dispatcher=None)  # type: ignore[arg-type]

    async def take() -> None:
        answers.take_in(None, {"x": tensor}, lambda job: None)  # type: ignore[arg-type]

    with pytest.raises(error):
        asyncio.run(take())
    assert arena.free_bytes == 4 * PAGE
