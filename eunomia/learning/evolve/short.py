"""A learned policy as one short rule: the terms that decide most, their constants tuned in closed loop.

Forward selection on noted decisions of the policy says which terms, for several divisions between order and start and
both placements by finish; closed-loop runs choose among them. CMA-ES then tunes all constants at once, in each
generation on episodes that its candidates share. Does badly where a network says what no sum of features says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError
from eunomia.engines.crew import Workers
from eunomia.learning.agents.cmaes import SearchAgent
from eunomia.learning.agents.codec import IDLE_JOB, TENANT
from eunomia.learning.agents.evolution import new_evolution
from eunomia.learning.distill.fitting.formula import short_formula, slope_terms
from eunomia.learning.distill.fitting.samples import Samples, collect
from eunomia.learning.distill.fitting.teacher import ByTeacher, base_terms, three_digits
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.episodes import Task
from eunomia.learning.evolve.expression import MOST_NODES, NUMBER, ZERO, Node, number
from eunomia.learning.evolve.rule import read_rule
from eunomia.learning.evolve.search import column, packed, unpacked
from eunomia.learning.evolve.variation import Genome, genome_from
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.learning.policy.weights import Weights
from eunomia.learning.state import Arrays, Entry, Pieces

NOTED, WATCHED = 0.01, 8  # share of decisions noted, episodes
VALUED = 24  # episodes that choose a division
STARTS, PLACEMENTS = (0, 1, 2, 3), ("eft", "eft_ca")  # terms of the start that are tried, where there is room
STEP, LEAST, GATE_STEP = (
    0.15,
    0.1,
    0.05,
)  # of a constant, as a share of its size, at least of LEAST; of the gate

Noted = Mapping[str, Samples]


@dataclass(frozen=True)
class ShortOptions:
    """``nodes`` of all formulas together, at most; then the size of the search."""

    nodes: int = MOST_NODES
    generations: int = 24
    population: int = 16
    episodes: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MOST_NODES:
            raise ConfigError(f"a rule of {self.nodes} nodes; give 1 to {MOST_NODES}")
        if self.population < 4 or self.episodes < 1:
            raise ConfigError(
                f"population is {self.population} and episodes {self.episodes}; at least 4 and 1 are needed"
            )


class Short(SearchAgent):
    """The rule of a learned policy, as an agent of the loop. ``tenants``: whether anything is promised."""

    genome: Genome

    def __init__(self, options: ShortOptions, task: Task, teacher: Weights, tenants: bool) -> None:
        super().__init__(task)
        self.options, self.teacher = options, ByTeacher(teacher, base_terms(teacher))
        self.without = frozenset((*IDLE_JOB, *(() if tenants else TENANT)))

    def watch(self) -> Noted:
        """Decisions of the policy."""
        driver, watched = LearnedPolicy(self.teacher.weights, alarm=np.inf), self.task.training(0, WATCHED)
        return collect(self.teacher, driver, self.teacher, watched, NOTED, self.options.seed)

    def begin(self, crew: Workers) -> Entry:
        """Choose the terms and their division."""
        options, noted = self.options, self.watch()
        divided = [n for n in STARTS if 4 * n < options.nodes]
        made = [cut(noted, self.teacher, options.nodes, starts, self.without) for starts in divided]
        tried = [replace(each, placement=placement) for each in made for placement in PLACEMENTS]
        tasks = [(self.task.worth, tried, episode) for episode in self.task.training(1, VALUED)]
        worth = np.array(crew.map(column, tasks)).mean(axis=0)
        self.genome = tried[int(np.argmax(worth))]
        start = np.zeros(len(self.genome.constants))
        self.search = new_evolution(start, 1.0, options.population, options.seed)
        return {"best": float(worth.max()), "nodes": float(self.genome.nodes)}

    def values(self, candidates: Floats, number: int, crew: Workers) -> Floats:
        """Mean worth on episodes that the whole population shares."""
        rules = [self.tuned(x) for x in candidates]
        episodes = self.task.training(number + 1, self.options.episodes)
        tasks = [(self.task.worth, rules, episode) for episode in episodes]
        return np.asarray(np.array(crew.map(column, tasks)).mean(axis=0))

    def tuned(self, x: Floats) -> Genome:
        """The rule with constants at the coordinates ``x`` of the search."""
        start = self.genome.constants
        step = STEP * np.maximum(np.abs(start), LEAST)
        if np.isfinite(self.genome.gate):
            step[-1] = GATE_STEP
        return self.genome.with_constants(start + step * x)

    def tensors(self) -> Arrays:
        """The text of the rule at the mean of the search."""
        return {"rule": packed(signed(self.tuned(self.search.mean)).text)}

    def policy(self, tensors: Arrays, name: str = "") -> RulePolicy:
        """The rule of ``tensors``."""
        return RulePolicy(read_rule(unpacked(tensors["rule"]), name or "rule"), alarm=np.inf)

    def arrays(self) -> Arrays:
        """The search, and the rule that it began with."""
        return {**super().arrays(), "rule": packed(self.genome.text)}

    def restore(self, arrays: Arrays, pieces: Pieces, crew: Workers) -> None:
        """Go on from ``arrays()``."""
        super().restore({name: value for name, value in arrays.items() if name != "rule"}, pieces, crew)
        self.genome = genome_from(unpacked(arrays["rule"]))


def cut(samples: Noted, teacher: ByTeacher, nodes: int, starts: int, without: frozenset[str]) -> Genome:
    """The rule of at most ``nodes`` nodes that comes nearest to the teacher's decisions, ``starts`` terms for starts.

    The first term of the order costs one node, a further one 4; the first of the start costs 3.
    """
    room = nodes - max(4 * starts - 1, 0)
    gate, start = slope_terms(samples["start"], starts, without)
    for terms in range((room + 3) // 4, 0, -1):
        order = in_proportion(short_formula(samples["order"], terms, without))
        if order.nodes <= room:
            break
    else:
        order = ZERO
    gate = (
        three_digits(max(teacher.heuristic.gate + gate, 0.05))
        if np.isfinite(teacher.heuristic.gate)
        else np.inf
    )
    return Genome(order, ZERO, as_sum(start), gate=gate)


def in_proportion(terms: Mapping[str, float]) -> Node:
    """Terms of an order, in which proportions alone count: the largest positive one has no number."""
    lead = max(terms, key=lambda name: terms[name], default="")
    if not lead:
        return ZERO
    if terms[lead] <= 0.0:
        return Node("neg", (in_proportion({name: -value for name, value in terms.items()}),))
    rest = {name: three_digits(value / terms[lead]) for name, value in terms.items() if name != lead}
    return _joined([Node(lead)], rest)


def as_sum(terms: Mapping[str, float]) -> Node:
    """The sum of terms, number by number."""
    if not terms:
        return ZERO
    first, *others = sorted(terms, key=lambda name: -terms[name])
    return _joined([_term(terms[first], first)], {name: terms[name] for name in others})


def _joined(first: list[Node], rest: Mapping[str, float]) -> Node:
    return reduce(
        lambda left, name: Node("-" if rest[name] < 0.0 else "+", (left, _term(abs(rest[name]), name))),
        rest,
        first[0],
    )


def _term(value: float, name: str) -> Node:
    return Node("*", (number(value), Node(name)))


def signed(genome: Genome) -> Genome:
    """The same rule with no negative number behind a plus or a minus."""

    def turned(node: Node) -> Node:
        parts = tuple(map(turned, node.parts))
        right = parts[-1] if parts else node
        if (
            node.op in ("+", "-")
            and right.op == "*"
            and right.parts[0].op == NUMBER
            and right.parts[0].value < 0.0
        ):
            term = Node("*", (number(-right.parts[0].value), right.parts[1]))
            return Node("-" if node.op == "+" else "+", (parts[0], term))
        return Node(node.op, parts, node.value)

    return replace(genome, order=turned(genome.order), start=turned(genome.start))
