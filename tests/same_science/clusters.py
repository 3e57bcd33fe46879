"""Cluster experiments for the comparison: Gavel's scenes by Gavel's rules, every policy, random settings, other worlds.

The scenes and cases of parity are those of the study of parity with Gavel; they need the shared data. All others stand
alone. Policies come from ``eunomia cluster policies`` of the state before.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from tests.same_science.toml_text import Table, Value

SEED = 14
POLICIES = (
    "isolated", "proportional", "max_min_fairness", "max_min_fairness_perf", "max_min_fairness_packed",
    "max_min_fairness_water_filling", "max_min_fairness_water_filling_perf", "max_min_fairness_water_filling_packed",
    "hierarchical", "max_min_fairness_strategy_proof", "finish_time_fairness", "finish_time_fairness_perf",
    "finish_time_fairness_packed", "min_total_duration", "min_total_duration_perf", "min_total_duration_packed",
    "max_sum_throughput_perf", "max_sum_throughput_normalized_by_cost_perf",
    "max_sum_throughput_normalized_by_cost_perf_SLOs", "max_sum_throughput_normalized_by_cost_packed_SLOs",
    "max_throughput_cost_ratio", "max_throughput_cost_ratio_SLOs", "fifo", "fifo_perf", "fifo_packed", "fifo_programme",
    "shortest_job_programme", "themis", "themis_strawman", "tiresias", "least_attained_service", "gittins", "optimus",
    "gandiva", "gandiva_packed", "slaq", "drf", "allox", "srtf", "srsf", "balancing", "backfill", "elastic", "pollux",
    "horus", "coscheml",
)  # fmt: skip
TYPES = ("v100", "p100", "k80")
PARITY_CASES = (  # policy as the command line takes it, the type that an agnostic programme takes for all
    ("fifo_perf", ""),
    ("max_min_fairness_perf(solver=as_gavel)", ""),
    ("max_min_fairness_perf", ""),
    ("min_total_duration_perf(solver=as_gavel)", ""),
    ("min_total_duration_perf", ""),
    ("max_sum_throughput_perf(solver=as_gavel)", ""),
    ("max_sum_throughput_perf", ""),
    ("finish_time_fairness_perf", ""),
    ("max_min_fairness(solver=as_gavel)", ""),
    ("max_min_fairness", ""),
    ("finish_time_fairness(reference_type=v100)", "v100"),
    ("min_total_duration(solver=as_gavel,reference_type=v100)", "v100"),
    ("proportional", ""),
    ("isolated", ""),
)
PARITY_SCENES: tuple[tuple[tuple[int, int, int], Table, int], ...] = (  # devices, jobs, seed
    ((8, 8, 8), {}, 0),
    ((8, 8, 8), {"jobs": 80, "mean_gap_s": 1800.0, "priorities": True}, 1),
    ((36, 36, 36), {"jobs": 120, "mean_gap_s": 600.0}, 2),
    ((16, 16, 16), {"jobs": 100, "mean_gap_s": 900.0, "priorities": True}, 3),
    ((4, 8, 16), {"jobs": 100, "mean_gap_s": 600.0}, 4),
    ((16, 8, 8), {"jobs": 100, "mean_gap_s": 1.0, "kind": "static"}, 5),
    ((8, 8, 8), {"jobs": 60, "mean_gap_s": 3600.0, "priorities": True}, 6),
    ((12, 12, 12), {"jobs": 80, "mean_gap_s": 300.0, "kind": "hours", "priorities": True}, 7),
)


@dataclass(frozen=True)
class Case:
    """One run of ``eunomia cluster simulate``."""

    name: str
    experiment: Table
    policy: str
    seed: int


def parity(gavel: Path) -> list[Case]:
    """Gavel's rules, Gavel's throughputs (``gavel`` is the folder of the shared data), Gavel's generator or trace A."""
    found = []
    for number, (counts, jobs, seed) in enumerate(PARITY_SCENES):
        device: Value = [
            {"type": kind, "count": count, "per_server": 4} for kind, count in zip(TYPES, counts, strict=True)
        ]
        source: Table = (
            {"generate": {**jobs, "reference": "v100"}}
            if jobs
            else {"trace": {"path": str(gavel / "trace_a_60jobs.trace"), "reference": "v100"}}
        )
        for policy, reference in PARITY_CASES:
            if reference and counts[0] < 8:
                continue  # some jobs are too wide for the reference type: an agnostic programme has no answer
            table: Table = {
                "name": f"scene-{number}",
                "device": device,
                "throughputs": {"gavel": str(gavel / "simulation_throughputs.json")},
                **source,
                "simulation": {"mode": "gavel", "drop_rule": True},
            }
            found.append(Case(f"parity-{number}-{policy}", table, policy, seed))
    return found


