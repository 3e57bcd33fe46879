"""Lookahead over the learned policy and over rules, free and charged: ``python -m tests.house.learned_lookahead``.

Four Simba-like and four Eyeriss-like accelerators at 36 GB/s as in ``benchmarks lookahead``, the same rules and test
traces, hopeless requests dropped or last. Gains are over the best rule of the place, the gap reaches from there to the
best schedule that a search of EVALUATIONS finds, or any lookahead that pays nothing for its plans. Then the processor
time of a simulated layer end: that of all plans of compiled runs without a budget, over the layer ends they simulate.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.inference.contest import Machine, best, contest, validation
from benchmarks.inference.lookahead import FIRST_SEED, OPTIONS, RULES, SETS, points, problem_of, run_time
from benchmarks.kept import kept_all
from eunomia.engines.processes import Result
from eunomia.inference.clairvoyant import SearchOptions, search_schedule
from eunomia.inference.lookahead.rollout import ROLLOUT
from eunomia.inference.policies import load_policy
from eunomia.learning.episodes import Episode

LOADS, LATE, TRACES, EVALUATIONS = (1.0, 1.3), ("drop", "last"), 4, 200
VARIANTS = {  # what is shown -> the policy; {rule} is the best rule of the place
    "eunomia": "eunomia(rehearse=0)",
    "over the rule": "lookahead(base={rule})",
    "over the rule, charged": "lookahead(base={rule},charge=true)",
    "over eunomia": "lookahead(base=eunomia)",
    "over eunomia, no limit": "lookahead(base=eunomia,budget_us=0)",
    "over eunomia, refused": "lookahead(base=eunomia,budget_us=0,refuse=true)",
    "over eunomia, charged": "lookahead(base=eunomia,charge=true)",
    "over eunomia, charged, refused": "lookahead(base=eunomia,charge=true,refuse=true)",
}
TIMED = ("edf+f+g0.9", "edf+f+eft+g0.9", "eunomia")


@dataclass(frozen=True)
class Place:
    """One set of networks at one load, with what becomes of hopeless requests."""

    workload: str
    load: float
    late: str

    def episode(self, seed: int) -> Episode:
        """The first 250 requests of a trace."""
        return Episode(
            problem_of({"all": self.workload}, self.load, seed, 250), replace(OPTIONS, late=self.late)
        )


def searched(task: tuple[Place, int]) -> Result:
    """Hit rate of the best schedule that the search finds."""
    place, seed = task
    episode = place.episode(seed)
    p, options = episode.problem, SearchOptions(EVALUATIONS, seed=seed)
    return {"found": search_schedule(p.requests, p.table, Machine(p), episode.options, options).share}


def gains(places: list[Place]) -> None:
    """Print what every variant gains, in points, and closes of the gap."""
    tests = range(FIRST_SEED, FIRST_SEED + TRACES)
    tried, _ = contest("learned-lookahead", places, validation(2), RULES, workers=2)
    rules = {place: best([tried[place]], RULES) for place in places}
    names = {p: [rule, *(name.format(rule=rule) for name in VARIANTS.values())] for p, rule in rules.items()}
    played, _ = contest("learned-lookahead", places, tests, names, workers=2)
    found = kept_all("learned-lookahead-search", searched, [(p, seed) for p in places for seed in tests], 2)
    ends = np.array([one["found"] for one in found]).reshape(len(places), TRACES)
    rates = np.array(
        [[played[p][name][:, 0] for name in names[p]] for p in places]
    )  # (places, policies, traces)
    free = [n for n, name in enumerate(("rule", *VARIANTS)) if "charged" not in name]
    ends = np.maximum(ends, rates[:, free].max(axis=1))
    for late in LATE:
        mine = [n for n, place in enumerate(places) if place.late == late]
        gap = float((ends[mine] - rates[mine, 0]).sum())
        for n, name in enumerate(VARIANTS, 1):
            more, beyond = rates[mine, n] - rates[mine, 0], rates[mine, n] - rates[mine, 1]
            worst = min(range(len(mine)), key=lambda i: float(beyond[i].mean()))
            print(
                f"{late}: {name}: {points(list(more))} over the rule, {points(list(beyond))} over eunomia, "
                f"{more.sum() / gap:.0%} of the gap; worst over eunomia: {places[mine[worst]].workload} at "
                f"{places[mine[worst]].load:g}, {100.0 * beyond[worst].mean():+.1f}"
            )


def costs(places: list[Place]) -> None:
    """Print nanoseconds per simulated layer end, and their ratios."""
    for place in places:
        took = {}
        for name in TIMED:
            policy = load_policy(f"lookahead(base={name},portfolio=none,budget_us=0)")
            problem = place.episode(FIRST_SEED).problem
            (with_s, companion), (without_s, _) = (
                run_time(problem, policy, planning) for planning in (True, False)
            )
            assert companion is not None
            ends = companion.count("layer_ends") - ROLLOUT * companion.count("rollouts")
            took[name] = 1e9 * (with_s - without_s) * int(companion.arrays["portfolio"]["cost"][0]) / ends
        ratios = ", ".join(f"{took['eunomia'] / took[rule]:.2f} times {rule}" for rule in TIMED[:2])
        print(f"{place.workload} at {place.load:g}: {took['eunomia']:.0f} ns, {ratios}")


if __name__ == "__main__":
    cells = [Place(name, load, late) for late, name, load in itertools.product(LATE, SETS, LOADS)]
    gains(cells)
    costs([place for place in cells if place.late == "drop"])
