"""What all trials of a plan share: networks, costs of the whole catalogue, requests, promises."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from eunomia.config.plan import PlanConfig, PricedConfig
from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError
from eunomia.hardware.memory import needed_gb
from eunomia.hardware.perturb import perturb
from eunomia.hardware.table import CostTable
from eunomia.inference.by_type import is_any, is_drawn
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem, build_problem
from eunomia.study.inference.bench import Bench, prepare
from eunomia.study.inference.demand import recorded, requests
from eunomia.study.inference.machine import Machine, one_byte
from eunomia.study.inference.run import engine_options
from eunomia.study.plan.prices import unpriced
from eunomia.workload.requests import RequestTable
from eunomia.workload.tenant import Agreement

FRESH_SEED = 1_000_000  # beyond the search's own seeds
SEARCHED = ("description", "target", "currency", "hours", "bounds", "search")  # what no trial reads
WHOLE = 1e-9  # a target of 0.3 of 10 requests asks for 3


@dataclass(frozen=True, eq=False)
class Ground:
    """A plan with its networks and costs. Deadlines come from the best types of the whole catalogue."""

    plan: PlanConfig
    bench: Bench  # one device of every type
    gb_s: tuple[float, ...]  # of the memories, ascending
    left_out: tuple[str, ...] = ()  # promises that are not judged, and why

    @property
    def names(self) -> tuple[str, ...]:
        """Types of the catalogue, in its order."""
        return self.bench.machine.types

    def seeds(self, count: int, fresh: int = 0) -> list[int]:
        """Seeds of the search; ``fresh`` = 1, 2, ...: blocks that the search never sees."""
        first = self.bench.scenario.seed + fresh * FRESH_SEED
        return [first + n for n in range(count)]

    def requests(self, seed: int, factor: float = 1.0) -> RequestTable:
        """The requests of one seed, the same for every platform and policy."""
        return _requests(self, seed, factor)

    def measured(self, table: RequestTable) -> Flags:
        """Requests that count: those that arrive after the warm-up."""
        return np.asarray(table.arrival_s >= self.bench.scenario.warmup_s)

    @property
    def need_gb(self) -> float:
        """What a shared memory holds at least."""
        return needed_gb(self.bench.models, self.bench.machine.word_bytes)

    @property
    def notes(self) -> list[str]:
        """What the costs rest on: gaps that were filled, times that nobody published, words of unknown size."""
        machine = self.bench.machine
        found = [*(how.sentence() for how in machine.filled if how.estimated), *machine.assumed]
        found += unpriced(self.plan)
        bounded = [f"{memory.gb:g}" for memory in self.plan.memories if memory.gb is not None]
        if machine.unsized and bounded:
            said = f"[[memory]] has gb = {', '.join(dict.fromkeys(bounded))}"
            found.append(one_byte(machine.unsized, self.bench.models, said))
        return found

    @cached_property
    def repeated(self) -> Flags:
        """(pairs,) whether every fresh seed has the same requests of a pair, and some."""
        tables = [self.requests(seed) for seed in self.seeds(max(self.plan.search.fresh, 2), fresh=1)]
        arrivals = [
            [table.arrival_s[(table.pair == pair) & self.measured(table)] for table in tables]
            for pair in range(len(self.agreements))
        ]
        return np.array(
            [len(one[0]) > 0 and all(np.array_equal(one[0], other) for other in one) for one in arrivals]
        )

    @property
    def replayed(self) -> list[str]:
        """Tenants with promises whose requests are the same on every fresh seed."""
        alike = zip(self.agreements, self.repeated, strict=True)
        return list(dict.fromkeys(a.tenant for a, same in alike if same and a.slo is not None))

    def distinct(self, asked: Ints) -> Ints:
        """(pairs,) of ``asked``, (fresh seeds, pairs), the requests that differ: at most the length of a recording."""
        found = np.where(self.repeated, asked[:1].sum(axis=0), asked.sum(axis=0))
        lengths = recorded(self.bench.scenario)
        most = [lengths.get(a.tenant, int(found.max())) for a in self.agreements]
        return np.asarray(np.minimum(found, most), np.int64)

    def used_up(self, pair: int, requests: int) -> bool:
        """Whether a trace has no more requests of a pair's tenant than these."""
        return requests >= recorded(self.bench.scenario).get(self.agreements[pair].tenant, math.inf)

    @property
    def measured_s(self) -> float:
        """How long a seed is measured."""
        return self.bench.scenario.duration_s - self.bench.scenario.warmup_s

    def machine(self, counts: Sequence[int], memory: int) -> Machine:
        """The platform of a candidate, with the types that it has."""
        whole = self.bench.machine
        present = [t for t, count in enumerate(counts) if count]
        type_of = np.repeat(np.arange(len(present)), [counts[t] for t in present])
        return replace(
            whole,
            types=tuple(whole.types[t] for t in present),
            type_of=type_of,
            dram_bytes_s=self.gb_s[memory] * 1e9,
        )

    def costs(self, error: float, draw: int, slower: float) -> CostTable:
        """The table, wrong by up to ``error`` in each entry (draw by draw), and all times ``slower``."""
        return _costs(self, error, draw, slower)

    def problem(self, machine: Machine, table: RequestTable, costs: CostTable, seed: int) -> Problem:
        """One run."""
        return build_problem(table, costs, machine, self.options(seed))

    def options(self, seed: int) -> EngineOptions:
        """The engine's settings."""
        return engine_options(self.bench.scenario, seed, "requests")

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """The tenant-model pairs."""
        return self.requests(self.bench.scenario.seed).agreements

    @property
    def targets(self) -> Floats:
        """(pairs,) promised hit rate; nan = none."""
        return np.array([a.slo.target if a.slo is not None else math.nan for a in self.agreements])


