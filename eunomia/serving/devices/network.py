"""A network as a worker holds it: one session per block, with its measured times, and one for the whole."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.core.errors import ModelError
from eunomia.serving.blocks import optimise, plan_blocks
from eunomia.serving.blocks.optimise import session_options
from eunomia.serving.devices.messages import DATATYPE_OF, DATATYPES, Message, Port, Ports
from eunomia.serving.devices.piece import Feed, Live, Piece, Session, live_of

if TYPE_CHECKING:
    import onnx

TRIAL_RUNS = 5


class Runs(Protocol):
    """One block, on whatever it runs."""

    def run(self, live: Live) -> Live:
        """The tensors alive after the block."""
        ...


class LoadedNetwork:
    """Blocks of one network on this device."""

    _whole: Piece | None = None

    def __init__(
        self,
        sessions: list[Session],
        names: list[tuple[list[str], list[str]]],
        ports: Ports,
        whole: Session | None = None,
    ) -> None:
        self._pieces: Sequence[Runs] = [
            Piece(session, inputs, outputs)
            for session, (inputs, outputs) in zip(sessions, names, strict=True)
        ]
        if whole is not None:
            self._whole = Piece(whole, names[0][0], names[-1][1])
        self._ports = ports
        self.block_s: list[float] = []

    @property
    def blocks(self) -> int:
        """How many."""
        return len(self._pieces)

    def run_block(self, n: int, live: Live) -> Live:
        """The tensors alive after block ``n``."""
        return self._pieces[n].run(live)

    @property
    def has_whole(self) -> bool:
        """Whether it is held in one piece too."""
        return self._whole is not None

    def run_whole(self, live: Live) -> Live:
        """All blocks as one, if it was loaded so (``has_whole``). The answers are the same, bit by bit."""
        assert self._whole is not None
        return self._whole.run(live)

    def spread(self, began_s: float, ended_s: float) -> list[float]:
        """When each block of a whole run would have ended, in proportion to their own times."""
        stretch = (ended_s - began_s) / max(sum(self.block_s), 1e-12)
        return [began_s + stretch * t for t in accumulate(self.block_s, initial=0.0)]

    def measure(self, feed: Feed) -> None:
        """Median time of each block on a trial input."""
        times = np.empty((TRIAL_RUNS, self.blocks))
        for run in range(-1, TRIAL_RUNS):
            live = live_of(feed)
            for n in range(self.blocks):
                began = time.perf_counter()
                live = self.run_block(n, live)
                times[run, n] = time.perf_counter() - began
        self.block_s = np.median(times, axis=0).tolist()

    def description(self) -> Message:
        """What the front end must know."""
        return {**self._ports, "block_s": self.block_s, "whole": self.has_whole}


def load_network(
    path: str, cache: str, shapes: dict[str, list[int]], target_s: float, whole_s: float = 0.0
) -> LoadedNetwork:
    """Optimise, cut, load and time a network; ``shapes`` fix its free dimensions for the trial (default 1).

    ``whole_s``: if it takes no longer, keep it in one piece too, which holds its weights twice.
    """
    import onnxruntime as ort

    optimised = optimise(Path(path), cache)
    ports = ports_of(optimised.model)
    feed = {p["name"]: trial_of(p, shapes.get(p["name"])) for p in ports["inputs"]}
    plan = plan_blocks(optimised, feed, target_s)
    options = session_options(optimised=True)
    if len(plan.blocks) > 1:
        options.enable_mem_pattern = False  # one plan of memory per block makes blocks slower, not faster
        if _share_memory():
            options.add_session_config_entry("session.use_env_allocators", "1")
    sessions = [
        ort.InferenceSession(block.content, options, providers=["CPUExecutionProvider"])
        for block in plan.blocks
    ]
    names = [(list(block.inputs), list(block.outputs)) for block in plan.blocks]
    uncut = None
    if len(plan.blocks) > 1 and sum(block.estimate_s for block in plan.blocks) <= whole_s:
        content, alone = optimised.model.SerializeToString(), session_options(optimised=True)
        uncut = ort.InferenceSession(content, alone, providers=["CPUExecutionProvider"])
    network = LoadedNetwork(sessions, names, {**ports, "key": plan.key}, uncut)
    network.measure(feed)
    return network


@cache
def _share_memory() -> bool:
    """One arena for all blocks of the process, so that each finds the last one's scratch memory in the caches."""
    import onnxruntime as ort

    info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    try:
        ort.create_and_register_allocator(info, None)
    except Exception:  # a runtime without a shared arena serves with one per block
        return False
    return True


def ports_of(model: onnx.ModelProto) -> Ports:
    """Names, datatypes and shapes of inputs and outputs; -1 = any size."""
    weights = {w.name for w in model.graph.initializer}
    return {
        "inputs": [_port(v) for v in model.graph.input if v.name not in weights],
        "outputs": [_port(v) for v in model.graph.output],
    }


def _port(value: onnx.ValueInfoProto) -> Port:
    import onnx

    kind = value.type.tensor_type
    name = onnx.TensorProto.DataType.Name(kind.elem_type)
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        datatype = DATATYPE_OF[dtype]
    except KeyError:
        known = ", ".join(DATATYPES)
        raise ModelError(f"tensor '{value.name}' holds {name}; the server takes {known}") from None
    shape = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
    return {"name": value.name, "datatype": datatype, "shape": shape}


def trial_of(port: Port, shape: list[int] | None) -> Tensor:
    """A seeded input: small positive numbers, zeros for integers (legal indices of any table)."""
    size = shape or [1 if d < 0 else d for d in port["shape"]]
    dtype = DATATYPES[port["datatype"]]
    if dtype.kind == "f":
        return np.random.default_rng(0).random(size, np.float32).astype(dtype)
    return np.zeros(size, dtype)
