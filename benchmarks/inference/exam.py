"""What ``eunomia`` is worth at 300 places drawn by seed, against the best of all rules and published schedulers.

A place draws 1 to 64 accelerators of 1 to 3 types (one place in eight: GPUs), 4 to 128 GB/s, a contention model, and 1
to 5 tenants. Half of the networks are ONNX exports of torchvision and timm (``benchmarks/networks``), half of the zoo.
Arrivals: Poisson, bursts, a daily rhythm, a recording. Load 0.5 to 2: of what accelerators or memory could do at best,
whichever is less. Deadlines: 1.2 to 10 isolated times. Then lateness, estimates, ticks and promises. The rival: the
best of ``RULES`` on two validation traces, the second for the best 20. ``--set first=N``: other places, from N on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.inference.contest import PUBLISHED, Content, best, contest, validation
from benchmarks.page import ROOT
from benchmarks.table import Cell, Options, Table, table
from eunomia.config.load import scenario_from
from eunomia.contract.contention import CONTENTION
from eunomia.core.arrays import Floats
from eunomia.learning.episodes import Episode
from eunomia.metrics.statistics import interval
from eunomia.study.inference.bench import prepare
from eunomia.study.learning.scenarios import scenario_episode

ZOO = ("alexnet", "resnet18", "mobilenet-v2", "squeezenet", "bert-base", "bert-small", "vgg16", "inception-v3",
       "gpt2-prefill", "yolov3", "googlenet")  # fmt: skip
EXPORTS = tuple(str(path) for path in sorted((ROOT / "benchmarks" / "networks").glob("*.onnx")))
NPUS = ("simba", "eyeriss", "nvdla-like", "systolic", "moham-simba", "moham-eyeriss", "simba-chiplet")
GPUS = ("t4", "a100", "v100", "jetson-orin")
LATE, ESTIMATES = ("last", "drop", "run"), ("exact", "lognormal", "ewma", "none")
GATES = ("", "+g1", "+g0.9", "+g0.75", "+g0.6", "+g0.5")
RULES = tuple(f"{order}+f{place}{gate}" for order in ("edf", "sjf", "llf", "edf_bytes")
              for place in ("", "+eft", "+eft_ca") for gate in GATES) + tuple(
    f"{name}{gate}" for name in PUBLISHED for gate in ("", "+g1.0", "+g0.75"))  # fmt: skip
AT_TICKS = tuple(
    name for name in RULES if "+f" in name and "+g" not in name
)  # a tick queues all: no gate is asked
REQUESTS, RECORDINGS = 200, Path("runs") / "exam"
OURS = ("eunomia", "eunomia(rehearse=0)", "eunomia(rehearse=0,alarm=inf)")


@dataclass(frozen=True)
class Place:
    """One draw."""

    number: int

    def content(self) -> Content:
        """As a scenario file holds it; arrivals are scaled to the load."""
        rng = np.random.default_rng([self.number, 0xE4A])
        gpus, count = rng.random() < 0.125, int(2 ** rng.uniform(0.0, 6.0))
        kinds = rng.choice(GPUS if gpus else NPUS, min(count, int(rng.integers(1, 4))), replace=False)
        each = max(1, min(count, 8 if gpus else 64) // len(kinds))
        lanes = [{"type": str(kind), "count": each} for kind in kinds]
        gb_s, sharing = (
            round(2 ** rng.uniform(2.0, 7.0) * (16.0 if gpus else 1.0), 1),
            str(rng.choice([*CONTENTION])),
        )
        platform = {"accelerators": lanes, "dram_bandwidth_gb_s": gb_s, "contention": sharing}
        shares = rng.dirichlet(np.full(int(rng.integers(1, 6)), 3.0))
        tenants = [self._tenant(rng, n, 1.0) for n in range(len(shares))]
        load, mode = (
            round(float(rng.uniform(0.5, 2.0)), 2),
            str(rng.choice(ESTIMATES, p=[0.55, 0.15, 0.15, 0.15])),
        )
        engine: Content = {"late": LATE[self.number % len(LATE)], "estimator": {"mode": mode}}
        draft = {"name": f"place {self.number}", "duration_s": 1.0, "platform": platform, "tenant": tenants}
        bench = prepare(scenario_from(draft))
        table_, machine, names = (
            bench.machine.table,
            bench.machine,
            [m.name for m in bench.machine.table.models],
        )
        best_s = table_.latency_s[:, [table_.types.index(t) for t in machine.types]].min(axis=1)
        bytes_ = table_.dram_bytes.min(axis=1)
        work = np.zeros(2)
        for share, one in zip(shares, tenants, strict=True):
            for model in one["models"]:
                n = names.index(model.get("name") or model["model"])
                rows = slice(table_.offsets[n], table_.offsets[n + 1])
                work += share / len(one["models"]) * np.array([best_s[rows].sum(), bytes_[rows].sum()])
        rate_per_s = load / max(work[0] / len(machine.type_of), work[1] / machine.dram_bytes_s)
        seconds = 1.25 * REQUESTS / rate_per_s
        if rng.random() < 0.1:
            engine["period_s"] = float(work[0] / 60.0)
        for share, one in zip(shares, tenants, strict=True):
            one["arrivals"] = self._arrivals(rng, one["name"], float(share * rate_per_s), seconds)
        return {
            **draft,
            "duration_s": seconds,
            "engine": engine,
            "tenant": tenants,
            "description": f"load {load:g}",
        }

    def _tenant(self, rng: np.random.Generator, number: int, rate_per_s: float) -> Content:
        factor, promised = round(1.2 * 2 ** rng.uniform(0.0, 3.0), 2), rng.random() < 0.3
        models = []
        for n in range(int(rng.integers(1, 4))):
            name = str(rng.choice(ZOO if rng.random() < 0.5 else EXPORTS))
            what = {"onnx": name, "name": Path(name).stem} if name in EXPORTS else {"model": name}
            if any(what.items() <= other.items() for other in models[:n]):
                continue
            models.append(
                {**what, "deadline_factor": factor, **({"slo": {"hit_rate": 0.8}} if promised else {})}
            )
        return {
            "name": f"t{number}",
            "models": models,
            "arrivals": {"process": "poisson", "rate_per_s": rate_per_s},
        }

    def _arrivals(self, rng: np.random.Generator, name: str, rate_per_s: float, seconds: float) -> Content:
        kind, rate = (
            str(rng.choice(["poisson", "bursty", "diurnal", "trace"], p=[0.4, 0.25, 0.2, 0.15])),
            rate_per_s,
        )
        if kind == "trace":  # gaps that differ more than those of Poisson arrivals, of four runs' length
            path = RECORDINGS / f"{self.number}-{name}.csv"
            gaps_s = rng.gamma(0.4, 1.0 / (0.4 * rate), int(4.0 * seconds * rate) + 10)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(["arrival_s", *(f"{t:.9f}" for t in np.cumsum(gaps_s))]) + "\n")
            return {"trace": "canonical", "path": str(path), "loop": True}
        more = {"bursty": {"burstiness": 4.0, "mean_burst_s": 20.0 / rate}, "diurnal": {"period_s": seconds}}
        return {"process": kind, "rate_per_s": rate, **more.get(kind, {})}

    def episode(self, seed: int) -> Episode:
        """200 requests."""
        return scenario_episode(scenario_from(self.content()), seed, REQUESTS)

    def rules(self, names: Sequence[str] = RULES) -> Sequence[str]:
        """Those of the rival's that can decide there."""
        return AT_TICKS if "period_s" in self.content()["engine"] else names

    def __str__(self) -> str:
        made = self.content()
        lanes = " + ".join(f"{lane['count']} {lane['type']}" for lane in made["platform"]["accelerators"])
        facts = [made["platform"]["contention"], f"{made['platform']['dram_bandwidth_gb_s']:g} GB/s"]
        facts += [made["description"], made["engine"]["late"], made["engine"]["estimator"]["mode"]]
        return (
            f"{self.number}: {lanes}, {', '.join(facts)}{', ticks' if 'period_s' in made['engine'] else ''}"
        )


