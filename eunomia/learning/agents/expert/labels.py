"""Labels: what each choice is worth, by rollouts, in states that the policy itself comes to.

While an episode runs under the policy, inside compiled code, a share of its decision points is labelled. The
candidates are the feasible sub-jobs whose accelerator is idle, the best ``MOST`` by the policy's own score. The worth
of one is that of a rollout in which its request goes first until it is done and a rule decides all else
(inference/lookahead); *hold* is a rollout that starts nothing before the next event. Worth is minus the requests lost,
and minus ``price`` for the work done, which stands for the requests still to come.

Not labelled: points at which nothing runs (holding is no choice there) or at which the rule's own gate would start
nothing, for then all rollouts are one. Placement is the policy's: no label says that another accelerator is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import block_of
from eunomia.inference.kernel.jit import compile_cached, jitted
from eunomia.inference.kernel.memory import Record, slot_at
from eunomia.inference.kernel.noise import uniform
from eunomia.inference.kernel.setup import DECIDE, Rules
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.inference.lookahead.deliberate import evaluate, prepare
from eunomia.inference.lookahead.futures import count_arrivals
from eunomia.inference.lookahead.memory import FIRST, NORMAL, planned_at, rule_at, snapshot_of, workspace_of
from eunomia.inference.lookahead.policy import lookahead
from eunomia.inference.simulate import simulate_problem
from eunomia.learning.episodes import Episode
from eunomia.learning.observation.compiled import observe
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR, START, START_JOB
from eunomia.learning.policy.decide import (
    already_decided,
    decide,
    next_job,
    place_job,
    score_all,
    set_tiers,
    weights_of,
)
from eunomia.learning.policy.learned import FOLDERS, LearnedPolicy
from eunomia.learning.policy.weights import Weights

Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

MOST = 8  # candidates per decision point
notes_of = block_of(SYSTEM, 1, np.float64)
SHARE, SEED, ASKED, POINTS, ROWS, ROOM = range(6)  # head of the notes
HEAD = 6
N_JOB, N_PAIR, N_GLOBAL, N_START = len(JOB), len(PAIR), len(GLOBAL), len(START)
POINT, WORTH, HOLD, X = (
    0,
    1,
    2,
    3,
)  # columns of a row: number of its decision point, worth of it and of holding
WIDTH = X + N_JOB + N_START
STREAM = 1 << 21
_decide = jitted(decide)


@dataclass(frozen=True, eq=False)
class Labels:
    """m candidates of d decision points, those of one point in a row. Regrets are in hits, 0 = the best choice."""

    jobs: Singles  # (m, JOB)
    start: Singles  # (m, START)
    regret: Floats  # (m,) of starting it
    hold: Floats  # (m,) of holding, the same for all of a point
    point: npt.NDArray[np.int64]  # (m,) ascending, 0..d-1

    @property
    def points(self) -> int:
        """Number of decision points."""
        return int(self.point[-1]) + 1 if len(self.point) else 0

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def together(parts: Sequence[Labels]) -> Labels:
    """One table of several."""
    firsts = np.cumsum([0, *(part.points for part in parts)])
    columns = {name: np.concatenate([part.arrays()[name] for part in parts])
               for name in ("jobs", "start", "regret", "hold")}  # fmt: skip
    point = np.concatenate([part.point + first for part, first in zip(parts, firsts[:-1], strict=True)])
    return Labels(**columns, point=point)


class Labeller(LearnedPolicy):
    """The policy, taking notes. ``rule``: what rollouts follow; ``share``: of decision points that are labelled."""

    rules = Rules(DECIDE)

    def __init__(
        self, weights: Weights, rule: str, price: float, share: float, seed: int, room: int = 40_000
    ) -> None:
        super().__init__(weights, alarm=np.inf)
        self.teacher = lookahead(base=rule, portfolio="none", price=price, price_of="mean", budget_us=0.0)
        self.notes = np.zeros(HEAD + room * WIDTH)
        self.notes[[SHARE, SEED, ROOM]] = share, seed, room

    @property
    def decide(self) -> Any:
        """The compiled function."""
        return _compiled()

    @property
    def blocks(self) -> tuple[Floats, ...]:
        """Weights and notes."""
        return *super().blocks, self.notes

    def attach(self, engine: Any) -> Any:
        """Memory for rollouts beside the engine."""
        super().attach(engine)
        return self.teacher.attach(engine)

    def labels(self) -> Labels:
        """What was noted so far; points at which all choices are equal are left out, for they teach nothing."""
        rows = self.notes[HEAD : HEAD + int(self.notes[ROWS]) * WIDTH].reshape(-1, WIDTH)
        point = rows[:, POINT].astype(np.int64)
        best = np.full(int(self.notes[POINTS]), -np.inf)
        np.maximum.at(best, point, np.maximum(rows[:, WORTH], rows[:, HOLD]))
        regret, hold = best[point] - rows[:, WORTH], best[point] - rows[:, HOLD]
        tells = np.bincount(point, regret + hold, len(best)) > 0.0
        kept = tells[point]
        number = (np.cumsum(tells) - 1)[point[kept]]
        seen = rows[kept, X:].astype(np.float32)
        return Labels(seen[:, :N_JOB], seen[:, N_JOB:], regret[kept], hold[kept], number)


def collect(weights: Weights, rule: str, price: float, share: float, seed: int, episode: Episode) -> Labels:
    """Labels of one episode. Equal arguments, equal labels. Raises PolicyError for a rule without rollouts."""
    labeller = Labeller(weights, rule, price, share, seed)
    simulate_problem(episode.problem, labeller, episode.options)
    return labeller.labels()


@jitted
def _describe(jobs: Floats, i: int, y: Floats, overall: Floats, row: Floats) -> None:
    """Features of one candidate: job, then start."""
    for f in range(N_JOB):
        row[X + f] = jobs[i, f]
    at = X + N_JOB
    for f in range(N_PAIR):
        row[at + f] = y[f]
    for f in range(N_GLOBAL):
        row[at + N_PAIR + f] = overall[f]
    for f in range(len(START_JOB)):
        row[at + N_PAIR + N_GLOBAL + f] = jobs[i, START_JOB[f]]


@jitted
def _candidates(
    ready: Record,
    latency_s: Floats,
    demand: Floats,
    accelerators: Record,
    system: Record,
    block: Floats,
    rows: Floats,
    requests: Ints,
) -> int:
    """Fill the features of the candidates, best score first; returns their number."""
    n, lanes = len(ready), len(accelerators)
    jobs, overall, score, margin = np.empty((n, N_JOB)), np.empty(N_GLOBAL), np.empty(n), np.empty(n)
    tier, open_, y = np.empty(n, np.int64), np.ones(n, np.bool_), np.zeros(N_PAIR)
    free_s, finish_s = np.zeros(lanes), np.empty(lanes)
    for s in range(lanes):
        if accelerators[s].request >= 0:
            free_s[s] = max(accelerators[s].free_in_s, 1e-300)
    layer_s = observe(ready, accelerators, system, jobs, overall)
    score_all(jobs, overall, block, True, score, margin)
    set_tiers(ready, block, system, tier)
    count = 0
    while count < MOST:
        i = next_job(ready, tier, score, open_)
        if i < 0 or ready[i].late == 1:
            break
        open_[i] = False
        s = place_job(
            ready[i], latency_s[i], demand[i], free_s, system.demand_bytes_s, layer_s, accelerators, system, block,
            True, finish_s, y,
        )  # fmt: skip
        if s >= 0 and free_s[s] == 0.0:
            _describe(jobs, i, y, overall, rows[count])
            requests[count] = ready[i].request
            count += 1
    return count


@jitted
def _value(ws: Record, rows: Floats, requests: Ints, count: int) -> None:
    """Fill the worth of the candidates and of holding."""
    count_arrivals(ws)
    prepare(ws)
    k = snapshot_of(ws)
    for slot in range(k.used_slots):
        planned_at(ws, slot_at(k, slot).request).value = NORMAL
    ws.hold = 1
    holding = evaluate(ws, 0, -np.inf)
    ws.hold = 0
    for i in range(count):
        planned_at(ws, requests[i]).value = FIRST
        rows[i, WORTH], rows[i, HOLD] = evaluate(ws, 0, -np.inf), holding
        planned_at(ws, requests[i]).value = NORMAL


@jitted
def _note(
    ready: Record,
    latency_s: Floats,
    demand: Floats,
    accelerators: Record,
    system: Record,
    block: Floats,
    notes: Floats,
) -> None:
    """Label this decision point, if its turn has come and there is something to choose."""
    notes[ASKED] += 1.0
    if (
        notes[ROWS] + MOST > notes[ROOM]
        or uniform(int(notes[SEED]), int(notes[ASKED]), 0, STREAM) >= notes[SHARE]
    ):
        return
    running = 0
    for s in range(len(accelerators)):
        if accelerators[s].request >= 0:
            running += 1
    ws = workspace_of(system)
    open_to_start = system.demand_bytes_s <= rule_at(ws, 0).gate * system.bandwidth_bytes_s
    if running == 0 or running == len(accelerators) or not open_to_start:
        return
    at, room = int(notes[ROWS]), int(notes[ROOM])
    table = notes[HEAD:].reshape((room, WIDTH))
    rows, requests = table[at : at + MOST], np.empty(MOST, np.int64)
    count = _candidates(ready, latency_s, demand, accelerators, system, block, rows, requests)
    if count == 0:
        return
    _value(ws, rows, requests, count)
    for i in range(count):
        rows[i, POINT] = notes[POINTS]
    notes[POINTS] += 1.0
    notes[ROWS] += count


def _decide_and_note(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """The policy, as the kernel calls it."""
    if len(ready) > 0 and not already_decided(ready, system):
        _note(ready, latency_s, demand, accelerators, system, weights_of(system), notes_of(system))
    return _decide(ready, latency_s, demand, energy, accelerators, system, answer, priority)  # type: ignore[no-untyped-call]


@cache
def _compiled() -> Any:
    return compile_cached(
        _decide_and_note,
        DECIDE_SIGNATURE,
        "labelled",
        *FOLDERS,
        "inference/lookahead",
        "learning/agents/expert",
    )
