"""Scenarios drawn by number from one distribution of places: what a policy for everybody is examined on.

* 1 to 64 accelerators of 1 to 3 types, or up to 8 GPUs (one place in eight); 4 to 128 GB/s (GPUs: 64 to 2048).
* Any contention model that needs no measurement. Late requests run last, are dropped or run on, in turn.
* 1 to 5 tenants with 1 to 3 networks each, half of them from files; promises for three tenants in ten.
* Poisson, bursty or daily arrivals, or a recording; load 0.5 to 2, deadlines of 1.2 to 9.6 isolated times.
* Beliefs are exact, noisy, learned or unknown. One place in ten decides at ticks.

Load 1 is what the accelerators could do at best, or the memory, whichever is less: more than any scheduler reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eunomia.config.load import scenario_from
from eunomia.contract.contention import CONTENTION
from eunomia.core.arrays import Floats
from eunomia.core.atomic import write_text
from eunomia.core.data import Data
from eunomia.study.inference.bench import Bench, prepare

NPUS = ("simba", "eyeriss", "nvdla-like", "systolic", "moham-simba", "moham-eyeriss", "simba-chiplet")
GPUS = ("t4", "a100", "v100", "jetson-orin")
LATE, ESTIMATES = ("last", "drop", "run"), ("exact", "lognormal", "ewma", "none")
ARRIVALS = {"poisson": 0.4, "bursty": 0.25, "diurnal": 0.2, "trace": 0.15}
ZOO = "alexnet resnet18 mobilenet-v2 squeezenet bert-base bert-small vgg16 inception-v3 gpt2-prefill yolov3 googlenet"
MOST_REQUESTS = 1.25  # of those asked for, expected in a run: traces are cut


@dataclass(frozen=True)
class Draws:
    """Where places come from. ``exports``: ONNX files; ``recordings``: a folder for traces made up."""

    zoo: tuple[str, ...]
    exports: tuple[str, ...]
    requests: int
    recordings: Path

    def place(self, number: int) -> Data:
        """A scenario as its file holds it; equal numbers give equal places."""
        rng = np.random.default_rng([number, 0xE4A])
        gpus, count = rng.random() < 0.125, int(2 ** rng.uniform(0.0, 6.0))
        kinds = rng.choice(GPUS if gpus else NPUS, min(count, int(rng.integers(1, 4))), replace=False)
        each = max(1, min(count, 8 if gpus else 64) // len(kinds))
        lanes = [{"type": str(kind), "count": each} for kind in kinds]
        gb_s = round(2 ** rng.uniform(2.0, 7.0) * (16.0 if gpus else 1.0), 1)
        sharing = str(rng.choice([name for name, model in CONTENTION.items() if model.beside is None]))
        platform = {"accelerators": lanes, "dram_bandwidth_gb_s": gb_s, "contention": sharing}
        shares = rng.dirichlet(np.full(int(rng.integers(1, 6)), 3.0)).tolist()
        tenants = [self._tenant(rng, f"t{n}") for n in range(len(shares))]
        load = round(float(rng.uniform(0.5, 2.0)), 2)
        mode = str(rng.choice(ESTIMATES, p=[0.55, 0.15, 0.15, 0.15]))
        draft = {"name": f"place {number}", "duration_s": 1.0, "platform": platform, "tenant": tenants}
        bench = prepare(scenario_from(draft))
        work = sum(
            (
                share * _work(bench, [m.get("name") or m["model"] for m in one["models"]])
                for share, one in zip(shares, tenants, strict=True)
            ),
            np.zeros(2),
        )
        machine = bench.machine
        rate_per_s = load / max(work[0] / len(machine.type_of), work[1] / machine.dram_bytes_s)
        seconds = float(MOST_REQUESTS * self.requests / rate_per_s)
        ticks = {"period_s": float(work[0] / 60.0)} if rng.random() < 0.1 else {}
        for share, one in zip(shares, tenants, strict=True):
            one["arrivals"] = self._arrivals(
                rng, f"{number}-{one['name']}", float(share * rate_per_s), seconds
            )
        engine = {"late": LATE[number % len(LATE)], "estimator": {"mode": mode}, **ticks}
        return {**draft, "duration_s": seconds, "engine": engine, "description": f"load {load:g}"}

    def _tenant(self, rng: np.random.Generator, name: str) -> Data:
        factor, promised = round(1.2 * 2 ** rng.uniform(0.0, 3.0), 2), rng.random() < 0.3
        facts = {"deadline_factor": factor, **({"slo": {"hit_rate": 0.8}} if promised else {})}
        models: dict[str, Data] = {}
        for _ in range(int(rng.integers(1, 4))):
            chosen = str(rng.choice(self.zoo if rng.random() < 0.5 else self.exports))
            file = {"onnx": chosen, "name": Path(chosen).stem}
            what = file if chosen.endswith(".onnx") else {"model": chosen}
            models[chosen] = {**what, **facts}
        return {
            "name": name,
            "models": [*models.values()],
            "arrivals": {"process": "poisson", "rate_per_s": 1.0},
        }

    def _arrivals(self, rng: np.random.Generator, name: str, rate_per_s: float, seconds: float) -> Data:
        kind = str(rng.choice([*ARRIVALS], p=[*ARRIVALS.values()]))
        if kind == "trace":  # gaps that differ more than those of Poisson arrivals, over four runs
            path = self.recordings / f"{name}-{self.requests}.csv"
            gaps_s = rng.gamma(0.4, 1.0 / (0.4 * rate_per_s), int(4.0 * seconds * rate_per_s) + 10)
            text = "\n".join(["arrival_s", *(f"{t:.9f}" for t in np.cumsum(gaps_s))]) + "\n"
            if (
                not path.is_file() or path.read_text(encoding="utf-8") != text
            ):  # others tell by its time if it changed
                write_text(path, text)
            return {"trace": "canonical", "path": str(path), "loop": True}
        bursts = {"burstiness": 4.0, "mean_burst_s": 20.0 / rate_per_s}
        more = {"bursty": bursts, "diurnal": {"period_s": seconds}}
        return {"process": kind, "rate_per_s": rate_per_s, **more.get(kind, {})}


def _work(bench: Bench, names: list[str]) -> Floats:
    """Seconds on the best type and DRAM bytes of a request, mean over networks."""
    costs = bench.machine.table
    types = [costs.types.index(name) for name in bench.machine.types]
    each = np.stack([costs.latency_s[:, types].min(axis=1), costs.dram_bytes.min(axis=1)])
    sums = dict(
        zip(
            (model.name for model in costs.models),
            np.add.reduceat(each, costs.offsets[:-1], axis=1).T,
            strict=True,
        )
    )
    return np.asarray(np.mean([sums[name] for name in names], axis=0))
