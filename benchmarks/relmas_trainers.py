"""CMA-ES, PPO, SAC and branching Q at one small task: ``python -m benchmarks.relmas_trainers [--write]``.

yolo-lite and kws-res8 on 2 Simba-like and 2 Eyeriss-like accelerators; the same traces, rival and processor time for
all; branching Q with and without auxiliary losses. Iterations are chosen so that each training takes about ``BUDGET_S``
seconds of processor time; the table has what each took. Everything else stands as in a training file that says
nothing of it. Finished trainings are kept under ``runs/benchmark-trainers`` and found again.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.relmas import GATED, RESULTS
from benchmarks.relmas_page import LOADS, TRAINERS_BEGIN, TRAINERS_END, points
from eunomia.config.load import scenario_from
from eunomia.inference.policies import load_policy
from eunomia.learning.agents import cmaes as evolution
from eunomia.learning.agents import ppo, sac
from eunomia.learning.agents.bdq.agent import BranchingAgent, BranchingSettings
from eunomia.learning.agents.bdq.policy import BranchingPolicy, BranchingWeights
from eunomia.learning.agents.pointer_policy import PointerPolicy
from eunomia.learning.agents.replay import Play
from eunomia.learning.episodes import Episode
from eunomia.learning.loop import Plan
from eunomia.learning.loop import train as train_in_loop
from eunomia.learning.objectives import value
from eunomia.learning.policy.bases import base_weights
from eunomia.learning.policy.learned import LearnedPolicy
from eunomia.metrics.statistics import interval, paired_difference
from eunomia.study.inference.tuning import FIRST_VALIDATION_SEED
from eunomia.study.learning.training import FIRST_TRAINING_SEED, SEEDS_PER_GENERATION, scenario_episode

STORE = Path("runs/benchmark-trainers")
BANDWIDTH_GB_S, REQUESTS = 16.0, 30
MODELS, DEADLINES = ("yolo-lite", "kws-res8"), {"tight": 2.4, "usual": 3.0, "loose": 3.6}  # isolated times
SEEDS, TESTS, VALIDATIONS, BUDGET_S = 5, 6, 3, 10
EPISODES, UNITS = 8, 32  # side by side in an iteration; of branching Q
AUXILIARIES = ("next_demand", "next_waiting", "next_hopeless")
START = "edf+f+eft"  # what PPO's and SAC's networks add to
HITS = {"hit_rate": 1.0}
Floats = npt.NDArray[np.float64]


def episode(load: float, seed: int) -> Episode:
    """One trace of the deployment."""
    arrivals = {"process": "poisson", "rate_per_s": 100.0}
    tenants = [
        {
            "name": name,
            "models": [{"model": m, "deadline_factor": factor} for m in MODELS],
            "arrivals": arrivals,
        }
        for name, factor in DEADLINES.items()
    ]
    platform = {"accelerators": [{"type": "simba", "count": 2}, {"type": "eyeriss", "count": 2}],
                "dram_bandwidth_gb_s": BANDWIDTH_GB_S}  # fmt: skip
    scenario = scenario_from({"name": "small", "duration_s": 0.8, "load": load, "platform": platform,
                              "tenant": tenants, "engine": {"late": "drop"}})  # fmt: skip
    return scenario_episode(scenario, seed, REQUESTS)


class Traces:
    """Training traces of one replication, loads in turn, and the validation traces of all."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        seeds = range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + VALIDATIONS)
        self._kept = [episode(load, each) for load in LOADS for each in seeds]

    def training(self, generation: int, count: int) -> list[Episode]:
        """Of one generation."""
        first = FIRST_TRAINING_SEED + SEEDS_PER_GENERATION * (generation + 1000 * self._seed)
        return [episode(LOADS[(generation * count + i) % len(LOADS)], first + i) for i in range(count)]

    def validation(self) -> list[Episode]:
        """The same for all replications."""
        return self._kept


