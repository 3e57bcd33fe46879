"""What networks on several devices do to each other: learned from runs while serving, asked for when work is placed.

A run beside which other devices were idle tells what its blocks take alone; one beside which the same networks ran
nearly all the time tells a slowdown. The predictor (``eunomia.sharing.interference.Online``) takes in each one. Devices
are neighbours of kind ``same core`` where their cores overlap, else ``own core``; slowdowns of both kinds multiply.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from eunomia.serving.dispatch.jobs import Job
from eunomia.sharing.interference import CoRun, NoInterference, Online

PRESENT, ABSENT = 0.8, 0.05  # of a run's time beside a network; what lies between tells nothing
LEARN = 0.05  # weight of a new time alone, at least
WILD = 10.0  # a run that takes so many times longer was interrupted
SETTLED_S = 0.1  # after its end, every run beside it has been reported
MOST_ALONE = 100_000  # kinds of runs whose time alone is kept
SAME, OWN = "same core", "own core"
What = tuple[int, int, int, int, bool]  # first row of its times, rows, first block, next block, in one piece?

NOTHING: What = (-1, 0, 0, 0, False)  # of a run that has not ended


def what_of(job: Job, first: int, following: int) -> What:
    """What its run was: a class of times covers batches of several sizes, which take different times alone."""
    return job.cost_row, job.rows, first, following, job.whole


class Ran(NamedTuple):
    """One run: ``what`` of which network, by the server's clock."""

    device: int
    network: str
    what: What
    start_s: float
    end_s: float


@dataclass
class Seen:
    """One company: how often it was seen, and the mean logarithm of its slowdown."""

    count: int = 0
    log: float = 0.0


@dataclass
class Neighbours:
    """``cores``: of each device; none = all of them. ``places``: requests begin where they degrade least.

    ``known``: co-runs that the model was fitted on; ``seen``: what was observed since.
    """

    cores: Sequence[frozenset[int]]
    model: Online = field(default_factory=lambda: Online(NoInterference()))
    places: bool = False
    known: tuple[CoRun, ...] = ()
    seen: dict[tuple[str, tuple[str, ...], str], Seen] = field(default_factory=dict)
    _alone: dict[tuple[int, What], tuple[float, int]] = field(default_factory=dict)
    _runs: deque[Ran] = field(default_factory=deque)  # in order of their reports
    _waiting: deque[Ran] = field(default_factory=deque)  # not judged yet

    def kind(self, device: int, other: int) -> str:
        """Whether two devices share a core."""
        a, b = self.cores[device], self.cores[other]
        return SAME if not a or not b or a & b else OWN

    def ran(self, run: Ran, running: Sequence[Ran]) -> None:
        """A run has ended; ``running``: what the devices run now, each until now."""
        self._runs.append(run)
        self._waiting.append(run)
        while self._waiting and self._waiting[0].end_s < run.end_s - SETTLED_S:
            self._judge(self._waiting.popleft(), running)
        oldest_s = min(one.start_s for one in self._waiting)
        while self._runs and self._runs[0].end_s < oldest_s - SETTLED_S:
            self._runs.popleft()

    def slowdown(self, network: str, device: int, others: Sequence[tuple[int, str]]) -> float:
        """Predicted, for a network on a device beside these (device, network)."""
        product = 1.0
        for kind in (SAME, OWN):
            names = [name for other, name in others if self.kind(device, other) == kind]
            if names:
                product *= self.model.predict(network, names, kind)[0]
        return product

    def _judge(self, run: Ran, running: Sequence[Ran]) -> None:
        """Learn from a run, if what ran beside it is clear."""
        company: list[tuple[int, str]] = []
        for device in range(len(self.cores)):
            beside = self._beside(run, device, running) if device != run.device else {}
            for name, share in beside.items():
                if share >= PRESENT:
                    company.append((device, name))
                elif share > ABSENT:
                    return
        key, took_s = (run.device, run.what), run.end_s - run.start_s
        if not company:
            self._learn_alone(key, took_s)
        elif key in self._alone and took_s < WILD * self._alone[key][0]:
            kinds = {self.kind(run.device, device) for device, _ in company}
            if len(kinds) == 1:
                names = tuple(sorted(name for _, name in company))
                self._observe(CoRun(run.network, names, kinds.pop(), took_s / self._alone[key][0]))

    def _beside(self, run: Ran, device: int, running: Sequence[Ran]) -> dict[str, float]:
        """Share of a run's time in which each network ran on another device."""
        took_s, shares = max(run.end_s - run.start_s, 1e-9), dict[str, float]()
        for other in (*self._runs, *running):
            both_s = min(run.end_s, other.end_s) - max(run.start_s, other.start_s)
            if other.device == device and both_s > 0.0:
                shares[other.network] = shares.get(other.network, 0.0) + both_s / took_s
        return shares

    def _learn_alone(self, key: tuple[int, What], took_s: float) -> None:
        if len(self._alone) >= MOST_ALONE:
            self._alone.clear()
        mean_s, count = self._alone.get(key, (took_s, 0))
        if took_s < WILD * mean_s:
            self._alone[key] = mean_s + max(LEARN, 1.0 / (count + 1)) * (took_s - mean_s), count + 1

    def _observe(self, row: CoRun) -> None:
        self.model.observe(row)
        one = self.seen.setdefault((row.target, row.neighbours, row.kind), Seen())
        one.count += 1
        one.log += (math.log(row.slowdown) - one.log) / one.count
