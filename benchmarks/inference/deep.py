"""Deep reinforcement learning beside a linear policy, all begun at one gated rule. Parts: mixed, small, decision.

``mixed``: the deployment of the benchmark ``relmas``, for learners whose policies are compiled; ``small``: yolo-lite
and kws-res8 on 2 Simba-like and 2 Eyeriss-like accelerators, for all. Iterations are chosen so that trainings of a
part take about the same processor time; the table has what each took. A training is a cell: found again under ``runs``
while the program is the same, continued where it was stopped. ``--set 'learners=PPO|SAC'``: those alone. The quick
run trains the first learner for one iteration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from benchmarks.inference.contest import FILES, best, contest, lanes, scenario, tenant, trained, validation
from benchmarks.inference.mixes import LEVELS
from benchmarks.inference.relmas import GATED, LOADS
from benchmarks.inference.relmas import Place as Mixed
from benchmarks.inference.speed import crowded_view, shipped_with, times_us
from benchmarks.kept import WINGS
from benchmarks.table import Cell, Options, Table, table
from eunomia.config.training import TrainingConfig, load_training
from eunomia.learning.agents.ddpg import policy as lstm
from eunomia.learning.agents.ddpg import sets
from eunomia.learning.agents.ddpg.features import inputs
from eunomia.learning.episodes import Episode
from eunomia.learning.load import card_of
from eunomia.learning.state import FILE
from eunomia.metrics.statistics import Floats, interval, paired_difference
from eunomia.study.files import program_hash
from eunomia.study.learning.scenarios import scenario_episode

REQUESTS, RULE, QUARTERS = 30, "edf+f+eft+g1", (0.0, 0.25, 0.5, 0.75, 1.0)
AUXILIARIES = "auxiliaries=['next_demand','next_waiting','next_hopeless']"
Changes = tuple[str, ...]


def searched(generations: int, *more: str) -> Changes:
    """CMA-ES from the rule."""
    stages = ",".join((f"{{generations={generations},population=16,episodes=8,validate_every=5}}", *more))
    return f"base={RULE}", f"stage=[{stages}]"


def gradient(name: str, iterations: int, more: str = "") -> Changes:
    """An algorithm, validated at its quarters."""
    every = max(iterations // 4, 1)
    return (f"algorithm={{name='{name}',iterations={iterations},validate_every={every}{more}}}",)


NETWORK = "{{stage='{}',generations={},population=16,episodes=8,units=8,diagonal=true}}"
LEARNERS: dict[str, dict[str, Changes]] = {  # changes of the training file
    "mixed": {
        "CMA-ES, linear": searched(40),
        "DDPG, set network": gradient("ddpg", 40, ",network='sets',rate=1e-4"),
        "DDPG, LSTM (relmas)": gradient("ddpg", 20),
        "CMA-ES, linear, then hidden": searched(20, NETWORK.format("hidden", 20)),
    },
    "small": {
        "CMA-ES, linear": searched(40),
        "CMA-ES, linear, as few requests": searched(1),
        "CMA-ES, linear, then hidden": searched(20, NETWORK.format("hidden", 20)),
        "CMA-ES, linear, then pointer": searched(20, NETWORK.format("pointer", 20)),
        "DDPG, LSTM (relmas)": gradient("ddpg", 40),
        "DDPG, set network": gradient("ddpg", 40, ",network='sets',rate=1e-4"),
        "PPO": gradient("ppo", 12, ",episodes=8,most=16,units=32"),
        "SAC": gradient("sac", 8, ",episodes=8,most=16,units=32"),
        "BDQ": gradient("bdq", 8, ",episodes=8,most=16,units=32"),
        "BDQ, auxiliary losses": gradient("bdq", 8, f",episodes=8,most=16,units=32,{AUXILIARIES}"),
    },
}


@dataclass(frozen=True)
class Small:
    """The small deployment at one load."""

    load: float

    def episode(self, seed: int) -> Episode:
        """One trace."""
        models = ("yolo-lite", "kws-res8")
        asked = {n: [{"model": m, "deadline_factor": f} for m in models] for n, f in LEVELS.items()}
        tenants = [tenant(name, models=facts) for name, facts in asked.items()]
        return scenario_episode(scenario("small", tenants, lanes(2, 16.0), self.load, 0.8), seed, REQUESTS)


PARTS = {
    "mixed": ("relmas", Mixed, 16, 8),
    "small": ("small", Small, 6, 3),
}  # file, place, tests, validations


def file_of(part: str, name: str) -> str:
    """The training file of a learner: that of relmas has an algorithm, which stages cannot replace."""
    return "relmas-linear" if part == "mixed" and "CMA" in name else PARTS[part][0]


def played(config: TrainingConfig) -> int:
    """Requests of all training episodes."""
    s = config.algorithm
    if s is None:
        return config.requests * sum(one.generations * one.population * one.episodes for one in config.stage)
    return config.requests * s.iterations * s.episodes * getattr(s, "rollouts", 1)  # type: ignore[union-attr]


def curve_of(folder: Path) -> list[float]:
    """Validation at the start of a training and after each quarter, stages one after the other."""
    found: list[float] = []
    for path in sorted(folder.glob(f"*/{FILE}")):
        with safe_open(path, "numpy") as state:
            start = float(state.get_tensor("start_values").mean())
            curve = json.loads(state.metadata()["notes"])["curve"]
        found += [] if found else [start]
        found += [entry["validation"] for entry in curve if entry["iteration"] > 0 and "validation" in entry]
    return [found[round(q * (len(found) - 1))] for q in QUARTERS]


def compared(part: str, options: Options) -> Iterator[Table]:
    """Train what is not there, measure."""
    file, place, tests, validations = PARTS[part]
    wanted, stamp = options.given.get("learners", ""), program_hash(WINGS["inference"])[:8]
    learners = [name for name in LEARNERS[part] if re.search(wanted, name)][: 1 if options.quick else None]
    cards: dict[str, list[str]] = {}
    for seed in options.seeds_or(5):
        for name in learners:
            quick = (
                ("stage=[{generations=1,population=4,episodes=1}]", "validation=3") if options.quick else ()
            )
            label = re.sub(r"\W+", "-", f"deep-{part}{'-quick' * options.quick}-{name}-{stamp}")
            card = trained(file_of(part, name), seed, *LEARNERS[part][name], *quick, label=label, workers=1)
            cards.setdefault(name, []).append(str(card))
            print(
                f"{part}: {name}, seed {seed}: {', '.join(f'{100 * v:.1f}' for v in curve_of(card.parent))}",
                flush=True,
            )

    def tested(names: Sequence[str], seeds: range) -> dict[str, Floats]:
        places = [place(load) for load in LOADS]
        found, _ = contest("deep", places, seeds, names, workers=options.workers)
        return {name: np.array([found[one][name][:, 0] for one in places]) for name in names}

    gated = [*GATED, RULE]
    chosen = best([{n: v.reshape(-1, 1) for n, v in tested(gated, validation(validations)).items()}], gated)
    found = tested([RULE, chosen, *(card for mine in cards.values() for card in mine)], range(tests))
    rows: list[list[Cell]] = []
    for name in (*cards, chosen, RULE):
        mine = cards.get(name, [])
        facts, each = [card_of(card) for card in mine], [found[card] for card in mine or [name]]
        values = np.mean(each, axis=0)
        less = [
            None if other == name else paired_difference(values.ravel(), found[other].ravel())
            for other in (RULE, chosen)
        ]
        worst = float((values - found[chosen]).mean(axis=1).min())
        spent: list[Cell] = [None, None]
        if mine:
            config = load_training(FILES / f"{file_of(part, name)}.toml", LEARNERS[part][name])
            spent = [float(np.mean([one["cpu_s"] for one in facts])), played(config)]
        over = interval([float(one.mean()) for one in each]) if len(each) > 1 else float(values.mean())
        rows.append([name, len(mine) or None, *spent, over, *less, None if name == chosen else worst])
    columns = (
        f"learner; trainings; processor s|.0f; requests played|,; test|.1p; less `{RULE}`, its start|+.1p; "
        f"less `{chosen}`|+.1p; the same at its worst load|+.1p"
    )
    yield table(part, columns, rows, [f"`{chosen}` is the best of {len(gated)} gated rules on validation."])
    lines = [
        [n, *np.mean([curve_of(Path(c).parent) for c in mine], axis=0).tolist()] for n, mine in cards.items()
    ]
    quarters = "".join(f"; {q:.0%} of its training|.1p" for q in QUARTERS)
    yield table(f"{part}, curves", f"learner{quarters}", lines)


def deciders(lanes: int) -> dict[str, Any]:
    """Fresh policies of each kind; their weights do not change how long they take."""
    facts = {"period_layers": 0.0, "corrected": {"gate": 1e6, "most": 64}}
    made = sets.SetPolicy({n: np.full(s, 1e-3) for n, s in sets.shapes(32, False).items()}, **facts)
    made.head["width"] = inputs(lanes, False)
    listed = lstm.RelmasPolicy(
        {n: np.full(s, 1e-3) for n, s in lstm.shapes(lanes, 32, False).items()}, **facts
    )
    served = {"linear": shipped_with("linear", 0), "hidden, 8 units": shipped_with("hidden", 8)}
    return {
        **served,
        "pointer, 8 units": shipped_with("pointer", 8),
        "set network, 32 units": made,
        "LSTM, 32 units": listed,
    }


def decision(options: Options) -> Iterator[Table]:
    """Time of one decision, 64 sub-jobs ready."""
    view = crowded_view(64)
    rows = [
        [name, *times_us(one, view, 200 if options.quick else 2000)]
        for name, one in deciders(len(view.accelerators)).items()
    ]
    yield table("decision", "policy; median, us|.1f; p99, us|.1f; p99 us, processor|.1f", rows)


def measure(options: Options) -> Iterator[Table]:
    """The parts."""
    for part in options.chosen(("decision", *PARTS)):
        yield from decision(options) if part == "decision" else compared(part, options)
