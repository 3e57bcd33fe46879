"""Mixes of tenants, drawn by number, with networks that no policy was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.inference.contest import tenant
from benchmarks.page import ROOT
from eunomia.config import Scenario
from eunomia.config.load import scenario_from
from eunomia.learning.episodes import Episode
from eunomia.study.inference.bench import prepare
from eunomia.study.learning.scenarios import scenario_episode

LEVELS = {"tight": 2.4, "usual": 3.0, "loose": 3.6}  # isolated times until the deadline: QoS-H, M, L at 3
TARGETS = (0.5, 0.95)
EXPORTS = ROOT / "benchmarks" / "networks"
NETWORKS = {  # no policy trained on any of them
    "small": "squeezenet yolo-lite kws-res8 tv-mobilenet-v3-small tv-shufflenet-v2-x1-0 tv-mnasnet1-0",
    "large": "resnet50 alexnet googlenet yolov2 unet ssd-resnet34 timm-repvgg-a0 timm-mixer-s32-224",
}
NETWORKS["any"] = f"{NETWORKS['small']} {NETWORKS['large']}"
TYPES, SHARING = ("simba", "eyeriss", "nvdla-like"), ("proportional", "max_min", "weighted", "roofline")
REQUESTS = 200


@dataclass(frozen=True)
class Mix:
    """Everything is drawn from its number; late requests run last in even ones, else they are dropped."""

    number: int

    def scenario(self) -> Scenario:
        """2 to 6 tenants with 2 to 4 networks each at 0.85 to 1.3 of what the platform carries."""
        rng = np.random.default_rng([self.number, 0x7E4B])
        kinds = [{"type": str(kind), "count": int(rng.integers(3, 6))} for kind in rng.permutation(TYPES)[:2]]
        gb_s, sharing = round(float(rng.uniform(12.0, 24.0)), 1), str(rng.choice(SHARING))
        names = NETWORKS[str(rng.choice([*NETWORKS]))].split()
        load = round(float(rng.uniform(0.85, 1.3)), 2)
        tenants = [self._tenant(rng, f"t{n}", names) for n in range(int(rng.integers(2, 7)))]
        draft = {
            "name": f"mix {self.number}", "duration_s": 1.0, "tenant": tenants,
            "platform": {"accelerators": kinds, "dram_bandwidth_gb_s": gb_s, "contention": sharing},
            "engine": {"late": "drop" if self.number % 2 else "last"},
        }  # fmt: skip
        iso_s = prepare(scenario_from(draft)).iso_best_s
        mean_s, lanes = float(np.mean([*iso_s.values()])), sum(kind["count"] for kind in kinds)
        for one in tenants:  # as much work of every network, times what was drawn for it
            for model in one["models"]:
                model["draw"] *= (mean_s / iso_s[model.get("name") or model["model"]]) ** 0.5
            one["arrivals"]["rate_per_s"] *= lanes / mean_s / len(tenants)
        return scenario_from({**draft, "duration_s": 8.0 * REQUESTS * mean_s / lanes, "load": load})

    def about(self) -> str:
        """What it is called."""
        made = self.scenario()
        return (
            f"mix {self.number}, {len(made.tenant)} tenants, load {made.load:g}, {made.platform.contention}"
        )

    def _tenant(self, rng: np.random.Generator, name: str, names: Sequence[str]) -> dict[str, Any]:
        factor, rate = LEVELS[str(rng.choice([*LEVELS]))], float(rng.uniform(0.5, 1.5))
        models = []
        for chosen in rng.permutation(names)[: int(rng.integers(2, 5))].tolist():
            path = EXPORTS / f"{chosen}.onnx"
            what = {"onnx": str(path), "name": chosen} if path.is_file() else {"model": chosen}
            promised = {"slo": {"hit_rate": round(float(rng.uniform(*TARGETS)), 2)}}
            models.append(
                {**what, **promised, "draw": float(rng.uniform(0.5, 1.5)), "deadline_factor": factor}
            )
        return tenant(name, rate, models=models)

    def episode(self, seed: int) -> Episode:
        """One trace."""
        return scenario_episode(self.scenario(), seed, REQUESTS)
