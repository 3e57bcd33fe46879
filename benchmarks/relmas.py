"""RELMAS, re-implemented, against its likely rivals and the strong rules: ``python -m benchmarks.relmas [--write]``.

MoCA's mixed set on 3 Simba-like and 3 Eyeriss-like accelerators with 32 GB/s, deadlines of three tenants at QoS-H, M
and L with alpha 3, hopeless requests dropped, Poisson arrivals. Each replication is trained on traces of loads 0.7,
1.0 and 1.3 with its own seed, keeps the weights that are best on validation traces, and is measured on test traces that
neither saw; networks and platform are those of training, as RELMAS is trained per deployment. Gated rules are
chosen on the same validation traces. Finished pieces are kept under ``runs/benchmark-relmas`` and found again.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.relmas_page import (
    ALPHA,
    BANDWIDTH_GB_S,
    KINDS,
    LANES,
    LOADS,
    REQUESTS,
    RIVALS,
    RULES,
    SIZE,
    TARGETS,
    TENANT_RULES,
    VALIDATIONS,
    Measured,
    Table,
    other_trainers,
    page,
)  # fmt: skip
from eunomia.config import Scenario
from eunomia.config.load import scenario_from
from eunomia.engines.processes import Cell, map_cells
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.agents.ddpg.agent import Progress, Settings, train
from eunomia.learning.agents.ddpg.card import load_relmas, save_relmas
from eunomia.learning.agents.ddpg.ddpg import Rates
from eunomia.learning.agents.ddpg.policy import RelmasPolicy
from eunomia.learning.episodes import Episode
from eunomia.learning.objectives import OBJECTIVES
from eunomia.study.inference.tuning import FIRST_VALIDATION_SEED
from eunomia.study.learning.training import FIRST_TRAINING_SEED, SEEDS_PER_GENERATION, scenario_episode

RESULTS = Path(__file__).parent.parent / "results" / "relmas.md"
STORE = Path("runs/benchmark-relmas")
TESTS = 6  # traces per load
PROMISED = 2  # of them, with targets
GATED = tuple(f"{order}+f{place}+g{gate}" for order in ("edf", "sjf", "edf_bytes") for place in ("", "+eft")
              for gate in (1.0, 0.9, 0.75))  # fmt: skip
SWEEP = (0.0, 0.1, 0.5, 1.0)


@dataclass(frozen=True)
class Variant:
    """One way to train it."""

    name: str
    period_layers: float = 0.0
    replications: int = 5
    slo: bool = False
    imitation: float = 1.0
    twin: bool = False  # TD3

    def settings(self, seed: int, quick: bool) -> Settings:
        """What ``train`` is told."""
        reward, objective = (
            ("R5", {"attainment": 1.0, "shortfall": 1.0}) if self.slo else ("R2", {"hit_rate": 1.0})
        )
        size: dict[str, Any] = QUICK if quick else SIZE
        return Settings(
            LANES, self.slo, reward, scale=100.0, rates=Rates(gamma=0.97, twin=self.twin), seed=seed,
            period_layers=self.period_layers, imitation=self.imitation, objective=objective,
            about=f"benchmark {self.name}", **size,
        )  # fmt: skip


QUICK = {
    "clone_episodes": 1,
    "clone_steps": 10,
    "iterations": 2,
    "updates": 2,
    "critic_first": 1,
    "validate_every": 2,
}
VARIANTS = (
    Variant("relmas"),
    Variant("relmas-slo", slo=True),
    Variant("relmas-pure", imitation=0.0),
    Variant("relmas-td3", twin=True),
    Variant("relmas-periodic", period_layers=0.1),
)


def scenario(load: float) -> Scenario:
    """The deployment at one load."""
    arrivals = {"process": "poisson", "rate_per_s": 100.0}
    tenants = [
        {
            "name": qos,
            "model_set": "moca-mixed",
            "deadline": qos,
            "deadline_alpha": ALPHA,
            "arrivals": arrivals,
        }
        for qos in ("qos_h", "qos_m", "qos_l")
    ]
    platform = {"preset": "simba3-eyeriss3", "dram_bandwidth_gb_s": BANDWIDTH_GB_S}
    return scenario_from({"name": "mixed", "duration_s": 0.8, "load": load, "platform": platform, "tenant": tenants,
                          "engine": {"late": "drop"}})  # fmt: skip


def episode(load: float, seed: int, targets: bool) -> Episode:
    """One trace; with ``targets``, every (tenant, network) pair is promised a hit rate."""
    made = scenario_episode(scenario(load), seed, REQUESTS)
    return made.with_targets(*TARGETS, np.random.default_rng([11, seed])) if targets else made


@dataclass(frozen=True)
class Traces:
    """Training and validation traces; every replication trains on its own."""

    seed: int
    slo: bool

    def training(self, generation: int, count: int) -> list[Episode]:
        """Loads in turn."""
        first = FIRST_TRAINING_SEED + SEEDS_PER_GENERATION * (generation + 1000 * self.seed)
        return [
            episode(LOADS[(generation * count + i) % len(LOADS)], first + i, self.slo) for i in range(count)
        ]

    def validation(self) -> list[Episode]:
        """The same for all replications."""
        return _validation(self.slo)


_KEPT: dict[bool, list[Episode]] = {}


def _validation(slo: bool) -> list[Episode]:
    if slo not in _KEPT:
        seeds = range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + VALIDATIONS)
        _KEPT[slo] = [episode(load, seed, slo) for load in LOADS for seed in seeds]
    return _KEPT[slo]


def learn(variant: Variant, seed: int, quick: bool) -> dict[str, Any]:
    """Train one replication and keep its card."""
    name = f"{variant.name}-{seed}"
    folder = STORE / ("quick" if quick else "trained") / name

    def tell(progress: Progress) -> None:
        entry = progress.entry
        validation = 100 * entry.get("validation", np.nan)
        done = f"{name} {entry['iteration']:.0f}/{progress.iterations}"
        print(
            f"{done} reward {entry['reward']:.3f} validation {validation:.2f} left {progress.left_s:.0f} s",
            flush=True,
        )

    settings = variant.settings(seed, quick)
    done = train(settings, Traces(seed, variant.slo), folder, tell)
    policy = RelmasPolicy(done.actor, name, settings.period_layers)
    path = save_relmas(
        policy, folder / name, {"cpu_s": round(done.cpu_s), "command": "python -m benchmarks.relmas"}
    )
    return {"card": str(path), "cpu_s": done.cpu_s, "curve": done.curve, "clone": float(done.clone_values.mean()),
            "best": float(done.values.mean())}  # fmt: skip


def figures(names: tuple[str, ...], load: float, seed: int, slo: bool) -> dict[str, Any]:
    """Per policy: the figures of KINDS, and processor seconds. ``CARD@T_s`` is a card with another period."""
    made, found = episode(load, seed, slo), {}
    for name in names:
        card, at, period = name.partition("@")
        policy: Any = load_relmas(card) if card.endswith(".json") else name
        if at:
            policy.period_layers = float(period)
        began = time.process_time()
        results = simulate_problem(made.problem, policy, made.options).results
        cpu_s = time.process_time() - began
        found[name] = [
            OBJECTIVES[kind](results, made) if slo or kind == "hit_rate" else 0.0 for kind in KINDS
        ] + [cpu_s]
    return found


def work(task: tuple[str, Any, float, int, bool]) -> dict[str, Any]:
    """One cell: a training (what = variant, last = quick), or figures on one trace (last = with promises)."""
    kind, what, load, seed, flag = task
    return learn(what, seed, flag) if kind == "train" else figures(what, load, seed, flag)


def run(tasks: list[tuple[str, Any, float, int, bool]], workers: int) -> list[dict[str, Any]]:
    """Results of all cells; finished ones are kept on disk. Stops with a sentence if one failed."""
    cells = [
        Cell(hashlib.sha256(repr(task).encode()).hexdigest()[:24], f"{task[0]} {task[2]} {task[3]}", task)
        for task in tasks
    ]
    outcomes = map_cells(cells, work, workers, store=STORE)
    for outcome in outcomes:
        if outcome.result is None:
            raise SystemExit(f"{outcome.cell.name}: {outcome.failure}")
    return [outcome.result or {} for outcome in outcomes]


def measure(cards: dict[str, list[str]], quick: bool, workers: int) -> Measured:
    """All policies on the test traces."""
    seeds, few = tuple(range(1 if quick else TESTS)), (0,)
    validation = tuple(range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + VALIDATIONS))
    tried = GATED[:2] if quick else GATED
    rated = gather(tried, validation, False, workers)
    chosen = max(tried, key=lambda name: float(rated[name][:, 0].mean()))
    rules = gather(tuple(dict.fromkeys((*RIVALS, *RULES, chosen))), seeds, False, workers)
    for name, each in cards.items():
        if name != "relmas-slo":
            rules |= gather(tuple(each), seeds, False, workers)
    first = cards["relmas"][0]
    swept = [f"{first}@{period}" for period in SWEEP]
    swept += [f"{card}@{period}" for card in cards.get("relmas-periodic", []) for period in SWEEP[:2]]
    promised = gather((*TENANT_RULES, chosen, first), seeds[:PROMISED], True, workers)
    if "relmas-slo" in cards:
        promised |= gather(tuple(cards["relmas-slo"]), seeds[:PROMISED], True, workers)
    return Measured(rules, gather(tuple(swept), few, False, workers), promised, chosen)


def gather(names: tuple[str, ...], seeds: tuple[int, ...], slo: bool, workers: int) -> dict[str, Table]:
    """Figures per policy, one row per trace, in the order of loads."""
    results = run([("figures", names, load, seed, slo) for load in LOADS for seed in seeds], workers)
    return {name: np.array([result[name] for result in results]) for name in names}


def main() -> None:
    """Train, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument(
        "--quick", action="store_true", help="a training of seconds on few traces; writes nothing"
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--only", nargs="+", metavar="VARIANT", help="these trainings alone; relmas must be one"
    )
    parser.add_argument("--train", action="store_true", help="train and stop")
    given = parser.parse_args()
    chosen = [v for v in VARIANTS if not given.only or v.name in given.only]
    tasks = [
        ("train", v, 0.0, seed, given.quick)
        for v in chosen
        for seed in range(1 if given.quick else v.replications)
    ]
    results = run(tasks, given.workers)
    if given.train:
        return
    trained: dict[str, list[dict[str, Any]]] = {}
    for task, result in zip(tasks, results, strict=True):
        trained.setdefault(task[1].name, []).append(result)
    cards = {name: [r["card"] for r in each] for name, each in trained.items()}
    text = page(cards, trained, measure(cards, given.quick, given.workers))
    if given.write and not given.quick:
        RESULTS.write_text(text + other_trainers(RESULTS.read_text()))
    print(text)


if __name__ == "__main__":
    main()
