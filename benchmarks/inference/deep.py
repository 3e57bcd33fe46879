"""Deep reinforcement learning beside a linear policy, all begun at one gated rule.

Parts: decision, limits, mixed, small. ``mixed``: the deployment of the benchmark ``relmas``, for learners whose
policies are compiled; ``small``: yolo-lite and kws-res8 on 2 Simba-like and 2 Eyeriss-like accelerators, for all.
``limits``: the best schedules found on the test traces. Trainings of a part take about the same processor time; the
table has what each took. A training is a cell: found again under ``runs`` while the program is the same, continued
where it was stopped. ``--set 'learners=PPO|SAC'``: those alone; rows of the others stay as they were measured, if the
rules still do as they did then. The quick run trains the first learner for one iteration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from benchmarks.inference.contest import (
    FILES,
    RUNS,
    best,
    contest,
    lanes,
    limits,
    scenario,
    tenant,
    trained,
    validation,
)
from benchmarks.inference.mixes import LEVELS
from benchmarks.inference.relmas import GATED, LOADS
from benchmarks.inference.relmas import Place as Mixed
from benchmarks.inference.speed import crowded_view, shipped_with, times_us
from benchmarks.kept import WINGS
from benchmarks.page import stored
from benchmarks.table import Cell, Options, Table, table
from eunomia.config.evolve import EvolveConfig
from eunomia.config.training import TrainingConfig, load_training
from eunomia.learning.agents.ddpg import policy as lstm
from eunomia.learning.agents.ddpg import sets
from eunomia.learning.agents.ddpg.features import inputs
from eunomia.learning.distill.file import load_rules
from eunomia.learning.distill.policy import RulePolicy
from eunomia.learning.episodes import Episode
from eunomia.learning.evolve.rule import read_rule
from eunomia.learning.evolve.short import ShortOptions
from eunomia.learning.load import card_of
from eunomia.learning.state import FILE
from eunomia.metrics.statistics import Floats, interval, paired_difference
from eunomia.study.files import program_hash
from eunomia.study.learning.distilling import distil_policy
from eunomia.study.learning.evolving import evolve
from eunomia.study.learning.scenarios import scenario_episode

REQUESTS, RULE, QUARTERS = 30, "edf+f+eft+g1", (0.0, 0.25, 0.5, 0.75, 1.0)
OTHER = "Other rows were measured by another program and are left out."
AUXILIARIES = "auxiliaries=['next_demand','next_waiting','next_hopeless']"
Changes = tuple[str, ...]
EVOLVED, SHORT = EvolveConfig(generations=24, population=24, episodes=6), ShortOptions(generations=12)


def searched(generations: int, *more: str) -> Changes:
    """CMA-ES from the rule."""
    stages = ",".join((f"{{generations={generations},population=16,episodes=8,validate_every=5}}", *more))
    return f"base={RULE}", f"stage=[{stages}]"


def gradient(name: str, iterations: int, more: str = "") -> Changes:
    """An algorithm, validated at its quarters."""
    every = max(iterations // 4, 1)
    return (f"algorithm={{name='{name}',iterations={iterations},validate_every={every}{more}}}",)


LONGEST = """order = tightness - 2.15 * laxity - 4.95 * bytes - 0.719 * age - 2.37 * laxity_ratio - 2.17 * time_ratio \
- 3.48 * sjf_pressure - 0.59 * cost - 1.02 * rested
start = -0.0755 * cost - 0.133 * others_loss"""
DECIDES = {
    "CMA-ES, linear": "linear", "CMA-ES, linear, as few requests": "linear", "evolved": "rule of 40 nodes",
    "distilled, of CMA-ES, linear": "rule of 40 nodes", "CMA-ES, linear, then hidden": "hidden, 8 units",
    "CMA-ES, linear, then pointer": "pointer, 8 units", "DDPG, set network": "set network, 32 units",
    "DDPG, LSTM (relmas)": "LSTM, 32 units", "TD3, LSTM": "LSTM, 32 units",
}  # the row of a learner in the table of decisions  # fmt: skip
NETWORK = "{{stage='{}',generations={},population=16,episodes=8,units=8,diagonal=true}}"
LEARNERS: dict[str, dict[str, Changes]] = {  # changes of the training file
    "mixed": {
        "CMA-ES, linear": searched(40),
        "DDPG, set network": gradient("ddpg", 40, ",network='sets',rate=1e-4"),
        "DDPG, LSTM (relmas)": gradient("ddpg", 20),
        "TD3, LSTM": gradient("td3", 20),
        "evolved": searched(24),
        "distilled, of CMA-ES, linear": searched(20),
        "CMA-ES, linear, then hidden": searched(20, NETWORK.format("hidden", 20)),
    },
    "small": {
        "CMA-ES, linear": searched(40),
        "CMA-ES, linear, as few requests": searched(1),
        "CMA-ES, linear, then hidden": searched(20, NETWORK.format("hidden", 20)),
        "CMA-ES, linear, then pointer": searched(20, NETWORK.format("pointer", 20)),
        "DDPG, LSTM (relmas)": gradient("ddpg", 40),
        "TD3, LSTM": gradient("td3", 40),
        "evolved": searched(24),
        "distilled, of CMA-ES, linear": searched(20),
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
    searches = "CMA" in name or name == "evolved"
    return "relmas-linear" if part == "mixed" and searches else PARTS[part][0]


def played(config: TrainingConfig, name: str = "") -> int:
    """Requests of all training episodes; of a distilled rule those of its teacher, too."""
    s, e = config.algorithm, EVOLVED
    if name == "evolved":  # constants are tuned at every fifth generation: as many plays as about a rule each
        return config.requests * e.generations * e.population * e.episodes
    if s is None:
        plays = sum(one.generations * one.population * one.episodes for one in config.stage)
        more = SHORT.generations * SHORT.population * SHORT.episodes if "distilled" in name else 0
        return config.requests * (plays + more)
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


def of_rules(name: str) -> bool:
    """Whether a learner ends in a file of rules."""
    return name == "evolved" or name.startswith("distilled")


def made(part: str, name: str, seed: int, quick: Changes, label: str) -> tuple[Path, float]:
    """The card, or the file of rules, of a learner, and processor seconds; of a distilled rule with its teacher's."""
    changes, file = (*LEARNERS[part][name], *quick), file_of(part, name)
    if not of_rules(name):
        card = trained(file, seed, *changes, label=label, workers=1)
        return card, card_of(card)["cpu_s"]
    config, folder = (
        load_training(FILES / f"{file}.toml", (f"seed={seed}", *changes)),
        RUNS / f"train-{label}-{seed}",
    )
    found, before = next(iter(folder.glob("*.toml")), None), 0.0
    if name == "evolved":
        found = found or evolve(config, folder, EVOLVED.model_copy(update={"seed": seed})).path
    else:
        teacher = trained(file, seed, *changes, label=f"{label}-teacher", workers=1)
        before, short = card_of(teacher)["cpu_s"], replace(SHORT, seed=seed)
        found = (
            found
            or distil_policy(str(teacher), config, folder / "rules.toml", short, folder=folder / "state").path
        )
    return found, before + load_rules(found).made["cpu_s"]


