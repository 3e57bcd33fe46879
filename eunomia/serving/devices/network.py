"""A network as a worker holds it: one session per block, with its measured times, and one for the whole."""

from __future__ import annotations

import contextlib
import math
import shutil
import statistics
import time
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

from eunomia.serving.blocks.optimise import session_options
from eunomia.serving.blocks.plan import RUNS, runs_of
from eunomia.serving.devices.bound import Bound
from eunomia.serving.devices.cutting import UNREAD, CutNetwork, content_of, kept, prepare
from eunomia.serving.devices.ending import RunOptions
from eunomia.serving.devices.messages import Message, Ports
from eunomia.serving.devices.piece import Feed, Live, Runs, Session, live_of, piece_of
from eunomia.serving.devices.ports import has_texts, ranked
from eunomia.serving.devices.trial import on_trial, trial_feed

UNTRIED_S = 0.1  # that a network is said to take on which no made-up input runs, until a request has run
MAY_TAKE = 1.25  # of the longest piece, in trials: cut networks take longer, and what runs take decides later


class LoadedNetwork:
    """Blocks of one network on this device."""

    _whole: Runs | None = None
    ones, shapes = False, dict[str, list[int]]()  # what it is tried on
    untried = ""  # why no made-up input runs on it
    asked = dict[str, list[int]]()  # sizes of a request's input by which it was cut then
    together = UNREAD  # why its rows may have to do with each other; empty = they have not
    bound: Bound | None = None  # the whole, or the only block, for inputs that lie in the arena
    clock = staticmethod(time.thread_time)  # which others on the processor do not move

    def __init__(
        self,
        sessions: list[Session],
        names: list[tuple[list[str], list[str]]],
        ports: Ports,
    ) -> None:
        self._pieces: Sequence[Runs] = [
            piece_of(session, inputs, outputs)
            for session, (inputs, outputs) in zip(sessions, names, strict=True)
        ]
        self._ports, self._ends = ports, (names[0][0], names[-1][1])
        self.block_s: list[float] = []
        if len(sessions) == 1:
            self._bind(sessions[0])

    def _bind(self, session: Session) -> None:
        if not has_texts(self._ports):
            self.bound = Bound(session, self._ports)

    def keep_whole(self, session: Session, feed: Feed | None = None) -> None:
        """Hold it in one piece, too; its first request is nobody's, where there is one."""
        whole = piece_of(session, *self._ends)
        if feed is not None:
            whole.run(live_of(feed))
        self._whole = whole
        self._bind(session)

    @property
    def blocks(self) -> int:
        """How many."""
        return len(self._pieces)

    @property
    def ports(self) -> Ports:
        """Inputs and outputs."""
        return self._ports

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

    def obey(self, options: RunOptions) -> None:
        """From now on these end a run in its midst."""
        for piece in self._pieces:
            piece.options = options
        for whole in (self._whole, self.bound):
            if whole is not None:
                whole.options = options

    def measure(self, feed: Feed, runs: int = RUNS) -> None:
        """Median time of each block on a trial input; one run more comes before those that count."""
        times = [list[float]() for _ in range(self.blocks)]
        with on_trial(feed, self._ports):
            for _ in runs_of(runs, self.clock):
                live = live_of(feed)
                for n in range(self.blocks):
                    began = self.clock()
                    live = self.run_block(n, live)
                    times[n].append(self.clock() - began)
        self.block_s = [statistics.median(took[1:] or took) for took in times]

    def description(self) -> Message:
        """What the front end must know."""
        known = {"block_s": self.block_s, "whole": self.has_whole}
        told = {"shapes": self.shapes, "untried": self.untried, "asked": self.asked}
        return {**self._ports, **known, **told}


