"""What ``eunomia`` is worth at 300 places drawn by seed, against the best of all rules and published schedulers.

Places are those of ``eunomia/study/inference/drawn.py``; networks from files are ONNX exports of torchvision and timm
(``benchmarks/networks``). The rival is the best of ``RULES`` on two validation traces, the second for the best 20.
``--set places=0-99,200-299``: those; 1000000 and above served development. ``--set mapper=least_latency``: the same
traffic on costs of that mapper (``--print``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.inference.contest import PUBLISHED, best, contest, gated, validation
from benchmarks.page import ROOT
from benchmarks.table import Cell, Options, Table, table
from eunomia.config.load import scenario_from
from eunomia.contract.contention import CONTENTION
from eunomia.core.data import Data
from eunomia.learning.episodes import Episode
from eunomia.metrics.statistics import interval
from eunomia.study.inference.drawn import ESTIMATES, GPUS, ZOO, Draws
from eunomia.study.learning.scenarios import scenario_episode

EXPORTS = tuple(str(path) for path in sorted((ROOT / "benchmarks" / "networks").glob("*.onnx")))
DRAWS = Draws(tuple(ZOO.split()), EXPORTS, 200, Path("runs") / "exam")
ORDERS, PLACES = ("edf", "sjf", "llf", "edf_bytes"), ("", "+eft", "+eft_ca")
AT_TICKS = tuple(
    f"{order}+f{place}" for order in ORDERS for place in PLACES
)  # a tick queues all: no gate is asked
ORDERED = (*AT_TICKS, *gated(ORDERS, PLACES, ("1", "0.9", "0.75", "0.6", "0.5")))
RULES = (*ORDERED, *PUBLISHED, *(f"{name}+g{gate}" for name in PUBLISHED for gate in ("1.0", "0.75")))
OURS = ("eunomia", "eunomia(rehearse=0)")
KINDS = ("last", "drop", "run", *CONTENTION, "GPUs", "noisy", "learned", "unknown", "ticks")


@dataclass(frozen=True)
class Place:
    """One draw."""

    number: int

    def content(self) -> Data:
        """As a scenario's file holds it."""
        return DRAWS.place(self.number)

    def episode(self, seed: int) -> Episode:
        """200 requests."""
        return scenario_episode(scenario_from(self.content()), seed, DRAWS.requests)

    def facts(self) -> tuple[str, set[str]]:
        """What it is called, and which of KINDS it is of."""
        made = DRAWS.place(self.number)
        platform, engine = made["platform"], made["engine"]
        lanes = " + ".join(f"{lane['count']} {lane['type']}" for lane in platform["accelerators"])
        words = [platform["contention"], engine["late"], *(["ticks"] if "period_s" in engine else [])]
        words += dict(zip(ESTIMATES, ([], ["noisy"], ["learned"], ["unknown"]), strict=True))[
            engine["estimator"]["mode"]
        ]
        kinds = {*words, *(["GPUs"] if platform["accelerators"][0]["type"] in GPUS else [])}
        told = [lanes, f"{platform['dram_bandwidth_gb_s']:g} GB/s", made["description"], *words]
        return f"{self.number}: {', '.join(told)}", kinds


@dataclass(frozen=True)
class Mapped(Place):
    """The same traffic on costs of another mapper."""

    mapper: str

    def content(self) -> Data:
        """With the mapper of all types."""
        made = DRAWS.place(self.number)
        return {**made, "platform": {**made["platform"], "mapper": self.mapper}}


def places_of(options: Options, full: str) -> list[Place]:
    """Those asked for, such as 0-99,200-299."""
    ranges = "0-5" if options.quick else options.given.get("places", full)
    ends = [part.split("-") for part in ranges.split(",")]
    numbers = [n for low, high in ends for n in range(int(low), int(high) + 1)]
    mapper = options.given.get("mapper")
    return [Mapped(n, mapper) if mapper else Place(n) for n in numbers]


def rivals(places: Sequence[Place], workers: int) -> tuple[dict[Place, str], dict[Place, str], str]:
    """Each place's best rule, chosen on two traces, the second for 20; one for all, as called there; its name."""
    first, second = validation(2)
    ticks = {place: "ticks" in place.facts()[1] for place in places}
    asked = {place: AT_TICKS if ticks[place] else RULES for place in places}

    def at(place: Place, name: str) -> str:
        return name.partition("+g")[0] if ticks[place] else name

    once, _ = contest("exam", places, [first], asked, workers=workers)
    top = {p: sorted(once[p], key=lambda name: -float(once[p][name].mean()))[:20] for p in places}
    twice, _ = contest("exam", places, [second], top, workers=workers)
    rule = {p: best([{name: once[p][name] for name in top[p]}, twice[p]], top[p]) for p in places}
    fixed = max(ORDERED, key=lambda name: float(np.mean([once[p][at(p, name)].mean() for p in places])))
    return rule, {place: at(place, fixed) for place in places}, fixed


def measure(options: Options) -> Iterator[Table]:
    """Means by kind of place, then the worst and best places."""
    places, tests = places_of(options, "0-299"), options.seeds_or(3, 2)
    told, (rule, fixed, name) = {place: place.facts() for place in places}, rivals(places, options.workers)
    ours = {p: (*OURS, rule[p]) for p in places}
    found, counts = contest("exam", places, tests, ours, workers=options.workers)
    plain, _ = contest("exam", places, tests, {p: (fixed[p],) for p in places}, workers=options.workers)
    for place in places:
        found[place] |= plain[place]
    pairs = {p: (rule[p], fixed[p], OURS[1]) for p in places}
    less = {p: [found[p][OURS[0]][:, 0] - found[p][other][:, 0] for other in pairs[p]] for p in places}
    rows: list[list[Cell]] = []
    for kind in ("all", *KINDS):
        mine = [p for p in places if kind in ("all", *told[p][1])]
        gains = [[float(less[p][n].mean()) for p in mine] for n in range(3)]
        below = sum(interval(less[p][0]).high < 0.0 for p in mine)
        if mine:
            rows.append([kind, len(mine), *map(interval, gains), min(gains[0]), below])
    runs = len(places) * len(tests)
    ran = [
        f"{what.capitalize()} in {n / runs:.0%} of the runs."
        for what, n in counts.items()
        if "ran as" in what
    ]
    yield table(
        "exam", "kind; places; eunomia less the best rule, points|+.2p; less one rule for all|+.2p; less itself "
        "without rehearsal|+.2p; worst place|+.1p; significantly below", rows,
        notes=[f"One rule for all: `{name}`.", *ran],
    )  # fmt: skip
    shown = sorted(places, key=lambda place: float(less[place][0].mean()))
    lines: list[list[Cell]] = [[told[p][0], rule[p], float(found[p][rule[p]].mean()), interval(less[p][0])]
                               for p in (*shown[:12], *shown[-8:])]  # fmt: skip
    yield table("places", "place; best rule; its hit rate, %|.1p; eunomia less rule|+.1p", lines)
