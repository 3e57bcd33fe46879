"""When work that may wait should start: ``python -m benchmarks.deferrable [--write]``.

A service whose load comes and goes, beside work with start windows, on 2 Simba-like and 2 Eyeriss-like accelerators.
Start weights are trained ``SEEDS`` times with their own seeds and episodes, and measured on traces that nothing was
trained or chosen on. ``shared`` is the base policy that sees all requests alike; ``none`` the base with nothing but
on-demand requests. That no policy serves more than the exhaustive optimum is a test, not a figure here.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.config.load import scenario_from
from eunomia.inference.policies import load_policy
from eunomia.learning.agents.deferrable.agent import DeferrableAgent, Settings, hit_rates
from eunomia.learning.agents.deferrable.policy import RULES, Deferring, deferring
from eunomia.learning.episodes import Episode
from eunomia.learning.loop import Plan, train
from eunomia.metrics.statistics import interval, paired_difference
from eunomia.study.inference.tuning import FIRST_VALIDATION_SEED
from eunomia.study.learning.training import FIRST_TRAINING_SEED, SEEDS_PER_GENERATION, scenario_episode

RESULTS = Path(__file__).parent.parent / "results" / "deferrable.md"
STORE = Path("runs/benchmark-deferrable")
BASE, SHARE = "edf+f+eft+g1.0", 0.5
SEEDS, TESTS, VALIDATIONS = 5, 8, 4
ITERATIONS, POPULATION, EPISODES = 6, 6, 2
LOADS = (0.5, 0.8)  # of on-demand and deferrable requests together
REQUESTS = 120


def episode(seed: int, load: float, service_only: bool = False) -> Episode:
    """One trace of the deployment."""
    service = {
        "name": "service", "models": [{"model": "yolo-lite", "deadline_factor": 3.0}],
        "arrivals": {"process": "diurnal", "rate_per_s": 60.0, "amplitude": 0.8, "period_s": 0.01},
    }  # fmt: skip
    index = {
        "name": "index", "models": [{"model": "kws-res8"}], "defer_s": [0.001, 0.006],
        "arrivals": {"process": "poisson", "rate_per_s": 120.0},
    }  # fmt: skip
    platform = {"accelerators": [{"type": "simba", "count": 2}, {"type": "eyeriss", "count": 2}],
                "dram_bandwidth_gb_s": 16.0}  # fmt: skip
    scenario = scenario_from({"name": "deferrable", "duration_s": 4.0, "load": load, "platform": platform,
                              "tenant": [service, index], "engine": {"late": "drop"}})  # fmt: skip
    made = scenario_episode(scenario, seed, REQUESTS)
    return made if not service_only else without_deferrable(made)


def without_deferrable(made: Episode) -> Episode:
    """The same trace with deferrable requests that are hopeless when they come: dropped at once."""
    from dataclasses import replace

    jobs = made.problem.jobs
    relative_s = np.where(jobs.deferrable == 1, 1e-12, jobs.relative_deadline_s)
    return replace(made, problem=made.problem._replace(jobs=jobs._replace(relative_deadline_s=relative_s)))


class Traces:
    """Episodes of a replication, loads in turn."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._kept: list[Episode] = []

    def training(self, generation: int, count: int) -> list[Episode]:
        """Of one generation."""
        first = FIRST_TRAINING_SEED + SEEDS_PER_GENERATION * (generation + 1000 * self._seed)
        return [episode(first + i, LOADS[(generation + i) % len(LOADS)]) for i in range(count)]

    def validation(self) -> list[Episode]:
        """The same for all replications."""
        if not self._kept:
            self._kept = [
                episode(FIRST_VALIDATION_SEED + i, LOADS[i % len(LOADS)]) for i in range(VALIDATIONS)
            ]
        return self._kept


