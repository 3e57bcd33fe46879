"""Policies side by side on the same traces: deployments, cells of figures that are kept, trainings that go on."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from benchmarks.kept import kept_all
from benchmarks.page import ROOT
from eunomia.config import Scenario
from eunomia.config.load import scenario_from
from eunomia.engines.processes import Result
from eunomia.inference.clairvoyant import SearchOptions, search_schedule
from eunomia.inference.problem import Problem
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.episodes import Episode
from eunomia.learning.load import SHIPPED
from eunomia.learning.objectives import OBJECTIVES
from eunomia.metrics.bounds import hit_bound
from eunomia.metrics.statistics import Floats
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.policy import resolve_policy
from eunomia.study.inference.tuning import FIRST_VALIDATION_SEED

SETS = {"light": ("moca-light", 0.25), "heavy": ("moca-heavy", 2.0), "mixed": ("moca-mixed", 1.0)}  # and s
QOS = ("qos_h", "qos_m", "qos_l")
PUBLISHED = ("pressure", "dream", "layerweaver", "veltair", "dysta", "moca", "planaria")
FOR_TENANTS = [
    f"{rule}_{of}" for rule in ("triage", "gap_first", "shift", "worst_first") for of in ("edf", "sjf")
]
FILES, RUNS = ROOT / "studies" / "training", Path("runs")
Content = dict[str, Any]


class Place(Protocol):
    """One deployment at one load; its ``repr`` tells it from all others."""

    def episode(self, seed: int) -> Episode:
        """One trace."""


Where = TypeVar("Where", bound=Place)


def lanes(each: int, gb_s: float, contention: str = "proportional") -> Content:
    """So many Simba-like and Eyeriss-like accelerators behind one memory."""
    kinds = [{"type": kind, "count": each} for kind in ("simba", "eyeriss")]
    return {"accelerators": kinds, "dram_bandwidth_gb_s": gb_s, "contention": contention}


def tenant(name: str, rate_per_s: float = 100.0, **facts: Any) -> Content:
    """A tenant with Poisson arrivals."""
    return {"name": name, "arrivals": {"process": "poisson", "rate_per_s": rate_per_s}, **facts}


def by_qos(models: str, names: Sequence[str] = QOS, alpha: float = 3.0) -> list[Content]:
    """Tenants of one set of networks, with deadlines of these levels."""
    return [tenant(qos, model_set=models, deadline=qos, deadline_alpha=alpha) for qos in names]


def scenario(
    name: str, tenants: Sequence[Content], platform: Content, load: float, duration_s: float = 1.0
) -> Scenario:
    """Hopeless requests are dropped."""
    content = {"name": name, "duration_s": duration_s, "load": load, "platform": platform}
    return scenario_from({**content, "tenant": list(tenants), "engine": {"late": "drop"}})


def sized(models: str, load: float, gb_s: float, requests: int, warm: float = 0.1) -> Scenario:
    """One tenant at QoS-M on simba3-eyeriss3, for as long as it takes to send about ``requests``.

    ``warm``: the share at the beginning that does not count.
    """
    platform = {"preset": "simba3-eyeriss3", "dram_bandwidth_gb_s": gb_s}
    all_of = tenant("all", 1000.0, model_set=models, deadline="qos_m", deadline_alpha=3.0)
    made = scenario("sized", [all_of], platform, load)
    capacity = prepare(made).capacity
    assert capacity is not None, "a load was asked for"
    seconds = requests / (load * capacity.per_s.mean)
    return made.model_copy(update={"duration_s": seconds, "warmup_s": warm * seconds})


def validation(count: int) -> range:
    """Seeds that no test uses."""
    return range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + count)


def gated(orders: Sequence[str], places: Sequence[str], gates: Sequence[str]) -> tuple[str, ...]:
    """``order+f+place+gGATE`` for all of them."""
    return tuple(f"{order}+f{place}+g{gate}" for order in orders for place in places for gate in gates)


def policy_of(text: str) -> Any:
    """A policy by name or card; ``CARD.json@T_s`` decides every T_s mean layers."""
    name, at, period = text.partition("@")
    policy = resolve_policy(name)
    if at:
        policy.period_layers = float(period)  # type: ignore[union-attr]
    return policy


def stamp_of(text: str) -> str:
    """Changes with the card that a name stands for; empty for rules."""
    name = re.split("[@(]", text)[0]
    card = Path(name) if name.endswith((".json", ".toml")) else SHIPPED / f"{name}.json"
    return hashlib.sha256(card.read_bytes()).hexdigest() if card.is_file() else ""


@dataclass(frozen=True)
class Task:
    """Policies on one trace of a place."""

    place: Place
    seed: int
    names: tuple[str, ...]
    measures: tuple[str, ...]
    stamps: tuple[str, ...]


def ran_as(policy: Any) -> dict[str, int]:
    """What a policy that rehearses left its run to."""
    rehearsed = getattr(policy, "rehearsed", None)
    if rehearsed is None:
        return {}
    kind = rehearsed.name.partition("(")[0]
    if not kind.startswith("eunomia") and kind not in ("lookahead", "blend"):
        kind = "a rule or published scheduler"
    return {f"ran as {kind}": 1}


def play(task: Task) -> Result:
    """Every measure of every policy, and what the guards of a learned one counted."""
    episode, found = task.place.episode(task.seed), {}
    for name in task.names:
        policy = policy_of(name)
        results = simulate_problem(episode.problem, policy, episode.options).results
        figures = [OBJECTIVES[measure](results, episode) for measure in task.measures]
        counts = {**getattr(policy, "counts", {}), **ran_as(policy)}
        found[name] = {"figures": figures, "counts": counts}
    return found


Figures = dict[str, Floats]  # by policy: (traces, measures)


def contest(
    study: str,
    places: Sequence[Where],
    seeds: Sequence[int],
    names: Sequence[str] | Mapping[Where, Sequence[str]],
    measures: Sequence[str] = ("hit_rate",),
    workers: int = 1,
) -> tuple[dict[Where, Figures], dict[str, int]]:
    """Figures by place, traces in the order of ``seeds``; and the guards' counts. Finished cells are found again."""
    tasks = []
    for place in places:
        chosen = tuple(dict.fromkeys(names[place] if isinstance(names, Mapping) else names))
        stamps = tuple(stamp_of(name) for name in chosen)
        tasks += [Task(place, seed, chosen, tuple(measures), stamps) for seed in seeds]
    results = kept_all(study, play, tasks, workers)
    found: dict[Where, Figures] = {}
    counts: dict[str, int] = {}
    for n, place in enumerate(places):
        mine = results[n * len(seeds) : (n + 1) * len(seeds)]
        played = mine[0] if mine else {}
        found[place] = {name: np.array([one[name]["figures"] for one in mine]) for name in played}
    for result in results:
        for one in result.values():
            for name, count in one["counts"].items():
                counts[name] = counts.get(name, 0) + count
    return found, counts


