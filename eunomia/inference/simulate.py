"""Drive a policy through the compiled kernel; return the record tables of the run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eunomia.contract import traits
from eunomia.contract.constants import give_constants
from eunomia.contract.contention import CONTENTION
from eunomia.contract.rows import CompiledDecide, CompiledKey
from eunomia.contract.view import Assign, Policy, View
from eunomia.core import interrupts
from eunomia.core.arrays import Records
from eunomia.core.errors import ConfigError, PolicyError
from eunomia.hardware.platform import PlatformLike
from eunomia.hardware.table import CostTable
from eunomia.inference.kernel import loop, modes
from eunomia.inference.kernel.layout import SUBJOB
from eunomia.inference.kernel.setup import DECIDE, NO_BIND, STEP, Rules
from eunomia.inference.kernel.signatures import compile_decide, compile_key
from eunomia.inference.kernel.state import State, new_state
from eunomia.inference.options import EngineOptions
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies import load_policy, policy_name
from eunomia.inference.policies.knowledge import knowledge_of
from eunomia.inference.policies.ordering import fcfs
from eunomia.inference.policies.reasons import Reasons
from eunomia.inference.problem import Problem, build_problem
from eunomia.workload.requests import RequestTable

if TYPE_CHECKING:
    import pyarrow as pa


class Engine:
    """One run in progress. ``run()`` to the end, or ``until_asked()`` and ``answer()`` step by step."""

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        options: EngineOptions,
        key: CompiledKey | None = None,
        decide: CompiledDecide | None = None,
    ) -> None:
        self.problem, self.options = problem, options
        self.state: State = new_state(problem, rules, options)
        self._key = key if key is not None else compile_key(fcfs)
        self._decide = decide if decide is not None else compile_decide(_hold)
        self._run = modes.compiled_run(modes.kind_of(problem, rules, options))
        self._order: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.companion: object = None  # memory that a policy keeps beside this run

    def advance(self, answers: int = -1) -> bool:
        """Run until the policy must decide (True) or the run has ended (False)."""
        while True:
            status = self._run(self.state.kernel, self._key, self._decide, answers)
            answers = -1
            interrupts.check()  # one that came while numba compiled may be lost
            if status in (loop.ASK, loop.ASK_TICK):
                return True
            if status == loop.DONE:
                return False
            if status == loop.GROW:
                self.state.grow()
            elif status == loop.PAUSE:
                continue
            elif status == loop.FAULT:
                raise PolicyError(self._fault(int(self.state.k["fault"])))
            else:
                raise PolicyError(
                    f"the policy holds {int(self.state.k['num_waiting'])} ready sub-jobs at "
                    f"{self.now_s:.6f} s while everything is idle and nothing else will happen; it must start one"
                )

    @property
    def now_s(self) -> float:
        """The clock."""
        return float(self.state["system"]["now_s"][0])

    def view(self) -> View:
        """What the policy may see now: valid until the next ``advance``."""
        state, count = self.state, int(self.state.k["shown"])
        self._order = np.argsort(state["view_ready"]["sequence"][:count], kind="stable")
        arrays = (
            state["view_ready"][self._order],
            state["accelerators"].copy(),
            state.numbers("view_latency")[self._order],
            state.numbers("view_demand")[self._order],
            state.numbers("view_energy")[self._order],
        )
        for array in arrays:
            array.setflags(write=False)
        ready, accelerators, latency_s, demand, energy_j = arrays
        return View(state["system"].copy()[0], ready, accelerators, latency_s, demand, energy_j)

    def answer(self, view: View, assigns: Sequence[Assign]) -> int:
        """Write a policy's answer where the kernel reads it; returns the number of rows."""
        rows, priorities = self.state["answer"], self.state["answer_priority"]
        if len(assigns) > len(rows):
            raise PolicyError(f"the policy gave {len(assigns)} decisions for {len(view)} ready sub-jobs")
        for n, assign in enumerate(assigns):
            place = _row_of(view, assign)
            if place < 0:
                raise PolicyError(
                    f"at {self.now_s:.6f} s the policy assigned layer {assign.layer} of request "
                    f"{assign.request}, which is not ready"
                )
            rows[n] = self._order[place], assign.accelerator
            priorities[n] = assign.priority
        return len(assigns)

    def _fault(self, row: int) -> str:
        index, s = map(int, self.state["answer"][row])
        lanes = len(self.state["lanes"])
        where = f"at {self.now_s:.6f} s it gave an illegal decision"
        shown = int(self.state.k["shown"])
        if not 0 <= index < shown:
            return f"{where}: sub-job {index} of a view that shows {shown}"
        job = self.state["view_ready"][index]
        what = f"{where}: layer {job['layer']} of request {job['request']} on accelerator {s}"
        if not 0 <= s < lanes:
            return f"{what}; there are {lanes} accelerators, 0 to {lanes - 1}"
        if not np.isfinite(self.state.numbers("view_latency")[index, s]):
            return f"{what}, which cannot run it"
        if self.state["accelerators"]["request"][s] >= 0 and self.options.period_s is None:
            return f"{what}, which is busy with request {int(self.state['accelerators']['request'][s])}"
        return f"{what}, which was already started or queued"

    def outcome(self, wall_s: float, decision_wall_s: list[float]) -> Outcome:
        """Everything recorded so far."""
        state, k = self.state, self.state.k
        started = int(k["num_decisions"]) if self.options.record == "all" else 0
        subjobs = state["subjobs"][: int(k["num_subjobs"])]
        decisions, free_in = state["decisions"][:started], state.numbers("free_in")[:started]
        running = np.flatnonzero(state["lanes"]["node"] >= 0)
        self._write_unfinished()
        busy_s = state["accelerators"]["busy_s"].copy()
        busy_s[running] += self.now_s - state["lanes"]["start_s"][running]
        if len(running) and self.options.record == "all":
            subjobs = np.concatenate([subjobs, self._still_running(running)])
        return Outcome(
            self.problem,
            self.options,
            state["results"],
            subjobs,
            decisions,
            free_in,
            busy_s,
            state["lanes"],
            state["costs"]["estimate_s"],
            self.now_s,
            int(k["events"]),
            int(k["rounds"]),
            float(k["saturated_s"]),
            float(k["bytes_moved"]),
            wall_s,
            self.companion if isinstance(self.companion, Reasons) else None,
            np.array(decision_wall_s),
        )

    def _write_unfinished(self) -> None:
        """Results so far of requests that a horizon cut off, dropped ones that run on included."""
        state, used = self.state, int(self.state.k["used_slots"])
        slots = state["slots"][:used]
        results = state["results"]
        slots = slots[np.isin(np.arange(used), self._live_slots())]
        for name in ("start_s", "work_s", "stretch_s", "switch_s", "energy_j"):
            results[name][slots["request"]] = slots[name]
        since_s = np.where(slots["running"] > 0, self.now_s - slots["running_since_s"], 0.0)
        results["running_s"][slots["request"]] = slots["running_s"] + since_s

    def _live_slots(self) -> npt.NDArray[np.int64]:
        """Slots of requests that wait or run now."""
        state = self.state
        waiting = state["waiting"]["value"][: int(state.k["num_waiting"])]
        running = state["lanes"]["node"][state["lanes"]["node"] >= 0]
        return np.unique(state["nodes"]["slot"][np.concatenate([waiting, running])])

    def _still_running(self, running: npt.NDArray[np.int64]) -> Records:
        """Rows for layers that a horizon cut off: without an end."""
        rows = np.zeros(len(running), SUBJOB)
        lanes = self.state["lanes"][running]
        facts, nodes = self.state["ready"][lanes["node"]], self.state["nodes"][lanes["node"]]
        for name in ("request", "layer", "ready_s"):
            rows[name] = facts[name]
        for name in ("start_s", "work_s", "switch_s", "decision"):
            rows[name] = lanes[name]
        rows["accelerator"], rows["key"], rows["end_s"] = running, nodes["key"], np.nan
        return rows