def load_network(
    path: str,
    cache: str,
    shapes: dict[str, list[int]],
    target_s: float,
    whole_s: float = 0.0,
    known_s: Sequence[float] = (),
    key: str = "",
) -> LoadedNetwork:
    """Optimise, cut, load and time a network; ``shapes`` fix its free dimensions for the trial (default 1).

    ``whole_s``: if it takes no longer, keep it in one piece too, which holds its weights twice. ``known_s``: what its
    blocks take, if that is known; then it runs once, so that the first request does not wait for memory.
    ``key``: of the content that it must have, as its file may have been replaced since, or the name of the very cut.
    """
    cut, sessions = _loaded(path, cache, shapes, target_s, key)
    names = [(inputs, outputs) for inputs, outputs, _ in cut.blocks]
    shapes = {**cut.tried, **shapes}
    network = LoadedNetwork(sessions, names, {**ranked(cut.ports, shapes), "key": cut.name})
    network.shapes, network.together = shapes, cut.together
    if cut.untried:
        network.untried, network.asked = cut.untried, cut.asked
        guess = [seconds for *_, seconds in cut.blocks] if cut.asked else [UNTRIED_S]
        network.block_s = list(known_s) if len(known_s) == len(sessions) else guess
        _keep_whole(network, cut, whole_s)
        return network

    network.ones, known = cut.ones, len(known_s) == len(sessions)
    network.measure(trial_feed(network.ports, shapes, ones=cut.ones), 0 if known else RUNS)
    if known:
        network.block_s = list(known_s)
    _keep_whole(network, cut, whole_s)
    return network


def short_blocks(
    path: str, cache: str, shapes: dict[str, list[int]], target_s: float, most_s: float, key: str = ""
) -> list[float]:
    """What its blocks took when it was cut, so that none runs here for that; raises LongBlock if one took longer."""
    cut = prepare(path, cache, shapes, target_s, key)
    cut.must_be_short(most_s)
    return [seconds for *_, seconds in cut.blocks]


def _keep_whole(network: LoadedNetwork, cut: CutNetwork, whole_s: float) -> None:
    """Where it takes no longer, whatever its input's values.

    Its weights may find no room twice, and then it serves cut.
    """
    if network.blocks == 1 or (cut.asked and not cut.untried) or sum(network.block_s) > MAY_TAKE * whole_s:
        return
    with contextlib.suppress(Exception):
        feed = None if cut.untried else trial_feed(network.ports, network.shapes, ones=network.ones)
        network.keep_whole(whole_of(cut), feed)


def _loaded(
    path: str, cache: str, shapes: dict[str, list[int]], target_s: float, key: str
) -> tuple[CutNetwork, list[Session]]:
    """A cut network and its sessions; uncut where the runtime does not load some piece by itself.

    A piece holds no shapes of what crosses its cuts, from which some operators' sizes follow. What a request's input
    cut cannot be made again, so it stays: memory may have been short.
    """
    cut = prepare(path, cache, shapes, target_s, key)
    with contextlib.suppress(Exception):  # the runtime's exceptions share no base
        return cut, sessions_of(cut)
    if cut.asked and (uncut := kept(path, cache, shapes, target_s, cut.key, asked=False)) is not None:
        return uncut, sessions_of(uncut)
    if not cut.asked:
        shutil.rmtree(cut.folder, ignore_errors=True)  # damaged files are made again
    cut = prepare(path, cache, shapes, target_s, key)
    if len(cut.blocks) > 1:
        with contextlib.suppress(Exception):
            return cut, sessions_of(cut)
        cut = prepare(path, cache, shapes, math.inf, content_of(key))
    return cut, sessions_of(cut)


def _session(path: Path, options: object) -> Session:
    import onnxruntime as ort

    session: Session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session


def whole_of(cut: CutNetwork) -> Session:
    """All blocks as one."""
    return _session(cut.whole, session_options(optimised=True))


def sessions_of(cut: CutNetwork) -> list[Session]:
    """One per block."""
    options, several = session_options(optimised=True), len(cut.blocks) > 1
    if several:
        options.enable_mem_pattern = False  # one plan of memory per block makes blocks slower, not faster
        if _share_memory():
            options.add_session_config_entry("session.use_env_allocators", "1")
    return [_session(cut.folder / f"{n}.onnx", options) for n in range(len(cut.blocks))]


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
