"""Pollux (OSDI 2021): scale factors chosen by a genetic search for the fair mean of goodput speedups."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eunomia.cluster.policies.genetic_search import evolve
from eunomia.cluster.policies.goodput import Restarts, goodput
from eunomia.cluster.policies.marginal import options
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

RANDOM_PART = 4  # one in so many of the first generation is drawn at random


@dataclass
class Pollux:
    """Maximise the power mean (p = -1 in the paper) of SPEEDUP_m = goodput / goodput with an equal part of the cluster.

    Goodput = steps/s x statistical efficiency (:mod:`.goodput`). The equal part is N / M devices, rounded down to a
    scale factor the job may have, at the average over device types. Changed configurations are multiplied by
    r = (T - N S) / (T + S). The search (:mod:`.genetic_search`) starts from the last generation, what runs now and
    random choices; ``population`` and ``generations`` bound it.

    Ours: to cover unequal types, a gene is a type and a number of workers, not replicas per server; placement
    follows, as tight as possible. A waiting job counts with speedup ``idle``: with p < 0 a zero would make
    all other choices equal. Devices are never left idle while a waiting job fits. Pollux tunes the batch
    size, too: here the batch follows the workers.

    Does badly with rigid jobs (only the type is left to choose) and where estimates at other scale factors
    are poor. With many more jobs than devices ``idle`` decides, and nobody is promised a turn.
    """

    power: float = -1.0
    restart_s: float = 30.0
    idle: float = 0.1
    population: int = 40
    generations: int = 40
    needs: Needs = Needs(answer="devices", elastic=True)
    _restarts: Restarts = field(default_factory=Restarts, repr=False)
    _people: list[dict[int, int]] = field(default_factory=list, repr=False)  # job number -> its gene
    _seed: int = field(default=0, repr=False)
    _asked: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if self.power == 0.0 or not np.isfinite(self.power):
            raise ConfigError(
                f"pollux: power is {self.power}; a power mean needs a finite power other than 0"
            )
        if not 0.0 < self.idle < 1.0:
            raise ConfigError(f"pollux: idle is {self.idle}; it must lie between 0 and 1")
        if self.population < 4 or self.generations < 1:
            raise ConfigError(
                f"pollux: {self.population} genomes for {self.generations} generations; at least 4 and 1"
            )

    def reset(self, seed: int) -> None:
        """Forget restarts and the last generation."""
        self._restarts, self._people = Restarts(), []
        self._seed, self._asked = seed, 0

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices and scale factors by the search."""
        if not len(view):
            return Allocation(devices=np.zeros(view.throughput.shape, np.int64))
        scales, speed = options(view)
        jobs, levels, kinds = speed.shape
        worth = self.speedups(view, scales, goodput(view, scales, speed)).reshape(jobs, levels * kinds)
        size, kind = np.repeat(scales, kinds, axis=1), np.tile(np.arange(kinds), levels)
        people = self._first(view, scales, worth)
        best = evolve(
            people, worth, size, kind, view.capacity, self.idle, self.power, self.generations, self._draw()
        )
        keys = view.key.tolist()
        self._people = [dict(zip(keys, genome, strict=True)) for genome in people.tolist()]
        devices, scale = np.zeros(view.throughput.shape, np.int64), view.scale.copy()
        for m in np.flatnonzero(best >= 0).tolist():
            devices[m, kind[best[m]]] = scale[m] = size[m, best[m]]
        self._restarts.remember(view, devices)
        return Allocation(devices=devices, scale=None if view.elastic is None else scale)

    def speedups(self, view: ClusterView, scales: Ints, good: Floats) -> Floats:
        """(M, K, J) goodput over goodput with an equal part of the cluster, restarts discounted; 0 = not allowed."""
        count = view.cluster.counts
        part = max(float(count.sum()) / len(view), 1.0)
        average = (good * count).sum(axis=2) / count.sum()  # (M, K)
        allowed = average > 0.0
        least = np.where(allowed, scales, np.iinfo(np.int64).max).min(axis=1)
        fits = allowed & (scales <= np.maximum(part, least)[:, None])
        fair = average[np.arange(len(view)), np.where(fits, scales, 0).argmax(axis=1)]
        worth = good / np.where(fair > 0.0, fair, 1.0)[:, None, None]
        return self._restarts.discounted(view, scales, worth, self.restart_s)

    def _first(self, view: ClusterView, scales: Ints, worth: Floats) -> Ints:
        """(P, M) genomes to start from: what runs now, the last generation, and one in four drawn at random."""
        kinds = view.throughput.shape[1]
        level = np.equal(scales, view.held.max(axis=1)[:, None]).argmax(axis=1)
        held = np.where(view.held.any(axis=1), level * kinds + view.held.argmax(axis=1), -1)
        people = np.tile(held, (self.population, 1))
        keys = view.key.tolist()
        for p, genome in enumerate(self._people[: self.population - 1], start=1):
            people[p] = [genome.get(key, -1) for key in keys]
        drawn = slice(self.population - self.population // RANDOM_PART, None)
        rng = np.random.default_rng(self._draw())
        people[drawn] = rng.integers(0, worth.shape[1], people[drawn].shape)
        allowed = np.take_along_axis(worth, np.maximum(people, 0).T, axis=1).T > 0.0
        return np.ascontiguousarray(np.where(allowed, people, -1), np.int64)

    def _draw(self) -> int:
        """A new seed for each use, the same in every run."""
        self._asked += 1
        return int(np.random.SeedSequence([self._seed, self._asked]).generate_state(1)[0] >> 1)
