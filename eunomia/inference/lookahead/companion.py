"""A lookahead beside one running engine: snapshot, trial state and workspace, allocated once per run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Protocol

import numpy as np

from eunomia.core.addresses import give_blocks, link, share
from eunomia.core.arrays import Records
from eunomia.core.errors import PolicyError
from eunomia.inference.by_type import means
from eunomia.inference.kernel.setup import GREEDY, PLACEMENTS, Rules, width
from eunomia.inference.kernel.state import State, new_state
from eunomia.inference.lookahead.keys import ORDERS
from eunomia.inference.lookahead.memory import ARRAYS, BLOCK, WORKSPACE
from eunomia.inference.lookahead.price import FEATURES, worth
from eunomia.inference.options import EngineOptions, Estimator
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.problem import Problem
from eunomia.workload.tenant import SLI_KINDS

KNOWN = 96  # requests that a snapshot can hold; those beyond are left out unless a layer of theirs runs
FUTURE = 64  # arrivals that a sampled future can hold
LEARNED_COST = 3  # of a simulated layer end that follows a learned policy, in those of a rule (learned.py)
SHARED = ("costs", "rows", "successors", "models", "jobs", "pairs", "results")  # what rollouts do not change


@dataclass(frozen=True)
class Settings:
    """Fields of WORKSPACE that the user decides (policy.py says what they mean)."""

    objective: int = 0
    budget: int = 0
    horizon_s: float = math.inf
    price: float = 0.0
    price_of: int = 0
    margin: float = 0.0
    futures: int = 0
    foresee: bool = False
    singles: bool = True
    refuse: bool = False
    charged: bool = False
    slice_rollouts: float = 3.0
    unit_s: float = 1.25e-7
    snapshot_s: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("budget", "price", "margin", "futures"):
            if not getattr(self, name) >= 0:
                raise PolicyError(f"lookahead: {name} is {getattr(self, name)}; it must be at least 0")
        for name in ("horizon_s", "unit_s", "slice_rollouts"):
            if not getattr(self, name) > 0.0:
                raise PolicyError(f"lookahead: {name} is {getattr(self, name)}; it must be positive")


class Begun(Protocol):
    """What is needed of an Engine (inference/simulate.py)."""

    @property
    def problem(self) -> Problem:
        """What it runs."""
        ...

    @property
    def options(self) -> EngineOptions:
        """How it runs it."""
        ...

    @property
    def state(self) -> State:
        """The memory of its kernel."""
        ...


class Learner(Protocol):
    """What rollouts need to follow a learned policy (learner.py)."""

    @property
    def address(self) -> int:
        """Where the machine code stands that follows it."""
        ...

    def arrays(self, problem: Problem, slots: int, nodes: int) -> dict[str, Records]:
        """Its arrays of the workspace for one run."""
        ...


@dataclass(eq=False)
class Companion:
    """Memory of one lookahead for one engine; ``workspace`` (1,) WORKSPACE is what compiled code sees."""

    workspace: Records
    arrays: dict[str, Records]
    states: tuple[State, State]

    @property
    def known(self) -> int:
        """Requests that a snapshot can hold at most, those that run included."""
        return len(self.states[0]["slots"])

    def count(self, what: str) -> int:
        """So far in this run: ``deliberations``, ``rollouts``, ``layer_ends`` simulated, ``changes`` of the plan."""
        return int(self.workspace[what][0])


def believed(problem: Problem, futures: int) -> Problem:
    """The problem as the scheduler takes it to be: estimated times are true, futures have room in the jobs."""
    costs, jobs = problem.costs, problem.jobs
    room = futures * FUTURE
    times = costs._replace(latency_s=costs.estimate_s.copy(), demand_bytes_s=costs.estimate_demand.copy())
    extended = {
        name: np.concatenate([getattr(jobs, name), np.zeros(room, getattr(jobs, name).dtype)])
        for name in ("pair", "model", "arrival_s", "relative_deadline_s", "priority", "deferrable", "next")
    }
    extended["next"][:] = -1
    longer = jobs._replace(**extended)  # type: ignore[arg-type]
    return problem._replace(costs=times, jobs=longer)


def attach(
    engine: Begun, settings: Settings, portfolio: tuple[Greedy | None, ...], learner: Learner | None = None
) -> Companion:
    """Allocate the memory and leave it where the compiled policy finds it.

    ``engine``: an Engine (inference/simulate.py) that has not begun to run. ``portfolio``: None = the learned policy,
    which rollouts follow by ``learner``.
    """
    problem, options = engine.problem, engine.options
    snapshot, trial = _twin_states(engine, believed(problem, settings.futures), settings.futures)
    arrays = _arrays(problem, settings, portfolio, len(trial["slots"]), len(trial["nodes"]))
    if learner is not None:
        arrays |= learner.arrays(problem, len(trial["slots"]), len(trial["nodes"]))
    workspace = np.zeros(1, WORKSPACE)
    states = {"live": engine.state.kernel, "snapshot": snapshot.kernel, "trial": trial.kernel}
    link(workspace, {**states, **arrays})
    values = {
        **asdict(settings),
        "num_rules": len(portfolio),
        "num_requests": len(problem.jobs.pair),
        "most_known": KNOWN,
        "num_rows": len(problem.costs.latency_s),
        "num_pairs": len(problem.jobs.model_of),
        "future_capacity": FUTURE,
        "learning": options.estimator.mode == "ewma",
        "learner_at": 0 if learner is None else learner.address,
    }
    for name, value in values.items():
        workspace[name] = value
    give_blocks(engine.state["system"], [workspace], BLOCK)
    return Companion(workspace, arrays, (snapshot, trial))


def _twin_states(engine: Begun, model: Problem, futures: int) -> tuple[State, State]:
    """Two states of the believed problem, with everything in common that rollouts do not change.

    Neither grows, so there is room for all that a rollout can need. Slots: one for each request that the
    snapshot holds (``KNOWN`` and one per accelerator), one for each arrival of a sampled future. One more
    stays free, as the event loop's functions need it. Nodes: for all their layers that can be ready at once.
    """
    inner = replace(
        engine.options,
        late="run",
        record="requests",
        horizon_s=None,
        decision_s=0.0,
        charge_measured=False,
        period_s=None,
        estimator=Estimator(),
        switch_s=means(engine.options.switch_s),
        move_s=means(engine.options.move_s),
    )
    slots = KNOWN + len(model.type_of) + (FUTURE if futures > 0 else 0) + 1
    snapshot, trial = (
        new_state(model, Rules(GREEDY), inner, slots=slots, nodes_per_slot=width(model)) for _ in range(2)
    )
    for state in (snapshot, trial):
        share(state.kernel, snapshot.kernel, SHARED)
        share(state.kernel, engine.state.kernel, ["rows"])  # what remains, as estimated now
    return snapshot, trial


def _arrays(
    problem: Problem, settings: Settings, portfolio: tuple[Greedy | None, ...], slots: int, nodes: int
) -> dict[str, Records]:
    requests = len(problem.jobs.pair) + settings.futures * FUTURE
    lengths = {
        "portfolio": len(portfolio),
        "pairs": len(problem.jobs.model_of),
        "levels": requests,
        "planned": requests,
        "agenda": nodes,
        "least": len(problem.costs.latency_s),
        "left": slots,
        "worth": len(FEATURES),
    }
    arrays = {name: np.zeros(lengths.get(name, 0), dtype) for name, dtype in ARRAYS.items()}
    _write_portfolio(arrays["portfolio"], portfolio)
    arrays["worth"]["value"] = worth()
    promised = problem.jobs.slo_kind == SLI_KINDS.index("hit_rate")
    arrays["pairs"]["target"] = np.where(promised, problem.jobs.slo_target, np.nan)
    return arrays


def _write_portfolio(rows: Records, portfolio: tuple[Greedy | None, ...]) -> None:
    for row, rule in zip(rows, portfolio, strict=True):
        row["cost"] = 1
        if rule is None:
            row["learned"], row["cost"] = 1, LEARNED_COST
            continue
        row["order"], row["place"] = ORDERS.index(rule.resolved.name), PLACEMENTS.index(rule.place)
        row["feasible"], row["gate"] = rule.feasible, rule.gate