def small(gavel: Path) -> list[Case]:
    """Every policy on one small realistic experiment, then random settings of the simulator.

    Packed policies need throughputs of pairs, which Gavel's table has (``gavel`` is the folder of the shared data).
    """
    pairs: Table = {
        "name": "small",
        "device": [{"type": kind, "count": 8, "per_server": 4, "cost_per_hour": 1.0} for kind in TYPES],
        "throughputs": {"gavel": str(gavel / "simulation_throughputs.json")},
        "generate": {"jobs": 20, "mean_gap_s": 600.0, "reference": "v100", "slos": True},
    }
    every = [
        Case(f"policy-{name}", pairs if "packed" in name else _small(random.Random(name), {}, name), name, 3)
        for name in POLICIES
    ]
    some = []
    for index in range(40):
        rng = random.Random(f"{SEED}/{index}")
        policy = rng.choice([name for name in POLICIES if "packed" not in name])
        table = _small(rng, _simulation(rng, policy), policy)
        some.append(Case(f"settings-{index:02d}", table, policy, rng.randint(0, 1000)))
    return every + some


def _small(rng: random.Random, simulation: Table, policy: str) -> Table:
    return {
        "name": "small",
        "device": [
            {"type": "fast", "count": 8, "per_server": 4, "servers_per_rack": 1, "cost_per_hour": 2.5},
            {"type": "slow", "count": 16, "per_server": 8, "servers_per_rack": 2, "cost_per_hour": 0.6},
        ],
        "throughputs": {
            "model": [
                {
                    "name": "vision",
                    "speed": {"fast": 4.4, "slow": 0.6},
                    "scales": [1, 2, 4, 8],
                    "spread": 1.2,
                },
                {
                    "name": "translation",
                    "speed": {"fast": 12.0, "slow": 3.1},
                    "scales": [1, 2, 4, 8],
                    "spread": 2.2,
                },
                {"name": "recommendation", "speed": {"fast": 20.0, "slow": 16.0}, "scales": [1, 2, 4, 8]},
                {"name": "game", "speed": {"fast": 3.0, "slow": 2.4}},
            ]
        },
        "generate": {
            "jobs": rng.randint(15, 30),
            "mean_gap_s": rng.choice([200.0, 600.0]),
            "kind": rng.choice(["hours", "continuous", "static"]),
            "tenants": rng.randint(1, 3),
            "priorities": rng.random() < 0.5,
            "slos": rng.random() < 0.5,
            "multi_gpu": rng.random() < 0.7 and policy != "allox",  # which takes jobs of one device
        },
        "simulation": simulation,
    }


def _simulation(rng: random.Random, policy: str) -> Table:
    mode = rng.choice(["realistic"] * 4 + ["gavel", "ideal"])
    table: Table = {"mode": mode}
    if mode != "realistic":
        return table
    table["round_s"] = rng.choice([60.0, 120.0, 360.0])
    table["priority"] = rng.choice(["credit", "ratio"])
    table["queue"] = rng.choice(["global", "per_type"])
    table["placement"] = rng.choice(["pack", "strided", "spread"])
    table["events"] = rng.choice(["round_end", "at_once"])
    table["cross_type"] = rng.choice(["off", "off", "slowest", "uneven"])
    table["stickiness"] = rng.choice([0.0, 1.0, 3.0])
    table["restart"] = {"save_s": 10.0, "load_s": 20.0, "warmup_s": 5.0, "checkpoint_interval_s": 1800.0}
    table["slowdown"] = {"source": rng.choice(["table", "levels", "none"])}
    if rng.random() < 0.4:
        table["failures"] = {"server_mtbf_h": 40.0, "repair_h": 0.5, "job_mtbf_h": 60.0}
    if rng.random() < 0.4:
        table["estimates"] = {"kind": rng.choice(["noisy", "online"]), "sigma": 0.3}
    if rng.random() < 0.5 and policy.startswith(("max_", "min_", "finish_")):  # programmes over shares
        table["forecast"] = {"jobs": 3.0, "job_type": "vision"}
    return table
