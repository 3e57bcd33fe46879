"""Networks on a GPU, by construction: a double of ONNX Runtime's providers that checks each call in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from eunomia.core.errors import ConfigError, ModelError
from eunomia.serving.devices import gpu
from eunomia.serving.devices.arena import FLAGS, Arena
from eunomia.serving.devices.backends import BACKENDS, must_be_installed
from eunomia.serving.devices.messages import array_at, pair, place, receive
from eunomia.serving.devices.piece import live_of
from eunomia.serving.devices.worker import Worker
from eunomia.serving.models.convolutional import mobilenet_v2
from tests.serving.live import SIDE

LOADERS = {"cuda": gpu.load_cuda_network, "tensorrt": gpu.load_tensorrt_network}


class OnGpu:
    """A tensor of the double's memory: whoever looks at it copies it."""

    def __init__(self, array: np.ndarray, log: list[str]) -> None:
        self.array, self._log = array, log

    def numpy(self) -> np.ndarray:
        self._log.append("copied to the processor")
        return self.array


class Binding:
    """Outputs exist once the stream has been waited for, and stay on the device."""

    def __init__(self, session: Double) -> None:
        self._session, self._log = session, session.log
        self.feed: dict[str, Any] = {}
        self.wanted: list[str] = []
        self.made: list[OnGpu] = []
        self.waited = False

    def bind_ortvalue_input(self, name: str, value: Any) -> None:
        self._log.append("device input" if isinstance(value, OnGpu) else "host input")
        self.feed[name] = value.array if isinstance(value, OnGpu) else value.numpy()

    def bind_output(self, name: str, device_type: str, device_id: int) -> None:
        assert (device_type, device_id) == ("cuda", 0)
        self._log.append("output")
        self.wanted.append(name)

    def synchronize_inputs(self) -> None:
        self._log.append("inputs there")

    def synchronize_outputs(self) -> None:
        assert self.made, "nothing runs"
        self._log.append("stream ended")
        self.waited = True

    def get_outputs(self) -> list[OnGpu]:
        assert self.waited, "the stream has not ended"
        return self.made

    def clear_binding_inputs(self) -> None:
        self.feed = {}

    def clear_binding_outputs(self) -> None:
        self._log.append("cleared")
        self.wanted, self.made, self.waited = [], [], False


class Double:
    """A session that computes on the processor and calls that a GPU."""

    log: list[str]
    asked: list[tuple[str, dict[str, str]]]
    starts: set[str]
    after: Callable[[int], None]
    opened = 0

    def __init__(self, path: str, options: Any, providers: Any) -> None:
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.asked[:] = providers
        self.number, Double.opened = Double.opened, Double.opened + 1
        self._providers = [name for name, _ in providers if name in self.starts]

    def get_providers(self) -> list[str]:
        return self._providers

    def get_outputs(self) -> Any:
        return self._session.get_outputs()

    def io_binding(self) -> Binding:
        return Binding(self)

    def run_with_iobinding(self, binding: Binding, run_options: object = None) -> None:
        self.log.append("run")
        binding.made = [OnGpu(a, self.log) for a in self._session.run(binding.wanted, binding.feed)]
        self.after(self.number)


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Double]]:
    Double.log, Double.asked, Double.opened = [], [], 0
    Double.starts = {gpu.CUDA, gpu.TENSORRT, "CPUExecutionProvider"}
    Double.after = staticmethod(lambda number: None)  # type: ignore[assignment]
    monkeypatch.setattr(gpu, "new_session", Double)
    yield Double


def load(tmp_path: Path, backend: str = "cuda") -> gpu.GpuNetwork:
    """A small network, in as many blocks as can be."""
    path = tmp_path / "n.onnx"
    path.write_bytes(mobilenet_v2(side=SIDE, classes=10))
    return LOADERS[backend](str(path), str(tmp_path / "cache"), {}, 1e-9)


def image(rows: int = 1) -> np.ndarray:
    return np.random.default_rng(rows).random((rows, 3, SIDE, SIDE), np.float32)


def whole(tmp_path: Path, feed: np.ndarray) -> np.ndarray:
    session = ort.InferenceSession(str(tmp_path / "n.onnx"), providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"image": feed})[0]
    return found


