"""In a process of its own: everything of tests/core/newcomers.py by every way to add it; prints what came out as JSON.

python newcomers_child.py FILE TIMES
"""

from __future__ import annotations

import json
import sys
from typing import Any

import eunomia
from eunomia.cluster.policies.catalogue import ALLOCATORS
from eunomia.cluster.traces import JOB_TRACES
from eunomia.core.errors import EunomiaError
from eunomia.core.registry import Registry
from eunomia.hardware.types import TYPES
from eunomia.inference.policies.catalogue import POLICIES
from eunomia.study.cluster import run_cluster
from eunomia.workload.processes import ARRIVALS
from eunomia.workload.traces import TRACES
from eunomia.workload.zoo import MODELS

FILE, TIMES = sys.argv[1:]
OWN: dict[str, tuple[Registry, tuple[str, ...]]] = {
    "policies": (POLICIES, ("last_first", "Patient", "patient", "patience", "broken")),
    "allocators": (ALLOCATORS, ("Equal", "equal", "equality")),
    "arrivals": (ARRIVALS, ("Metronome", "metronome")),
    "traces": (TRACES, ("seconds", "SECONDS")),
    "job traces": (JOB_TRACES, ("durations",)),
    "networks": (MODELS, ("twin_of_kws",)),
    "types": (TYPES, ("large_simba",)),
}


def by_table(registry: Registry, name: str) -> str:
    """A line in the table."""
    registry._table[f"table-{name}"] = f"foreign:{name}"
    return f"table-{name}"


WAYS = {
    "entry point": lambda registry, name: f"foreign-{name}",
    "file": lambda registry, name: f"{FILE}:{name}",
    "table": by_table,
}


def scenario(arrivals: dict[str, Any], model: str = "kws-res8", kind: str = "simba") -> dict[str, Any]:
    """A lab of a fraction of a second."""
    return {
        "name": "small", "duration_s": 0.2,
        "platform": {"accelerators": [{"type": kind}, {"type": "eyeriss"}], "dram_bandwidth_gb_s": 8.0},
        "tenant": [{"name": "a", "arrivals": arrivals, "models": [{"model": model, "deadline_factor": 3.0}]}],
    }  # fmt: skip


def rate(policy: Any, data: dict[str, Any]) -> Any:
    """What a run says, or the error of ours that it ends with."""
    try:
        result = eunomia.run(data, policy)
    except EunomiaError as error:
        return f"{type(error).__name__}: {error}"
    return [result.policy.rpartition("-")[2], result.metrics["requests"], result.metrics["hit_rate"]]


POISSON = {"process": "poisson", "rate_per_s": 900.0}
CLUSTER: dict[str, Any] = {
    "name": "two", "device": [{"type": "gpu", "count": 2}],
    "throughputs": {"model": [{"name": "m", "speed": {"gpu": 2.0}}]},
}  # fmt: skip
JOBS = [{"id": f"j{i}", "type": "m", "steps": 4000.0 * (1 + i), "arrival_s": 60.0 * i} for i in range(4)]


def policies(way: str, name: str, text: str) -> Any:
    """As it is, and with a setting."""
    found = [rate(text, scenario(POISSON))]
    return found if name in ("patience", "broken") else [*found, rate(f"{text}(skip=1)", scenario(POISSON))]


def allocators(way: str, name: str, text: str) -> Any:
    """As it is, and with a setting."""
    names = [text] if name == "equality" else [text, f"{text}(part=0.5)"]
    return [run_cluster({**CLUSTER, "job": JOBS}, each).metrics["jct_mean_s"] for each in names]


FIND = {
    "policies": policies,
    "allocators": allocators,
    "arrivals": lambda way, name, text: rate("edf", scenario({"process": text, "gap_s": 0.004})),
    "traces": lambda way, name, text: rate("edf", scenario({"trace": text, "path": TIMES})),
    "job traces": lambda way, name, text: run_cluster(
        {**CLUSTER, "trace": {"path": TIMES, "format": text}}, "fifo"
    ).metrics["jct_mean_s"],
    "networks": lambda way, name, text: rate("edf", scenario(POISSON, model=text)),
    "types": lambda way, name, text: rate("edf", scenario(POISSON, kind=text)),
}


def main() -> None:
    """Every kind, name and way."""
    found = {
        kind: {
            name: {way: FIND[kind](way, name, text(registry, name)) for way, text in WAYS.items()}
            for name in names
        }
        for kind, (registry, names) in OWN.items()
    }
    import foreign

    for name in OWN["policies"][1]:
        found["policies"][name]["object"] = [rate(getattr(foreign, name), scenario(POISSON))]
    found["scaled"] = rate("edf", {**scenario({"process": "foreign-Metronome"}), "load": 0.5})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