def rivals(places: Sequence[Place], workers: int) -> tuple[dict[Place, str], str]:
    """The best rule of each place on validation, and the one that is best for all of them."""
    first, second = validation(2)
    once, _ = contest("exam", places, [first], {place: place.rules() for place in places}, workers=workers)
    top = {p: sorted(once[p], key=lambda name: -float(once[p][name].mean()))[:20] for p in places}
    twice, _ = contest("exam", places, [second], top, workers=workers)
    chosen = {p: best([{n: once[p][n] for n in top[p]}, twice[p]], top[p]) for p in places}
    everywhere = {n: float(np.mean([once[p][n].mean() for p in places])) for n in AT_TICKS + RULES
                  if all(n in once[p] for p in places)}  # fmt: skip
    return chosen, max(everywhere, key=lambda name: everywhere[name])


def measure(options: Options) -> Iterator[Table]:
    """Means by kind of place, then the worst places."""
    start = int(options.given.get("first", "0"))
    places = [
        Place(start + n) for n in range(6 if options.quick else int(options.given.get("places", "300")))
    ]
    rule, fixed = rivals(places, options.workers)
    names = {place: (*OURS, rule[place], fixed) for place in places}
    found, _ = contest("exam", places, options.seeds_or(3, 2), names, workers=options.workers)
    hits: dict[Place, Mapping[str, Floats]] = {
        place: {name: figures[:, 0] for name, figures in found[place].items()} for place in places
    }
    ours, alone, deaf = OURS
    gains = {place: np.asarray(row[ours] - row[rule[place]]) for place, row in hits.items()}
    told = {place: str(place) for place in places}
    unlike = {
        "all": "", "late = last": ", last", "late = drop": ", drop", "late = run": ", run", "nothing shared": " none,",
        **{name: f" {name}," for name in ("proportional", "max_min", "weighted", "moca_literal", "roofline")},
        "noisy estimates": ", lognormal", "learned estimates": ", ewma", "unknown durations": ", none", "ticks": "ticks",
    }  # fmt: skip
    groups = {title: [p for p in places if mark in f"{told[p]}"] for title, mark in unlike.items()}
    groups["nothing shared"] = [p for p in places if ", none, " in told[p] or "roofline_static" in told[p]]
    groups["unknown durations"] = [p for p in places if told[p].removesuffix(", ticks").endswith(", none")]
    groups["GPUs"] = [p for p in places if any(f" {gpu}" in told[p] for gpu in GPUS)]
    rows: list[list[Cell]] = []
    for title, mine in groups.items():
        if not mine:
            continue
        gain = [float(gains[p].mean()) for p in mine]
        less = [[float((hits[p][a] - hits[p][b]).mean()) for p in mine] for a, b in
                ((ours, fixed), (ours, alone), (alone, deaf))]  # fmt: skip
        below = sum(interval(gains[p]).high < 0.0 for p in mine)
        rows.append([title, len(mine), interval(gain), *map(interval, less), min(gain), below])
    yield table(
        "exam", "places; number; eunomia less the best rule, points|+.2p; less one rule for all|+.2p; less itself "
        "without rehearsal|+.2p; alarm on less off|+.2p; worst place|+.1p; significantly below", rows,
        notes=[f"One rule for all: `{fixed}`."],
    )  # fmt: skip
    shown = sorted(places, key=lambda place: float(gains[place].mean()))
    lines = [[told[p], rule[p], float(np.mean(hits[p][rule[p]])), interval(gains[p])]
             for p in (*shown[:12], *shown[-8:])]  # fmt: skip
    yield table("exam places", "place; best rule; its hit rate, %|.1p; eunomia less rule|+.1p", lines)
