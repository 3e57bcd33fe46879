"""One run of a scenario: a policy, a seed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from eunomia.config import Scenario, as_table, load_scenario, scenario_from
from eunomia.contract.traits import COUNTS
from eunomia.core.data import Data
from eunomia.core.errors import within
from eunomia.core.records import RunRecords
from eunomia.inference.options import EngineOptions, Estimator, Record
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.rehearsal import Rehearsing
from eunomia.inference.simulate import Result, simulate
from eunomia.metrics.indicators import pairs_of
from eunomia.metrics.service import tenant_rates
from eunomia.metrics.statistics import Estimate, nearest_rank
from eunomia.metrics.summary import summarise
from eunomia.metrics.table import METRICS
from eunomia.metrics.window import measured
from eunomia.report.charts import bars
from eunomia.report.table import Table
from eunomia.report.units import value_text
from eunomia.study.inference.bench import Bench, prepare
from eunomia.study.inference.policy import PolicyLike, policy_name, resolve_policy
from eunomia.study.result import RunResult
from eunomia.study.run import Reader, blame, finite, provenance, seed_of

if TYPE_CHECKING:
    from eunomia.report.charts import Axes

ScenarioLike = Scenario | str | Path | Data
SCENARIOS = Reader(Scenario, as_table, scenario_from, load_scenario)
DEFAULT = "eunomia"  # the policy of a run that names none
SHOWN = (
    "requests",
    "slo_attainment",
    "slo_shortfall",
    "hit_rate",
    "worst_tenant",
    "jain_hit_rate",
    "drop_rate",
    "response_mean_s",
    "response_p99_s",
    "tardiness_p99_s",
    "queueing_share",
    "contention_share",
    "utilisation",
    "bandwidth_saturation",
    "energy_per_request_j",
    "strange_share",
    "alarms",
    "fallback_share",
)


@dataclass(frozen=True, repr=False, kw_only=True)
class InferenceRun(RunResult[Scenario]):
    """What one run of a scenario gave; ``metrics``: docs/metrics.md."""

    known = METRICS
    tenants: dict[str, float]  # hit rate of each tenant
    pairs: list[Data]  # rows of schema PAIRS, over the measured requests: promised and delivered

    @property
    def scenario(self) -> Scenario:
        """What was run."""
        return self.config

    @property
    def example(self) -> str:
        """The first one on record."""
        return "req-0"

    def answer(self) -> Data:
        """Metrics, hit rates of tenants, pairs, and whose trace is the same under every seed."""
        return {
            "metrics": self.metrics,
            "remarks": [],
            "tenants": self.tenants,
            "pairs": self.pairs,
            "replayed_alike": self.records.manifest["replayed_alike"],
            "rehearsed": self.records.manifest["policy"].get("rehearsed", {}).get("chosen"),
        }

    def table(self, short: bool = False) -> Table:
        """The main metrics, then the hit rate of each tenant."""
        rate = METRICS["hit_rate"]
        rates = [(f"hit rate of {name}", value_text(rate, value)) for name, value in self.tenants.items()]
        facts = self.records.manifest["policy"].get("rehearsed")
        ran = [("ran as, after rehearsal", facts["chosen"])] if facts else []
        return Table(("metric", "value"), (*self.lines(SHOWN), *rates, *ran))

    def draw(self, axes: Axes, metric: str | None) -> None:
        """A bar per tenant: its hit rate."""
        rates = {name: Estimate(rate, math.nan, math.nan, 1) for name, rate in self.tenants.items()}
        bars(axes, rates, "hit rate")


def run(
    scenario: ScenarioLike,
    policy: PolicyLike | None = None,
    seed: int | None = None,
    overrides: Iterable[str] = (),
    record: Record = "all",
) -> InferenceRun:
    """Simulate one scenario under one policy; nothing is written.

    ``policy``: a name (docs/policies.md), ``FILE.py:FUNCTION`` or any callable ``View -> [Assign]``;
    None means the scenario's, or ``eunomia``. ``seed``: None means the scenario's; equal seeds give equal requests
    under every policy. ``record = "requests"`` keeps the tables of requests only, which is faster.
    """
    checked = SCENARIOS.checked(scenario, overrides)
    wanted = checked.policy or DEFAULT if policy is None else policy
    if policy is None:
        with within(f"'{checked.name}': policy"):
            resolve_policy(wanted)
    return run_cell(checked, wanted, seed_of(checked, seed), record)


def run_cell(scenario: Scenario, policy: PolicyLike, seed: int, record: Record = "all") -> InferenceRun:
    """``run`` with everything decided."""
    ready = resolve_policy(policy)
    before = dict(COUNTS.of(ready))
    bench = prepare(scenario)
    requests = bench.requests(seed)
    with blame(policy_name(policy)):
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
        "guards": {name: n - before.get(name, 0) for name, n in COUNTS.of(ready).items()} or None,
        "config": as_table(scenario),
        **facts(bench),
        **provenance(),
    }
    scope = measured(result.tables, scenario.warmup_s, scenario.duration_s)
    pairs = pairs_of(scope, requests.agreements)
    records = RunRecords({**result.tables, "pairs": pairs}, manifest)
    metrics = summarise(records)
    manifest["metrics"] = finite(metrics)
    rates = tenant_rates(scope.requests)
    return InferenceRun(
        config=scenario,
        policy=policy_name(policy),
        seed=seed,
        records=records,
        metrics=metrics,
        tenants=rates,
        pairs=pairs.to_pylist(),
    )


def cost_of(result: Result) -> Data:
    """What the run itself took, in wall time: kept out of the metrics, which depend on the seed alone."""
    asked = result.decision_wall_s
    return {
        "wall_s": result.wall_s,
        "events": result.events,
        "decisions": result.decisions,
        "decision_p50_s": nearest_rank(asked, 50) if len(asked) else None,
        "decision_p99_s": nearest_rank(asked, 99) if len(asked) else None,
    }


def policy_facts(policy: PolicyLike, ready: object) -> Data:
    """The policy's name and, where it is an order with a placement, its rules: what explain recomputes."""
    name: Data = {"name": policy_name(policy)}
    if isinstance(ready, Rehearsing) and ready.rehearsed is not None:
        name["rehearsed"], ready = ready.rehearsed.facts(), ready.chosen
    if not isinstance(ready, Greedy):
        return name
    return {
        **name,
        "order": ready.resolved.name,
        "place": ready.place,
        "feasible": ready.feasible,
        "gate": ready.gate if math.isfinite(ready.gate) else None,
    }


def facts(bench: Bench) -> Data:
    """What a reader of a run must know beside its config: engine, networks, load."""
    engine = bench.scenario.engine.model_dump()
    bandwidth, slowdowns = bench.machine.dram_bytes_s, bench.machine.slowdowns
    return {
        "engine": {
            **engine,
            "contention": bench.machine.contention,
            "bandwidth_bytes_s": bandwidth if math.isfinite(bandwidth) else None,
            **({"slowdowns": asdict(slowdowns)} if slowdowns else {}),
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