def learn(seed: int) -> dict[str, Any]:
    """One training, kept on disk."""
    path = STORE / f"{seed}.json"
    if path.is_file():
        return dict(json.loads(path.read_text()))
    agent = DeferrableAgent(Settings(BASE, SHARE, POPULATION, EPISODES, seed=seed), Traces(seed))
    done = train(agent, Plan(ITERATIONS, 2, identity="benchmark"))
    result = {"weights": done.tensors["weights"].tolist(), "cpu_s": done.cpu_s,
              "validation": [float(done.start_values.mean()), float(done.values.mean())]}  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    print(seed, result["validation"], f"{done.cpu_s:.0f} s", flush=True)
    return result


def main() -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="trainings")
    given = parser.parse_args()
    trained = [learn(seed) for seed in range(given.seeds)]
    policies: dict[str, Any] = {
        f"learned, {n}": Deferring(BASE, tuple(t["weights"])) for n, t in enumerate(trained)
    }
    policies |= {when: deferring(when, BASE) for when in RULES}
    policies["shared"] = load_policy(BASE)
    cases = [(seed, load) for load in LOADS for seed in range(TESTS)]
    found = {
        name: np.array([hit_rates(policy, episode(*case)) for case in cases])
        for name, policy in policies.items()
    }
    alone = np.array([hit_rates(load_policy(BASE), episode(*case, service_only=True)) for case in cases])
    learned = np.mean([found[f"learned, {n}"] for n in range(given.seeds)], axis=0)
    text = page(learned, found, alone, trained)
    if given.write:
        RESULTS.write_text(text)
    print(text)


def page(learned: Any, found: dict[str, Any], alone: Any, trained: list[dict[str, Any]]) -> str:
    """Figures in, Markdown out."""
    trainings = "1 training" if len(trained) == 1 else f"{len(trained)} trainings"
    lines = [
        "# When work that may wait should start",
        "",
        f"`python -m benchmarks.deferrable --write --seeds {len(trained)}`; "
        "what it is: [deferrable.md](../deferrable.md).",
        f"yolo-lite on demand (diurnal, deadline three isolated times) beside kws-res8 with start windows, loads "
        f"{LOADS[0]} and {LOADS[1]}, base `{BASE}`,",
        f"2 + 2 accelerators, 16 GB/s, proportional contention, hopeless requests dropped, {REQUESTS} requests per "
        f"trace, {TESTS} unseen traces per load, {trainings} of {ITERATIONS} generations.",
        f"Sought: on-demand hits + {SHARE} x deferrable hits. Means, %; differences paired by trace, 95 % intervals.",
        "",
        "| policy | on-demand hits | deferrable hits | sought | learned less it, sought |",
        "|" + "---|" * 5,
    ]
    goal = learned @ np.array([1.0, SHARE])
    lines.append(f"| **learned** ({trainings}) | {_row(learned)} | |")
    for name in (*RULES, "shared"):
        gap = paired_difference(goal.tolist(), (found[name] @ np.array([1.0, SHARE])).tolist())
        lines.append(f"| {name} | {_row(found[name])} | {100 * gap.mean:+.2f} +-{100 * gap.half_width:.2f} |")
    lines.append(f"| no deferrable work | {100 * alone[:, 0].mean():.1f} | | | |")
    cost = paired_difference(learned[:, 0].tolist(), alone[:, 0].tolist())
    each = [float((found[f"learned, {n}"] @ np.array([1.0, SHARE])).mean()) for n in range(len(trained))]
    spread, cpu_s = interval(each), float(np.mean([t["cpu_s"] for t in trained]))
    half = f" +-{100 * spread.half_width:.2f}" if spread.has_interval else " (one training, no interval)"
    lines += [
        "",
        f"What serving deferrable work costs the service under the learned starts: {100 * cost.mean:+.2f} "
        f"+-{100 * cost.half_width:.2f} points of on-demand hits.",
        f"Replications: {', '.join(f'{100 * value:.2f}' for value in each)}; mean {100 * spread.mean:.2f}"
        f"{half}. Training took {cpu_s:.0f} s of processor time each.",
        "",
    ]
    return "\n".join(lines)


def _row(table: Any) -> str:
    on_demand, waits = 100 * table.mean(axis=0)
    return f"{on_demand:.1f} | {waits:.1f} | {on_demand + SHARE * waits:.1f}"


if __name__ == "__main__":
    main()