def simulate_problem(
    problem: Problem, policy: str | Policy, options: EngineOptions, *, stepped: bool = False
) -> Outcome:
    """Run one problem under one policy; the problem stays as it is.

    ``choose`` gets problem and options first, and gives the policy that runs (rehearsal.py).
    ``prepare`` hands networks and platform to a policy that has it, ``reset`` the seed; after each call, its
    ``charge_s`` [s], if it has one, is charged as scheduler time, unless measured time is. ``sharing`` names
    the contention mode of a policy that throttles memory traffic itself (MoCA's split). ``period_s`` and
    ``period_mode`` give the ticks of a periodic policy, where the options set none. Raises ConfigError for a
    policy that cannot decide at ticks: queueing rules, and compiled ones without ``decide_tick``.
    """
    chosen = load_policy(policy)
    if (choose := traits.CHOOSE.of(chosen)) is not None:
        chosen = choose(problem, options)
    sharing = traits.SHARING.of(chosen)
    if sharing is not None and CONTENTION[problem.contention].replaceable:
        problem = problem._replace(contention=sharing)
    if (prepare := traits.PREPARE.of(chosen)) is not None:
        prepare(knowledge_of(problem))
    if options.period_s is None and (period_s := traits.PERIOD_S.of(chosen)) > 0.0:
        options = replace(options, period_s=period_s, period_mode=traits.PERIOD_MODE.of(chosen))
    traits.forget(chosen, options.seed)
    rules: Rules = traits.RULES.of(chosen) or Rules(STEP)
    if options.period_s is not None and not _decides_at_ticks(chosen, rules):
        raise ConfigError(
            f"policy '{policy_name(chosen)}' cannot decide at the ticks of a period; take another policy, "
            f"or leave out period_s ({options.period_s:g})"
        )
    if stepped or options.charge_measured:  # only asking from Python can be timed, and all are timed alike
        rules = rules._replace(mode=STEP)
    decide = traits.DECIDE if options.period_s is None else traits.DECIDE_TICK
    in_place = rules.mode == DECIDE and (ask := traits.IN_PLACE.of(chosen)) is not None and ask(options)
    engine = Engine(problem, rules, options, traits.KEY.of(chosen), None if in_place else decide.of(chosen))
    give_constants(chosen, engine.state["system"])
    if (attach := traits.ATTACH.of(chosen)) is not None:
        engine.companion = attach(engine)
    start = time.perf_counter()
    asked = _drive(engine, chosen, options)
    return engine.outcome(time.perf_counter() - start, asked)


