"""Genetic programming over rules, as an agent of the training loop.

A generation values all rules on the same episodes, by their mean advantage over the first rule on all episodes so
far. It is drawn towards 0 where they are few; a node has a price. The best stay, the rest are children of tournaments
and of the archive: rules that decide unlike each other at noted decisions. Now and then CMA-ES tunes the constants of
the best rule that it has not seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.config.evolve import EvolveConfig
from eunomia.core.arrays import Floats
from eunomia.engines.crew import Workers
from eunomia.learning.agents.codec import IDLE_JOB, TENANT
from eunomia.learning.agents.evolution import new_evolution
from eunomia.learning.distill.fitting.samples import Samples, collect
from eunomia.learning.distill.fitting.teacher import ByTeacher, base_terms
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.episodes import Episode, Task
from eunomia.learning.evolve.rule import read_rule
from eunomia.learning.evolve.variation import Genome, Variation, genome_from, known
from eunomia.learning.loop import Agent
from eunomia.learning.observation.table import DEMAND_SHARE, LATER, OVERFLOW, SLOWER
from eunomia.learning.policy.bases import base_weights
from eunomia.learning.policy.formula import GLOBAL_AT, PAIR_AT
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.state import Arrays, Entry, Pieces

DOUBT = 8.0  # episodes: an advantage over as many counts half
PROBED, PROBES, ROWS = 0.02, 60, 8  # share of decisions noted, how many of each kind, candidates of each
USED = GLOBAL_AT + DEMAND_SHARE  # columns of inputs
COSTS = {
    "any_idle": (SLOWER,),
    "eft": (LATER,),
    "eft_ca": (LATER, OVERFLOW),
}  # of a placement, by pair features
PROBE_EPISODES = 1_000_000  # as a generation, never trained on
REFINE_EVERY, ROUNDS, STEP = 5, 3, 0.3
Worth = Callable[[RulePolicy, Episode], float]


@dataclass(frozen=True)
class Tried:
    """A rule, and its summed advantage over the first one on ``seen`` episodes."""

    genome: Genome
    total: float = 0.0
    seen: int = 0

    def score(self, price: float) -> float:
        """What selection goes by."""
        return self.total / (self.seen + DOUBT) - price * self.genome.nodes


class Evolve(Agent):
    """``base``: the rule that the search begins with, e.g. edf+f+eft+g0.9."""

    def __init__(self, settings: EvolveConfig, task: Task, base: str, tenants: bool) -> None:
        super().__init__(task)
        self.settings, self.base = settings, known(base)
        without = frozenset((*IDLE_JOB, *(() if tenants else TENANT)))
        self.variation = Variation(without, settings.nodes)
        self.probes = _Probes(base, task.training(PROBE_EPISODES, 1), settings.seed)
        self.population = [Tried(self.base)]
        self.archive: list[Tried] = []
        self.refined: list[str] = []
        rng = np.random.default_rng([settings.seed, 0, 0xE0])
        while len(self.population) < settings.population:
            self.population.append(Tried(self.variation.vary(self.base, self.base, rng)))

    def iterate(self, number: int, crew: Workers) -> Entry:
        """Value all on common episodes, note unlike ones, tune constants, breed."""
        episodes = self.task.training(number - 1, self.settings.episodes)
        worth = self._worth([each.genome for each in self.population], episodes, crew)
        gained = (worth - worth[0]).sum(axis=1)
        self.population = [
            Tried(each.genome, each.total + float(gain), each.seen + len(episodes))
            for each, gain in zip(self.population, gained, strict=True)
        ]
        self._keep_unlike()
        told = {"mean": float(worth.mean()), "best": float(worth.mean(axis=1).max())}
        told |= {"nodes": float(self.best.genome.nodes), "archive": float(len(self.archive))}
        tuned = [self._tuned(number, episodes, crew)] if number % REFINE_EVERY == 0 else []
        self._breed(tuned, np.random.default_rng([self.settings.seed, number, 0xE0]))
        return told

    @property
    def ranked(self) -> list[Tried]:
        """The population, best first."""
        return sorted(self.population, key=lambda each: -each.score(self.settings.price))

    @property
    def best(self) -> Tried:
        """The best rule of those that were valued; before that, the first one."""
        return next((each for each in self.ranked if each.seen), self.population[0])

    def _worth(self, genomes: Sequence[Genome], episodes: Sequence[Episode], crew: Workers) -> Floats:
        """(rules, episodes)."""
        tasks = [(self.task.worth, genomes, episode) for episode in episodes]
        return np.array(crew.map(column, tasks)).T

    def _keep_unlike(self) -> None:
        """The archive: of rules that decide alike, the better one."""
        price, found = self.settings.price, {e.genome.text: e for e in self.archive}
        found |= {each.genome.text: each for each in self.population}
        kept: list[Tried] = []
        for each in sorted(found.values(), key=lambda one: -one.score(price)):
            apart = (self.probes.distance(each.genome, other.genome) for other in kept)
            if each.seen and all(distance >= self.settings.apart for distance in apart):
                kept.append(each)
            if len(kept) == self.settings.archive:
                break
        self.archive = kept

    def _tuned(self, number: int, episodes: Sequence[Episode], crew: Workers) -> Genome:
        """The best rule whose constants were not yet tuned, with constants by CMA-ES."""
        genome = next((e.genome for e in self.ranked if e.genome.text not in self.refined), self.best.genome)
        self.refined.append(genome.text)
        if not len(start := genome.constants):
            return genome
        scale = STEP * np.maximum(np.abs(start), 0.1)
        search = new_evolution(np.zeros(len(start)), 1.0, 0, self.settings.seed + number)
        for _ in range(ROUNDS):
            steps = search.ask()
            tried = [genome.with_constants(start + scale * step) for step in steps]
            search = search.tell(steps, self._worth(tried, episodes, crew).mean(axis=1))
        return genome.with_constants(start + scale * search.mean)

    def _breed(self, tuned: Sequence[Genome], rng: np.random.Generator) -> None:
        """The first rule, a quarter that stays, those tuned, and children unlike what is there."""
        settings, ranked = self.settings, self.ranked
        there = {self.probes.signature(self.base): Tried(self.base, 0.0, self.population[0].seen)}
        for each in ranked:
            if len(there) < settings.population // 4 + 1:
                there.setdefault(self.probes.signature(each.genome), each)
        chosen = [*there.values(), *map(Tried, tuned)]
        pool = [*self.population, *self.archive]
        signs = set(there)
        while len(chosen) < settings.population:
            for _ in range(4):
                mine, other = self._parent(pool, rng), self._parent(pool, rng)
                child = self.variation.vary(mine.genome, other.genome, rng)
                sign = self.probes.signature(child)
                if sign not in signs:
                    break
            signs.add(sign)
            chosen.append(Tried(child))
        self.population = chosen[: settings.population]

    def _parent(self, pool: Sequence[Tried], rng: np.random.Generator) -> Tried:
        """The best of three, or, one time in six, any of the archive."""
        if self.archive and rng.random() < 1 / 6:
            return self.archive[int(rng.integers(len(self.archive)))]
        three = [pool[int(i)] for i in rng.integers(len(pool), size=3)]
        return max(three, key=lambda each: each.score(self.settings.price))

    def tensors(self) -> Arrays:
        """The text of the best rule."""
        return {"rule": packed(self.best.genome.text)}

    def policy(self, tensors: Arrays, name: str = "") -> RulePolicy:
        """The rule of ``tensors``."""
        return RulePolicy(read_rule(unpacked(tensors["rule"]), name or "rule"))

    def arrays(self) -> Arrays:
        """Population, archive and what was tuned, as text."""
        kept = [[(e.genome.text, e.total, e.seen) for e in each] for each in (self.population, self.archive)]
        state = {"population": kept[0], "archive": kept[1], "refined": self.refined}
        return {"state": packed(json.dumps(state))}

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``."""
        state = json.loads(unpacked(arrays["state"]))
        self.population, self.archive = (
            [Tried(genome_from(text), total, seen) for text, total, seen in state[key]]
            for key in ("population", "archive")
        )
        self.refined = state["refined"]


