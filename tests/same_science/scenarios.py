"""Random scenarios of the request wing, from a fixed seed: every kind of arrival, promise, platform, engine and policy.

They name only what a scenario file and ``eunomia policies`` offer, so the same files run at any checkout. Networks
cost about as much as their multiply-adds on 1,024 units at 1 GHz, or as the reading of their weights at 32 GB/s; rates
follow from that, so that platforms are between half loaded and overloaded without a measurement of their capacity.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.same_science.toml_text import Table, Value

T = TypeVar("T")

SEED = 14
COUNT = 200

SERVICE_MS = {  # rough isolated time on one accelerator of the presets, milliseconds
    "squeezenet": 0.6, "mobilenet-v2": 1.0, "kws-res8": 0.1, "yolo-lite": 0.4, "resnet18": 2.2, "resnet34": 4.2,
    "resnet50": 5.0, "alexnet": 4.0, "googlenet": 2.2, "inception-v3": 7.0, "vgg16": 20.0, "yolov2": 17.0,
    "yolov3": 36.0, "bert-small": 3.0, "bert-base": 16.0, "vit-b16": 22.0, "gpt2-prefill": 50.0, "gpt2-decode": 8.0,
}  # fmt: skip
PUBLISHED_DEADLINES = {
    "moca": ("resnet50", "alexnet", "googlenet", "kws-res8", "yolov2", "squeezenet", "yolo-lite"),
    "aurora": (
        "alexnet",
        "resnet50",
        "yolov2",
        "googlenet",
        "kws-res8",
        "resnet18",
        "bert-small",
        "bert-base",
    ),
}
PLATFORMS = {  # preset -> accelerators, speed beside 1,024 units at 1 GHz
    "edge-npu": (2, 1.0), "moham": (8, 3.0), "npu-mix": (6, 1.0), "simba3-eyeriss3": (6, 1.0),
    "simba4-eyeriss4": (8, 1.0), "simba8": (8, 1.0), "gpu-mix": (4, 60.0),
}  # fmt: skip
CONTENTION = (
    "none", "proportional", "max_min", "weighted", "moca_literal",
    "roofline", "roofline_proportional", "roofline_static",
)  # fmt: skip
ORDERS = (
    "fcfs", "edf", "sjf", "sjf_mean", "llf", "llf_mean", "heft", "edf_bytes", "priority", "shuffled", "laxity_ratio",
    "deficit_edf", "deficit_llf", "planaria", "moca", "dysta", "gap_first_edf", "gap_first_sjf", "shift_edf",
    "shift_sjf", "triage_edf", "triage_sjf", "worst_first_edf", "worst_first_sjf",
)  # fmt: skip
PLACEMENTS = ("", "+eft", "+pref", "+eft_ca", "+first_idle")
EVENTS_ONLY = (  # refuse the ticks of a period
    "round_robin", "random", "least_loaded", "throttled", "relmas", "relmas-slo", "eunomia",
    "eunomia(promise=attainment)", "eunomia(promise=shortfall)", "eunomia(promise=max_min)",
)  # fmt: skip
PUBLISHED = (
    "met", "opportunistic", "ca_eft", "min_min", "max_min", "prema", "prema+g0.8", "herald", "herald(theta=0.2)+g0.9",
    "magma", "magma(budget_s=5e-06,jobs=20)", "moca_split", "aurora", "dream", "dream(alpha=5,drop=true)", "dream_drop",
    "virtual_deadlines", "veltair", "layerweaver", "pressure", "triage", "gap_first", "worst_first", "shift",
    "weighted_fair", "deferring", "deferring(when=late)", "deferring(when=spare)", "prema+tuned", "dream+tuned",
    "herald+tuned", "edf+tuned", "sjf+tuned",
)  # fmt: skip
SEARCHING = (  # rollouts: few requests, so that all scenarios together take minutes
    "lookahead", "lookahead(base=edf+eft,portfolio=none)", "lookahead(objective=attainment,budget_us=100)",
    "lookahead(objective=max_min,budget_us=100,charge=true)", "lookahead(objective=shortfall,budget_us=50)",
    "lookahead(futures=2,budget_us=100)", "lookahead(charge=true,slice_rollouts=2,budget_us=200)",
    "magma_10k",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One run: a scenario by name, the policy and the seed that the command line asks for."""

    name: str
    scenario: Table
    policy: str
    seed: int


def cases(count: int = COUNT, seed: int = SEED) -> list[Case]:
    """The scenarios, the same for the same arguments. Each policy by name comes before any comes twice."""
    named = [*EVENTS_ONLY, *PUBLISHED, *SEARCHING]
    return [_case(random.Random(f"{seed}/{index}"), index, named) for index in range(count)]