@dataclass(frozen=True, eq=False)
class Found:
    """A policy, what it was worth on validation before and after, and what that took."""

    policy: Any
    start: Floats
    values: Floats
    cpu_s: float
    episodes: int


Train = Callable[[int, int, Traces], Found]  # iterations, seed


def by_evolution(start: str = "") -> Train:
    """CMA-ES over the linear weights, from a heuristic; without one, from the gated rule of validation."""

    def trained(iterations: int, seed: int, traces: Traces) -> Found:
        base = base_weights(start or rule_of_validation())
        settings = evolution.Settings(base, generations=iterations, seed=seed, episodes=EPISODES)
        done = evolution.train(settings, traces)
        played = iterations * EPISODES * settings.population
        return Found(LearnedPolicy(done.weights), done.start_values, done.values, done.cpu_s, played)

    return trained


def _in_loop(agent: Any, policy: Callable[[Any], Any], iterations: int) -> Found:
    done = train_in_loop(agent, Plan(iterations, validate_every=iterations))
    return Found(policy(done.tensors), done.start_values, done.values, done.cpu_s, iterations * EPISODES)


def by_ppo(iterations: int, seed: int, traces: Traces) -> Found:
    """A masked pointer."""
    agent = ppo.PPOAgent(ppo.Settings(seed=seed), Play("priority_eft", EPISODES), traces, HITS)
    return _in_loop(agent, PointerPolicy, iterations)


def by_sac(iterations: int, seed: int, traces: Traces) -> Found:
    """The same network as PPO's."""
    agent = sac.SACAgent(sac.Settings(seed=seed), Play("priority_eft", EPISODES), traces, HITS)
    return _in_loop(agent, PointerPolicy, iterations)


def by_branching(*auxiliaries: str) -> Train:
    """Branching Q with one head for all accelerators."""

    def trained(iterations: int, seed: int, traces: Traces) -> Found:
        settings = BranchingSettings(iterations, UNITS, auxiliaries=auxiliaries, seed=seed)
        agent = BranchingAgent(settings, Play("branch", EPISODES), traces, HITS)
        return _in_loop(
            agent, lambda tensors: BranchingPolicy(BranchingWeights(UNITS, 1, tensors)), iterations
        )

    return trained


LEARNERS: dict[str, tuple[int, Train]] = {
    "CMA-ES, from the best gated rule": (50, by_evolution()),
    "CMA-ES, from a gate that holds nothing": (50, by_evolution(f"{START}+g9")),
    "PPO": (4, by_ppo),
    "SAC": (3, by_sac),
    "BDQ": (3, by_branching()),
    "BDQ, auxiliary losses": (3, by_branching(*AUXILIARIES)),
}


def learn(name: str, seed: int) -> dict[str, Any]:
    """One training and its figures on the test traces, kept on disk."""
    iterations, trained = LEARNERS[name]
    path = STORE / f"{name.replace(' ', '-').replace(',', '')}-{iterations}-{seed}.json"
    if path.is_file():
        return dict(json.loads(path.read_text()))
    found = trained(iterations, seed, Traces(seed))
    result = {"start": float(found.start.mean()), "best": float(found.values.mean()), "cpu_s": found.cpu_s,
              "episodes": found.episodes, "tests": on_tests(found.policy).tolist()}  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    print(name, seed, {key: figure for key, figure in result.items() if key != "tests"}, flush=True)
    return result


def on_tests(policy: Any) -> Floats:
    """Hit rate on every test trace."""
    return np.array([value(policy, episode(load, seed), HITS) for load in LOADS for seed in range(TESTS)])


def rule_of_validation() -> str:
    """The gated rule that is best on the validation traces."""
    traces = Traces(0).validation()
    rated = {name: np.mean([value(load_policy(name), e, HITS) for e in traces]) for name in GATED}
    return max(rated, key=lambda name: float(rated[name]))