def compared(part: str, options: Options) -> Iterator[Table]:
    """Train what is not there, measure."""
    file, place, tests, validations = PARTS[part]
    wanted, stamp = options.given.get("learners", ""), program_hash(WINGS["inference"])[:8]
    learners = [name for name in LEARNERS[part] if re.search(wanted, name)][: 1 if options.quick else None]
    cards: dict[str, list[str]] = {}
    spent: dict[str, list[float]] = {}
    for seed in options.seeds_or(5):
        for name in learners:
            quick = (
                ("stage=[{generations=1,population=4,episodes=1}]", "validation=3") if options.quick else ()
            )
            label = re.sub(r"\W+", "-", f"deep-{part}{'-quick' * options.quick}-{name}-{stamp}")
            card, cpu_s = made(part, name, seed, quick, label)
            cards.setdefault(name, []).append(str(card))
            spent.setdefault(name, []).append(cpu_s)
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
        each = [found[card] for card in mine or [name]]
        values = np.mean(each, axis=0)
        less = [
            None if other == name else paired_difference(values.ravel(), found[other].ravel())
            for other in (RULE, chosen)
        ]
        worst = float((values - found[chosen]).mean(axis=1).min())
        cost: list[Cell] = [None, None]
        if mine:
            config = load_training(FILES / f"{file_of(part, name)}.toml", LEARNERS[part][name])
            cost = [float(np.mean(spent[name])), played(config, name)]
        over = interval([float(one.mean()) for one in each]) if len(each) > 1 else float(values.mean())
        rows.append([name, len(mine) or None, *cost, over, *less, None if name == chosen else worst])
    columns = (
        f"learner; trainings; processor s|.0f; requests played|,; test|.1p; less `{RULE}`, its start|+.1p; "
        f"less `{chosen}`|+.1p; the same at its worst load|+.1p"
    )
    about = f"`{chosen}` is the best of {len(gated)} gated rules on validation."
    yield with_limits(main := with_kept_rows(table(part, columns, rows, [about]), options), part)
    lines = [
        [n, *np.mean([curve_of(Path(c).parent) for c in mine], axis=0).tolist()] for n, mine in cards.items()
    ]
    quarters = "".join(f"; {q:.0%} of its training|.1p" for q in QUARTERS)
    yield with_kept_rows(
        table(f"{part}, curves", f"learner{quarters}", lines), options, OTHER not in main.notes
    )


