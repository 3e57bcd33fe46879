"""Tune every scheduler alike, on the same validation traces: ``python -m benchmarks.tuning``.

Every published scheduler, and every order with every placement, gets a grid of at most CONFIGURATIONS settings, gate
included, and the best mean hit rate over the validation traces wins. Writes the choices to
eunomia/inference/policies/tuned.json, from where ``NAME+tuned`` reads them, and the figures, with those on test
traces, to results/tuning.md. ``--quick`` takes one short trace and writes nothing; ``--only magma`` tunes this
scheduler and leaves what is written of the others.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eunomia.inference.policies.tuned import TUNED
from eunomia.metrics.statistics import Estimate, paired_difference
from eunomia.study.inference.bench import prepare
from eunomia.study.inference.tuning import (
    Choice,
    ValidationProblem,
    choose,
    grid,
    problems_of,
    score,
    validation_seeds,
)
from eunomia.study.run import as_scenario

RESULTS = Path(__file__).parent.parent / "results" / "tuning.md"
SETS, LOADS, BANDWIDTH_GB_S, ALPHA = ("moca-light", "moca-heavy", "moca-mixed"), (0.85, 1.15), 16.0, 3.0
GATES = (math.inf, 1.0, 0.9, 0.8, 0.7, 0.6)
PLACES = ("any_idle", "pref", "eft", "eft_ca")
CONFIGURATIONS = len(GATES) * len(PLACES)
ORDERS = ("fcfs", "edf", "sjf", "llf", "heft", "edf_bytes")
FAMILIES: dict[str, tuple[str, ...]] = {
    "prema": grid("prema", place=PLACES, gate=GATES),
    "herald": grid("herald", theta=(0.5, 0.0, 0.25, 1.0), gate=GATES),
    "planaria": grid("planaria", place=PLACES, gate=GATES),
    "moca": grid("moca", place=PLACES, gate=GATES),
    "moca_split": grid("moca_split", place=PLACES, gate=GATES),
    "aurora": grid("aurora", gate=GATES),
    "dream": grid("dream", alpha=(50.0, 0.5, 5.0, 500.0), gate=GATES),
    "dream_drop": grid("dream", drop=(True,), alpha=(50.0, 0.5, 5.0, 500.0), gate=GATES),
    "dysta": grid("dysta", beta=(0.01, 0.001, 0.1, 1.0), gate=GATES),
    "virtual_deadlines": grid("virtual_deadlines", mix=(0.0, 0.33, 0.67, 1.0), gate=GATES),
    "veltair": grid("veltair", layers=(4.0, 1.0, 8.0, 16.0), gate=GATES),
    "layerweaver": grid("layerweaver", window=(0.5, 0.0, 0.25, 1.0), gate=GATES),
    "pressure": grid("pressure", gate=GATES),
    "magma": tuple(  # two, about seven and twenty or ten samples; 5e-6 s buy two of 25 jobs
        name
        for budget_s, jobs in ((20e-6, (100, 30, 10)), (10e-6, (50, 25, 10)), (5e-6, (25, 10, 5)))
        for name in grid("magma", budget_s=(budget_s,), jobs=jobs, gate=(math.inf, 1.0))
    ),
    **{
        order: tuple(
            name
            for place in PLACES
            for name in grid(f"{order}+f" + ("" if place == "any_idle" else f"+{place}"), gate=GATES)
        )
        for order in ORDERS
    },
}


@dataclass(frozen=True)
class Tuned:
    """What came out for one family: the choice on validation, and default and choice on the test traces."""

    default: str
    choice: Choice
    test_default: tuple[float, ...]
    test_chosen: tuple[float, ...]

    @property
    def gain(self) -> Estimate:
        """Chosen less default on the test traces, paired."""
        return paired_difference(self.test_chosen, self.test_default)


def problems(name: str, load: float, seeds: list[int], requests: int) -> list[ValidationProblem]:
    """Traces of about ``requests`` requests of one workload set at one load."""
    scenario = {
        "name": "tuning", "duration_s": 1.0, "load": load,
        "platform": {"preset": "simba3-eyeriss3", "dram_bandwidth_gb_s": BANDWIDTH_GB_S},
        "tenant": [{
            "name": "all", "model_set": name, "deadline": "qos_m", "deadline_alpha": ALPHA,
            "arrivals": {"process": "poisson", "rate_per_s": 1000.0},
        }],
        "engine": {"late": "drop"},
    }  # fmt: skip
    capacity = prepare(as_scenario(scenario)).capacity
    assert capacity is not None, "a load was asked for"
    seconds = requests / (load * capacity.per_s.mean)
    return problems_of(as_scenario({**scenario, "duration_s": seconds, "warmup_s": 0.1 * seconds}), seeds)


def tune(quick: bool, families: Iterable[str] = FAMILIES) -> dict[str, Tuned]:
    """Choose for every family."""
    seeds, requests = ([0], 100) if quick else ([0, 1, 2], 500)
    points = [(name, load) for name in SETS for load in LOADS][: 1 if quick else None]
    validation = [p for point in points for p in problems(*point, validation_seeds(1), requests)]
    test = [p for point in points for p in problems(*point, seeds, requests)]
    found = {}
    for family in families:
        members = FAMILIES[family]
        choice = choose(members, validation)
        default = tuple(score(members[0], problem) for problem in test)
        chosen = (
            default if choice.name == members[0] else tuple(score(choice.name, problem) for problem in test)
        )
        found[family] = Tuned(members[0], choice, default, chosen)
        print(f"{family:18} {choice.name:32} {choice.score:.3f}  test {found[family].gain:+.1%}", flush=True)
    return found


def report(found: dict[str, Tuned], page: str = "") -> str:
    """The page, best on the test first; rows that ``page`` has of other families stay."""
    head = f"""# Schedulers tuned alike