def row(name: str, values: Floats, each: list[dict[str, Any]], rivals: dict[str, Floats]) -> str:
    """A line of the table; ``each``: the trainings, none of a rule."""
    cells = ["" for _ in range(4)]
    if each:
        means = {
            key: float(np.mean([one[key] for one in each])) for key in ("episodes", "cpu_s", "start", "best")
        }
        cells = [f"{means['episodes']:.0f}", f"{means['cpu_s']:.0f}"]
        cells += [f"{100 * means[key]:.1f}" for key in ("start", "best")]
    spread = points(interval(by_seed(each))).split(" ")[1:] if len(each) > 1 else []
    cells += [" ".join([f"{100 * values.mean():.1f}", *spread])]
    cells += [points(paired_difference(values.tolist(), rival.tolist())) if to != name else ""
              for to, rival in rivals.items()]  # fmt: skip
    return f"| {name if each else f'`{name}`'} | " + " | ".join(cells) + " |"


def by_seed(each: list[dict[str, Any]]) -> list[float]:
    """Mean hit rate on the test traces of each training."""
    return [float(np.mean(one["tests"])) for one in each]


def text_of(found: dict[str, list[dict[str, Any]]]) -> str:
    """The section."""
    rule, tested = (
        rule_of_validation(),
        {n: np.mean([o["tests"] for o in e], axis=0) for n, e in found.items()},
    )
    rivals = {name: on_tests(load_policy(name)) for name in dict.fromkeys((START, rule))}
    head = ["trainer", "episodes played", "processor s", "validation, start", "best", "test, 95 % over seeds",
            *(f"less `{name}`" for name in rivals)]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += [row(name, values, found.get(name, []), rivals) for name, values in (tested | rivals).items()]
    with_, without = "BDQ, auxiliary losses", "BDQ"
    by_trace = paired_difference(tested[with_].tolist(), tested[without].tolist())
    seeds = len(found[without])
    how = "" if seeds == SEEDS else f" --seeds {seeds}"
    over_seeds = paired_difference(by_seed(found[with_]), by_seed(found[without]))
    deadlines, loads = (", ".join(f"{n:g}" for n in numbers) for numbers in (DEADLINES.values(), LOADS))
    about = f"""`python -m benchmarks.relmas_trainers --write{how}`. {" and ".join(MODELS)}, three tenants (deadlines of
        {deadlines} isolated times), 2 Simba-like and 2 Eyeriss-like accelerators, {BANDWIDTH_GB_S:g} GB/s, proportional
        contention, Poisson, hopeless requests dropped, {REQUESTS} requests a trace, loads {loads}; {seeds} seeds of
        each trainer, {len(LOADS) * VALIDATIONS} validation and {len(LOADS) * TESTS} test traces, the same for all. Hit
        rates in %; differences paired by trace after the mean over seeds, 95 % intervals. About {BUDGET_S} s of
        processor time for each training; an episode is a trace. `{rule}` is the best of {len(GATED)} gated rules on
        validation. PPO and SAC start as feasible earliest deadline first and may hold; branching Q (BDQ, one head for
        all accelerators) starts from random weights. What is best on validation is kept, the start among it."""
    after = f"""Auxiliary losses ({", ".join(AUXILIARIES)}; weight {BranchingSettings().auxiliary:g}) change the hit
        rate of BDQ by {points(by_trace)} points paired by trace, {points(over_seeds)} paired by seed."""
    filled = [textwrap.fill(" ".join(each.split()), 118) for each in (about, after)]
    return "\n".join(["## Other trainers on one small task", filled[0], "", *lines, "", filled[1], ""])


def main() -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write the section of {RESULTS.name}")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="trainings of each")
    given = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in LEARNERS}
    for seed in range(given.seeds):
        for name, each in found.items():
            each.append(learn(name, seed))
    text = text_of(found)
    if given.write:
        before, rest = RESULTS.read_text().split(TRAINERS_BEGIN)
        after = rest.split(TRAINERS_END, 1)[1]
        RESULTS.write_text(f"{before}{TRAINERS_BEGIN}\n\n{text}\n{TRAINERS_END}{after}")
    print(text)


if __name__ == "__main__":
    main()
