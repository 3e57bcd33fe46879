"""Run the compiled engine and its plain-Python twin on one problem and compare every record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import reject

from eunomia.inference import reference
from eunomia.inference.outcome import Outcome
from eunomia.inference.policies.balancing import Queueing
from eunomia.inference.policies.greedy import Greedy
from eunomia.inference.reference import Rule
from eunomia.inference.reference.rules import QUEUE_RULES
from eunomia.inference.simulate import simulate_problem
from tests.inference.strategies import Case

RELATIVE = 1e-9
OUTCOMES = ("hit", "late", "dropped", "unfinished")


def compiled(rule: Rule) -> Any:
    """The product's policy for a rule of the reference."""
    if rule.place in QUEUE_RULES:
        return Queueing(rule.place, rule.order, rule.throttle)
    return Greedy(rule.order, rule.place, rule.feasible, rule.gate)


def close(a: float | None, b: float | None) -> bool:
    """Equal times; None and nan mean that it did not happen."""
    a, b = (math.nan if x is None else float(x) for x in (a, b))
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= RELATIVE * max(1.0, abs(a), abs(b))


def assert_agreement(case: Case, policy: Rule | Callable[..., Any], *, stepped: bool = False) -> None:
    """Same starts and ends in the same order at the same times, same decisions, same outcomes."""
    twin = reference.simulate(case.problem(), policy, case.options)
    product = compiled(policy) if isinstance(policy, Rule) else policy
    kernel = simulate_problem(case.problem(), product, case.options, stepped=stepped)
    compare_decisions(twin, kernel, keys=not stepped)
    compare_subjobs(twin, kernel, keys=not stepped)
    compare_outcomes(twin, kernel)
    assert close(twin.now_s, kernel.end_s), f"end of the run: {twin.now_s} and {kernel.end_s}"


def compare_decisions(twin: reference.Run, kernel: Outcome, keys: bool) -> None:
    """Every start: when, what, where, out of how many, under which demand and loads."""
    for mine, row, free in zip(twin.decisions, kernel.decisions, kernel.free_in_s, strict=False):
        theirs = (int(row["request"]), int(row["layer"]), int(row["accelerator"]), int(row["waiting"]))
        told = f"decision {mine.decision}: reference {mine}, kernel {row} free {free}"
        if (mine.request, mine.layer, mine.accelerator) != theirs[:3]:
            reject_rounding(twin, kernel, mine.decision, keys)
        assert (mine.request, mine.layer, mine.accelerator, mine.waiting) == theirs, told
        assert close(mine.time_s, row["time_s"]), told
        assert close(mine.demand_bytes_s, row["demand_bytes_s"]), told
        assert all(close(a, b) for a, b in zip(mine.free_in_s, free, strict=True)), told
    assert len(twin.decisions) == len(kernel.decisions), "number of starts"
    assert twin.rounds == kernel.rounds, f"decision rounds: {twin.rounds} and {kernel.rounds}"


def reject_rounding(twin: reference.Run, kernel: Outcome, decision: int, keys: bool) -> None:
    """Different choices between sums that are equal but for their last bits are no disagreement: skip the problem.

    The kernel keeps queue lengths by adding and subtracting, the reference adds them up anew.
    """
    if twin.close_calls:
        reject()
    if not keys:
        return
    mine = next(i.key for i in twin.intervals if i.decision == decision)
    theirs = float(kernel.subjobs[kernel.subjobs["decision"] == decision]["key"][0])
    if mine != theirs and abs(mine - theirs) <= 1e-12 * abs(mine):
        reject()


def compare_subjobs(twin: reference.Run, kernel: Outcome, keys: bool) -> None:
    """Every executed layer."""
    done = {(i.request, i.layer): i for i in twin.intervals if i.end_s is not None}
    rows = kernel.subjobs[np.isfinite(kernel.subjobs["end_s"])]
    assert [(i.request, i.layer) for i in done.values()] == [
        (int(r["request"]), int(r["layer"])) for r in rows
    ]
    for row in rows:
        mine = done[int(row["request"]), int(row["layer"])]
        for name in ("ready_s", "start_s", "end_s", "work_s", "switch_s") + (("key",) if keys else ()):
            assert close(getattr(mine, name), row[name]), f"{name}: reference {mine}, kernel {row}"


def compare_outcomes(twin: reference.Run, kernel: Outcome) -> None:
    """Every request and every accelerator."""
    for mine, row in zip(twin.outcomes, kernel.results, strict=True):
        told = f"request {mine.request}: reference {mine}, kernel {row}"
        assert mine.outcome == OUTCOMES[int(row["outcome"])], told
        for name in (
            "arrival_s",
            "deadline_s",
            "start_s",
            "finish_s",
            "running_s",
            "work_s",
            "stretch_s",
            "switch_s",
            "energy_j",
        ):
            assert close(getattr(mine, name), row[name]), f"{name} of {told}"
    assert all(map(close, twin.busy_s, kernel.busy_s)), f"busy times: {twin.busy_s} and {kernel.busy_s}"


@dataclass(frozen=True)
class Short:
    """What hand-worked tests look at: (request, layer, accelerator, start, end) by start, then accelerator."""

    layers: list[tuple[int, int, int, float, float]]
    outcomes: list[str]
    finish_s: list[float]
    energy_j: list[float]


def run_short(engine: str, case: Case, policy: Rule | Callable[..., Any]) -> Short:
    """Run one of the two engines."""
    if engine == "reference":
        run = reference.simulate(case.problem(), policy, case.options)
        layers = [(i.request, i.layer, i.accelerator, i.start_s, math.nan if i.end_s is None else i.end_s)
                  for i in run.intervals]  # fmt: skip
        ends = [math.nan if o.finish_s is None else o.finish_s for o in run.outcomes]
        outcomes, energy = [o.outcome for o in run.outcomes], [o.energy_j for o in run.outcomes]
    else:
        out = simulate_problem(
            case.problem(), compiled(policy) if isinstance(policy, Rule) else policy, case.options
        )
        names = ("request", "layer", "accelerator", "start_s", "end_s")
        layers = [tuple(row[name].item() for name in names) for row in out.subjobs]  # type: ignore[misc]
        ends, energy = out.results["finish_s"].tolist(), out.results["energy_j"].tolist()
        outcomes = [OUTCOMES[int(row["outcome"])] for row in out.results]
    return Short(sorted(layers, key=lambda row: (row[3], row[2])), outcomes, ends, energy)
