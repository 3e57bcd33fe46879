"""Distillation: the teacher drives first, then the rules do, and the teacher says what it would have done there.

After every round trees are grown on all data so far, and valued in closed loop on validation episodes; the best
of all rounds is kept. Agreement with the teacher chooses nothing: it does not rank policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.learning.distill.fitting.formula import short_formula, slope, with_formula
from eunomia.learning.distill.fitting.grow import grow_trees
from eunomia.learning.distill.fitting.samples import Samples, collect, join
from eunomia.learning.distill.fitting.teacher import ByTeacher, base_terms
from eunomia.learning.distill.inputs import MAY_ASK, PARTS
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.distill.tree import Tree
from eunomia.learning.episodes import Sampler
from eunomia.learning.evolve.expression import Formula
from eunomia.learning.objectives import value
from eunomia.learning.observation.table import JOB
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import Weights


@dataclass(frozen=True)
class FitOptions:
    """``leaves`` of all trees together; ``share`` of decisions noted; ``episodes`` per round; ``terms`` of the formula
    for the order (0 = the order that the teacher began with); ``slope``: terms of the decision to start (0 = a tree).

    ``priorities``: several divisions of the leaves among order, place and start; closed-loop validation chooses.
    """

    leaves: int = 64
    rounds: int = 3
    episodes: int = 8
    share: float = 0.01
    terms: int = 8
    slope: int = 8
    seed: int = 0
    objective: Mapping[str, float] = field(default_factory=lambda: {"hit_rate": 1.0})
    priorities: tuple[tuple[float, float, float], ...] = ((1.0, 0.3, 1.0), (1.0, 0.3, 4.0), (0.3, 0.3, 4.0))

    def __post_init__(self) -> None:
        if not 2 <= self.leaves <= 4096:
            raise ConfigError(f"rules of {self.leaves} leaves; give 2 to 4096 (64 is usual)")
        if not 0 <= self.terms <= len(JOB):
            raise ConfigError(f"a formula of {self.terms} terms; give 0 (the teacher's base) to {len(JOB)}")
        if not 0 <= self.slope <= 9:
            raise ConfigError(f"a slope of {self.slope} terms; give 0 (a tree decides) to 9")
        if not (self.rounds >= 1 and self.episodes >= 1 and 0.0 < self.share <= 1.0):
            raise ConfigError("distillation needs at least one round, one episode, and a share above 0")


@dataclass(frozen=True, eq=False)
class Fitted:
    """The rules, their value on every validation episode, and all data."""

    rules: RuleSet
    values: Floats
    samples: dict[str, Samples]


Tell = Callable[[str], None]


def distil(
    weights: Weights, name: str, sampler: Sampler, options: FitOptions, tell: Tell | None = None
) -> Fitted:
    """Rules for a learned policy. The teacher drives the first round."""
    teacher = ByTeacher(weights, base_terms(weights))
    samples: dict[str, Samples] | None = None
    best: Fitted | None = None
    bare, say = rules_of(teacher, name), tell or (lambda line: None)
    driver, source = LearnedPolicy(weights, alarm=np.inf), teacher
    for turn in range(options.rounds):
        episodes = sampler.training(turn, options.episodes)
        if turn == 0:
            found = collect(teacher, driver, source, episodes, options.share, options.seed)
            if options.terms:
                teacher = ByTeacher(weights, short_formula(found["order"], options.terms))
                found["order"] = with_formula(found["order"], teacher.terms)
            bare = rules_of(teacher, name)
        else:
            assert best is not None, "the first round leaves rules"
            student = RulePolicy(best.rules, alarm=np.inf)
            found = collect(teacher, student, best.rules, episodes, options.share, options.seed + 1000 * turn)
        samples = found if samples is None else {p: join([samples[p], found[p]]) for p in PARTS}
        rows, at = sum(len(part.target) for part in samples.values()), f"round {turn + 1}/{options.rounds}"
        say(f"{at}: {rows} rows from {len(episodes)} episodes")
        for number, priority in enumerate(options.priorities, 1):
            rules = fit_rules(bare, samples, options, priority)
            values = closed_loop(rules, sampler, options.objective)
            say(f"{at}, division {number}/{len(options.priorities)}: validation {100 * values.mean():.2f}")
            if best is None or values.mean() > best.values.mean():
                best = Fitted(rules, values, samples)
    assert best is not None and samples is not None
    return replace(best, samples=samples)


def rules_of(teacher: ByTeacher, name: str) -> RuleSet:
    """The teacher's formula, placement and gate, without trees."""
    w = teacher.heuristic
    seen = np.isfinite(w.low) & np.isfinite(w.high)
    ranges = {JOB[f]: (float(w.low[f]), float(w.high[f])) for f in np.flatnonzero(seen)}
    return RuleSet(name, teacher.terms, w.place, w.gate, ranges=ranges)


def fit_rules(
    bare: RuleSet, samples: dict[str, Samples], options: FitOptions, priority: Sequence[float]
) -> RuleSet:
    """Trees of at most ``options.leaves`` leaves together, on given data; a slope in place of the last, if asked."""
    sloped: dict[str, Tree | Formula] = {}
    if options.slope:
        sloped["start"] = slope(samples["start"], options.slope)
    grown = {part: rows for part, rows in samples.items() if part not in sloped}
    trees = grow_trees(grown, options.leaves, dict(MAY_ASK), dict(zip(PARTS, priority, strict=True)))
    return replace(bare, trees=trees | sloped)


def closed_loop(rules: RuleSet, sampler: Sampler, objective: Mapping[str, float]) -> Floats:
    """Value on every validation episode."""
    policy = RulePolicy(rules, alarm=np.inf)
    return np.array([value(policy, episode, objective) for episode in sampler.validation()])
