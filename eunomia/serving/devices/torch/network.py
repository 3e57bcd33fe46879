"""A network in blocks on a torch device: the same ONNX file, the same interface as on a processor.

ONNX Runtime folds the file (constants, batch norms into convolutions) without layouts of the processor. It is
cut, as elsewhere, at places that few tensors cross, timed node by node on the device, and run by PyTorch.
Tensors stay on the device from block to block; every block ends with a synchronisation, for its time and for
the preemption at its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from eunomia.core.arrays import Tensor
from eunomia.core.atomic import write_text
from eunomia.core.errors import ModelError
from eunomia.serving.blocks.cut import Segment, cut_points, segments
from eunomia.serving.blocks.external import session_source
from eunomia.serving.blocks.optimise import content_key, session_options
from eunomia.serving.blocks.plan import choose_cuts, of_sizes
from eunomia.serving.blocks.refusal import refusal
from eunomia.serving.blocks.rowwise import why_together
from eunomia.serving.devices.ending import RunOptions
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.network import LoadedNetwork
from eunomia.serving.devices.piece import Feed, Live, Value
from eunomia.serving.devices.ports import ports_of, ranked
from eunomia.serving.devices.torch.operators import Function, function_of
from eunomia.serving.devices.trial import trial_feed

if TYPE_CHECKING:
    import onnx

TRIALS = 3


class OnDevice:
    """A tensor between two blocks, with the interface of the runtime's own: an array when it is handed over."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def numpy(self) -> Tensor:
        """On the processor, in one piece."""
        array: Tensor = self.tensor.detach().cpu().contiguous().numpy()
        return array


class Step:
    """One node: its function, the names that it reads and gives."""

    def __init__(self, node: onnx.NodeProto, weights: dict[str, Tensor]) -> None:
        import onnx

        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        constants = [weights.get(name) for name in node.input]
        self.kind, self.reads, self.gives = node.op_type, list(node.input), node.output[0]
        if node.domain not in ("", "ai.onnx"):
            raise ModelError(f"operator {node.domain}.{node.op_type} is not offered on a torch device")
        self.function: Function = function_of(node.op_type, attributes, constants)


class TorchBlock:
    """Consecutive nodes, with the interface of a block of a processor."""

    options: RunOptions | None = None  # no operator here has a loop inside

    def __init__(
        self, piece: Segment, steps: Sequence[Step], weights: dict[str, torch.Tensor], device: torch.device
    ) -> None:
        self._piece, self._device = piece, device
        self._steps = [*steps[piece.first : piece.last]]
        self._weights = {name: weights[name] for s in self._steps for name in s.reads if name in weights}

    def run(self, live: Live) -> Live:
        """Outputs for these inputs, on the device."""
        with torch.inference_mode():
            known = {name: self._tensor(live[name]) for name in self._piece.inputs}
            run_steps(self._steps, known, self._weights)
            synchronise(self._device)
        return {name: OnDevice(known[name]) for name in self._piece.outputs}

    def _tensor(self, value: Value) -> torch.Tensor:
        if isinstance(value, OnDevice):
            return value.tensor
        return torch.from_numpy(np.array(value.numpy())).to(self._device)


class TorchNetwork(LoadedNetwork):
    """Blocks of one network on a torch device."""

    clock = staticmethod(time.perf_counter)  # the processor waits for the device

    def __init__(self, blocks: Sequence[TorchBlock], ports: Ports) -> None:
        self._pieces = list(blocks)
        self._ports = ports
        self.block_s: list[float] = []


def device_of() -> torch.device:
    """The GPU where there is one. ``CUDA_VISIBLE_DEVICES`` chooses among several."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all its orders."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def run_steps(
    steps: Sequence[Step], known: dict[str, torch.Tensor], weights: dict[str, torch.Tensor]
) -> None:
    """Run nodes in order; ``known`` grows by what they give."""
    for step in steps:
        inputs = [known[n] if n in known else weights.get(n) for n in step.reads]
        known[step.gives] = step.function(*inputs)


def load_torch_network(
    path: str, cache: str, shapes: dict[str, list[int]], target_s: float, whole_s: float = 0.0
) -> TorchNetwork:
    """Fold, cut, load and time a network on the torch device; in one piece it would gain nothing, whatever ``whole_s``.

    Raises ModelError.
    """
    from onnx import numpy_helper

    torch.set_num_threads(max(1, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else 1)
    torch.backends.cudnn.allow_tf32 = False  # answers shall be those of a processor, to rounding
    device, (key, model) = device_of(), folded(Path(path), Path(cache))
    arrays = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    weights = {name: torch.from_numpy(np.array(a)).to(device) for name, a in arrays.items()}
    steps = [Step(node, arrays) for node in model.graph.node]
    ports = ranked(ports_of(model), shapes)
    feed = trial_feed(ports, shapes)
    sizes = of_sizes({name: array.shape for name, array in feed.items()})
    times_s = kept_times_s(
        Path(cache) / f"{key}-{_name(device)}-{sizes}.times.json", steps, feed, weights, device
    )
    chosen = choose_cuts(cut_points(model), times_s, target_s)
    blocks = [TorchBlock(piece, steps, weights, device) for piece in segments(chosen)]
    network = TorchNetwork(blocks, {**ports, "key": f"{key}-torch"})
    network.shapes, network.together = shapes, why_together(model)
    network.measure(feed)
    return network


def kept_times_s(
    path: Path, steps: Sequence[Step], feed: Feed, weights: dict[str, torch.Tensor], device: torch.device
) -> list[float]:
    """Times of an earlier load, so that all devices cut alike and a restarted one at once; else measured and kept."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        kept = json.loads(path.read_text())
        if len(kept) == len(steps) and all(0.0 <= t < 1e6 for t in kept):
            return list(kept)
    times_s = node_times_s(steps, feed, weights, device)
    write_text(path, json.dumps(times_s))
    return times_s


def _name(device: torch.device) -> str:
    """Of the GPU, as part of a file's name."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return re.sub(r"[^A-Za-z0-9]+", "-", f"torch-{name}")


def node_times_s(
    steps: Sequence[Step], feed: Feed, weights: dict[str, torch.Tensor], device: torch.device
) -> list[float]:
    """Shortest time of every node on the device."""
    best = [float("inf")] * len(steps)
    with torch.inference_mode():
        for _ in range(TRIALS):
            known = {name: torch.from_numpy(np.array(a)).to(device) for name, a in feed.items()}
            for n, step in enumerate(steps):
                synchronise(device)
                began = time.perf_counter()
                run_steps([step], known, weights)
                synchronise(device)
                best[n] = min(best[n], time.perf_counter() - began)
    return best


def folded(path: Path, cache: Path) -> tuple[str, onnx.ModelProto]:
    """Key and graph with constants and batch norms folded, operators of the standard alone. Raises ModelError."""
    import onnx
    import onnxruntime as ort

    key = content_key(path)
    target = cache / f"{key}-standard.onnx"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        stage = target.with_name(f".{target.name}.{os.getpid()}")
        options = session_options()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(stage)
        try:
            ort.InferenceSession(session_source(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            stage.unlink(missing_ok=True)
            raise ModelError(f"{path}: {refusal(path, error)}") from None
        os.replace(stage, target)
    return key, onnx.load(str(target))
