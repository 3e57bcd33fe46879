"""CMA-ES, PPO, SAC and branching Q at one small task (studies/training/small.toml).

yolo-lite and kws-res8 on 2 Simba-like and 2 Eyeriss-like accelerators; the same traces, rival and processor time for
all; branching Q (BDQ) with and without auxiliary losses. Iterations are chosen so that each training takes about ten
seconds of processor time; the table has what each took. Finished trainings are kept under ``runs`` and found again.
The quick run trains once, for one iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.inference.contest import best, contest, lanes, scenario, tenant, trained, validation
from benchmarks.inference.mixes import LEVELS
from benchmarks.inference.relmas import GATED, LOADS
from benchmarks.table import Cell, Options, Table, table, text
from eunomia.learning.episodes import Episode
from eunomia.learning.load import card_of
from eunomia.metrics.statistics import Floats, interval, paired_difference
from eunomia.study.learning.scenarios import scenario_episode

SEEDS, TESTS, VALIDATIONS, REQUESTS = 5, 6, 3, 30
AUXILIARIES = 'algorithm.auxiliaries=["next_demand","next_waiting","next_hopeless"]'
START = "edf+f+eft"  # what PPO's and SAC's networks add to
BDQ = ("algorithm={name='bdq',iterations=3,episodes=8,units=32}",)
STAGE = "stage=[{generations=50,population=0,episodes=8}]"
LEARNERS: dict[str, tuple[str, ...]] = {  # changes of the training file
    "CMA-ES, from the best gated rule": (STAGE,),
    "CMA-ES, from a gate that holds nothing": (STAGE, f"base={START}+g9"),
    "PPO": ("algorithm={name='ppo',iterations=4,episodes=8}",),
    "SAC": ("algorithm={name='sac',iterations=3,episodes=8}",),
    "BDQ": BDQ,
    "BDQ, auxiliary losses": (*BDQ, AUXILIARIES),
}


@dataclass(frozen=True)
class Place:
    """The deployment at one load."""

    load: float

    def episode(self, seed: int) -> Episode:
        """One trace."""
        models = ("yolo-lite", "kws-res8")
        asked = {n: [{"model": m, "deadline_factor": f} for m in models] for n, f in LEVELS.items()}
        tenants = [tenant(name, models=facts) for name, facts in asked.items()]
        return scenario_episode(scenario("small", tenants, lanes(2, 16.0), self.load, 0.8), seed, REQUESTS)


def tested(names: list[str], seeds: range, workers: int) -> dict[str, Floats]:
    """Hit rates on the traces of all loads, by policy."""
    places = [Place(load) for load in LOADS]
    found, _ = contest("trainers", places, seeds, names, workers=workers)
    return {name: np.concatenate([found[place][name] for place in places]) for name in names}


def measure(options: Options) -> Iterator[Table]:
    """Train, measure."""
    seeds, workers = options.seeds_or(SEEDS), options.workers
    cards: dict[str, list[str]] = {}
    for name, changes in list(LEARNERS.items())[: 1 if options.quick else None]:
        quick = ("stage=[{generations=1,population=4,episodes=1}]", "validation=3") if options.quick else ()
        label = f"small{'-quick' * options.quick}-{name.replace(' ', '-').replace(',', '')}"
        cards[name] = [str(trained("small", seed, *changes, *quick, label=label)) for seed in seeds]
    rule = best([tested(list(GATED), validation(VALIDATIONS), workers)], GATED)
    names = list(dict.fromkeys([START, rule]))
    found = tested([*names, *(card for mine in cards.values() for card in mine)], range(TESTS), workers)
    rivals = {name: found[name][:, 0] for name in names}
    means = {name: np.mean([found[card][:, 0] for card in mine], axis=0) for name, mine in cards.items()}
    rows: list[list[Cell]] = []
    for name, values in (means | rivals).items():
        facts = [card_of(card) for card in cards.get(name, [])]
        cpu_s = float(np.mean([one["cpu_s"] for one in facts])) if facts else None
        gates = [one["validation"] for one in facts]
        ends = [(gate.get("start_mean", math.nan), gate["heuristic_mean"] + gate["gain"]) for gate in gates]
        each = [float(found[card].mean()) for card in cards.get(name, [])]
        spread = interval(each) if each else float(values.mean())
        less = [None if n == name else paired_difference(values, rival) for n, rival in rivals.items()]
        rows.append([name, cpu_s, *(np.mean(ends, axis=0).tolist() if ends else (None, None)), spread, *less])
    notes = [
        f"`{rule}` is the best of {len(GATED)} gated rules on validation. {len(seeds)} seeds of each trainer."
    ]
    if "BDQ" in cards:
        one, other = "BDQ, auxiliary losses", "BDQ"
        seeded = [[float(found[card].mean()) for card in cards[name]] for name in (one, other)]
        notes.append(
            f"Auxiliary losses change the hit rate of BDQ by "
            f"{text(paired_difference(means[one], means[other]), '+.1p')} "
            f"points paired by trace, {text(paired_difference(*seeded), '+.1p')} paired by seed."
        )
    columns = "trainer; processor s|.0f; validation, start|.1p; best|.1p; test|.1p" + "".join(
        f"; less `{n}`|+.1p" for n in names
    )
    yield table("small task", columns, rows, notes)
