"""How many nodes make a block: long enough to be cheap, short enough to stop soon."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.arrays import Tensor
from eunomia.core.atomic import write_text
from eunomia.core.data import Data
from eunomia.serving.blocks.cut import Cut, Segment, cut_points, element_types, segment_model, segments
from eunomia.serving.blocks.long import must_be_short
from eunomia.serving.blocks.optimise import Optimised, session_options
from eunomia.serving.blocks.parts import in_parts

if TYPE_CHECKING:
    import onnx

TARGET_S = (
    1.5e-3  # a block's length: a boundary costs 0.03 to 0.15 ms, and is what an urgent request waits for
)
TIMES = ".times.json"
FAR = 2.0  # from what a block may take: so far, noise does not come
LONG, WIDE = 2.0, 32  # blocks of so many targets are cut where up to so many tensors cross
RUNS, SPEND_S = 5, 0.5  # of a network that are timed, after one that is not; fewer where they take so long


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
    optimised: Optimised,
    feed: dict[str, Tensor],
    target_s: float = TARGET_S,
    most_s: float = math.inf,
    *,
    parts: bool = True,
    values: str = "",
) -> BlockPlan:
    """Cut a network into blocks of about ``target_s`` of time on one thread of this processor.

    Node times come from ONNX Runtime's own profiler on ``feed``; a block ends at the first cut at
    which it has lasted ``target_s``. A network shorter than twice the target stays whole. The times are
    kept beside the optimised graph, by these sizes and the name of the ``values``, so that all devices cut alike;
    ``feed`` is tried all the same, once. Raises ModelError where the network does not run on it. ``most_s``: of a
    block; LongBlock where a first run shows one that is far too long. ``parts``: products may be cut, too.
    """
    sizes = of_sizes({name: a.shape for name, a in feed.items()})
    kept = optimised.path.with_suffix(f".{sizes}{values}{TIMES}")
    times_s = _kept_times(kept, len(optimised.model.graph.node))
    if times_s:
        node_times_s(optimised, feed, runs=0)
    elif most_s < math.inf:
        times_s = _bounded_times_s(optimised, feed, target_s, most_s)
    else:
        times_s = node_times_s(optimised, feed)
    write_text(kept, json.dumps(times_s))
    return cut_by(optimised, times_s, target_s, parts=parts)


def _bounded_times_s(
    optimised: Optimised, feed: dict[str, Tensor], target_s: float, most_s: float
) -> list[float]:
    """Times of nodes. The profiler tells them at its end: the first run has one of its own, which may be all."""
    first_s = _own_times_s(optimised, feed, 0)
    must_be_short(_longest_s(optimised, first_s, target_s), most_s, FAR)
    more = 0 if 2.0 * sum(first_s) >= SPEND_S else RUNS - 1
    return [*map(min, first_s, _own_times_s(optimised, feed, more))]


def _own_times_s(optimised: Optimised, feed: dict[str, Tensor], runs: int) -> list[float]:
    """Of a processor, as far as others left it to this thread: beside much work, nodes last many times as long."""
    begun_s, own_s = time.perf_counter(), time.thread_time()
    times_s = node_times_s(optimised, feed, runs)
    share = min((time.thread_time() - own_s) / (time.perf_counter() - begun_s), 1.0)
    return [share * lasted_s for lasted_s in times_s]


def _longest_s(optimised: Optimised, times_s: Sequence[float], target_s: float) -> float:
    """Of blocks by these times, wherever tensors may cross."""
    parted = in_parts(optimised, times_s, target_s, draft=True)
    cuts, wide, times_s = cut_points(parted.model), cut_points(parted.model, WIDE), parted.times_s
    chosen = choose_finely(cuts, wide, times_s, target_s)
    return max(sum(times_s[a.position : b.position]) for a, b in pairwise(chosen))


def cut_by(
    optimised: Optimised, times_s: Sequence[float], target_s: float, *, parts: bool = True
) -> BlockPlan:
    """The same by times that are known, of each node."""
    if parts:
        parted = in_parts(optimised, times_s, target_s)
        optimised, times_s = replace(optimised, model=parted.model), parted.times_s
    cuts, wide = cut_points(optimised.model), cut_points(optimised.model, WIDE)
    chosen, types = _with_types(optimised, choose_finely(cuts, wide, times_s, target_s))
    if len(types) < len({name for cut in chosen[1:-1] for name in cut.live}):
        _, types = _with_types(optimised, wide)
        cuts, wide = (
            [cut for cut in some if cut in (some[0], some[-1]) or types.keys() >= {*cut.live}]
            for some in (cuts, wide)
        )
        chosen = choose_finely(cuts, wide, times_s, target_s)
    total = np.concatenate([[0.0], np.cumsum(times_s)])
    return BlockPlan(
        optimised.key,
        tuple(
            _block(optimised.model, piece, types, float(total[piece.last] - total[piece.first]))
            for piece in segments(chosen)
        ),
    )


def _with_types(optimised: Optimised, chosen: list[Cut]) -> tuple[list[Cut], dict[str, int]]:
    """The same cuts, and the element types of tensors that cross them; fewer where some may not."""
    live = [name for cut in chosen[1:-1] for name in cut.live]
    return chosen, element_types(optimised.model, live, optimised.path.parent) if live else {}


def uncut(optimised: Optimised) -> BlockPlan:
    """The whole as one block, of which nobody knows what it takes."""
    cuts = cut_points(optimised.model)
    (piece,) = segments([cuts[0], cuts[-1]])
    return BlockPlan(optimised.key, (_block(optimised.model, piece, {}, 0.0),))


def of_sizes(shapes: Mapping[str, Sequence[int]]) -> str:
    """Part of a file's name: two networks of one content are cut by their own sizes."""
    text = json.dumps({name: [*shape] for name, shape in shapes.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kept_times(path: Path, nodes: int) -> list[float]:
    """Node times of an earlier call; empty when there are none that fit."""
    try:
        times_s = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    fits = isinstance(times_s, list) and len(times_s) == nodes
    return times_s if fits and all(isinstance(t, float) and 0.0 <= t < 1e6 for t in times_s) else []


def choose_finely(
    cuts: Sequence[Cut], wide: Sequence[Cut], times_s: Sequence[float], target_s: float
) -> list[Cut]:
    """``cuts`` where these make short blocks, and ``wide`` ones inside what lasts ``LONG`` times the target or more.

    Exporters compute sizes and masks once, so that they cross all layers of a network, beside what goes through these.
    """
    total = np.concatenate([[0.0], np.cumsum(times_s)])
    chosen = choose_cuts(cuts, times_s, target_s)
    found = chosen[:1]
    for begin, end in pairwise(chosen):
        if total[end.position] - total[begin.position] >= LONG * target_s:
            inside = [cut for cut in wide if begin.position < cut.position < end.position]
            found += choose_cuts([begin, *inside, end], times_s, target_s)[1:-1]
        found.append(end)
    return found


def choose_cuts(cuts: Sequence[Cut], times_s: Sequence[float], target_s: float) -> list[Cut]:
    """Greedy from the front: the next cut at which the block has lasted ``target_s``.

    A rest shorter than half the target joins the last block.
    """
    total = np.concatenate([[0.0], np.cumsum(times_s)])
    chosen = [cuts[0]]
    for cut in cuts[1:-1]:
        lasted_s = total[cut.position] - total[chosen[-1].position]
        rest_s = total[cuts[-1].position] - total[cut.position]
        if lasted_s >= target_s and rest_s >= 0.5 * target_s:
            chosen.append(cut)
    return [*chosen, cuts[-1]]


def runs_of(most: int = RUNS, clock: Callable[[], float] = time.thread_time) -> Iterator[None]:
    """A run that warms up, one that counts, and more of these, up to ``most``, until they have taken ``SPEND_S``.

    By default of processor time, which others on the machine do not move.
    """
    yield
    begun_s = clock()
    for _ in range(most):
        if clock() - begun_s < SPEND_S:
            yield


def node_times_s(optimised: Optimised, feed: dict[str, Tensor], runs: int = RUNS) -> list[float]:
    """Shortest time of every node of the optimised graph, in its order: the one that neighbours disturbed least."""
    import onnxruntime as ort

    from eunomia.serving.devices.piece import live_of, piece_of
    from eunomia.serving.devices.ports import ports_of
    from eunomia.serving.devices.trial import on_trial

    with tempfile.TemporaryDirectory() as folder:
        options = session_options(optimised=True)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = ort.InferenceSession(str(optimised.path), options, providers=["CPUExecutionProvider"])
        whole = piece_of(session, [*feed], [port.name for port in session.get_outputs()])
        with on_trial(feed, ports_of(optimised.model)):
            for _ in runs_of(runs):
                whole.run(live_of(feed))
        return _shortest_s(_events(Path(session.end_profiling())), len(optimised.model.graph.node))


def _events(profile: Path) -> Iterator[Data]:
    """One at a time, as there may be a million, each on a line; the last may lack its end, where no room was left."""
    with profile.open(errors="replace") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                event = json.loads(line.strip().rstrip(","))
                if isinstance(event, dict):
                    yield event


def _shortest_s(events: Iterable[Data], nodes: int) -> list[float]:
    """Durations by node index; a node that the profiler never saw counts as 0."""
    seen: dict[int, list[float]] = {}
    for _, node, lasted_us in _outermost(events):
        seen.setdefault(node, []).append(lasted_us * 1e-6)
    return [min(seen.get(n, [0.0])) for n in range(nodes)]


def _outermost(events: Iterable[Data]) -> Iterator[tuple[int, int, int]]:
    """Begin, number and length of the network's own nodes: those inside a Loop, an If or a Scan are numbered anew.

    Events come as they end.
    """
    ended, inside = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            ended.append((event["ts"], int(event["args"]["node_index"]), event["dur"]))
        elif event["name"] == "SequentialExecutor::Execute":  # of one graph: all that has begun since then
            inside = []
            while ended and ended[-1][0] >= event["ts"]:
                inside.append(ended.pop())
        elif event["name"] == "model_run":
            yield from inside


def _block(model: onnx.ModelProto, piece: Segment, types: dict[str, int], estimate_s: float) -> Block:
    content = segment_model(model, piece, types).SerializeToString()
    return Block(piece.inputs, piece.outputs, content, estimate_s)
