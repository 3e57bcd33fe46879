"""Time slices measured: threads of this process run the blocks of a network on one core, gated and ungated."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eunomia.core.errors import ConfigError
from eunomia.metrics.metric import Metric
from eunomia.sharing.slices import CostProfile, Turn, TurnScheduler
from eunomia.sharing.slices.gate import Gate
from eunomia.study.cluster.worlds import Figures, Worlds

if TYPE_CHECKING:
    from eunomia.serving.devices.network import LoadedNetwork
    from eunomia.serving.devices.piece import Live

SEQUENTIAL, UNGATED = "one by one", "ungated"
METRICS = {
    "spread": Metric("latest over earliest end, less 1", "spread", "share", "lower"),
    "overhead": Metric("makespan over that one by one, less 1", "overhead", "share", "lower"),
    "cpu": Metric("processor time over that one by one, less 1", "processor", "share", "lower"),
    "weights": Metric("largest error of processor time over weight", "weight error", "share", "lower"),
    "charge": Metric("largest error of charged over processor time", "charge error", "share", "lower"),
    "switches": Metric("changes of hands per second", "switches/s", "count", "lower"),
}


@dataclass(frozen=True)
class SliceStudy:
    """One job per weight, each ``runs`` inferences of the network; repeated, in an order that turns round each time.

    ``beside``: further networks, dealt to the jobs in turn; each job does about as much work as one of the first.
    """

    network: Path
    weights: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    runs: int = 100
    quanta_s: tuple[float, ...] = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016)
    block_s: float = 0.0005
    repeats: int = 4
    beside: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if len(self.weights) < 2 or min(self.weights) <= 0.0:
            raise ConfigError(f"weights {list(self.weights)}: at least two jobs, each weight more than 0")
        if self.runs < 1 or self.repeats < 1 or not self.quanta_s:
            raise ConfigError("at least one run, one repeat and one quantum")


@dataclass
class _Crew:
    """The threads of one measurement. ``used_s``: processor time of each job so far."""

    networks: Sequence[LoadedNetwork]
    feeds: Sequence[Callable[[], Live]]
    runs: Sequence[int]
    used_s: list[float] = field(default_factory=list)
    at_first_s: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def work(self, n: int, turn: AbstractContextManager[None], boundary: Callable[[str, int], None]) -> None:
        """One job."""
        try:
            with turn:
                began_s, network, name = time.thread_time(), self.networks[n], f"{n}"
                for _ in range(self.runs[n]):
                    live = self.feeds[n]()
                    for block in range(network.blocks):
                        live = network.run_block(block, live)
                        self.used_s[n] = time.thread_time() - began_s
                        boundary(name, block)
            self.ends_s[n] = time.perf_counter()
            self.at_first_s = self.at_first_s or [*self.used_s]
        except BaseException as error:  # shown by the thread that started this one
            self.errors.append(error)


def run_live_slices(study: SliceStudy) -> Worlds:
    """One by one, ungated, and under each quantum. Raises ModelError for a network that fails to load."""
    from eunomia.serving.devices.network import load_network
    from eunomia.serving.devices.piece import live_of
    from eunomia.serving.devices.trial import trial_of

    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        with tempfile.TemporaryDirectory() as cache:
            files = [study.network, *study.beside]
            named = [files[n % len(files)] for n in range(len(study.weights))]
            networks = [load_network(str(file), cache, {}, study.block_s) for file in named]
        inputs = [
            {one["name"]: trial_of(one, None) for one in net.description()["inputs"]} for net in networks
        ]
        feeds = [partial(live_of, feed) for feed in inputs]
        alone_s = [sum(network.block_s) for network in networks]
        runs = [max(1, round(study.runs * alone_s[0] / each)) for each in alone_s]
        modes: list[float | str] = [SEQUENTIAL, UNGATED, *study.quanta_s]
        found: dict[float | str, list[Figures]] = {mode: [] for mode in modes}
        for repeat in range(study.repeats):
            measured = {
                mode: _measure(study, _Crew(networks, feeds, runs), mode)
                for mode in (modes if repeat % 2 == 0 else modes[::-1])
            }
            for mode, one in measured.items():
                found[mode].append(_figures(one, measured[SEQUENTIAL], study))
    finally:
        os.sched_setaffinity(0, before)
    found_by = {m if isinstance(m, str) else f"{m * 1e3:g} ms": tuple(runs) for m, runs in found.items()}
    of = " and ".join(file.stem for file in files)
    title = f"time slices, {len(study.weights)} jobs of {of}, measured on one core"
    return Worlds(title, tuple(range(study.repeats)), found_by, "spread", METRICS)


@dataclass(frozen=True)
class _Timed:
    """What one measurement gave; ``charged_s``: empty where nothing was charged."""

    ends_s: list[float]
    at_first_s: list[float]
    used_s: list[float]
    charged_s: list[float]
    cpu_s: float
    switches: int

    @property
    def makespan_s(self) -> float:
        """When the last job ended."""
        return max(self.ends_s)


def _measure(study: SliceStudy, crew: _Crew, mode: float | str) -> _Timed:
    count = len(study.weights)
    crew.used_s, crew.ends_s = [0.0] * count, [0.0] * count
    turns: list[Turn] = []
    switches = 0
    if isinstance(mode, float):
        kinds, turns = 1 + len(study.beside), []
        for n, weight in enumerate(study.weights):  # one profile per model
            cost = np.median([network.block_s for network in crew.networks[n % kinds :: kinds]], axis=0)
            turns.append(Turn(f"{n}", CostProfile(tuple(cost.tolist()), float(cost.sum())), weight))
        gate = Gate(TurnScheduler("weighted", mode))
        gate.join(*turns)
    begun = threading.Barrier(count)

    def thread(n: int) -> None:
        if mode != SEQUENTIAL:
            begun.wait()
        if turns:
            crew.work(n, gate.job(f"{n}"), gate.boundary)
        else:
            crew.work(n, nullcontext(), lambda name, block: None)

    began_s, cpu_s = time.perf_counter(), time.process_time()
    threads = [threading.Thread(target=thread, args=(n,), daemon=True) for n in range(count)]
    for one in threads:
        one.start()
        if mode == SEQUENTIAL:
            one.join()
    for one in threads:
        one.join()
    if crew.errors:
        raise crew.errors[0]
    if turns:
        switches = gate.scheduler.switches
    charged_s = [turn.charged_s for turn in turns]
    ends_s, took_s = [end - began_s for end in crew.ends_s], time.process_time() - cpu_s
    return _Timed(ends_s, crew.at_first_s, crew.used_s, charged_s, took_s, switches)


def _figures(one: _Timed, whole: _Timed, study: SliceStudy) -> Figures:
    weights, used = np.array(study.weights), np.array(one.at_first_s)
    charged = np.array(one.charged_s) / np.array(one.used_s) - 1.0 if one.charged_s else np.zeros(1)
    return {
        "spread": one.makespan_s / min(one.ends_s) - 1.0,
        "overhead": one.makespan_s / whole.makespan_s - 1.0,
        "cpu": one.cpu_s / whole.cpu_s - 1.0,
        "weights": float(np.abs(used / used.sum() / (weights / weights.sum()) - 1.0).max()),
        "charge": float(np.abs(charged).max()),
        "switches": one.switches / one.makespan_s,
    }
