"""What all runs of a scenario share: networks, platform, cost table, the factor on arrival rates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from eunomia.config import Scenario, as_table
from eunomia.config.load import scenario_from
from eunomia.errors import ConfigError
from eunomia.experiment.demand import networks, requests
from eunomia.experiment.files import file_stamps
from eunomia.experiment.machine import Machine, build_machine
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies import load_policy
from eunomia.inference.simulate import simulate
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable

CAPACITY_REQUESTS = 2_000  # enough for a mean; the same for every policy and seed


@dataclass(frozen=True)
class Bench:
    """Everything but seed and policy. ``capacity_per_s`` is None unless the scenario asks for a load."""

    scenario: Scenario
    models: tuple[DnnModel, ...]
    machine: Machine
    iso_best_s: dict[str, float]
    rate_factor: float = 1.0
    capacity_per_s: float | None = None

    def requests(self, seed: int) -> RequestTable:
        """The requests of one seed, the same for every policy."""
        return requests(self.scenario, seed, self.iso_best_s, self.rate_factor)


def prepare(scenario: Scenario) -> Bench:
    """Build, or find again, the bench of a scenario. Raises whatever its parts complain about."""
    table = {
        key: value for key, value in as_table(scenario).items() if key not in ("compare", "sweep", "policy")
    }
    return _prepare(json.dumps(table), json.dumps(file_stamps(table)))


@lru_cache(maxsize=16)
def _prepare(text: str, stamps: str) -> Bench:
    """``stamps`` is part of the key alone: a changed file is read again."""
    table = json.loads(text)
    scenario = scenario_from(table)
    asked = [
        table["platform"],
        [(tenant.get("models"), tenant.get("model_set")) for tenant in table["tenant"]],
    ]
    models, machine = _costed(json.dumps([asked, stamps]), scenario)
    iso = isolated_s(machine, models)
    bench = Bench(scenario, models, machine, iso)
    if scenario.load is None:
        return bench
    capacity = measure_capacity(bench)
    offered = offered_rate_per_s(bench)
    factor = scenario.load * capacity / offered
    return Bench(scenario, models, machine, iso, factor, capacity)


_COSTED: dict[str, tuple[tuple[DnnModel, ...], Machine]] = {}


def _costed(key: str, scenario: Scenario) -> tuple[tuple[DnnModel, ...], Machine]:
    """Networks and machine, shared by all scenarios of one ``key``: a sweep over rates costs layers once."""
    if key not in _COSTED:
        models = networks(scenario)
        if len(_COSTED) >= 16:
            _COSTED.pop(next(iter(_COSTED)))
        _COSTED[key] = models, build_machine(scenario.platform, models)
    return _COSTED[key]


def isolated_s(machine: Machine, models: Sequence[DnnModel]) -> dict[str, float]:
    """Isolated time of each network: every layer on the best type *of this platform*."""
    columns = [machine.table.types.index(name) for name in machine.types]
    best_s = machine.table.latency_s[:, columns].min(axis=1)
    offsets = machine.table.offsets
    return {model.name: float(best_s[offsets[i] : offsets[i + 1]].sum()) for i, model in enumerate(models)}


def offered_rate_per_s(bench: Bench) -> float:
    """Requests per second as written, over the run, averaged over five seeds."""
    seeds = range(bench.scenario.seed, bench.scenario.seed + 5)
    return float(np.mean([len(bench.requests(seed)) for seed in seeds])) / bench.scenario.duration_s


def measure_capacity(bench: Bench) -> float:
    """Saturated throughput, requests per second: load 1.0.

    FCFS, fastest idle accelerator, all requests present at time 0, nothing dropped
    (inference-scheduling 6.3), with the scenario's mix and contention. Raises ConfigError for closed loops.
    """
    table = bench.requests(bench.scenario.seed)
    if (table.after >= 0).any():
        raise ConfigError("load scales arrival rates, and closed-loop clients have none; leave load out")
    rows = np.arange(len(table)) if len(table) <= CAPACITY_REQUESTS else _spread(len(table))
    present = RequestTable(
        table.agreements,
        table.pair[rows],
        np.zeros(len(rows)),
        np.full(len(rows), np.inf),
        table.priority[rows],
    )
    options = EngineOptions(late="run", record="requests", seed=bench.scenario.seed)
    result = simulate(present, bench.machine.table, bench.machine, load_policy("fcfs"), options)
    finish_s = np.asarray(result.tables["requests"]["finish_s"])
    return len(rows) / float(finish_s.max())


def _spread(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """CAPACITY_REQUESTS rows evenly spread over all, so that the mix is kept."""
    return np.linspace(0, count - 1, CAPACITY_REQUESTS).astype(np.int64)