@pytest.mark.parametrize("backend", list(LOADERS))
def test_blocks_run_one_after_the_other_and_tensors_stay(
    double: type[Double], tmp_path: Path, backend: str
) -> None:
    network = load(tmp_path, backend)
    assert network.blocks > 10 and network.bound is None and not network.has_whole
    assert len(network.block_s) == network.blocks and min(network.block_s) > 0.0
    for rows in (1, 3):
        double.log.clear()
        live = live_of({"image": image(rows)})
        for n in range(network.blocks):
            begun = len(double.log)
            live = network.run_block(n, live)
            calls = double.log[begun:]
            kinds = ["host input"] if n == 0 else [call for call in calls if call.endswith("input")]
            assert n == 0 or set(kinds) <= {"device input"}
            outputs = [call for call in calls if call == "output"]
            assert calls == [*kinds, *outputs, "inputs there", "run", "stream ended", "cleared"]
        assert "copied to the processor" not in double.log
        np.testing.assert_allclose(live["logits"].numpy(), whole(tmp_path, image(rows)), rtol=1e-3, atol=1e-4)
        assert double.log[-1] == "copied to the processor"


def test_providers_are_asked_in_their_order(double: type[Double], tmp_path: Path) -> None:
    load(tmp_path, "tensorrt")
    (first, own), (second, _), (last, _) = double.asked
    assert [first, second, last] == [gpu.TENSORRT, gpu.CUDA, "CPUExecutionProvider"]
    assert own["trt_engine_cache_enable"] == "1"
    assert (
        Path(own["trt_engine_cache_path"]).is_dir() and tmp_path in Path(own["trt_engine_cache_path"]).parents
    )
    load(tmp_path, "cuda")
    assert [name for name, _ in double.asked] == [gpu.CUDA, "CPUExecutionProvider"]


def test_a_provider_that_cannot_start_is_named(double: type[Double], tmp_path: Path) -> None:
    """ONNX Runtime itself would go on, on the processor."""
    double.starts.discard(gpu.CUDA)
    with pytest.raises(
        ModelError, match="CUDAExecutionProvider cannot start, networks would run on CPUExec.*install"
    ):
        load(tmp_path)


def test_a_backend_without_its_provider_is_refused_before_the_start() -> None:
    if not BACKENDS["cuda"].here:
        with pytest.raises(
            ConfigError, match="device 'one': backend = \"cuda\" needs ONNX Runtime's CUDA.*onnxruntime-gpu"
        ):
            must_be_installed("one", "cuda")
    must_be_installed("one", "cpu")


def test_a_run_stops_at_the_end_of_a_block_and_goes_on_there(double: type[Double], tmp_path: Path) -> None:
    network = load(tmp_path)
    line, theirs = pair()
    arena = Arena.create(2**22)
    worker = Worker(theirs, arena, 0, str(tmp_path))
    worker._networks["m"] = network
    given = image()
    slot, room = arena.allocate(given.nbytes), arena.allocate(2**20)
    placed, _ = place([("image", given)], slot.offset)
    array_at(memoryview(arena.memory), placed[0])[...] = given
    order = {"kind": "run", "request": 1, "model": "m", "last": network.blocks, "whole": False,
             "room": [room.offset, room.size]}  # fmt: skip
    runs: list[int] = []

    def urgent(number: int) -> None:
        runs.append(number)
        if len(runs) == 3:
            arena.stop(0, 7)  # somebody more urgent, while the third block runs

    double.after = staticmethod(urgent)  # type: ignore[assignment]
    worker._run({**order, "ticket": 7, "first": 0, "inputs": [placed]})
    done = receive(line)
    assert done is not None and (done["kind"], done["next"], len(runs)) == ("done", 3, 3)
    assert "tensors" not in done and "copied to the processor" not in double.log
    worker._run({**order, "ticket": 8, "first": 3, "inputs": None})
    done = receive(line)
    assert done is not None and done["next"] == network.blocks == len(runs)
    assert runs == sorted(runs), "each block once, in order"
    assert double.log.count("copied to the processor") == 1 and room.offset >= FLAGS
    found = array_at(memoryview(arena.memory), done["tensors"][0])
    np.testing.assert_allclose(found, whole(tmp_path, given), rtol=1e-3, atol=1e-4)
    line.close()
    theirs.close()
