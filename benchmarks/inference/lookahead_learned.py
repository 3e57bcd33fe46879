"""How much of the gap to the best clairvoyant schedule do learning and lookahead close together?

Platform, rules and test traces of ``benchmarks lookahead``, hopeless requests dropped or last. The price of work is
trained on sampled futures, on traces of its own, and compared with prices that are set. The quick run takes one place.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.inference.contest import best, contest, limits, validation
from benchmarks.inference.lookahead import FIRST_SEED, RULES, SETS, Place, points
from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.engines.processes import Result
from eunomia.inference.kernel.layout import HIT
from eunomia.inference.lookahead.lessons import taught_by, told
from eunomia.inference.lookahead.policy import lookahead
from eunomia.inference.policies import load_policy
from eunomia.inference.simulate import simulate_problem

LATE, LOADS, TAUGHT, FUTURES, DRAWS = ("drop", "last"), (1.0, 1.3), (0.85, 1.0, 1.15, 1.3), 8, 4
REHEARSED = "eunomia as it runs: rehearsed, charged"
WEIGHTS = "eunomia/data/lookahead_price.json"
VARIANTS = {"the rule": "{rule}", "eunomia alone": "eunomia(rehearse=0)"}  # what is shown -> the policy
VARIANTS |= {REHEARSED: "eunomia"}
VARIANTS["over the rule, charged"] = "lookahead(base={rule},charge=true)"
CHANGED = ("", ",refuse=true", ",price=0", ",price=1.4", ",price_of=learned")
for way, setting in (("charged", "charge=true"), ("free", "budget_us=0")):
    VARIANTS |= {way + c: f"lookahead(base=eunomia,portfolio=none,{setting}{c})" for c in CHANGED}


def played(task: tuple[Place, int, str]) -> Result:
    """Hit rate, share of busy accelerators and of the memory's bandwidth, by variant on one trace of a place."""
    episode, found = task[0].episode(task[1]), {}
    for name, policy in VARIANTS.items():
        p, ready = episode.problem, load_policy(policy.format(rule=task[2]))
        out = simulate_problem(p, ready, episode.options)
        busy, used = out.busy_s.sum() / len(out.busy_s), out.bytes_moved / p.bandwidth_bytes_s
        found[name] = [float(np.mean(out.results["outcome"] == HIT)), busy / out.end_s, used / out.end_s]
    return found


def taught(place: Place) -> Result:
    """What the moves of one trace were worth."""
    policy = lookahead("eunomia", portfolio="none", budget_us=0.0, futures=FUTURES)
    return {"rows": taught_by(policy, place.episode(200), DRAWS).tolist()}


def measure(options: Options) -> Iterator[Table]:
    """Train the price, then compare with the best schedule found and with other prices."""
    quick, workers = options.quick, options.workers
    seen = [Place(*cell, 250) for cell in itertools.product(SETS, TAUGHT)]
    kept = kept_all("lookahead-taught", taught, seen[3:4] if quick else seen, workers)
    rows, learned = told(np.concatenate([one["rows"] for one in kept if one["rows"]]))
    made = table(
        "labels", "price; variance of the labels explained|.1%", rows, [f"Learned weights: {learned}."]
    )
    yield replace(made, files={WEIGHTS: json.dumps({"weights": learned}, indent=1) + "\n"})
    seeds = range(FIRST_SEED, FIRST_SEED + (1 if quick else options.seeds or 3))
    places = [place for place in seen if place.load in LOADS][: 1 if quick else None]
    tried, _ = contest(
        "lookahead-learned", places, validation(2), RULES[: 2 if quick else None], workers=workers
    )
    chosen = {place: best([tried[place]], list(tried[place])) for place in places}
    limit = limits("lookahead-learned", places, seeds, 20 if quick else 100, workers)
    gaps: list[list[Cell]] = []
    for late in LATE:
        each = [(replace(p, late=late), seed, chosen[p]) for p in places for seed in seeds]
        found = kept_all("lookahead-learned", played, each, workers)
        by = {name: np.array([one[name] for one in found]) for name in VARIANTS}
        ends = {end: np.concatenate([limit[p][end] for p in places]) for end in ("found", "bound")}
        ends["found"] = np.max([ends["found"], *(by[n][:, 0] for n in by if "charged" not in n)], axis=0)
        for name, measured in by.items():
            than = (by["the rule"], by["eunomia alone"], by.get(name.partition(",")[0], measured))
            more = [points([measured[:, 0] - other[:, 0]]) for other in than]
            start, (rate, busy, used) = than[0][:, 0].mean(), measured.mean(axis=0).tolist()
            shares = [float((rate - start) / (end.mean() - start)) for end in ends.values()]
            gaps.append([late, name, rate, *more, *shares, busy, used])
    columns = "hopeless; policy; hit rate, %|.1p; over the rule, points|+.2f; over eunomia|+.2f"
    columns += "; less price 0.9|+.2f; to found|.0%; to the bound|.0%"
    yield table("gap", f"{columns}; busy accelerators|.1%; memory's bandwidth|.1%", gaps)
