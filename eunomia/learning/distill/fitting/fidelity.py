"""How often rules and teacher agree, in states that the rules lead to. It explains, and ranks nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eunomia.learning.distill.fitting.fit import FitOptions
from eunomia.learning.distill.fitting.samples import Samples, collect
from eunomia.learning.distill.fitting.teacher import ByTeacher
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.distill.rules import RuleSet
from eunomia.learning.distill.tree import Tree
from eunomia.learning.episodes import Episode
from eunomia.learning.evolve.expression import Formula
from eunomia.learning.policy.weights import Weights

SEED = 77


def agreement(
    weights: Weights, rules: RuleSet, episodes: Sequence[Episode], options: FitOptions
) -> dict[str, float]:
    """``order_top1``, ``order_tau`` (mean Kendall tau over decisions), ``place_top1``, ``start`` (share alike).

    nan where nothing was asked.
    """
    teacher, driver = ByTeacher(weights, rules.terms), RulePolicy(rules, alarm=np.inf)
    found = collect(teacher, driver, rules, episodes, options.share, SEED)
    start = found["start"]
    margin = start.base + rules.parts["start"](start.inputs)
    alike = ((start.base + start.target >= 0.0) == (margin >= 0.0)).mean() if len(margin) else np.nan
    order, place = found["order"], found["place"]
    return {
        "order_top1": top_one(order, rules.parts["order"]),
        "order_tau": kendall(order, rules.parts["order"]),
        "place_top1": top_one(place, rules.parts["place"]),
        "start": float(alike),
    }


def top_one(samples: Samples, rules: Tree | Formula) -> float:
    """Share of decisions in which both name the same first; rows of a group are in the teacher's order."""
    ours = samples.base + rules(samples.inputs)
    firsts = np.flatnonzero(np.diff(samples.group, prepend=-1))
    best = np.maximum.reduceat(ours, firsts) if len(firsts) else ours
    return float((ours[firsts] >= best).mean()) if len(firsts) else np.nan


def kendall(samples: Samples, rules: Tree | Formula) -> float:
    """Mean over decisions of (concordant - discordant) / pairs; a tie counts 0."""
    ours = samples.base + rules(samples.inputs)
    taus = []
    for group in np.split(ours, np.flatnonzero(np.diff(samples.group)) + 1):
        upper = np.triu_indices(len(group), 1)
        if len(upper[0]):
            taus.append(float(np.sign(group[upper[0]] - group[upper[1]]).mean()))
    return float(np.mean(taus)) if taus else np.nan