def best(found: Sequence[Figures], names: Sequence[str], *measures: int) -> str:
    """The policy of greatest mean over these figures; further measures, then the order, decide between equals."""

    def worth(name: str) -> list[float]:
        table = np.concatenate([figures[name] for figures in found]).mean(axis=0)
        return [round(float(table[n]), 12) for n in measures or (0,)]

    return max(names, key=worth)


class Machine:
    """A problem's accelerators, as searches and bounds want them."""

    def __init__(self, problem: Problem) -> None:
        self.types, self.type_of = problem.table.types, problem.type_of
        self.dram_bytes_s, self.contention = problem.bandwidth_bytes_s, problem.contention
        self.slowdowns = problem.slowdowns


def searched(task: tuple[Place, int, int]) -> Result:
    """On a trace (place, seed) the hit rate of the best schedule that so many evaluations find, and the bound."""
    place, seed, evaluations = task
    episode = place.episode(seed)
    p, machine = episode.problem, Machine(episode.problem)
    options = SearchOptions(evaluations, seed=seed)
    found = search_schedule(p.requests, p.table, machine, episode.options, options)
    bound = hit_bound(p.requests, p.table, machine).value / len(p.requests)
    return {"found": found.share, "bound": bound}


def limits(
    study: str, places: Sequence[Where], seeds: Sequence[int], evaluations: int, workers: int
) -> dict[Where, Figures]:
    """``found`` and ``bound`` of ``searched`` by place, (traces,) each."""
    tasks = [(place, seed, evaluations) for place in places for seed in seeds]
    results = kept_all(f"{study}-search", searched, tasks, workers)
    rows = [results[n * len(seeds) : (n + 1) * len(seeds)] for n in range(len(places))]
    figures = [{name: np.array([one[name] for one in mine]) for name in ("found", "bound")} for mine in rows]
    return dict(zip(places, figures, strict=True))


def trained(file: str, seed: int, *changes: str, label: str = "", workers: int = 1) -> Path:
    """The card that ``eunomia train studies/training/FILE.toml`` writes for a seed; trained now unless it is there.

    Trainings lie in runs/train-LABEL-SEED; one that was stopped goes on.
    """
    folder = RUNS / f"train-{label or file}-{seed}"
    if not any(folder.glob("*.safetensors")):
        words = ["train", str(FILES / f"{file}.toml"), "--out", str(folder), "--workers", str(workers)]
        changed = [word for change in (f"seed={seed}", *changes) for word in ("--set", change)]
        subprocess.run([sys.executable, "-m", "eunomia", *words, "--quiet", *changed], check=True)
    (weights,) = folder.glob("*.safetensors")
    return weights.with_suffix(".json")