Written by `python -m benchmarks.tuning`, which also writes the choices to
`eunomia/inference/policies/tuned.json`, where `NAME+tuned` finds them. Validation:
{" and ".join(f"load {load:g}" for load in LOADS)} of {", ".join(SETS)}; one trace of about 500 requests each, seeds
from 2,000,000,000 on; `simba3-eyeriss3` with {BANDWIDTH_GB_S:g} GB/s, proportional sharing, deadlines of QoS-M with
alpha {ALPHA:g}, hopeless requests dropped. At most {CONFIGURATIONS} settings for each, gate included. Test: the same
points, three other traces each (seeds 0 to 2). Hit rates in %, mean over all traces; the gain is that of the choice
over the default, in points with its 95 % interval, paired by trace.

| scheduler | settings tried | chosen | validation: default, chosen | test: default, chosen | gain |
| --- | ---: | --- | ---: | ---: | ---: |
"""
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| ")}
    rows = {family: rows[family] for family in FAMILIES if family in rows} | {
        family: _row(family, tuned) for family, tuned in found.items()
    }
    return head + "\n".join(sorted(rows.values(), key=_tested, reverse=True)) + "\n"


def _row(family: str, tuned: Tuned) -> str:
    default, chosen = (100.0 * float(np.mean(v)) for v in (tuned.test_default, tuned.test_chosen))
    scores = 100.0 * tuned.choice.mean(tuned.default), 100.0 * tuned.choice.score
    gain = f"{100 * tuned.gain.mean:+.1f} +- {100 * tuned.gain.half_width:.1f}"
    return (
        f"| {family} | {len(tuned.choice.scores)} | `{tuned.choice.name}` | {scores[0]:.1f}, {scores[1]:.1f} | "
        f"{default:.1f}, {chosen:.1f} | {gain} |"
    )


def _tested(row: str) -> float:
    """The chosen setting's hit rate on the test traces."""
    return float(row.split("|")[5].split(",")[1])


def choices(found: dict[str, Tuned]) -> dict[str, dict[str, object]]:
    """The data file: name and validation scores of each family."""
    return {
        family: {
            "policy": tuned.choice.name,
            "validation_hit_rate": round(tuned.choice.score, 4),
            "default": tuned.default,
            "default_validation_hit_rate": round(tuned.choice.mean(tuned.default), 4),
            "settings_tried": len(tuned.choice.scores),
        }
        for family, tuned in found.items()
    }


def main() -> None:
    """Tune, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short trace; writes nothing")
    parser.add_argument("--only", choices=tuple(FAMILIES), action="append", help="tune this one alone")
    chosen = parser.parse_args()
    found = tune(chosen.quick, chosen.only or FAMILIES)
    page = report(found, RESULTS.read_text(encoding="utf-8") if chosen.only else "")
    print(page)
    if not chosen.quick:
        written = json.loads(TUNED.read_text(encoding="utf-8")) if chosen.only else {}
        RESULTS.write_text(page, encoding="utf-8")
        TUNED.write_text(json.dumps(written | choices(found), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
