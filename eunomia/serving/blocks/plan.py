"""How many nodes make a block: long enough to be cheap, short enough to stop soon."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.errors import ModelError
from eunomia.serving.blocks.cut import Cut, Segment, cut_points, element_types, segment_model, segments
from eunomia.serving.blocks.optimise import Optimised, session_options

TARGET_S = (
    2.5e-3  # a block's length: each boundary costs 0.03 to 0.15 ms, and is what an urgent request waits for
)


@dataclass(frozen=True)
class Block:
    """One piece of a network: which tensors it takes and gives, and its network as bytes."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    content: bytes
    estimate_s: float


@dataclass(frozen=True)
class BlockPlan:
    """A network in the order in which its blocks run."""

    key: str
    blocks: tuple[Block, ...]


def plan_blocks(
    optimised: Optimised, feed: dict[str, np.ndarray[Any, Any]], target_s: float = TARGET_S
) -> BlockPlan:
    """Cut a network into blocks of about ``target_s`` of time on one thread of this processor.

    Node times come from ONNX Runtime's own profiler on ``feed``; a block ends at the first cut at
    which it has lasted ``target_s``. A network shorter than twice the target stays whole.
    """
    cuts = cut_points(optimised.model)
    times_s = node_times_s(optimised, feed)
    chosen = choose_cuts(cuts, times_s, target_s)
    if len(chosen) == 2:
        types: dict[str, int] = {}
    else:
        types = element_types(optimised.model, [name for cut in chosen[1:-1] for name in cut.live])
    total = np.concatenate([[0.0], np.cumsum(times_s)])
    return BlockPlan(
        optimised.key,
        tuple(
            _block(optimised.model, piece, types, float(total[piece.last] - total[piece.first]))
            for piece in segments(chosen)
        ),
    )


def choose_cuts(cuts: Sequence[Cut], times_s: Sequence[float], target_s: float) -> list[Cut]:
    """Greedy from the front: the next cut at which the block has lasted ``target_s``.

    A rest shorter than half the target joins the last block.
    """
    total = np.concatenate([[0.0], np.cumsum(times_s)])
    chosen = [cuts[0]]
    for cut in cuts[1:-1]:
        lasted_s = total[cut.position] - total[chosen[-1].position]
        rest_s = total[-1] - total[cut.position]
        if lasted_s >= target_s and rest_s >= 0.5 * target_s:
            chosen.append(cut)
    return [*chosen, cuts[-1]]


def node_times_s(optimised: Optimised, feed: dict[str, np.ndarray[Any, Any]], runs: int = 5) -> list[float]:
    """Shortest time of every node of the optimised graph, in its order: the one that neighbours disturbed least."""
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        options = session_options(optimised=True)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = ort.InferenceSession(
            optimised.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        try:
            for _ in range(runs + 1):
                session.run(None, feed)
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            raise ModelError(f"the network fails on a trial input: {str(error).splitlines()[0]}") from None
        events = json.loads(Path(session.end_profiling()).read_text())
    return _shortest_s(events, len(optimised.model.graph.node))


def _shortest_s(events: Sequence[dict[str, Any]], nodes: int) -> list[float]:
    """Durations by node index; a node that the profiler never saw counts as 0."""
    seen: dict[int, list[float]] = {}
    for event in events:
        arguments = event.get("args", {})
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            seen.setdefault(int(arguments["node_index"]), []).append(event["dur"] * 1e-6)
    return [min(seen.get(n, [0.0])) for n in range(nodes)]


def _block(model: Any, piece: Segment, types: dict[str, int], estimate_s: float) -> Block:
    content = segment_model(model, piece, types).SerializeToString()
    return Block(piece.inputs, piece.outputs, content, estimate_s)
