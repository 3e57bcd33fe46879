"""Lookahead with the operator's objectives against tenant-aware rules.

A hit rate is promised to every (tenant, network) pair. For each mix, load and objective the rival is the best of
the tenant-aware rules (gap_first, shift, triage, worst_first, deficit; placements and gates) on validation traces;
lookahead's base is the best of the rules that it can roll out, chosen there as well. Values are better when greater:
attainment is the share of the promised pairs at or above their target, shortfall minus the mean of what the pairs
miss, max_min minus what the worst pair misses. The quick run takes one mix, one load and one short trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.inference.contest import FOR_TENANTS, best, contest, validation
from benchmarks.inference.lookahead import FIRST_SEED, OPTIONS, points, problem_of
from benchmarks.table import Cell, Options, Table, table
from eunomia.learning.episodes import Episode
from eunomia.metrics.statistics import Floats

ENDINGS = [f"+f{place}{gate}" for place in ("", "+eft") for gate in ("", "+g1", "+g0.8")]
AWARE = [
    f"{order}{ending}" for order in (*sorted(FOR_TENANTS), "deficit_edf", "deficit_llf") for ending in ENDINGS
]
ROLLED = ("edf", "sjf", "edf_bytes", "deficit_edf", "deficit_llf")
BASES = [f"{order}{ending}" for order in ROLLED for ending in ENDINGS]
MIXES = {  # tenants: (set of networks, least and greatest target)
    "light": (("moca-light", 0.6, 0.95),),
    "heavy": (("moca-heavy", 0.6, 0.95),),
    "mixed": (("moca-mixed", 0.6, 0.95),),
    "gold and bronze": (("moca-mixed", 0.9, 0.9), ("moca-mixed", 0.5, 0.5)),
}
LOADS = (1.0, 1.3)
OBJECTIVES = ("attainment", "shortfall", "max_min")
MEASURES, HITS = (*OBJECTIVES, "hit_rate"), len(OBJECTIVES)
VARIANTS = {  # label -> lookahead of a base, for an objective
    "its base alone": "{base}",
    "500 us": "lookahead(base={base},objective={objective})",
    "500 us, charged": "lookahead(base={base},objective={objective},charge=true)",
    "500 us, objective hits": "lookahead(base={base})",
}
Size = tuple[int, int, int]  # seeds, requests, validation traces
FULL, QUICK = (6, 300, 3), (1, 60, 1)


@dataclass(frozen=True)
class Place:
    """A mix at one load."""

    mix: str
    load: float
    requests: int

    def episode(self, seed: int) -> Episode:
        """The first requests of a trace; targets are drawn anew for every trace."""
        mix = MIXES[self.mix]
        sets = {f"tenant{n}": models for n, (models, _, _) in enumerate(mix)}
        episode = Episode(problem_of(sets, self.load, seed, self.requests), OPTIONS)
        low, high = (np.array([facts[n] for facts in mix])[episode.problem.jobs.tenant_of] for n in (1, 2))
        return episode.with_targets(low, high, np.random.default_rng([seed, 77]), self.requests)


@dataclass(frozen=True, eq=False)
class Line:
    """An objective at one place. ``rates``: (traces, MEASURES) of the rival and of every variant of lookahead."""

    objective: str
    place: Place
    rival: str
    base: str
    rates: Mapping[str, Floats]

    @property
    def value(self) -> float:
        """What the rival reaches."""
        return float(self.rates["rival"][:, MEASURES.index(self.objective)].mean())

    def gain(self, variant: str, measure: str | None = None) -> Floats:
        """Above the rival in the objective or another measure, trace by trace."""
        column = MEASURES.index(measure or self.objective)
        return np.asarray(self.rates[variant][:, column] - self.rates["rival"][:, column])


def lines_of(places: Sequence[Place], size: Size, workers: int) -> Iterator[Line]:
    """Choose rival and base of every place and objective on validation traces, then meet the test traces."""
    tests = range(FIRST_SEED, FIRST_SEED + size[0])
    tried, _ = contest("lookahead-tenants", places, validation(size[2]), (*AWARE, *BASES), MEASURES, workers)
    named: dict[tuple[str, Place], dict[str, str]] = {}
    for (n, objective), place in itertools.product(enumerate(OBJECTIVES), places):
        rival, base = (best([tried[place]], rules, n, HITS) for rules in (AWARE, BASES))
        ours = {name: text.format(base=base, objective=objective) for name, text in VARIANTS.items()}
        named[objective, place] = {"rival": rival, **ours}
    names = {place: [p for o in OBJECTIVES for p in named[o, place].values()] for place in places}
    played, _ = contest("lookahead-tenants", places, tests, names, MEASURES, workers)
    for (objective, place), mine in named.items():
        rates = {name: played[place][policy] for name, policy in mine.items()}
        yield Line(objective, place, mine["rival"], mine["its base alone"], rates)


def overall(lines: Sequence[Line]) -> Iterator[list[Cell]]:
    """A row per objective and variant."""
    for objective, name in itertools.product(OBJECTIVES, VARIANTS):
        mine = [line for line in lines if line.objective == objective]
        each = [points([line.gain(name)]) for line in mine]
        above, below = (sum(g.excludes_zero and g.mean * sign > 0.0 for g in each) for sign in (1, -1))
        gains = [points([line.gain(name, measure) for line in mine]) for measure in (None, "hit_rate")]
        value = float(np.mean([line.value for line in mine]))
        yield [objective, value, name, *gains, f"{above} / {below} of {len(mine)}"]


def by_place(line: Line) -> list[Cell]:
    """A row per objective, mix and load."""
    gains = [points([line.gain(name)]) for name in ("500 us", "500 us, charged")]
    place = line.place
    return [line.objective, place.mix, place.load, line.rival, line.value, line.base, *gains]


def measure(options: Options) -> Iterator[Table]:
    """Over all mixes, then per mix and load."""
    size = QUICK if options.quick else FULL
    places = [Place(*cell, size[1]) for cell in itertools.product(MIXES, LOADS)]
    lines = list(lines_of(places[1:2] if options.quick else places, size, options.workers))
    columns = (
        "objective; rival: best tenant-aware rule|.1p; lookahead; gain in the objective, points|+.2f; "
        "gain in hits, points|+.2f; cells significantly above / below"
    )
    yield table("overall", columns, overall(lines))
    columns = "objective; mix; load|g; rival; rival's value|.1p; base; 500 us|+.2f; 500 us, charged|+.2f"
    yield table("cells", columns, map(by_place, lines))