def ground(plan: PlanConfig) -> Ground:
    """Networks, costs and promises of a plan. Raises ConfigError for promises that a plan cannot judge."""
    bench = prepare(plan.whole)
    if len(bench.machine.types) < len(plan.devices):
        raise ConfigError(
            f"plan '{plan.name}': two entries of [[device]] are of one type ({', '.join(bench.machine.types)}); "
            "give each type once, or a file of its own with another name"
        )
    made = Ground(plan, bench, tuple(sorted(memory.gb_s for memory in plan.memories)))
    table = made.requests(bench.scenario.seed)
    if (table.after >= 0).any():
        raise ConfigError(
            f"plan '{plan.name}': closed-loop clients send when they are served, so slower platforms get less "
            "to do; give arrivals of another process"
        )
    engine = bench.scenario.engine
    if is_any(engine.estimator.jitter) or is_drawn(engine.switch_s) or is_drawn(engine.move_s):
        raise ConfigError(
            f"plan '{plan.name}': engine.estimator.jitter, or a list in switch_s or move_s, makes run "
            "times random, which no bound covers; leave it out"
        )
    _check_promises(plan, table)
    return made


def _check_promises(plan: PlanConfig, table: RequestTable) -> None:
    for agreement in table.agreements:
        if agreement.slo is not None and agreement.slo.kind != "hit_rate":
            raise ConfigError(
                f"plan '{plan.name}': tenant '{agreement.tenant}' promises a {agreement.slo.kind} for "
                f"'{agreement.model}'; a plan judges hit rates: give slo = {{ hit_rate = 0.95 }} and a deadline "
                "(a latency_p99_ms of 5 is a hit_rate of 0.99 with deadline_ms = 5)"
            )
    promised = np.array([agreement.slo is not None for agreement in table.agreements])
    if not promised.any():
        raise ConfigError(
            f"plan '{plan.name}': no tenant promises anything; give slo = {{ hit_rate = 0.95 }} and a deadline"
        )
    endless = promised[table.pair] & np.isinf(table.relative_deadline_s)
    if endless.any():
        agreement = table.agreements[int(table.pair[int(np.argmax(endless))])]
        raise ConfigError(
            f"plan '{plan.name}': tenant '{agreement.tenant}' promises a hit rate for '{agreement.model}' without "
            "a deadline; give deadline_ms or deadline_factor"
        )


def needed(asked: Ints, targets: Floats) -> Ints:
    """(pairs,) hits that a promise asks for, of so many requests; 0 without a promise."""
    wanted = np.nan_to_num(targets, nan=0.0) * asked
    return np.ceil(wanted - WHOLE * np.maximum(asked, 1)).astype(np.int64)


def plan_table(plan: PlanConfig) -> Data:
    """All that a trial depends on: the plan without prices, bounds, and what only the search reads."""
    table: Data = plan.model_dump(mode="json", exclude_none=True)
    for key in ("device", "memory"):
        for entry in table.get(key, ()):
            for priced in (*PricedConfig.model_fields, "gb"):
                entry.pop(priced, None)
    return {key: value for key, value in table.items() if key not in SEARCHED}


@lru_cache(maxsize=4)
def ground_of(text: str) -> Ground:
    """The ground of ``plan_table`` as JSON: built once in each process."""
    return ground(PlanConfig.model_validate(json.loads(text)))


@lru_cache(maxsize=64)
def _requests(on: Ground, seed: int, factor: float) -> RequestTable:
    return requests(on.bench.scenario, seed, on.bench.iso_best_s, factor)


@lru_cache(maxsize=32)
def _costs(on: Ground, error: float, draw: int, slower: float) -> CostTable:
    table = on.bench.machine.table
    if error > 0.0:
        table = perturb(table, error, np.random.default_rng([draw, 0x9E7]))
    if slower == 1.0:
        return table
    return replace(
        table,
        compute_s=table.compute_s * slower,
        buffer_s=table.buffer_s * slower,
        dram_bytes=table.dram_bytes * slower,
    )
