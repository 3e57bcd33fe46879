"""What learning is worth: ``python -m benchmarks.learned [--write] [--workers N] [--policy CARD]``.

Deployments: MoCA's light, heavy and mixed sets (none of whose networks the policy was trained on) on 4 Simba-like and
4 Eyeriss-like accelerators with 18 or 32 GB/s, loads 0.85 to 1.3, hopeless requests dropped. For each deployment and
load the rival is the best of all orders x placements x gates, and of the published schedulers with gates, on
validation traces. On test traces stand beside it: the policy, the same orders without a gate, a gate that counts the
layer it is about to start (``fit``: part of what is learned, as a rule), and the best schedule that a clairvoyant
search found. Finished cells are kept under ``runs/benchmark-learned`` and found again.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eunomia.config import Scenario
from eunomia.config.load import scenario_from
from eunomia.experiment.learning import BASES, scenario_episode
from eunomia.experiment.tuning import FIRST_VALIDATION_SEED
from eunomia.inference.clairvoyant import SearchOptions, search_schedule
from eunomia.inference.learning.observation.table import DEMAND, START
from eunomia.inference.learning.policy.bases import base_weights
from eunomia.inference.learning.policy.learned import LearnedPolicy
from eunomia.inference.learning.serving import load_policy
from eunomia.inference.learning.training.episodes import Episode
from eunomia.inference.learning.training.objectives import hit_rate
from eunomia.inference.simulate import simulate_problem
from eunomia.metrics.statistics import interval
from eunomia.scale.processes import Cell, map_cells

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "learned.md"
STORE = Path("runs/benchmark-learned")
SETS = {"light": ("moca-light", 0.25), "heavy": ("moca-heavy", 2.0), "mixed": ("moca-mixed", 1.0)}
LOADS = (0.85, 1.0, 1.15, 1.3)
BANDWIDTHS = (18.0, 32.0)
REQUESTS = 400
TESTS, VALIDATIONS = 4, 2  # traces per deployment and load
SEARCHED = 1  # of the test traces
SEARCH = 600  # evaluations
PUBLISHED = tuple(
    f"{name}+g{gate}" for name in ("pressure", "dream", "layerweaver", "veltair", "dysta", "moca", "planaria")
    for gate in ("1.0", "0.9", "0.75")
)  # fmt: skip
FITS = ("edf+f+eft", "sjf+f+eft")
FIT_GATES = (1.0, 1.2, 1.5)


@dataclass(frozen=True)
class Place:
    """One deployment at one load."""

    mix: str
    bandwidth_gb_s: float
    load: float

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
        }
        return scenario_from(
            {"name": self.mix, "duration_s": duration_s, "load": self.load, "platform": platform, "tenant": tenants,
             "engine": {"late": "drop"}}
        )  # fmt: skip

    def episode(self, seed: int) -> Episode:
        """One trace."""
        return scenario_episode(self.scenario(), seed, REQUESTS)


PLACES = tuple(Place(mix, b, load) for mix in SETS for b in BANDWIDTHS for load in LOADS)


def fit_rule(name: str, gate: float) -> LearnedPolicy:
    """A heuristic whose gate counts the layer that is about to start: D + b <= gate B."""
    start = np.zeros(len(START))
    start[DEMAND] = -1.0
    weights = replace(base_weights(f"{name}+g{gate}"), start=start)
    return LearnedPolicy(weights, f"{name}+fit{gate:g}", alarm=np.inf)


def rate(policy: Any, episode: Episode) -> float:
    """Hit rate of one run."""
    return hit_rate(simulate_problem(episode.problem, policy, episode.options).results, episode)


def work(task: tuple[str, Place, int, Any]) -> dict[str, Any]:
    """One cell: rates of all candidates on a validation trace, of named policies on a test trace, or a search."""
    kind, place, seed, names = task
    episode = place.episode(seed)
    if kind == "search":
        problem = episode.problem
        machine = _Machine(
            problem.table.types, problem.type_of, problem.bandwidth_bytes_s, problem.contention
        )
        found = search_schedule(
            problem.requests, problem.table, machine, episode.options, SearchOptions(SEARCH, seed=seed)
        )
        return {"found": found.share, "rule": found.rule}
    if kind == "learned":
        policy = load_policy(names)
        began = time.process_time()
        share = rate(policy, episode)
        return {names: share, "cpu_s": time.process_time() - began, "counts": policy.counts}
    rates = {name: rate(_policy(name), episode) for name in names}
    return {"rates": rates}


@dataclass(frozen=True)
class _Machine:
    types: tuple[str, ...]
    type_of: Any
    dram_bytes_s: float
    contention: str


def _policy(name: str) -> Any:
    base, fit, gate = name.rpartition("+fit")
    return fit_rule(base, float(gate)) if fit else name.replace("+any_idle", "")


def cells(kind: str, places: tuple[Place, ...], seeds: range, names: Any, stamp: str = "") -> list[Cell]:
    """One cell per place and seed."""
    made = []
    for place in places:
        for seed in seeds:
            chosen = names[place] if isinstance(names, dict) else names
            text = repr((kind, place, seed, chosen, REQUESTS, SEARCH if kind == "search" else "", stamp))
            key = hashlib.sha256(text.encode()).hexdigest()[:24]
            made.append(
                Cell(
                    key,
                    f"{kind} {place.mix} {place.bandwidth_gb_s} {place.load} {seed}",
                    (kind, place, seed, chosen),
                )
            )
    return made


def measure(
    kind: str, seeds: range, names: Any, workers: int, stamp: str = ""
) -> dict[Place, list[dict[str, Any]]]:
    """Results by place, in order of seeds."""
    outcomes = map_cells(cells(kind, PLACES, seeds, names, stamp), work, workers, store=STORE)
    for outcome in outcomes:
        if outcome.result is None:
            raise SystemExit(f"{outcome.cell.name}: {outcome.failure}")
    step = len(seeds)
    return {
        place: [o.result or {} for o in outcomes[i * step : (i + 1) * step]] for i, place in enumerate(PLACES)
    }


def best_of(found: list[dict[str, Any]]) -> str:
    """The candidate of greatest mean rate."""
    names = found[0]["rates"]
    return max(names, key=lambda name: float(np.mean([row["rates"][name] for row in found])))


def choose_rules(workers: int) -> dict[Place, tuple[str, str, str]]:
    """Per place, on validation: the best rule with a gate, the best without, the best that counts the next layer."""
    seeds = range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + VALIDATIONS)
    bare = tuple(dict.fromkeys(name.rpartition("+g")[0] for name in BASES))
    fits = tuple(f"{name}+fit{gate:g}" for name in FITS for gate in FIT_GATES)
    found = [measure("rates", seeds, names, workers) for names in ((*BASES, *PUBLISHED), bare, fits)]
    return {
        place: (best_of(found[0][place]), best_of(found[1][place]), best_of(found[2][place]))
        for place in PLACES
    }


def study(card: str, workers: int) -> tuple[list[list[str]], dict[str, Any]]:
    """The table's rows, and what the sentences need."""
    chosen = choose_rules(workers)
    search = measure("search", range(SEARCHED), None, workers)
    rules = measure("rates", range(TESTS), chosen, workers)
    digest = hashlib.sha256(Path(load_path(card)).read_bytes()).hexdigest()
    ours = measure("learned", range(TESTS), card, workers, digest)
    rows, facts = [], {"gap": [], "closed": [], "gain": [], "fit": [], "bare": [], "worse": [], "counts": {}}
    for p in PLACES:
        theirs = np.array([[row["rates"][name] for name in chosen[p]] for row in rules[p]]).T
        mine = np.array([row[card] for row in ours[p]])
        found = np.array(
            [max(row["found"], float(mine[i]), float(theirs[:, i].max())) for i, row in enumerate(search[p])]
        )
        searched = np.array([row["found"] for row in search[p]])
        gain = interval((mine - theirs[0]).tolist())
        gap = float(found.mean() - theirs[0][:SEARCHED].mean())
        facts["gap"].append(gap)
        facts["closed"].append(float(mine[:SEARCHED].mean() - theirs[0][:SEARCHED].mean()))
        facts["gain"].append(mine - theirs[0])
        facts["fit"].append(mine - theirs[2])
        facts["bare"].append(theirs[0] - theirs[1])
        if gain.high < 0.0:
            facts["worse"].append(p)
        for row in ours[p]:
            for name, count in row["counts"].items():
                facts["counts"][name] = facts["counts"].get(name, 0) + count
        rows.append([p.mix, f"{p.bandwidth_gb_s:g}", f"{p.load:g}", chosen[p][0], f"{100 * theirs[1].mean():.1f}",
                     f"{100 * theirs[0].mean():.1f}", f"{100 * theirs[2].mean():.1f}", f"{100 * mine.mean():.1f}",
                     f"{100 * gain.mean:+.1f} +-{100 * gain.half_width:.1f}",
                     f"{100 * searched.mean():.1f}"])  # fmt: skip
    return rows, facts


