"""Tune every scheduler alike, on the same validation traces. Parts: the families, such as prema or edf.

Every published scheduler, and every order with every placement, gets a grid of at most 24 settings, gate included:
studies/tuning/families.toml. The best mean hit rate over the validation traces wins. The choices are written to
eunomia/inference/policies/tuned.json, from where ``NAME+tuned`` reads them. The quick run has one short trace and two
families.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.inference.contest import sized
from benchmarks.page import ROOT, stored
from benchmarks.table import Cell, Options, Table, table
from eunomia.inference.policies.tuned import TUNED
from eunomia.metrics.statistics import mean, paired_difference
from eunomia.study.inference.tuning import (
    Choice,
    ValidationProblem,
    choose,
    grid,
    problems_of,
    score,
    validation_seeds,
)

SETS, LOADS, BANDWIDTH_GB_S = ("moca-light", "moca-heavy", "moca-mixed"), (0.85, 1.15), 16.0
FILE = ROOT / "studies" / "tuning" / "families.toml"


def _families() -> dict[str, tuple[str, ...]]:
    """Settings of every family, its default first."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in tomllib.loads(FILE.read_text(encoding="utf-8"))["family"]:
        names, placed = entry.pop("names"), entry.pop("placed", [""])
        of = entry.pop("of", None)
        for name in names:
            tried = (grid(f"{of or name}{end}", **entry) for end in placed)
            found[name] = found.get(name, ()) + tuple(setting for each in tried for setting in each)
    return found


FAMILIES = _families()


def problems(
    seeds: Sequence[int], points: Sequence[tuple[str, float]], requests: int
) -> list[ValidationProblem]:
    """Traces of about ``requests`` requests of every workload set at every load."""
    made = [sized(models, load, BANDWIDTH_GB_S, requests) for models, load in points]
    return [problem for one in made for problem in problems_of(one, seeds)]


def row(family: str, choice: Choice, default: Sequence[float], chosen: Sequence[float]) -> list[Cell]:
    """The choice on validation, and default and choice on the test traces, paired."""
    named: list[Cell] = [family, len(choice.scores), f"`{choice.name}`"]
    validated = [choice.mean(FAMILIES[family][0]), choice.score]
    return [*named, *validated, mean(default), mean(chosen), paired_difference(chosen, default)]


def fact(family: str, choice: Choice) -> dict[str, object]:
    """For the data file: name and validation scores."""
    default = FAMILIES[family][0]
    return {
        "policy": choice.name,
        "validation_hit_rate": round(choice.score, 4),
        "default": default,
        "default_validation_hit_rate": round(choice.mean(default), 4),
        "settings_tried": len(choice.scores),
    }


def measure(options: Options) -> Iterator[Table]:
    """One table; families that are left out by --only keep their rows."""
    points = [(name, load) for name in SETS for load in LOADS][: 1 if options.quick else None]
    requests = 100 if options.quick else 500
    validation = problems(validation_seeds(1), points, requests)
    test = problems(range(1 if options.quick else 3), points, requests)
    rows, facts = {}, json.loads(TUNED.read_text(encoding="utf-8")) if options.only else {}
    if options.only and "all" in stored("tuning"):
        rows = {str(line[0]): list(line) for line in stored("tuning")["all"].rows}
    for family in options.chosen(FAMILIES)[: 2 if options.quick else None]:
        choice = choose(FAMILIES[family], validation)
        names = (FAMILIES[family][0], choice.name)
        scores = {name: [score(name, problem) for problem in test] for name in dict.fromkeys(names)}
        rows[family] = row(family, choice, *(scores[name] for name in names))
        facts[family] = fact(family, choice)
        print(f"{family:18} {choice.name:32} {choice.score:.3f}", flush=True)
    columns = (
        "scheduler; settings tried; chosen; validation: default|.1p; chosen|.1p; test: default|.1p; chosen|.1p; "
        "gain|+.1p"
    )
    found = table("all", columns, sorted(rows.values(), key=lambda line: float(str(line[6])), reverse=True))
    yield replace(found, files={str(TUNED.relative_to(ROOT)): json.dumps(facts, indent=1) + "\n"})
