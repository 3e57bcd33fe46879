"""What all runs of a scenario share: networks, platform, cost table, the factor on arrival rates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from eunomia.config import Scenario, as_table
from eunomia.config.load import scenario_from
from eunomia.core.data import Data
from eunomia.study.files import file_stamps
from eunomia.study.inference.capacity import Capacity, Draw, factor_for, measure_capacity
from eunomia.study.inference.demand import networks, replayed_alike, requests, streams
from eunomia.study.inference.machine import Machine, build_machine
from eunomia.workload.generate import generate
from eunomia.workload.model import DnnModel
from eunomia.workload.requests import RequestTable
from eunomia.workload.stream import Stream


@dataclass(frozen=True)
class Bench:
    """Everything but seed and policy. ``capacity`` is None unless the scenario sets a load."""

    scenario: Scenario
    models: tuple[DnnModel, ...]
    machine: Machine
    iso_best_s: dict[str, float]
    rate_factor: float = 1.0
    capacity: Capacity | None = None

    def requests(self, seed: int) -> RequestTable:
        """The requests of one seed, the same for every policy."""
        return requests(self.scenario, seed, self.iso_best_s, self.rate_factor)

    def replayed_alike(self) -> list[str]:
        """Tenants whose trace is the same under every seed."""
        return replayed_alike(self.scenario, self.rate_factor)


def prepare(scenario: Scenario) -> Bench:
    """Build, or find again, the bench of a scenario. Raises whatever its parts complain about."""
    table = {
        key: value for key, value in as_table(scenario).items() if key not in ("compare", "sweep", "policy")
    }
    return _prepare(json.dumps(table), json.dumps(file_stamps(table)))


@lru_cache(maxsize=256)  # a load takes half a second to calibrate; a training visits scores of scenarios
def _prepare(text: str, stamps: str) -> Bench:
    """``stamps`` is part of the key alone: a changed file is read again."""
    table = json.loads(text)
    scenario = scenario_from(table)
    models, machine = _costed(_cost_key(table, stamps), scenario)
    iso = isolated_s(machine, models)
    bench = Bench(scenario, models, machine, iso)
    if scenario.load is None:
        return bench

    @lru_cache(maxsize=2)  # a factor is tried with a thousand seeds
    def streams_of(factor: float) -> list[Stream]:
        return streams(scenario, factor)

    def drawn(seed: int, factor: float) -> RequestTable:
        return generate(streams_of(factor), scenario.duration_s, seed, iso_best_s=iso)

    unloaded = {key: value for key, value in table.items() if key not in ("load", "seed", "engine", "name")}
    capacity = _capacity(json.dumps([unloaded, stamps]), drawn, scenario.duration_s, machine)
    factor = factor_for(scenario.load * capacity.per_s.mean, capacity, drawn, scenario.duration_s)
    return Bench(scenario, models, machine, iso, factor, capacity)


_CAPACITY: dict[str, Capacity] = {}


def _capacity(key: str, drawn: Draw, duration_s: float, machine: Machine) -> Capacity:
    """Measured once for all scenarios of one ``key``: a sweep over loads measures it once."""
    if key not in _CAPACITY:
        if len(_CAPACITY) >= 64:
            _CAPACITY.pop(next(iter(_CAPACITY)))
        _CAPACITY[key] = measure_capacity(drawn, duration_s, machine)
    return _CAPACITY[key]


def costed(scenario: Scenario) -> tuple[tuple[DnnModel, ...], Machine]:
    """Networks and machine of a scenario, without its traffic."""
    table = as_table(scenario)
    return _costed(_cost_key(table, json.dumps(file_stamps(table))), scenario)


def _cost_key(table: Data, stamps: str) -> str:
    """All that networks and costs depend on."""
    tenants = [(tenant.get("models"), tenant.get("model_set")) for tenant in table["tenant"]]
    return json.dumps([[table["platform"], table.get("network"), tenants], stamps])


_COSTED: dict[str, tuple[tuple[DnnModel, ...], Machine]] = {}


def _costed(key: str, scenario: Scenario) -> tuple[tuple[DnnModel, ...], Machine]:
    """Networks and machine, shared by all scenarios of one ``key``: a sweep over rates costs layers once."""
    if key not in _COSTED:
        models = networks(scenario)
        if len(_COSTED) >= 64:
            _COSTED.pop(next(iter(_COSTED)))
        machine = build_machine(scenario.platform, models)
        _COSTED[key] = machine.table.models, machine
    return _COSTED[key]


def isolated_s(machine: Machine, models: Sequence[DnnModel]) -> dict[str, float]:
    """Isolated time of each network: every layer on the best type *of this platform*."""
    columns = [machine.table.types.index(name) for name in machine.types]
    best_s = machine.table.latency_s[:, columns].min(axis=1)
    offsets = machine.table.offsets
    return {model.name: float(best_s[offsets[i] : offsets[i + 1]].sum()) for i, model in enumerate(models)}
