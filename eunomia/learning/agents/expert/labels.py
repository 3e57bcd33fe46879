"""Labels: what each choice is worth, by rollouts, in states that the policy itself comes to.

While an episode runs under the policy, inside compiled code, a share of its decision points is labelled. The candidates
are the feasible sub-jobs whose accelerator is idle, the best ``MOST`` by the policy's own score. The worth of one is
that of a rollout (inference/lookahead): its request goes first until it is done, and a rule decides all else. Worth is
minus the requests lost, and minus ``price`` for the work done, which stands for the requests still to come.

Not labelled: points at which nothing runs, or at which the rule's own gate would start nothing: then all rollouts are
one. Placement is the policy's: no label says that another accelerator is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import SYSTEM
from eunomia.core.addresses import block_of, block_record
from eunomia.core.arrays import Flags, Floats, Ints, Records, Tensor
from eunomia.inference.kernel.jit import compile_cached, jitted
from eunomia.inference.kernel.memory import Record, slot_at
from eunomia.inference.kernel.noise import uniform
from eunomia.inference.kernel.signatures import DECIDE_SIGNATURE
from eunomia.inference.lookahead.deliberate import evaluate, prepare
from eunomia.inference.lookahead.futures import count_arrivals
from eunomia.inference.lookahead.memory import FIRST, NORMAL, planned_at, rule_at, snapshot_of, workspace_of
from eunomia.inference.lookahead.policy import lookahead
from eunomia.inference.simulate import Engine, simulate_problem
from eunomia.learning.episodes import Episode
from eunomia.learning.observation.compiled import observe
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR
from eunomia.learning.policy import decide as policy
from eunomia.learning.policy.learned import FOLDERS, LearnedPolicy
from eunomia.learning.policy.weights import Weights

Singles = npt.NDArray[np.float32]

MOST = 8  # candidates per decision point
N_JOB, N_PAIR, N_GLOBAL = len(JOB), len(PAIR), len(GLOBAL)
# What is noted: a head, and a row per candidate with the number of its decision point.
HEAD = np.dtype([("share", "f8"), ("seed", "i8"), ("decisions", "i8"), ("points", "i8"), ("rows", "i8")])
WORTH = [("point", "i8"), ("worth", "f8")]
ROW = np.dtype([*WORTH, ("job", "f8", (N_JOB,)), ("overall", "f8", (N_GLOBAL,))])
head_of = block_record(SYSTEM, 1, HEAD)
rows_of = block_of(SYSTEM, 2, ROW)
STREAM = 1 << 21
_decide = jitted(policy.decide)


@dataclass(frozen=True, eq=False)
class Labels:
    """m candidates of d decision points, those of one point in a row. Regrets are in hits, 0 = the best choice."""

    jobs: Singles  # (m, JOB)
    overall: Singles  # (m, GLOBAL)
    regret: Floats  # (m,) of starting it
    point: Ints  # (m,) ascending, 0..d-1

    @property
    def points(self) -> int:
        """Number of decision points."""
        return int(self.point[-1]) + 1 if len(self.point) else 0

    def some(self, rows: Ints | Flags, point: Ints) -> Labels:
        """The labels of these rows, with new numbers of their decision points."""
        return Labels(self.jobs[rows], self.overall[rows], self.regret[rows], point)


def together(parts: Sequence[Labels]) -> Labels:
    """One table of several."""
    firsts = np.cumsum([0, *(part.points for part in parts)])
    moved = [replace(part, point=part.point + first) for part, first in zip(parts, firsts[:-1], strict=True)]
    return Labels(*(np.concatenate([getattr(part, one.name) for part in moved]) for one in fields(Labels)))


class Labeller(LearnedPolicy):
    """The policy, taking notes. ``rule``: what rollouts follow; ``share``: of decision points that are labelled."""

    decides_in_place = None  # type: ignore[assignment]

    def __init__(
        self, weights: Weights, rule: str, price: float, share: float, seed: int, room: int = 40_000
    ) -> None:
        super().__init__(weights, alarm=np.inf)
        self.teacher = lookahead(base=rule, portfolio="none", price=price, price_of="mean", budget_us=0.0)
        self.head, self.rows = np.zeros(1, HEAD), np.zeros(room, ROW)
        self.head["share"], self.head["seed"] = share, seed

    @property
    def decide(self) -> Callable[..., int]:
        """The compiled function."""
        return _compiled()

    @property
    def blocks(self) -> tuple[Tensor, ...]:  # type: ignore[override]
        """Weights and notes."""
        return *super().blocks, self.head, self.rows

    def attach(self, engine: Engine) -> object:
        """Memory for rollouts beside the engine."""
        self.kept = super().attach(engine)
        return self.teacher.attach(engine)

    @property
    def noted(self) -> Records:
        """The rows so far."""
        return self.rows[: int(self.head["rows"][0])]

    def labels(self) -> Labels:
        """What was noted so far; points at which all choices are equal are left out, for they teach nothing."""
        rows, point = self.noted, self.noted["point"]
        best = np.full(int(self.head["points"][0]), -np.inf)
        np.maximum.at(best, point, rows["worth"])
        regret = best[point] - rows["worth"]
        tells = np.bincount(point, regret, len(best)) > 0.0
        kept = tells[point]
        job, overall = (rows[name][kept].astype(np.float32) for name in ("job", "overall"))
        return Labels(job, overall, regret[kept], (np.cumsum(tells) - 1)[point[kept]])


def collect(weights: Weights, rule: str, price: float, share: float, seed: int, episode: Episode) -> Labels:
    """Labels of one episode. Equal arguments, equal labels. Raises PolicyError for a rule without rollouts."""
    labeller = Labeller(weights, rule, price, share, seed)
    simulate_problem(episode.problem, labeller, episode.options)
    return labeller.labels()


@jitted
def _candidates(scene: policy.Scene, rows: Record, requests: Ints) -> int:
    """Fill the features of the candidates, best score first; returns their number."""
    ready, latency_s, demand, accelerators, system, block, jobs, overall, layer_s = scene
    n, lanes = len(ready), len(accelerators)
    score, margin, tier, open_ = np.empty(n), np.empty(n), np.empty(n, np.int64), np.ones(n, np.bool_)
    free_s, lane_demand, finish_s = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    seen, y, count = np.zeros(N_PAIR), np.zeros(N_PAIR), 0
    policy.survey_lanes(accelerators, free_s, lane_demand)
    policy.score_all(jobs, overall, block, True, score, margin)
    policy.set_tiers(ready, block, system, tier)
    while count < MOST:
        i = policy.next_job(ready, tier, score, open_)
        if i < 0 or ready[i].late == 1:
            break
        open_[i] = False
        s = policy.place_job(
            ready[i], latency_s[i], demand[i], jobs[i], overall, free_s, system.demand_bytes_s, layer_s,
            accelerators, system, block, True, finish_s, seen, y,
        )  # fmt: skip
        if s >= 0 and free_s[s] == 0.0:
            rows[count].job[:], rows[count].overall[:] = jobs[i], overall
            requests[count] = ready[i].request
            count += 1
    return count


@jitted
def _value(ws: Record, rows: Record, requests: Ints, count: int) -> None:
    """Fill the worth of the candidates."""
    count_arrivals(ws)
    prepare(ws)
    k = snapshot_of(ws)
    for slot in range(k.used_slots):
        planned_at(ws, slot_at(k, slot).request).value = NORMAL
    for i in range(count):
        planned_at(ws, requests[i]).value = FIRST
        rows[i].worth = evaluate(ws, 0, -np.inf)
        planned_at(ws, requests[i]).value = NORMAL


@jitted
def _note(
    ready: Record, latency_s: Floats, demand: Floats, accelerators: Record, system: Record, block: Floats
) -> None:
    """Label this decision point, if its turn has come and there is something to choose."""
    head, rows, requests = head_of(system), rows_of(system), np.empty(MOST, np.int64)
    head.decisions += 1
    if head.rows + MOST > len(rows) or uniform(head.seed, head.decisions, 0, STREAM) >= head.share:
        return
    running = 0
    for s in range(len(accelerators)):
        if accelerators[s].request >= 0:
            running += 1
    ws = workspace_of(system)
    open_to_start = system.demand_bytes_s <= rule_at(ws, 0).gate * system.bandwidth_bytes_s
    if running == 0 or running == len(accelerators) or not open_to_start:
        return
    new = rows[head.rows : head.rows + MOST]
    jobs, overall = np.empty((len(ready), N_JOB)), np.empty(N_GLOBAL)
    layer_s = observe(ready, accelerators, system, jobs, overall, True, True)
    scene = policy.Scene(ready, latency_s, demand, accelerators, system, block, jobs, overall, layer_s)
    count = _candidates(scene, new, requests)
    if count == 0:
        return
    _value(ws, new, requests, count)
    for i in range(count):
        new[i].point = head.points
    head.points += 1
    head.rows += count


def _decide_and_note(ready, latency_s, demand, energy, accelerators, system, answer, priority):  # type: ignore[no-untyped-def]
    """The policy, as the kernel calls it."""
    if len(ready) > 0 and not policy.already_decided(len(ready), system):
        _note(ready, latency_s, demand, accelerators, system, policy.weights_of(system))
    return _decide(ready, latency_s, demand, energy, accelerators, system, answer, priority)  # type: ignore[no-untyped-call]


@cache
def _compiled() -> Callable[..., int]:
    folders = (*FOLDERS, "inference/lookahead", "learning/agents/expert")
    compiled: Callable[..., int] = compile_cached(_decide_and_note, DECIDE_SIGNATURE, "labelled", *folders)
    return compiled
