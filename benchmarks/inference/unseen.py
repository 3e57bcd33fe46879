"""What the shipped learned policy is worth at places drawn by seed, and what its alarm is worth there.

A place draws: 1 to 32 accelerators of 1 to 3 types (one place in eight: GPUs), 4 to 128 GB/s, a contention model, 1
to 6 tenants with 1 to 3 networks of the zoo each, deadlines of 1.2 to 14 isolated times, Poisson or bursty arrivals,
load 0.5 to 2, one of three latenesses. The rival is the best of ``RULES`` on a validation trace of the place. With few
traces a place, read the means, and the worst places by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.inference.contest import Content, best, contest, tenant, validation
from benchmarks.table import Cell, Options, Table, table
from eunomia.config.load import scenario_from
from eunomia.core.arrays import Floats
from eunomia.learning.episodes import Episode
from eunomia.metrics.statistics import interval
from eunomia.study.learning.scenarios import scenario_episode

NETWORKS = (
    "alexnet", "resnet18", "resnet50", "mobilenet-v2", "squeezenet", "bert-base", "bert-small", "vgg16",
    "inception-v3", "gpt2-prefill", "yolov3", "googlenet",
)  # fmt: skip
NPUS = ("simba", "eyeriss", "nvdla-like", "systolic", "moham-simba", "moham-eyeriss", "simba-chiplet")
GPUS = ("t4", "a100", "v100", "jetson-orin")
CONTENTIONS = ("proportional", "max_min", "weighted", "roofline", "none")
LATE = ("last", "drop", "run")
RULES = ("edf+f+eft", "sjf+f+eft", "llf+f+eft+g1", "sjf+f+g1", "edf_bytes+f+g0.75", "edf_bytes+f+eft_ca+g0.9",
         "pressure")  # fmt: skip
OURS = ("eunomia", "eunomia(alarm=inf)", "eunomia(alarm=-1)")  # as shipped; never alarmed; always: its rule


@dataclass(frozen=True)
class Place:
    """One draw."""

    number: int

    def content(self) -> Content:
        """As a scenario file holds it."""
        rng = np.random.default_rng([self.number, 0xA1A])
        gpus, count = rng.random() < 0.125, int(2 ** rng.uniform(0.0, 5.0))
        kinds = rng.choice(GPUS if gpus else NPUS, min(count, int(rng.integers(1, 4))), replace=False)
        lanes = [
            {"type": str(kind), "count": max(1, min(count, 8 if gpus else 32) // len(kinds))}
            for kind in kinds
        ]
        gb_s = round(2 ** rng.uniform(2.0, 7.0) * (16.0 if gpus else 1.0), 1)
        platform = {
            "accelerators": lanes,
            "dram_bandwidth_gb_s": gb_s,
            "contention": str(rng.choice(CONTENTIONS)),
        }
        tenants = [self._tenant(rng, f"t{n}") for n in range(int(rng.integers(1, 7)))]
        load, late = round(float(rng.uniform(0.5, 2.0)), 2), LATE[self.number % len(LATE)]
        return {"name": f"place {self.number}", "duration_s": 2.0, "load": load, "platform": platform,
                "tenant": tenants, "engine": {"late": late}}  # fmt: skip

    def _tenant(self, rng: np.random.Generator, name: str) -> Content:
        factor, rate_per_s = (
            round(1.2 * 2 ** rng.uniform(0.0, 3.5), 2),
            round(float(rng.uniform(30.0, 300.0)), 1),
        )
        chosen = rng.choice(NETWORKS, int(rng.integers(1, 4)), replace=False)
        models = [{"model": str(network), "deadline_factor": factor} for network in chosen]
        if rng.random() < 0.4:
            bursts = {"process": "bursty", "rate_per_s": rate_per_s, "burstiness": 4.0, "mean_burst_s": 0.05}
            return {"name": name, "arrivals": bursts, "models": models}
        return tenant(name, rate_per_s, models=models)

    def episode(self, seed: int) -> Episode:
        """200 requests."""
        return scenario_episode(scenario_from(self.content()), seed, 200)

    def __str__(self) -> str:
        made = self.content()
        lanes = " + ".join(f"{lane['count']} {lane['type']}" for lane in made["platform"]["accelerators"])
        shared = f"{made['platform']['contention']}, {made['platform']['dram_bandwidth_gb_s']:g} GB/s"
        return f"{self.number}: {lanes}, {shared}, load {made['load']:g}, {made['engine']['late']}"


def measure(options: Options) -> Iterator[Table]:
    """Two tables: means by lateness, and the places with the largest loss or with an alarm."""
    places = [Place(n) for n in range(6 if options.quick else 90)]
    tests = options.seeds_or(3)
    tried, _ = contest("unseen", places, validation(1), RULES, workers=options.workers)
    rule = {place: best([tried[place]], RULES) for place in places}
    names = {place: (*OURS, rule[place]) for place in places}
    found, _ = contest("unseen", places, tests, names, workers=options.workers)
    hits: dict[Place, dict[str, Floats]] = {
        place: {name: figures[:, 0] for name, figures in found[place].items()} for place in places
    }
    ours, deaf, base = OURS
    gain = {place: float(np.mean(row[ours] - row[rule[place]])) for place, row in hits.items()}
    alarm = {place: float(np.mean(row[ours] - row[deaf])) for place, row in hits.items()}
    alone = {place: float(np.mean(row[ours] - row[base])) for place, row in hits.items()}
    groups = {late: [p for p in places if LATE[p.number % len(LATE)] == late] for late in LATE} | {
        "all": places
    }
    rows: list[list[Cell]] = []
    for late, mine in groups.items():
        figures = [[row[place] for place in mine] for row in (gain, alarm, alone)]
        below = sum(interval(hits[p][ours] - hits[p][rule[p]]).high < 0.0 for p in mine)
        rows.append([late, len(mine), *map(interval, figures), min(figures[0]), below])
    yield table(
        "by lateness", "late; places; eunomia less rule, points|+.2p; alarm on less off|+.2p; eunomia less its own "
        "rule|+.2p; worst place|+.1p; significantly below", rows,
    )  # fmt: skip
    shown = sorted(places, key=lambda place: gain[place])[:8]
    shown += [place for place in places if alarm[place] != 0.0 and place not in shown]
    lines = [[str(p), rule[p], float(np.mean(hits[p][rule[p]])), gain[p], alarm[p]] for p in shown]
    yield table(
        "places",
        "place; best rule; its hit rate, %|.1p; eunomia less rule|+.1p; alarm on less off|+.1p",
        lines,
    )