def load_path(card: str) -> Path:
    """Where a policy's card stands."""
    from eunomia.inference.learning.serving import SHIPPED

    path = Path(card)
    return path if path.suffix == ".json" else SHIPPED / f"{card}.json"


def text_of(card: str, rows: list[list[str]], facts: dict[str, Any]) -> str:
    """The page's table and sentences."""
    head = ["set", "GB/s", "load", "best rule on validation", "best without gate", "best rule", "best `fit` rule",
            "eunomia", "eunomia - best rule", "found by search"]  # fmt: skip
    lines = [" | ".join(head), " | ".join(["---"] * 4 + ["---:"] * 6), *(" | ".join(row) for row in rows)]
    table = "\n".join(f"| {line} |" for line in lines)
    gains = np.concatenate(facts["gain"])
    mean = interval([float(x.mean()) for x in facts["gain"]])
    fit = interval([float(x.mean()) for x in facts["fit"]])
    gate = interval([float(x.mean()) for x in facts["bare"]])
    closed = float(np.sum(facts["closed"]) / np.sum(facts["gap"]))
    worse = (
        ", ".join(f"{p.mix} {p.bandwidth_gb_s:g} GB/s load {p.load:g}" for p in facts["worse"]) or "nowhere"
    )
    counts = ", ".join(f"{name} {count}" for name, count in facts["counts"].items())
    return f"""{table}

Mean over the {len(rows)} rows, paired by trace, 95 % interval over rows:
* eunomia - best rule chosen on validation: **{100 * mean.mean:+.2f} +-{100 * mean.half_width:.2f} points**; it won
  {int((gains > 0).sum())}, tied {int((gains == 0).sum())} and lost {int((gains < 0).sum())} of {len(gains)} traces.
  Significantly below the rule: {worse}.
* eunomia - best `fit` rule: {100 * fit.mean:+.2f} +-{100 * fit.half_width:.2f} points.
* what the gate alone gives (best rule - best without): {100 * gate.mean:+.2f} +-{100 * gate.half_width:.2f} points.
* share of the gap between the best rule and the best schedule known (found by search with {SEARCH:,} evaluations on
  the first {SEARCHED} traces of each row, or by any policy of the row, whichever is better): **{100 * closed:.0f} %**.

Guards over all test runs: {counts}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--policy", default="eunomia")
    parser.add_argument("--only", choices=("search", "rules"), help="compute these cells, for later")
    asked = parser.parse_args()
    if asked.only == "search":
        measure("search", range(SEARCHED), None, asked.workers)
        return
    if asked.only == "rules":
        measure("rates", range(TESTS), choose_rules(asked.workers), asked.workers)
        return
    rows, facts = study(asked.policy, asked.workers)
    text = text_of(asked.policy, rows, facts)
    print(text)
    if asked.write:
        begin, end = "<!-- begin: python -m benchmarks.learned --write -->", "<!-- end -->"
        page = RESULTS.read_text(encoding="utf-8")
        before, rest = page.split(begin)
        RESULTS.write_text(f"{before}{begin}\n\n{text}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
