"""Every benchmark by name. ``python -m benchmarks --list`` prints them, each with the first line of its module."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.table import Options, Table

Benchmark = Callable[[Options], Iterator[Table]]

BENCHMARKS: dict[str, str] = {  # name -> module
    "cluster": "cluster.simulator",
    "cluster-matrix": "cluster.matrix",
    "cluster-public": "cluster.public",
    "cluster-published": "cluster.published",
    "cluster-solver": "cluster.solver",
    "heterogeneity": "cluster.heterogeneity",
    "gavel-windows": "cluster.windows",
    "themis": "cluster.themis",
    "themis-gangs": "cluster.gangs",
    "themis-workloads": "cluster.workloads",
    "themis-forms": "cluster.forms",
    "elastic": "cluster.elastic",
    "pool": "cluster.pool",
    "deferrable-jobs": "cluster.deferrable",
    "predicted": "cluster.predicted",
    "colocation": "cluster.colocation",
    "learned": "inference.learned",
    "learned-tenants": "inference.tenants",
    "exam": "inference.exam",
    "exam-trainings": "inference.trainings",
    "learned-speed": "inference.speed",
    "cold-start": "inference.cold_start",
    "relmas": "inference.relmas",
    "deep": "inference.deep",
    "deep-exam": "inference.deep_exam",
    "engine": "inference.engine",
    "accuracy": "accuracy",
    "cost-model": "silicon",
    "plan": "plan",
    "slurm": "slurm.bench",
    "growing": "growing.bench",
    "gate": "inference.gate",
    "tuning": "inference.tuning",
    "magma": "inference.magma",
    "lookahead": "inference.lookahead",
    "lookahead-learned": "inference.lookahead_learned",
    "lookahead-tenants": "inference.lookahead_tenants",
    "distill": "inference.distill",
    "evolve": "inference.evolve",
    "deferrable": "inference.deferrable",
    "placement": "inference.placement",
    "bracket": "inference.bracket",
    "sharing": "sharing",
    "sharing-live": "sharing_live",
    "serving-conformance": "serving.conformance",
    "serving-cost": "serving.cost",
    "serving-path": "serving.path",
    "serving-isolation": "serving.isolation",
    "serving-cheats": "serving.cheats",
    "serving-preemption": "serving.preemption",
    "serving-fidelity": "serving.fidelity",
    "serving-learned": "serving.learned",
    "serving-faults": "serving.faults",
    "serving-connections": "serving.connections",
    "serving-hostile": "serving.hostile",
    "serving-soak": "serving.soak",
    "serving-batching": "serving.batching",
    "serving-irina": "serving.irina",
    "serving-replicas": "serving.replicas",
    "serving-peers": "serving.peers",
    "serving-skew": "serving.skew",
    "serving-loadgen": "serving.loadgen",
    "serving-ray": "serving.ray_devices",
}


def about(name: str) -> str:
    """What a benchmark measures, in one line; its module is read, not loaded."""
    path = Path(__file__).parent / f"{BENCHMARKS[name].replace('.', '/')}.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].rstrip(":")


def find(name: str) -> Benchmark:
    """The function ``measure`` of a benchmark's module, loaded now."""
    found: Benchmark = importlib.import_module(f"benchmarks.{BENCHMARKS[name]}").measure
    return found