def _case(rng: random.Random, index: int, named: Sequence[str]) -> Case:
    policy = named[index // 2 % len(named)] if index % 2 else _grammar(rng)
    rolls = policy.startswith(("lookahead", "magma_10k"))
    requests = rng.randint(8, 24) if rolls else rng.randint(40, 220)
    preset = "simba3-eyeriss3" if policy.startswith("relmas") else rng.choice(list(PLATFORMS))
    accelerators, speed = PLATFORMS[preset]
    tenants = rng.randint(1, 6)
    networks = [_some(rng, list(SERVICE_MS), rng.randint(1, 3)) for _ in range(tenants)]
    used_s = (
        rng.uniform(0.4, 1.5) * accelerators * speed / tenants
    )  # of accelerator time per second, by one tenant
    rates = [used_s / (1e-3 * sum(SERVICE_MS[name] for name in mine) / len(mine)) for mine in networks]
    duration_s = round(requests / sum(rates), 6)
    table: Table = {"name": f"random-{index:03d}", "duration_s": duration_s}
    if rng.random() < 0.5:
        table["warmup_s"] = round(duration_s * rng.uniform(0.0, 0.3), 6)
    tenants_tables = [
        _tenant(rng, f"tenant-{number}", mine, rate, duration_s)
        for number, (mine, rate) in enumerate(zip(networks, rates, strict=True))
    ]
    open_loop = all(
        name not in str(tenants_tables) for name in ("closed_loop", "'moca'", "'aurora'", "trace")
    )
    if (
        index % 20 < 2 and open_loop
    ):  # what is replayed has no rate to scale; measuring the capacity takes seconds
        table["load"] = rng.choice([0.7, 1.0, 1.3])
    table["platform"] = _platform(rng, preset)
    table["tenant"] = tenants_tables
    used = [
        each
        for tenant, mine in zip(tenants_tables, networks, strict=True)
        if "models" in tenant
        for each in mine
    ]
    table["engine"] = _engine(rng, duration_s, policy in EVENTS_ONLY or rolls, used)
    return Case(f"random-{index:03d}", table, policy, rng.randint(0, 10_000))


def _grammar(rng: random.Random) -> str:
    gate = f"+g{rng.choice([0.6, 0.8, 0.9, 1.0])}" if rng.random() < 0.3 else ""
    return rng.choice(ORDERS) + rng.choice(["", "+f"]) + rng.choice(PLACEMENTS) + gate


def _platform(rng: random.Random, preset: str) -> Table:
    table: Table = {"preset": preset}
    if rng.random() < 0.3 and preset == "npu-mix":
        kinds = _some(rng, ["simba", "eyeriss", "nvdla-like", "systolic", "set-simba", "simba-chiplet"], 3)
        table = {"accelerators": [{"type": kind, "count": rng.randint(1, 3)} for kind in kinds]}
    if preset != "gpu-mix" or rng.random() < 0.5:
        wide = 20.0 if preset == "gpu-mix" else 1.0
        table["dram_bandwidth_gb_s"] = wide * rng.choice([8.0, 16.0, 24.0, 32.0, 64.0])
        table["contention"] = rng.choice(CONTENTION)
    return table


def _tenant(rng: random.Random, name: str, networks: list[str], rate: float, duration_s: float) -> Table:
    table: Table = {
        "name": name,
        "weight": rng.choice([0.5, 1.0, 2.0, 3.0]),
        "priority": float(rng.randint(0, 11)),
    }
    if rng.random() < 0.1:
        table["model_set"] = rng.choice(["moca-light", "moca-mixed", "aurora-light", "aurora-mixed"])
        table["deadline"] = rng.choice(["qos_h", "qos_m", "qos_l"])
        table["slo"] = _slo(rng)
    elif rng.random() < 0.08:
        table["models"] = [{"model": each} for each in networks]
        table["defer_s"] = [round(duration_s * 0.2, 6), round(duration_s, 6)]
    else:
        table["models"] = [_model(rng, each) for each in networks]
        table["mix"] = rng.choice(["requests", "work"])
    table["arrivals"] = _arrivals(rng, rate, duration_s)
    return table


def _model(rng: random.Random, name: str) -> Table:
    table: Table = {"model": name, "draw": rng.choice([0.5, 1.0, 3.0])}
    sets = [each for each, names in PUBLISHED_DEADLINES.items() if name in names]
    kind = rng.choice(["ms", "factor", "factor", "set", "alpha", "none"])
    if kind == "ms":
        table["deadline_ms"] = round(SERVICE_MS[name] * rng.uniform(1.0, 12.0), 4)
    elif kind == "factor" or (kind in ("set", "alpha") and not sets):
        table["deadline_factor"] = round(rng.uniform(1.2, 10.0), 3)
    elif kind in ("set", "alpha"):
        table["deadline"], table["deadline_set"] = rng.choice(["qos_h", "qos_m", "qos_l"]), rng.choice(sets)
        if kind == "alpha":
            table["deadline_alpha"] = round(rng.uniform(1.5, 6.0), 3)
    if rng.random() < 0.8:
        table["slo"] = _slo(rng)
    if rng.random() < 0.3:
        table["priority"] = float(rng.randint(0, 11))
    return table


def _slo(rng: random.Random) -> Table:
    kind = rng.choice(["hit_rate"] * 4 + ["drop_rate", "latency_p50_ms", "latency_p90_ms", "latency_p95_ms",
                                          "latency_p99_ms", "latency_mean_ms", "throughput_per_s"])  # fmt: skip
    if kind in ("hit_rate", "drop_rate"):
        target = rng.choice([0.5, 0.8, 0.9, 0.95]) if kind == "hit_rate" else rng.choice([0.02, 0.1, 0.3])
    else:
        target = round(rng.uniform(5.0, 60.0), 2)
    table: Table = {kind: target}
    if rng.random() < 0.3:
        table["window_requests"] = rng.choice([5, 20, 50])
    if kind == "throughput_per_s" or rng.random() < 0.1:
        table["window_s"] = rng.choice([0.01, 0.1, 1.0])
    return table


def _arrivals(rng: random.Random, rate: float, duration_s: float) -> Table:
    rate, gap_s = round(rate, 3), round(1.0 / rate, 7)
    piece_s = round(duration_s / 4.0, 6)
    kinds: dict[str, Table] = {
        "poisson": {"rate_per_s": rate},
        "bursty": {"rate_per_s": rate, "burstiness": rng.choice([2.0, 4.0, 8.0]), "mean_burst_s": piece_s},
        "mmpp": {"calm_rate_per_s": round(rate / 2, 3), "burst_rate_per_s": 3 * rate, "mean_calm_s": 3 * piece_s,
                 "mean_burst_s": piece_s},
        "diurnal": {"rate_per_s": rate, "amplitude": 0.8, "period_s": 2 * piece_s, "peak_s": piece_s},
        "profile": {"rate_per_s": rate, "weights": [1.0, 0.0, 3.0, 2.0], "period_s": 2 * piece_s},
        "periodic": {"period_s": gap_s, "jitter_s": round(gap_s * rng.choice([0.0, 0.3]), 7), "offset_s": gap_s},
        "closed_loop": {"clients": rng.randint(1, 6), "think_s": round(rng.choice([0.0, 2.0]) * gap_s, 7),
                        "think": rng.choice(["exponential", "fixed"]), "requests_per_client": rng.randint(2, 12)},
        "moca": {"cap": 0.85, "streams": rng.randint(1, 4), "limit": 40},
        "aurora": {"cap": 0.85, "streams": rng.randint(1, 4), "limit": 40},
        "trace": {},
    }  # fmt: skip
    kind = rng.choice(list(kinds))
    if kind == "trace":
        window = rng.choice(["random", "start"])
        return {"trace": "canonical", "path": "trace.csv", "speedup": rate, "loop": True, "window": window}
    process: dict[str, Value] = {"process": kind}
    return {**process, **kinds[kind]}


def _engine(rng: random.Random, duration_s: float, events: bool, networks: Sequence[str]) -> Table:
    table: Table = {"late": rng.choice(["last", "run", "drop"])}
    if table["late"] == "drop":
        table["drop_when"] = rng.choice(["hopeless", "expired"])
    if not events and rng.random() < 0.25:
        table["period_s"] = round(max(rng.choice([2e-5, 1e-4, 1e-3]), duration_s / 20_000), 8)
        table["period_mode"] = rng.choice(["wait", "patch"])
        table["period_cap"] = rng.choice([4, 64])
    if rng.random() < 0.3:
        table["switch_s"] = rng.choice([1e-6, 2e-5])
        table["refill"] = rng.random() < 0.5
    if rng.random() < 0.2:
        table["decision_s"] = rng.choice([1e-7, 5e-6])
    if rng.random() < 0.3:
        table["sli_ewma"] = rng.choice([0.02, 0.2])
    if rng.random() < 0.2:
        table["drain"] = False
    if rng.random() < 0.4:
        modes: list[Table] = [{"mode": "lognormal", "sigma": 0.3},
                              {"mode": "bias", "bias": {each: 1.4 for each in networks[:1]}},
                              {"mode": "ewma", "alpha": 0.2, "jitter": 0.1}, {"mode": "exact", "jitter": 0.2},
                              {"mode": "none"}]  # fmt: skip
        table["estimator"] = rng.choice(modes)
    return table


def _some(rng: random.Random, known: Sequence[T], count: int) -> list[T]:
    return rng.sample(list(known), count)


def trace_csv(seed: int = SEED, rows: int = 400) -> str:
    """A trace in the canonical schema, at a mean rate of one request per second."""
    rng, now_s = random.Random(f"{seed}/trace"), 0.0
    lines = ["arrival_s"]
    for _ in range(rows):
        now_s += rng.expovariate(2.0 if rng.random() < 0.5 else 0.7)
        lines.append(f"{now_s:.6f}")
    return "\n".join([*lines, ""])
