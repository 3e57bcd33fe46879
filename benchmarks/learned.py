"""What learning is worth: ``python -m benchmarks.learned [--write] [--workers N] [--seeds N] [--only search|rules]``.

Deployments: MoCA's light, heavy and mixed sets (none of whose networks any policy was trained on) on 4 Simba-like and
4 Eyeriss-like accelerators with 24 GB/s (no policy was trained on that bandwidth either), loads 0.85 to 1.3, three ways
of sharing, hopeless requests dropped. For each of these places the rival is the best of all orders x placements x
gates, and of the published schedulers with gates, on validation traces of the place. On test traces stand beside it
the replications of its training (seed 0 is the shipped policy itself), the same orders without a gate, and the best
schedule that a clairvoyant search found. Replications whose cards are missing under ``runs`` are trained first. All of
it is kept there as it is finished, and found again: the command may be stopped at any moment.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.config import Scenario
from eunomia.config.load import scenario_from
from eunomia.config.training import load_training
from eunomia.engines.processes import Cell, map_cells
from eunomia.inference.clairvoyant import SearchOptions, search_schedule
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.episodes import Episode
from eunomia.learning.load import SHIPPED, load_policy
from eunomia.learning.objectives import hit_rate
from eunomia.metrics.bounds import hit_bound
from eunomia.study.files import program_hash
from eunomia.study.grid.plan import NO_PART
from eunomia.study.inference.tuning import FIRST_VALIDATION_SEED
from eunomia.study.learning.training import BASES, scenario_episode, train_policy

STORE = Path("runs/benchmark-learned")
DATA = Path(__file__).parent / "learned_data"
SETS = {"light": ("moca-light", 0.25), "heavy": ("moca-heavy", 2.0), "mixed": ("moca-mixed", 1.0)}
LOADS = (0.85, 1.0, 1.15, 1.3)
CONTENTIONS = ("proportional", "max_min", "weighted")
BANDWIDTH_GB_S = 24.0
REQUESTS = 400
TESTS, VALIDATIONS = 4, 2  # traces per place
SEARCHED = 4  # of the test traces
SEARCH = 1500  # evaluations
RECIPE = "sharing"  # file of training
SEEDS = range(5)  # of training; 0 is the one that ships
PUBLISHED = tuple(
    f"{name}+g{gate}" for name in ("pressure", "dream", "layerweaver", "veltair", "dysta", "moca", "planaria")
    for gate in ("1.0", "0.9", "0.75")
)  # fmt: skip
PUBLISHED_BARE = tuple(dict.fromkeys(name.rpartition("+g")[0] for name in PUBLISHED))


@dataclass(frozen=True)
class Place:
    """One deployment at one load."""

    mix: str
    bandwidth_gb_s: float
    load: float
    contention: str = "proportional"

    def scenario(self) -> Scenario:
        """Three tenants with tight, usual and loose deadlines (QoS-H, M, L at 3 isolated times)."""
        model_set, duration_s = SETS[self.mix]
        arrivals = {"process": "poisson", "rate_per_s": 100.0}
        tenants = [
            {
                "name": qos,
                "model_set": model_set,
                "deadline": qos,
                "deadline_alpha": 3.0,
                "arrivals": arrivals,
            }
            for qos in ("qos_h", "qos_m", "qos_l")
        ]
        platform = {
            "accelerators": [{"type": "simba", "count": 4}, {"type": "eyeriss", "count": 4}],
            "dram_bandwidth_gb_s": self.bandwidth_gb_s,
            "contention": self.contention,
        }
        return scenario_from(
            {"name": self.mix, "duration_s": duration_s, "load": self.load, "platform": platform, "tenant": tenants,
             "engine": {"late": "drop"}}
        )  # fmt: skip

    def episode(self, seed: int) -> Episode:
        """One trace."""
        return scenario_episode(self.scenario(), seed, REQUESTS)


PLACES = tuple(Place(mix, BANDWIDTH_GB_S, load, c) for c in CONTENTIONS for mix in SETS for load in LOADS)


@dataclass(frozen=True)
class Rivals:
    """Chosen on validation traces of a place."""

    rule: str
    bare: str  # the best without a gate


@dataclass(frozen=True, eq=False)
class Row:
    """Test hit rates at one place; the first ``SEARCHED`` traces have a best schedule found and a bound."""

    place: Place
    rivals: Rivals
    rule: Any  # (TESTS,)
    bare: Any  # (TESTS,)
    ours: Any  # (SEEDS, TESTS)
    found: Any  # (SEARCHED,)
    bound: Any  # (SEARCHED,)


def rate(policy: Any, episode: Episode) -> float:
    """Hit rate of one run."""
    return hit_rate(simulate_problem(episode.problem, policy, episode.options).results, episode)


def work(task: tuple[str, Place, int, Any]) -> dict[str, Any]:
    """One cell: rates of rules on a trace, rates of learned policies by card, or a search."""
    kind, place, seed, names = task
    episode = place.episode(seed)
    if kind == "search":
        problem = episode.problem
        machine = _Machine(
            problem.table.types, problem.type_of, problem.bandwidth_bytes_s, problem.contention
        )
        options = SearchOptions(SEARCH, seed=seed)
        found = search_schedule(problem.requests, problem.table, machine, episode.options, options)
        bound = hit_bound(problem.requests, problem.table, machine)
        return {"found": found.share, "bound": bound.value / len(problem.requests)}
    if kind == "learned":
        policy = load_policy(names)
        began = time.process_time()
        share = rate(policy, episode)
        return {"rate": share, "cpu_s": time.process_time() - began, "counts": policy.counts}
    return {"rates": {name: rate(name.replace("+any_idle", ""), episode) for name in names}}


@dataclass(frozen=True)
class _Machine:
    types: tuple[str, ...]
    type_of: Any
    dram_bytes_s: float
    contention: str


def measure(
    kind: str, places: tuple[Place, ...], seeds: range, names: Any, workers: int, stamp: str = ""
) -> dict[Place, list[dict[str, Any]]]:
    """Results by place, in order of seeds. ``names``: for all places, or by place."""
    cells, program = [], program_hash(NO_PART)
    for place in places:
        chosen = names[place] if isinstance(names, dict) else names
        for seed in seeds:
            text = repr(
                (kind, place, seed, stamp or chosen, REQUESTS, SEARCH if kind == "search" else "", program)
            )
            name = f"{kind} {place.mix} {place.contention} {place.load} {seed}"
            cells.append(
                Cell(hashlib.sha256(text.encode()).hexdigest()[:24], name, (kind, place, seed, chosen))
            )
    outcomes = map_cells(cells, work, workers, store=STORE)
    for outcome in outcomes:
        if outcome.result is None:
            raise SystemExit(f"{outcome.cell.name}: {outcome.failure}")
    step = len(seeds)
    return {
        place: [o.result or {} for o in outcomes[i * step : (i + 1) * step]] for i, place in enumerate(places)
    }


def choose_rivals(places: tuple[Place, ...], workers: int) -> dict[Place, Rivals]:
    """Per place, on validation traces."""
    seeds = range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + VALIDATIONS)
    bare = tuple(dict.fromkeys(name.rpartition("+g")[0] for name in BASES)) + PUBLISHED_BARE
    found = measure("rates", places, seeds, (*BASES, *PUBLISHED, *bare), workers)

    def best(place: Place, names: tuple[str, ...]) -> str:
        return max(names, key=lambda name: float(np.mean([cell["rates"][name] for cell in found[place]])))

    # A rule without a gate is a rule, too: the rival is the best of both.
    return {p: Rivals(best(p, (*BASES, *PUBLISHED, *bare)), best(p, bare)) for p in places}


def trained(file: str, seed: int, workers: int) -> Path:
    """The card of one training; where it is missing, the training is begun or goes on."""
    config = load_training(DATA / f"{file}.toml", (f"seed={seed}",))
    folder = Path(f"runs/train-{file}-{seed}")
    card = folder / f"{config.name}.json"
    if not card.is_file():
        command = f"eunomia train benchmarks/learned_data/{file}.toml --set seed={seed}"
        card = train_policy(config, folder, workers, command=command).path
    return card


def replications(seeds: range, workers: int) -> list[Path]:
    """Cards of the replications, the shipped one first."""
    return [SHIPPED / "eunomia.json", *(trained(RECIPE, seed, workers) for seed in seeds[1:])]


def learned(card: Path, places: tuple[Place, ...], workers: int) -> dict[Place, list[dict[str, Any]]]:
    """Test cells of one policy."""
    stamp = hashlib.sha256(card.read_bytes()).hexdigest()
    return measure("learned", places, range(TESTS), str(card), workers, stamp)


def study(places: tuple[Place, ...], seeds: range, workers: int) -> tuple[list[Row], dict[str, int]]:
    """All rows, and what the guards of the shipped policy counted."""
    rivals = choose_rivals(places, workers)
    names = {place: (chosen.rule, chosen.bare) for place, chosen in rivals.items()}
    rules = measure("rates", places, range(TESTS), names, workers)
    policies = [learned(card, places, workers) for card in replications(seeds, workers)]
    searched = measure("search", places, range(SEARCHED), None, workers)
    counts: dict[str, int] = {}
    rows = []
    for p in places:
        rates = np.array([[cell["rate"] for cell in policy[p]] for policy in policies])
        rule, bare = np.array([[cell["rates"][name] for cell in rules[p]] for name in names[p]])
        known = np.vstack([rates, rule, bare])[:, :SEARCHED].max(axis=0)
        found = np.maximum(known, [cell["found"] for cell in searched[p]])
        bound = np.array([cell["bound"] for cell in searched[p]])
        rows.append(Row(p, rivals[p], rule, bare, rates, found, bound))
        for cell in policies[0][p]:
            for name, count in cell["counts"].items():
                counts[name] = counts.get(name, 0) + count
    return rows, counts


def main() -> None:
    from benchmarks.learned_page import text_of, write

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=("search", "rules"), help="compute these cells, for later")
    parser.add_argument(
        "--seeds", type=int, default=len(SEEDS), help="replications; 1 = the shipped policy alone"
    )
    asked = parser.parse_args()
    if asked.only == "search":
        measure("search", PLACES, range(SEARCHED), None, asked.workers)
        return
    if asked.only == "rules":
        rivals = choose_rivals(PLACES, asked.workers)
        measure(
            "rates", PLACES, range(TESTS), {p: (r.rule, r.bare) for p, r in rivals.items()}, asked.workers
        )
        return
    text = text_of(*study(PLACES, range(asked.seeds), asked.workers))
    print(text)
    if asked.write:
        write(text)


if __name__ == "__main__":
    main()