def _decides_at_ticks(policy: Policy, rules: Rules) -> bool:
    """Whether a tick's answer is defined: not of rules that bind earlier, nor of functions made for events alone."""
    return rules.bind == NO_BIND and (rules.mode != DECIDE or traits.DECIDE_TICK.of(policy) is not None)


def _drive(engine: Engine, policy: Policy, options: EngineOptions) -> list[float]:
    """Answer every question of the engine; returns the wall time of each answer."""
    asked: list[float] = []
    running = engine.advance()
    while running:
        view = engine.view()
        if not asked and options.charge_measured and traits.RESET.of(policy) is None:
            policy(engine.view())  # the first call compiles; that is not scheduling
        began = time.perf_counter()
        assigns = policy(view)
        asked.append(time.perf_counter() - began)
        engine.state["system"]["memory"] = view.system["memory"]
        charge_s = asked[-1] if options.charge_measured else traits.CHARGE_S.of(policy)
        if charge_s > 0.0:
            free_s = max(engine.now_s, float(engine.state.k["scheduler_free_s"]))
            engine.state.kernel["scheduler_free_s"] = free_s + charge_s
        _check_answer(policy, assigns)
        running = engine.advance(engine.answer(view, assigns))
    return asked


def _check_answer(policy: Policy, assigns: object) -> None:
    """Raises PolicyError for an answer that is no list of Assign."""
    if not isinstance(assigns, list | tuple) or not all(isinstance(entry, Assign) for entry in assigns):
        text = repr(assigns)
        shown = text if len(text) <= 80 else f"{text[:77]}..."
        raise PolicyError(f"policy '{policy_name(policy)}' must return a list of Assign; it returned {shown}")


def _row_of(view: View, assign: Assign) -> int:
    """Which ready sub-job of the view is meant; -1 = none."""
    rows = np.flatnonzero((view.ready["request"] == assign.request) & (view.ready["layer"] == assign.layer))
    return int(rows[0]) if len(rows) else -1


def _hold(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """Stands in where no compiled policy runs."""
    return 0


@dataclass(frozen=True)
class Result:
    """Tables of one run (schema.py) and what the run itself cost."""

    tables: dict[str, pa.Table]
    events: int
    decisions: int
    end_s: float
    saturated_s: float
    bytes_moved: float
    wall_s: float
    decision_wall_s: npt.NDArray[np.float64]


def simulate(
    requests: RequestTable,
    table: CostTable,
    platform: PlatformLike,
    policy: str | Policy = "edf",
    options: EngineOptions | None = None,
    *,
    stepped: bool = False,
) -> Result:
    """Run ``requests`` on ``platform`` under ``policy`` and return the records.

    ``policy``: a name, a policy object, or any callable ``View -> Sequence[Assign]``. Policies that
    know how run inside compiled code; ``stepped=True`` forces the Python path, with the same results.
    """
    from eunomia.inference.tabulate import tabulate

    options = options or EngineOptions()
    outcome = simulate_problem(
        build_problem(requests, table, platform, options), policy, options, stepped=stepped
    )
    return Result(
        tabulate(outcome),
        outcome.events,
        outcome.rounds,
        outcome.end_s,
        outcome.saturated_s,
        outcome.bytes_moved,
        outcome.wall_s,
        outcome.decision_wall_s,
    )