class _Probes:
    """Noted decisions of the first rule: what another rule would have decided there."""

    def __init__(self, base: str, episodes: Sequence[Episode], seed: int) -> None:
        weights = base_weights(base)
        teacher, driver = ByTeacher(weights, base_terms(weights)), LearnedPolicy(weights, alarm=np.inf)
        found = collect(teacher, driver, teacher, episodes, PROBED, seed)
        self.orders, self.places = _groups(found["order"]), _groups(found["place"])
        self.starts = found["start"].inputs[:PROBES]
        self._known: dict[Genome, tuple[int, ...]] = {}

    def signature(self, genome: Genome) -> tuple[int, ...]:
        """Who goes first, which accelerator is taken, whether it starts, decision by decision."""
        if genome not in self._known:
            parts, costs = genome.rules().trees, [PAIR_AT + f for f in COSTS[genome.placement]]
            told = [int(np.argmax(parts["order"](rows))) for rows in self.orders]
            told += [int(np.argmax(parts["place"](r) - r[:, costs].sum(axis=1))) for r in self.places]
            margin = genome.gate - self.starts[:, USED] + parts["start"](self.starts)
            self._known[genome] = (*told, *(margin >= 0.0).astype(int).tolist())
        return self._known[genome]

    def distance(self, one: Genome, other: Genome) -> float:
        """Share of decisions in which two rules differ."""
        pairs = zip(self.signature(one), self.signature(other), strict=True)
        return float(np.mean([a != b for a, b in pairs]))


def _groups(samples: Samples) -> list[Floats]:
    """The first rows of the first decisions."""
    cuts = np.flatnonzero(np.diff(samples.group)) + 1
    return [rows[:ROWS] for rows in np.split(samples.inputs, cuts)[:PROBES]]


def column(task: tuple[Worth, Sequence[Genome], Episode]) -> list[float]:
    """What all rules are worth on one episode."""
    worth, genomes, episode = task
    return [worth(RulePolicy(genome.rules()), episode) for genome in genomes]


def packed(text: str) -> npt.NDArray[np.uint8]:
    """Text as a tensor."""
    return np.frombuffer(text.encode(), np.uint8).copy()


def unpacked(content: npt.NDArray[np.uint8]) -> str:
    """The text of such a tensor."""
    return content.tobytes().decode()
