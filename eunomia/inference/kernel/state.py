"""Allocate the kernel's arrays, fill them from a problem, grow them, copy them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.core.addresses import link
from eunomia.core.arrays import Floats, Ints
from eunomia.inference.kernel.layout import ARRAYS, KERNEL, UNFINISHED, Records
from eunomia.inference.kernel.setup import WIDE, Rules, classes, followers, headroom, write_settings
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Noise, Problem, noise_of
from eunomia.workload.tenant import SLI_KINDS

GROWING = (
    "slots",
    "pending",
    "nodes",
    "ready",
    "waiting",
    "fresh",
    "timers",
    "view_nodes",
    "view_ready",
    "view_latency",
    "view_demand",
    "view_energy",
    "answer",
    "answer_priority",
    "terms",
    "orders",
)


class State:
    """All arrays of one run, and the KERNEL record ``k`` that points to them.

    ``array(name)`` gives an array of records; ``copy()`` a snapshot that can be run on its own.
    """

    def __init__(self, arrays: Mapping[str, Records], kernel: Records) -> None:
        self.arrays = dict(arrays)
        self.kernel = kernel  # (1,) KERNEL
        self._link()

    def _link(self) -> None:
        link(self.kernel, self.arrays)

    @property
    def k(self) -> Any:
        """The KERNEL record, a view into ``kernel``."""
        return self.kernel[0]

    def __getitem__(self, name: str) -> Records:
        return self.arrays[name]

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """A NUMBER array as plain floats."""
        return self.arrays[name]["value"]

    def copy(self) -> State:
        """An independent snapshot."""
        return State({name: array.copy() for name, array in self.arrays.items()}, self.kernel.copy())

    def give(self, arrays: Mapping[str, Records]) -> None:
        """Take these arrays in place of those of their names."""
        self.arrays |= arrays
        self._link()

    def grow(self) -> None:
        """Room for twice as many live requests, waiting sub-jobs and timers."""
        for name in GROWING:
            old = self.arrays[name]
            new = np.zeros((2 * len(old), *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            self.arrays[name] = new
        self.kernel["slot_capacity"] *= 2
        self.kernel["node_capacity"] *= 2
        self._link()


def new_state(
    problem: Problem, rules: Rules, options: EngineOptions, *, slots: int = 64, nodes_per_slot: int = 1
) -> State:
    """An empty system at time 0, with room for ``slots`` live requests of ``nodes_per_slot`` ready layers each."""
    lanes, types = len(problem.type_of), problem.costs.latency_s.shape[1]
    wide = -(-types // WIDE) * WIDE
    layers = int(np.diff(problem.graph.offset).max())
    pairs, ring = len(problem.jobs.model_of), _ring_length(problem)
    row_heap, first_heap, pair_heaps, heaps = classes(problem, rules, options)
    nodes = slots * nodes_per_slot + 2 * headroom(problem)
    records = int(np.diff(problem.graph.offset)[problem.jobs.model].sum())
    records = records if options.record == "all" else 0
    noise = noise_of(problem, options)
    shapes: dict[str, Any] = {
        "system": 1,
        "costs": (len(row_heap), types),
        "rows": len(row_heap),
        "successors": len(problem.graph.successor),
        "models": len(problem.table.models),
        "slowdowns": len(_factors(problem)),
        "jobs": len(problem.jobs.pair),
        "pairs": pairs,
        "ring": (pairs, ring),
        "ranked": (pairs, ring),
        "results": len(problem.jobs.pair),
        "lanes": lanes,
        "ends": lanes,
        "accelerators": lanes,
        "types": wide,
        "draws": sum(map(len, noise.factors + noise.switches_s + noise.moves_s)),
        "by_type": lanes,
        "heaps": heaps,
        "standing": heaps,
        "candidates": heaps,
        "marked": heaps,
        "heap_estimate": (heaps, wide),
        "think": len(problem.jobs.pair) - problem.jobs.num_open + 1,
        "slots": slots,
        "pending": (slots, layers),
        "nodes": nodes,
        "ready": nodes,
        "waiting": nodes,
        "fresh": nodes,
        "timers": nodes,
        "view_nodes": nodes,
        "view_ready": nodes,
        "view_latency": (nodes, lanes),
        "view_demand": (nodes, lanes),
        "view_energy": (nodes, lanes),
        "answer": nodes,
        "answer_priority": nodes,
        "subjobs": records,
        "decisions": records,
        "free_in": (records, lanes),
        "terms": 0,  # room is made where a policy asks for it
        "orders": 0,
        "numbers": 0,
    }
    arrays = {name: np.zeros(shapes[name], dtype) for name, dtype in ARRAYS.items()}
    kernel = np.zeros(1, KERNEL)
    _write_problem(arrays, problem)
    arrays["rows"]["heap"] = row_heap
    arrays["pairs"]["first_heap"], arrays["pairs"]["heaps"] = first_heap, pair_heaps
    networks = problem.table.network_of
    for pair, network in enumerate(networks[problem.jobs.model_of]):
        for model in np.flatnonzero(networks == network):
            rows = slice(*problem.graph.offset[model : model + 2])
            at = first_heap[pair] + row_heap[rows]
            arrays["heap_estimate"]["value"][at, :types] = problem.costs.estimate_s[rows]
    arrays["heap_estimate"]["value"][:, types:] = np.inf
    arrays["types"]["start_s"] = arrays["types"]["free_s"] = np.inf
    arrays["by_type"]["value"] = np.argsort(problem.type_of, kind="stable")
    _write_noise(arrays, noise)
    of_type: Ints = np.bincount(problem.type_of, minlength=wide)
    arrays["types"]["lanes"], arrays["types"]["first"] = of_type, np.cumsum(of_type) - of_type
    _write_start(arrays, problem, options)
    write_settings(kernel, problem, rules, options)
    sizes = {
        "num_lanes": lanes,
        "num_types": types,
        "wide_types": wide,
        "num_layers": layers,
        "num_pairs": pairs,
        "ring_length": ring,
        "num_open": problem.jobs.num_open,
        "num_heaps": heaps,
        "slot_capacity": slots,
        "node_capacity": nodes,
        "free_slot": -1,
        "free_node": -1,
        "common_rate": 1.0,
        "next_late_s": np.inf,
        "gaps_moved": 2 if SLI_KINDS.index("throughput") in problem.jobs.slo_kind else 0,
        "idle_mask": (1 << min(lanes, 62)) - 1,
    }
    for name, value in sizes.items():
        kernel[name] = value
    return State(arrays, kernel)


def _factors(problem: Problem) -> Floats:
    return np.zeros(0) if problem.slowdowns is None else problem.slowdowns.factors()


def _write_problem(arrays: dict[str, Records], problem: Problem) -> None:
    graph, jobs = problem.graph, problem.jobs
    for name in problem.costs._fields:
        arrays["costs"][name] = getattr(problem.costs, name)
    for name in ("indegree", "best_s", "mean_s", "path_best_s", "path_mean_s", "row_bytes"):
        arrays["rows"][name] = getattr(graph, name)
    arrays["rows"]["successor_start"], arrays["rows"]["successor_end"] = (
        graph.successor_start[:-1],
        graph.successor_start[1:],
    )
    arrays["rows"]["follower"] = followers(problem)
    arrays["successors"]["value"] = graph.successor
    arrays["slowdowns"]["value"] = _factors(problem)
    models = arrays["models"]
    models["offset"], models["layers"] = graph.offset[:-1], np.diff(graph.offset)
    models["iso_best_s"], models["iso_mean_s"] = graph.iso_best_s, graph.iso_mean_s
    models["bytes"] = np.add.reduceat(graph.row_bytes, graph.offset[:-1])
    for name in ("pair", "model", "arrival_s", "relative_deadline_s", "priority", "deferrable", "next"):
        arrays["jobs"][name] = getattr(jobs, name)
    pairs = arrays["pairs"]
    pairs["model"], pairs["tenant"] = jobs.model_of, jobs.tenant_of
    for name in ("weight", "slo_kind", "slo_target", "slo_percentile", "slo_window", "slo_window_s"):
        pairs[name] = getattr(jobs, name)


def _write_noise(arrays: dict[str, Records], noise: Noise) -> None:
    end, types = 0, arrays["types"]
    types["jitter"][: len(noise.sigma)], types["move_s"][: len(noise.move_s)] = noise.sigma, noise.move_s
    for name, draws in (("factor", noise.factors), ("switch", noise.switches_s), ("move", noise.moves_s)):
        for kind, values in enumerate(draws):
            types[f"{name}_at"][kind], types[f"{name}_draws"][kind] = end, len(values)
            arrays["draws"]["value"][end : end + len(values)] = values
            end += len(values)


def _write_start(arrays: dict[str, Records], problem: Problem, options: EngineOptions) -> None:
    system, lanes, accelerators = arrays["system"], arrays["lanes"], arrays["accelerators"]
    system["bandwidth_bytes_s"], system["seed"] = problem.bandwidth_bytes_s, options.seed
    system["late_last"] = options.late == "last"
    system["period_s"] = options.period_s or 0.0
    lanes["node"], lanes["end_s"], lanes["rate"] = -1, np.inf, 1.0
    lanes["type"] = accelerators["type"] = problem.type_of
    accelerators["request"] = accelerators["last_request"] = accelerators["layer"] = -1
    for name in ("on_time", "late"):
        arrays["heaps"][name] = -1
    arrays["pairs"]["sli"] = np.nan
    for name in ("start_s", "finish_s", "deadline_s", "arrival_s"):
        arrays["results"][name] = np.nan
    arrays["results"]["outcome"] = UNFINISHED


def _ring_length(problem: Problem) -> int:
    """Longest window, in requests; throughput windows hold at most all requests of their pair."""
    jobs = problem.jobs
    counts = np.bincount(jobs.pair, minlength=len(jobs.model_of))
    lengths = np.where(jobs.slo_kind == SLI_KINDS.index("throughput"), counts, jobs.slo_window)
    return max(1, int(lengths.max(initial=1)))
