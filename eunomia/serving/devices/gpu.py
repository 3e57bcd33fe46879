"""Networks on a GPU by ONNX Runtime's own providers, CUDA and TensorRT: the interface of a processor's networks.

The graph is optimised as far as no provider matters, and cut; each block is a session of its own, which the provider
optimises further. Tensors stay on the GPU from block to block. Every block waits for its stream's end, so that its time
is its own, and whoever must stop stops at its end.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from eunomia.core.errors import ModelError
from eunomia.serving.blocks import optimise, plan_blocks
from eunomia.serving.blocks.optimise import SCRATCH, SessionOptions, session_options
from eunomia.serving.blocks.plan import node_times_s
from eunomia.serving.blocks.rowwise import why_together
from eunomia.serving.devices.ending import RunOptions
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.network import LoadedNetwork
from eunomia.serving.devices.piece import Live, Runs, Session, Value
from eunomia.serving.devices.ports import ports_of, ranked
from eunomia.serving.devices.trial import trial_feed

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
DEVICE, NUMBER = "cuda", 0  # the only one that a worker sees
Providers = Sequence[tuple[str, Mapping[str, str]]]


class GpuBinding(Protocol):
    """Of onnxruntime: as for a processor, with outputs that stay on a device."""

    def bind_ortvalue_input(self, name: str, value: Value) -> None:
        """This input is that tensor, wherever it lies."""
        ...

    def bind_output(self, name: str, device_type: str, device_id: int) -> None:
        """This output is wanted there."""
        ...

    def synchronize_inputs(self) -> None:
        """Wait until all inputs are on the device."""
        ...

    def synchronize_outputs(self) -> None:
        """Wait until all outputs are made."""
        ...

    def get_outputs(self) -> Sequence[Value]:
        """The outputs, in the order of their binding."""
        ...

    def clear_binding_inputs(self) -> None:
        """Let the inputs go."""
        ...

    def clear_binding_outputs(self) -> None:
        """Let the outputs go."""
        ...


class GpuSession(Session, Protocol):
    """Of onnxruntime: a session that knows its providers."""

    def get_providers(self) -> Sequence[str]:
        """In the order in which they were asked; one that could not start is not among them."""
        ...


class GpuPiece:
    """One block."""

    options: RunOptions | None = None

    def __init__(self, session: GpuSession, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._session, self._inputs, self._order = session, inputs, outputs
        self._outputs = [name for name in outputs if name not in inputs]
        self._binding: GpuBinding = session.io_binding()  # type: ignore[assignment]

    def run(self, live: Live) -> Live:
        """The tensors alive after the block, those that it made on the device."""
        binding = self._binding
        for name in self._inputs:
            binding.bind_ortvalue_input(name, live[name])
        for name in self._outputs:
            binding.bind_output(name, DEVICE, NUMBER)
        try:
            binding.synchronize_inputs()
            self._session.run_with_iobinding(binding, self.options)  # type: ignore[arg-type]
            binding.synchronize_outputs()
            made = dict(zip(self._outputs, binding.get_outputs(), strict=True))
            return {name: made[name] if name in made else live[name] for name in self._order}
        finally:
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()


class GpuNetwork(LoadedNetwork):
    """Blocks of one network on a GPU; in one piece it would gain nothing."""

    clock = staticmethod(time.perf_counter)  # the processor waits for the device

    def __init__(self, pieces: Sequence[Runs], ports: Ports) -> None:
        self._pieces = list(pieces)
        self._ports = ports
        self.block_s: list[float] = []


def load_cuda_network(
    path: str, cache: str, shapes: dict[str, list[int]], target_s: float, whole_s: float = 0.0
) -> GpuNetwork:
    """On CUDA; raises ModelError."""
    return _load(path, cache, shapes, target_s, [(CUDA, {"device_id": str(NUMBER)})])


def load_tensorrt_network(
    path: str, cache: str, shapes: dict[str, list[int]], target_s: float, whole_s: float = 0.0
) -> GpuNetwork:
    """On TensorRT, what it does not offer on CUDA; engines are kept in the cache. Raises ModelError."""
    engines = Path(cache) / "engines"
    engines.mkdir(parents=True, exist_ok=True)
    own = {
        "device_id": str(NUMBER),
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(engines),
        "trt_timing_cache_enable": "1",
    }
    return _load(path, cache, shapes, target_s, [(TENSORRT, own), (CUDA, {"device_id": str(NUMBER)})])


def _load(
    path: str, cache: str, shapes: dict[str, list[int]], target_s: float, providers: Providers
) -> GpuNetwork:
    """Optimise, cut by the GPU's own time, load and time a network."""
    optimised = optimise(Path(path), cache, basic=True)
    ports = ranked(ports_of(optimised.model), shapes)
    feed = trial_feed(ports, shapes)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=cache) as folder:
        session = opened(str(optimised.path), providers)
        names = [*feed], [p["name"] for p in ports["outputs"]]
        whole = GpuNetwork([GpuPiece(session, *names)], ports)
        whole.measure(feed)
        slower = sum(node_times_s(optimised, feed)) / max(
            whole.block_s[0], 1e-9
        )  # a processor, by which it is cut
        plan = plan_blocks(optimised, feed, target_s * slower, parts=False)
        pieces = []
        for n, block in enumerate(plan.blocks):
            file = Path(folder) / f"{n}.onnx"
            file.write_bytes(block.content)
            pieces.append(GpuPiece(opened(str(file), providers), block.inputs, block.outputs))
    network = GpuNetwork(pieces, {**ports, "key": f"{optimised.key}-{providers[0][0]}"})
    network.shapes, network.together = shapes, why_together(optimised.model)
    network.measure(feed)
    return network


def opened(path: str, providers: Providers) -> GpuSession:
    """A session on the first of the providers; raises ModelError where that cannot start: it would run elsewhere."""
    session = new_session(path, session_options(), [*providers, ("CPUExecutionProvider", {})])
    if session.get_providers()[0] != providers[0][0]:
        raise ModelError(
            f"{providers[0][0]} cannot start, networks would run on {session.get_providers()[0]}: install "
            "onnxruntime-gpu in place of onnxruntime, with the CUDA and cuDNN (and TensorRT) that it names"
        )
    return session


def new_session(path: str, options: SessionOptions, providers: Providers) -> GpuSession:
    """ONNX Runtime's; tests put a double in its place."""
    import onnxruntime as ort

    session: GpuSession = ort.InferenceSession(path, options, providers=list(providers))
    return session
