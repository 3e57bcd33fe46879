"""Promises kept: ``python -m benchmarks.learned_tenants [--train] [--write] [--runs FOLDER]``.

21 mixes of 2 to 6 tenants with networks that no policy here was trained on (benchmarks/tenant_mixes.py), loads 0.85 to
1.3, a hit rate between 0.5 and 0.95 promised to every (tenant, network) pair, drawn anew for every trace. For each
objective the rival is the best gated tenant rule (triage, gap first, shift, worst first; by deadline and by size;
any idle accelerator or earliest finish; three gates) of each set and load on validation traces of the mixes. Beside it
stand five replications of the policy trained for the objective, the shipped policy with the terms set by hand, and the
best policies that know no promises. Finished cells are kept under ``runs/benchmark-tenants`` and found again.

``--quick`` looks at one trace of every mix at loads 1.15 and 1.3 alone, with rules fixed beforehand: about a minute.
``--train`` trains the replications that are not there yet, each as by
    eunomia train benchmarks/learned_data/tenants_for_PROMISE.toml --set seed=SEED --out runs/train-eunomia-PROMISE-SEED
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.tenant_mixes import EQUAL_PLACES, LOADS, PLACES, REQUESTS, SETS, Place
from eunomia.config.training import load_training
from eunomia.engines.processes import Cell, map_cells
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.load import eunomia, load_policy
from eunomia.learning.objectives import OBJECTIVES
from eunomia.metrics.bounds import BoundOptions, attainment_bound
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.tuning import FIRST_VALIDATION_SEED
from eunomia.study.learning.training import first_requests, train_policy
from eunomia.study.run import engine_options
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Slo

Floats = npt.NDArray[np.float64]
Values = dict[str, Floats]  # by policy: (places, traces, measures)

STORE = Path("runs/benchmark-tenants")
TESTS, VALIDATIONS, BOUNDED = 2, 2, 1  # traces per place
PROMISES = ("attainment", "shortfall", "max_min")
MEASURES = (*PROMISES, "hit_rate", "fairness")
HAND = {"attainment": "keep", "shortfall": "mend", "max_min": "level"}
STRENGTHS = (0.5, 1.0, 2.0, 4.0)
SEEDS = range(5)
GATES = ("1", "0.9", "0.75")
PLACEMENTS = ("any_idle", "eft")
TENANT_RULES = tuple(
    f"{rule}_{base}+f+{place}+g{gate}"
    for rule in ("triage", "gap_first", "shift", "worst_first")
    for base in ("edf", "sjf") for place in PLACEMENTS for gate in GATES
)  # fmt: skip
PLAIN_RULES = (
    *(f"{order}+f+{place}+g{gate}" for order in ("edf", "sjf", "llf", "edf_bytes") for place in PLACEMENTS
      for gate in GATES),
    *(f"{name}+g{gate}" for name in ("pressure", "dream", "layerweaver", "veltair", "dysta", "moca", "planaria")
      for gate in GATES),
)  # fmt: skip
QUICK_LOADS = (1.15, 1.3)
QUICK_RULES = (
    "triage_sjf+f+eft+g1", "triage_edf+f+eft+g0.9", "gap_first_sjf+f+eft+g0.9", "worst_first_edf+f+eft+g0.9",
    "shift_edf+f+eft+g0.9", "dysta+g0.9", "sjf+f+eft+g0.9", "edf+f+eft+g0.9",
)  # fmt: skip


def policy_of(text: str) -> Any:
    """``card PATH``, ``eunomia``, ``eunomia TERMS STRENGTH``, ``relmas``, or a rule by its name."""
    first, *rest = text.split(" ")
    if first == "card":
        return load_policy(" ".join(rest))
    if first == "eunomia":
        return eunomia(rest[0], float(rest[1])) if rest else eunomia()
    return load_policy(first) if first == "relmas" else first.replace("+any_idle", "")


def work(task: tuple[str, Place, int, Sequence[str]]) -> dict[str, Any]:
    """All measures of all policies on one trace, or the share of promises that anybody could have kept."""
    kind, place, seed, names = task
    if kind == "bound":
        return bounded(place, seed)
    episode, found = place.episode(seed), {}
    for name in names:
        results = simulate_problem(episode.problem, policy_of(name), episode.options).results
        found[name] = [OBJECTIVES[measure](results, episode) for measure in MEASURES]
    return found


def bounded(place: Place, seed: int) -> dict[str, Any]:
    """The bound on attainment over the trace, with the targets of its episode."""
    scenario = place.scenario()
    bench, targets = prepare(scenario), place.episode(seed).problem.jobs.slo_target
    r = first_requests(bench.requests(seed), REQUESTS)
    promised = tuple(replace(a, slo=Slo(float(t))) for a, t in zip(r.agreements, targets, strict=True))
    table = RequestTable(promised, r.pair, r.arrival_s, r.relative_deadline_s, r.priority, r.deferrable)
    mode = engine_options(scenario, seed, "requests").contention
    options = BoundOptions(contention=mode, intervals=60, time_limit_s=20.0)
    bound = attainment_bound(table, bench.machine.table, bench.machine, options)
    return {"share": bound.share, "status": bound.status}


def measure(
    kind: str, places: Sequence[Place], seeds: range, names: Mapping[Place, Sequence[str]], workers: int
) -> list[list[dict[str, Any]]]:
    """Results by place and seed; finished ones are found again."""
    cells = []
    for place in places:
        for seed in seeds:
            payload = (kind, place, seed, tuple(names.get(place, ())))
            text = repr((payload, REQUESTS, MEASURES, [stamp(name) for name in payload[3]]))
            key = hashlib.sha256(text.encode()).hexdigest()[:24]
            cells.append(Cell(key, f"{kind} {place.number} {place.load} {seed}", payload))
    outcomes = map_cells(cells, work, workers, store=STORE)
    for outcome in outcomes:
        if outcome.result is None:
            raise SystemExit(f"{outcome.cell.name}: {outcome.failure}")
    rows = [outcome.result or {} for outcome in outcomes]
    return [rows[i : i + len(seeds)] for i in range(0, len(rows), len(seeds))]


def stamp(name: str) -> str:
    """Changes with the card that a name stands for."""
    first, _, path = name.partition(" ")
    if first not in ("card", "eunomia", "relmas"):
        return ""
    card = (
        Path(path)
        if first == "card"
        else Path(load_policy.__code__.co_filename).parent / "checkpoints" / f"{first}.json"
    )
    return hashlib.sha256(card.read_bytes()).hexdigest()


def choose(places: Sequence[Place], workers: int) -> dict[Place, dict[str, str]]:
    """Per place, what validation traces of its set and load chose: a rule for each promise, and without promises."""
    seeds = range(FIRST_VALIDATION_SEED, FIRST_VALIDATION_SEED + VALIDATIONS)
    names = (*TENANT_RULES, *PLAIN_RULES)
    found = measure("runs", places, seeds, dict.fromkeys(places, names), workers)
    chosen: dict[Place, dict[str, str]] = {}
    for kind in SETS:
        for load in LOADS:
            mine = [i for i, place in enumerate(places) if (place.kind, place.load) == (kind, load)]
            mean = {name: np.mean([row[name] for i in mine for row in found[i]], axis=0) for name in names}
            best = {f"best rule for {p}": greatest(mean, TENANT_RULES, m) for m, p in enumerate(PROMISES)}
            best["best rule without promises"] = greatest(mean, PLAIN_RULES, 0)
            best["best rule for hits"] = greatest(mean, PLAIN_RULES, 3)
            chosen |= {places[i]: best for i in mine}
    return chosen


def greatest(mean: Mapping[str, Floats], names: Sequence[str], measure: int) -> str:
    """The name of greatest mean."""
    return max(names, key=lambda name: float(mean[name][measure]))


def gather(found: Sequence[Sequence[dict[str, Any]]], names: Iterable[str]) -> Values:
    """(places, traces, measures) by policy."""
    return {name: np.array([[row[name] for row in rows] for rows in found]) for name in names}


def replications(runs: Path) -> dict[tuple[str, int], Path]:
    """Folder of each replication."""
    return {
        (p, seed): runs / f"train-eunomia-{p.replace('_', '-')}-{seed}" for p in PROMISES for seed in SEEDS
    }


def cards(runs: Path) -> dict[str, str]:
    """The cards of the replications, by label; the ones that are not there are left out."""
    found = {}
    for (promise, seed), folder in replications(runs).items():
        card = folder / f"eunomia-{promise.replace('_', '-')}.json"
        if card.is_file():
            found[f"{promise} {seed}"] = f"card {card}"
    return found


def train_missing(runs: Path, workers: int) -> None:
    """Train what is not there yet; a killed training goes on where it was."""
    for (promise, seed), folder in replications(runs).items():
        if f"{promise} {seed}" in cards(runs):
            continue
        file = f"benchmarks/learned_data/tenants_for_{promise}.toml"
        command = f"eunomia train {file} --set seed={seed} --out {folder.as_posix()}"
        made = train_policy(load_training(file, (f"seed={seed}",)), folder, workers, None, command)
        verdict = "kept the rule" if made.kept_heuristic else "passed the gate"
        print(
            f"{promise} {seed}: {verdict}, {100 * made.gain:+.2f} (standard error {100 * made.error:.2f})",
            flush=True,
        )


def study(runs: Path, workers: int) -> tuple[Values, dict[Place, dict[str, str]], Floats]:
    """Values by label on test traces, the chosen rivals, and the bound on attainment (places, traces)."""
    chosen, trained = choose(PLACES, workers), cards(runs)
    ours = {"eunomia": "eunomia"}
    ours |= {f"{terms} {x:g}": f"eunomia {terms} {x:g}" for terms in HAND.values() for x in STRENGTHS}
    rules = {place: tuple(dict.fromkeys(chosen[place].values())) for place in PLACES}
    seeds = range(TESTS)
    theirs = measure("runs", PLACES, seeds, rules, workers)
    values: Values = {}
    for label in chosen[PLACES[0]]:
        values[label] = np.array(
            [[row[chosen[place][label]] for row in rows] for place, rows in zip(PLACES, theirs, strict=True)]
        )
    for group in (ours, trained):
        found = measure("runs", PLACES, seeds, dict.fromkeys(PLACES, tuple(group.values())), workers)
        values |= {label: gather(found, (name,))[name] for label, name in group.items()}
    bounds = measure("bound", PLACES, range(BOUNDED), {}, workers)
    return values, chosen, np.array([[row["share"] for row in rows] for rows in bounds])


def equal_targets(runs: Path, workers: int) -> Values:
    """The same target for everybody, on the deployment of the shipped relmas."""
    names = {"relmas": "relmas", "eunomia": "eunomia", "level 2": "eunomia level 2", **cards(runs)}
    names |= {"worst first": "worst_first_edf+f+eft+g0.9", "edf": "edf+f+eft+g0.9"}
    names = {
        label: name for label, name in names.items() if not label.startswith(("attainment", "shortfall"))
    }
    found = measure(
        "runs", EQUAL_PLACES, range(TESTS), dict.fromkeys(EQUAL_PLACES, tuple(names.values())), workers
    )
    values = gather(found, names.values())
    return {label: values[name] for label, name in names.items()}


def quick(runs: Path, workers: int) -> Values:
    """One trace of every mix in overload; the rules are those that did best on training networks, and usual ones."""
    places = [place for place in PLACES if place.load in QUICK_LOADS]
    names = {"eunomia": "eunomia", **{f"{terms} 2": f"eunomia {terms} 2" for terms in HAND.values()}}
    names |= cards(runs) | {name: name for name in QUICK_RULES}
    found = measure("runs", places, range(1), dict.fromkeys(places, tuple(names.values())), workers)
    return {label: gather(found, (name,))[name] for label, name in names.items()}


def main() -> None:
    from benchmarks.learned_tenants_page import QUICK_FIGURE, quick_figure, quick_page, write_page

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--train", action="store_true", help="first train the replications that are not there"
    )
    parser.add_argument(
        "--quick", action="store_true", help="two loads, one trace, fixed rules; --write draws its figure"
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the replications were trained")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    if asked.quick:
        found = quick(asked.runs, asked.workers)
        print(quick_page(found))
        if asked.write:
            QUICK_FIGURE.write_text(quick_figure(found), encoding="utf-8")
        return
    if asked.train:
        train_missing(asked.runs, asked.workers)
    values, chosen, bounds = study(asked.runs, asked.workers)
    print(write_page(values, chosen, bounds, equal_targets(asked.runs, asked.workers), asked.write))


if __name__ == "__main__":
    main()
