"""Every benchmark by name: where it is and what it measures. ``python -m benchmarks --list`` prints it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from benchmarks.table import Options, Table

Benchmark = Callable[[Options], Iterator[Table]]

BENCHMARKS: dict[str, tuple[str, str]] = {  # name -> (module, what it measures)
    "cluster": (
        "cluster.simulator",
        "parity of the cluster simulator with Gavel on trace A, speed on Philly",
    ),
    "cluster-parity": ("cluster.parity", "compatible mode against a second implementation of Gavel's rules"),
    "cluster-solver": ("cluster.solver", "time of the cluster programmes beside cvxpy and ECOS"),
    "heterogeneity": ("cluster.heterogeneity", "what knowing the throughputs is worth in Gavel's setting"),
    "themis": ("cluster.themis", "finish-time fairness of apps: Themis, its parts and its peers"),
    "elastic": ("cluster.elastic", "elastic jobs: who chooses the number of workers"),
    "pool": ("cluster.pool", "HTAS: cost and delay of an elastic pool of priced machines"),
    "deferrable-jobs": ("cluster.deferrable", "OSDEC: deferrable jobs in what is left over"),
    "learned-order": ("cluster.order", "a learned order of cluster jobs on production traces"),
    "colocation": ("cluster.colocation", "placing by predicted interference: Horus and Co-scheML"),
    "learned": ("inference.learned", "what learning is worth on networks that no policy was trained on"),
    "learned-tenants": (
        "inference.tenants",
        "promises to tenants: policies trained for them against tenant rules",
    ),
    "learned-speed": ("inference.speed", "time and energy of a learned decision"),
    "cold-start": (
        "inference.cold_start",
        "from nothing to a policy that passes the gate on a new deployment",
    ),
    "relmas": ("inference.relmas", "RELMAS, re-implemented, against its likely rivals and the strong rules"),
    "trainers": ("inference.trainers", "CMA-ES, PPO, SAC and branching Q at one small task"),
    "engine": ("inference.engine", "speed of the engine beside heapq and SimPy programs, start-up times"),
    "cost-model": (
        "silicon",
        "the cost model against measurements of the Eyeriss chip; isolated costs of networks",
    ),
    "gate": ("inference.gate", "where the bandwidth gate helps under every way of sharing"),
    "tuning": ("inference.tuning", "every scheduler tuned alike; writes the choices behind NAME+tuned"),
    "magma": ("inference.magma", "MAGMA's search on groups of independent jobs, and online"),
    "lookahead": ("inference.lookahead", "lookahead between the best rule and the best clairvoyant schedule"),
    "lookahead-tenants": (
        "inference.lookahead_tenants",
        "lookahead with promises against tenant-aware rules",
    ),
    "distill": ("inference.distill", "what rules keep of a learned policy, against their leaves"),
    "deferrable": ("inference.deferrable", "when work that may wait should start"),
    "placement": ("inference.placement", "learned placement under preferences against rules and the optimum"),
    "serving-conformance": (
        "serving.conformance",
        "stock clients, made-up requests and roles against a real server",
    ),
    "serving-cost": ("serving.cost", "what the server costs against a bare ONNX Runtime loop"),
    "serving-isolation": ("serving.isolation", "whether one tenant's flood hurts another"),
    "serving-preemption": ("serving.preemption", "how soon an urgent request starts behind a long network"),
    "serving-fidelity": ("serving.fidelity", "the simulator against the server"),
    "serving-learned": ("serving.learned", "a policy trained on the twin, live under overload"),
    "serving-faults": ("serving.faults", "what the server does when things break, under load"),
    "serving-connections": ("serving.connections", "10,000 slow, silent and half-open connections"),
    "serving-soak": ("serving.soak", "half an hour of load with killed workers, and memory all the while"),
    "serving-batching": ("serving.batching", "whether batching across a tenant's requests pays"),
    "serving-peers": ("serving.peers", "other servers at the same rates"),
}


def find(name: str) -> Benchmark:
    """The function ``measure`` of a benchmark's module, loaded now."""
    found: Benchmark = importlib.import_module(f"benchmarks.{BENCHMARKS[name][0]}").measure
    return found