def with_kept_rows(new: Table, options: Options, same: bool = True) -> Table:
    """With the rows of learners that were not asked for, if the rows that both have of rules are the ``same``."""
    old = stored("deep").get(new.key)
    if old is None or options.quick or "learners" not in options.given:
        return new
    at, before = ({row[0]: dict(zip(names(one), row, strict=True)) for row in one.rows} for one in (new, old))
    rules = [name for name in at if name in before and name not in LEARNERS[new.key.partition(",")[0]]]
    if not same or any(abs(at[name]["test"] - before[name]["test"]) > 1e-9 for name in rules):
        return replace(new, notes=(*new.notes, OTHER))
    kept = [name for name in before if name not in at]
    order = sorted({**before, **at}, key=lambda name: (name in rules, name not in before))
    every = {**before, **at}
    rows = tuple(tuple(every[name].get(column) for column in names(new)) for name in order)
    notes = [note for note in old.notes if note.startswith("Rows kept")]
    if old.measured is not None and kept:
        notes.append(f"Rows kept: {', '.join(kept)}; commit {old.measured.commit}, {old.measured.date}.")
    return replace(new, rows=rows, notes=(*new.notes, *notes))


def names(one: Table) -> list[str]:
    """Of the columns."""
    return [name for name, _ in one.columns]


def with_limits(one: Table, part: str) -> Table:
    """With the share of the gap to the best schedule found, and the time of a decision, where they are measured."""
    limit = {row[0]: row[2] for row in stored("deep").get("limits", Table("")).rows}
    took = {row[0]: row[1] for row in stored("deep").get("decision", Table("")).rows}
    at = names(one).index("test")
    test = {str(row[0]): float(getattr(row[at], "mean", row[at])) for row in one.rows}  # type: ignore[arg-type]
    known = max(value for name, value in test.items() if name not in LEARNERS[part])  # of the rules
    rows = []
    for row in one.rows:
        mine = LEARNERS[part].get(str(row[0]))
        share = (test[row[0]] - known) / (limit[part] - known) if mine and part in limit else None
        rows.append((*row, share, took.get(DECIDES.get(str(row[0]), "")) if mine else None))
    columns = (*one.columns, ("share of the gap", ".0%"), ("a decision with 64 ready, us", ".0f"))
    return replace(one, columns=columns, rows=tuple(rows))


def gap(options: Options) -> Iterator[Table]:
    """The best schedule that a search finds which knows all arrivals, and the bound, on the test traces."""
    evaluations, rows = int(options.given.get("evaluations", "50" if options.quick else "1000")), []
    for part, (_, place, tests, _) in PARTS.items():
        seeds = range(1 if options.quick else tests)
        found = limits("deep", [place(load) for load in LOADS], seeds, evaluations, options.workers)
        means = [float(np.mean([one[key] for one in found.values()])) for key in ("found", "bound")]
        rows.append([part, evaluations, *means])
    yield table("limits", "part; evaluations a trace|,; found|.1p; bound|.1p", rows)


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
        "rule of 40 nodes": RulePolicy(read_rule(LONGEST), alarm=np.inf),
        "LSTM, 32 units": listed,
    }


def decision(options: Options) -> Iterator[Table]:
    """Time of one decision, 64 sub-jobs ready."""
    view = crowded_view(64)
    rows: list[list[Cell]] = [
        [name, *times_us(one, view, 200 if options.quick else 2000)]
        for name, one in deciders(len(view.accelerators)).items()
    ]
    yield table("decision", "policy; median, us|.1f; p99, us|.1f; p99 us, processor|.1f", rows)


def measure(options: Options) -> Iterator[Table]:
    """The parts."""
    own = {"decision": decision, "limits": gap}
    for part in options.chosen((*own, *PARTS)):
        yield from own[part](options) if part in own else compared(part, options)
