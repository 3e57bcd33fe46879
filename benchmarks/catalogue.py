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
    "cluster-parity": "cluster.parity",
    "cluster-solver": "cluster.solver",
    "heterogeneity": "cluster.heterogeneity",
    "themis": "cluster.themis",
    "elastic": "cluster.elastic",
    "pool": "cluster.pool",
    "deferrable-jobs": "cluster.deferrable",
    "learned-order": "cluster.order",
    "colocation": "cluster.colocation",
    "learned": "inference.learned",
    "learned-tenants": "inference.tenants",
    "exam": "inference.exam",
    "learned-speed": "inference.speed",
    "cold-start": "inference.cold_start",
    "relmas": "inference.relmas",
    "trainers": "inference.trainers",
    "engine": "inference.engine",
    "cost-model": "silicon",
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
    "serving-conformance": "serving.conformance",
    "serving-cost": "serving.cost",
    "serving-isolation": "serving.isolation",
    "serving-preemption": "serving.preemption",
    "serving-fidelity": "serving.fidelity",
    "serving-learned": "serving.learned",
    "serving-faults": "serving.faults",
    "serving-connections": "serving.connections",
    "serving-soak": "serving.soak",
    "serving-batching": "serving.batching",
    "serving-peers": "serving.peers",
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
