"""One run: a scenario, a policy, a seed."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from eunomia.config import Scenario, as_table, load_scenario, scenario_from
from eunomia.core.errors import ConfigError, EunomiaError, PolicyError
from eunomia.core.records import RunRecords, environment, write_run
from eunomia.inference.options import EngineOptions, Estimator, Record
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.simulate import Result, simulate
from eunomia.metrics.indicators import pairs_of
from eunomia.metrics.service import tenant_rates
from eunomia.metrics.statistics import nearest_rank
from eunomia.metrics.summary import summarise
from eunomia.metrics.window import measured
from eunomia.study.inference.bench import Bench, prepare
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy

MAX_SEEDS = 10_000
ScenarioLike = Scenario | str | Path | dict[str, Any]


@dataclass(frozen=True)
class RunResult:
    """What one run gave: ``records`` (tables and manifest), ``metrics`` by name (docs/metrics.md)."""

    scenario: Scenario
    policy: str
    seed: int
    records: RunRecords
    metrics: dict[str, float]  # nan where the run has no such number
    tenants: dict[str, float]  # hit rate of each tenant
    pairs: list[dict[str, Any]]  # rows of schema PAIRS, over the measured requests: promised and delivered

    def write(self, directory: str | Path, overwrite: bool = False) -> RunRecords:
        """Write tables and manifest to ``directory``, whole or not at all."""
        return write_run(directory, self.records.tables, self.records.manifest, overwrite=overwrite)


def seeds_from(first: int, count: int = 1) -> list[int]:
    """``count`` seeds, ascending from ``first``. Raises ConfigError unless they fit the range of seeds."""
    if not 1 <= count <= MAX_SEEDS:
        raise ConfigError(f"{count} seeds per policy; give 1 to {MAX_SEEDS}")
    if not 0 <= first <= 2**63 - count:
        raise ConfigError(f"seed is {first}; seeds are whole numbers from 0 to 2^63 - 1")
    return list(range(first, first + count))


def as_scenario(scenario: ScenarioLike, overrides: Iterable[str] = ()) -> Scenario:
    """A Scenario from itself, a file or a dictionary. Raises ConfigError."""
    if isinstance(scenario, Scenario):
        return scenario_from(as_table(scenario), overrides)
    if isinstance(scenario, dict):
        return scenario_from(scenario, overrides)
    return load_scenario(scenario, overrides)


def run(
    scenario: ScenarioLike,
    policy: PolicyLike | None = None,
    seed: int | None = None,
    overrides: Iterable[str] = (),
    record: Record = "all",
) -> RunResult:
    """Simulate one scenario under one policy; nothing is written.

    ``policy``: a name (docs/policies.md), ``FILE.py:FUNCTION`` or any callable ``View -> [Assign]``;
    None means the scenario's. ``seed``: None means the scenario's; equal seeds give equal requests
    under every policy. ``record = "requests"`` keeps the tables of requests only, which is faster.
    """
    checked = as_scenario(scenario, overrides)
    chosen = policy if policy is not None else checked.policy or checked.compare.policies[0]
    return run_cell(checked, chosen, seeds_from(checked.seed if seed is None else seed)[0], record)


def run_cell(scenario: Scenario, policy: PolicyLike, seed: int, record: Record = "all") -> RunResult:
    """``run`` with everything decided."""
    ready = resolve_policy(policy)
    bench = prepare(scenario)
    requests = bench.requests(seed)
    with blame(policy):
        result = simulate(
            requests, bench.machine.table, bench.machine, ready, engine_options(scenario, seed, record)
        )
    manifest = {
        "name": scenario.name,
        "policy": policy_facts(policy, ready),
        "seed": seed,
        "warmup_s": scenario.warmup_s,
        "duration_s": scenario.duration_s,
        "measured_until_s": scenario.duration_s,
        **cost_of(result),
        "config": as_table(scenario),
        **facts(bench),
        **provenance(),
    }
    scope = measured(result.tables, scenario.warmup_s, scenario.duration_s)
    pairs = pairs_of(scope, requests.agreements)
    records = RunRecords({**result.tables, "pairs": pairs}, manifest)
    metrics = summarise(records)
    manifest["metrics"] = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    rates = tenant_rates(scope.requests)
    return RunResult(scenario, policy_name(policy), seed, records, metrics, rates, pairs.to_pylist())


@lru_cache(maxsize=1)
def provenance() -> dict[str, Any]:
    """``environment()``, asked once per process."""
    return environment()


@contextmanager
def blame(policy: PolicyLike) -> Iterator[None]:
    """Say which policy raised an error of its own, and where."""
    try:
        yield
    except (EunomiaError, MemoryError):
        raise
    except SystemExit as leaving:
        raise PolicyError(
            f"policy '{policy_name(policy)}' called sys.exit({leaving.code!r}); it must return a list of Assign"
        ) from leaving
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise PolicyError(
            f"policy '{policy_name(policy)}' raised {type(error).__name__}: {error} "
            f"({Path(last.filename).name}, line {last.lineno})"
        ) from error


def cost_of(result: Result) -> dict[str, Any]:
    """What the run itself took, in wall time: kept out of the metrics, which depend on the seed alone."""
    asked = result.decision_wall_s
    return {
        "wall_s": result.wall_s,
        "events": result.events,
        "decisions": result.decisions,
        "decision_p50_s": nearest_rank(asked, 50) if len(asked) else None,
        "decision_p99_s": nearest_rank(asked, 99) if len(asked) else None,
    }


def policy_facts(policy: PolicyLike, ready: Any) -> dict[str, Any]:
    """The policy's name and, where it is an order with a placement, its rules: what explain recomputes."""
    if not isinstance(ready, Greedy):
        return {"name": policy_name(policy)}
    return {
        "name": policy_name(policy),
        "order": ready.resolved.name,
        "place": ready.place,
        "feasible": ready.feasible,
        "gate": ready.gate if math.isfinite(ready.gate) else None,
    }


def facts(bench: Bench) -> dict[str, Any]:
    """What a reader of a run must know beside its config: engine, networks, load."""
    engine = bench.scenario.engine.model_dump()
    bandwidth = bench.machine.dram_bytes_s
    return {
        "engine": {
            **engine,
            "contention": bench.machine.contention,
            "bandwidth_bytes_s": bandwidth if math.isfinite(bandwidth) else None,
        },
        "platform": {
            "types": list(bench.machine.types),
            "type_of": [int(t) for t in bench.machine.type_of],
        },
        "models": {
            model.name: {"edges": [list(edge) for edge in model.edges], "source": model.source}
            for model in bench.models
        },
        **(bench.capacity.facts() if bench.capacity else {"capacity_per_s": None}),
        "rate_factor": bench.rate_factor,
        "replayed_alike": bench.replayed_alike(),
    }


def engine_options(scenario: Scenario, seed: int, record: Record) -> EngineOptions:
    """The engine's settings, as the scenario has them."""
    engine = scenario.engine
    settings = engine.model_dump(exclude={"estimator", "drain"})
    estimator = Estimator(**engine.estimator.model_dump())
    horizon_s = None if engine.drain else scenario.duration_s
    return replace(
        EngineOptions(**settings), estimator=estimator, seed=seed, record=record, horizon_s=horizon_s
    )
