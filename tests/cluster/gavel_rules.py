"""Gavel's simulator once more, job by job in plain Python with cvxpy and ECOS: slow, obvious, the judge of parity.

Written from the rules (OSDI 2020 and the public code's behaviour), apart from the wing: nothing of it is imported, so a
mistake there is not repeated here. No co-location. ``simulate`` gives completion times; None = dropped by Gavel's rule
for last micro-tasks (five failures in a row), which is always on here.
"""

from __future__ import annotations

import contextlib
import importlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

cp: Any = importlib.import_module("cvxpy")
Floats = npt.NDArray[np.float64]
ROUND_S, RESET_S, FAILURES = 360.0, 1920.0, 5
FIRST_CREDIT_S = ROUND_S / 2.0
FRESH = 1e9


@dataclass
class Job:
    """One job; ``speed`` in steps/s by type."""

    number: int
    speed: dict[str, float]
    scale: int
    weight: float
    total_steps: int
    arrival_s: float
    steps_left: int = 0
    failures: int = 0
    spent_s: dict[str, float] = field(default_factory=dict)
    deficit_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.steps_left = self.total_steps
        self.spent_s = dict.fromkeys(self.speed, FIRST_CREDIT_S)
        self.deficit_s = dict.fromkeys(self.speed, 0.0)


@dataclass
class Facts:
    """What a policy sees: rows = active jobs, columns = types by name."""

    speed: Floats
    scale: Floats
    weight: Floats
    left: Floats
    age_s: Floats
    count: Floats
    keys: list[int]


Policy = Callable[[Facts], Floats]


def simulate(
    jobs: Sequence[Job], counts: dict[str, int], policy: Policy, agnostic: bool = False, seed: int = 0,
    served_order: Sequence[str] = ("v100", "p100", "k80"), only_shares: bool = False,
) -> list[float | None]:  # fmt: skip
    """Completion times in order of arrival. ``only_shares``: nobody runs without a share (FIFO)."""
    types = sorted(counts)
    shuffler = random.Random(seed + 5)
    waiting = list(jobs)
    active: list[Job] = []
    finished: dict[int, float | None] = {}
    shares: dict[int, dict[str, float]] = {}
    running: list[tuple[float, Job, str, int]] = []
    spent_on = dict.fromkeys(types, 0.0)
    now_s = waiting[0].arrival_s
    round_start_s, round_end_s = 0.0, None
    reset_s, changed = 0.0, True
    while waiting or active:
        if not waiting and not running:
            reset_s = 0.0
        if running:
            if round_end_s is not None:
                round_start_s = round_end_s
            now_s = round_end_s = max(end for end, *_ in running)
        elif waiting:
            now_s = waiting[0].arrival_s
        for end_s, job, kind, steps in sorted(running, key=lambda r: (-r[0], r[1].number)):
            if steps // job.scale <= 0:
                changed = True
                job.failures += 1
                if job.failures >= FAILURES:
                    finished[job.number] = None
                    active.remove(job)
                continue
            job.failures = 0
            job.steps_left -= steps
            job.spent_s[kind] += end_s - round_start_s
            spent_on[kind] += end_s - round_start_s
            if job.steps_left <= 0:
                finished[job.number] = end_s - job.arrival_s
                active.remove(job)
                changed = True
        while waiting and waiting[0].arrival_s <= now_s:
            active.append(waiting.pop(0))
            changed = True
        if not active:
            running = []
            continue
        if changed and (now_s - reset_s >= RESET_S or reset_s == 0.0):
            for kind in types:
                spent_on[kind] = FIRST_CREDIT_S * len(active)
                for job in active:
                    promised = shares.get(job.number, {}).get(kind, 0.0) * (now_s - reset_s)
                    job.deficit_s[kind] += promised - (job.spent_s[kind] - FIRST_CREDIT_S)
                    job.spent_s[kind] = FIRST_CREDIT_S
            reset_s, changed = now_s, False
            answer = policy(_facts(active, types, counts, now_s))
            shares = {job.number: dict(zip(types, map(float, row), strict=True))
                      for job, row in zip(active, answer, strict=True)}  # fmt: skip
        order = list(served_order)
        if agnostic:
            shuffler.shuffle(order)
        running = _serve(active, shares, spent_on, order, counts, now_s, only_shares)
    return [finished[job.number] for job in jobs]


def _facts(active: list[Job], types: list[str], counts: dict[str, int], now_s: float) -> Facts:
    return Facts(
        np.array([[job.speed[kind] for kind in types] for job in active]),
        np.array([float(job.scale) for job in active]),
        np.array([job.weight for job in active]),
        np.array([float(job.steps_left) for job in active]),
        np.array([now_s - job.arrival_s for job in active]),
        np.array([float(counts[kind]) for kind in types]),
        [job.number for job in active],
    )


def _serve(
    active: list[Job], shares: dict[int, dict[str, float]], spent_on: dict[str, float], order: list[str],
    counts: dict[str, int], now_s: float, only_shares: bool,
) -> list[tuple[float, Job, str, int]]:  # fmt: skip
    """Who runs in this round: type by type, by priority, deficit and share; jobs that do not fit are overtaken."""
    placed: set[int] = set()
    running = []
    for kind in order:
        free = counts[kind]
        entries = []
        for job in active:
            share = shares.get(job.number, {}).get(kind, 0.0)
            fraction = job.spent_s[kind] / spent_on[kind] if spent_on[kind] else 0.0
            priority = 0.0
            if share and job.speed[kind] > 0.0:
                priority = share / fraction if fraction > 0.0 else share * FRESH
            entries.append((priority, job.deficit_s[kind], share, job))
        for priority, _, _, job in sorted(entries, key=lambda e: e[:3], reverse=True):
            if job.number in placed or job.speed[kind] <= 0.0 or job.scale > free:
                continue
            if only_shares and priority <= 0.0:
                continue
            free -= job.scale
            placed.add(job.number)
            if job.number in shares:  # a newcomer without shares holds devices and does not run
                steps = min(int(job.speed[kind] * ROUND_S), job.steps_left)
                running.append((now_s + steps / job.speed[kind], job, kind, steps))
    return running


# --- policies, each as a programme in the words of the paper


def max_min(facts: Facts) -> Floats:
    """max min_m (s_m / w_m) thr(m, X) / thr(m, Xprop)."""
    usual = (facts.speed * (facts.count / facts.count.sum())).sum(axis=1)
    gain = facts.speed * (1.0 / facts.weight * (1.0 / usual))[:, None] * facts.scale[:, None]
    x = cp.Variable(facts.speed.shape)
    return _solved(cp.Maximize(cp.min(cp.sum(cp.multiply(gain, x), axis=1))), x, _base(x, facts))


def unit_of(facts: Facts) -> Floats:
    """s_m / (w_m thr(m, Xprop)), by job: the normalised throughput of one step per second."""
    return np.asarray(facts.scale / (facts.weight * (facts.speed @ (facts.count / facts.count.sum()))))


def packed_max_min(facts: Facts, pairs: tuple[npt.NDArray[Any], ...]) -> float:
    """The objective of ``max_min`` over rows of jobs and pairs: (first, second, throughput of both)."""
    first, second, together = pairs
    jobs, unit = len(facts.scale), unit_of(facts)
    x = cp.Variable((jobs + len(first), facts.speed.shape[1]))
    workers = np.repeat(
        np.concatenate([facts.scale, facts.scale[first]])[:, None], facts.speed.shape[1], axis=1
    )
    terms, times = [], []
    for m in range(jobs):
        one, two = np.flatnonzero(first == m), np.flatnonzero(second == m)
        rows = np.concatenate([[m], jobs + one, jobs + two])
        gains = np.concatenate([facts.speed[m : m + 1], together[one, :, 0], together[two, :, 1]]) * unit[m]
        terms.append(cp.sum(cp.multiply(gains, x[rows])))
        times.append(cp.sum(x[rows]))
    limits = [x >= 0, cp.sum(cp.multiply(workers, x), axis=0) <= facts.count, cp.hstack(times) <= 1]
    problem = cp.Problem(cp.Maximize(cp.minimum(*terms)), limits)
    problem.solve(solver="ECOS")
    return float(problem.value)


def blind_max_min(facts: Facts) -> Floats:
    """The same with all throughputs 1."""
    return max_min(Facts(np.ones_like(facts.speed), *_rest(facts)))


def throughput_sum(facts: Facts) -> Floats:
    """max sum_m thr(m, X)."""
    x = cp.Variable(facts.speed.shape)
    return _solved(cp.Maximize(cp.sum(cp.sum(cp.multiply(facts.speed, x), axis=1))), x, _base(x, facts))


def makespan(facts: Facts) -> Floats:
    """Bisection on T for thr(m, X) >= r_m / T."""
    low, high, last, found = 100.0, 1e6, 1e6, None
    while found is None:
        while 1.05 * low < high:
            middle = (low + high) / 2.0
            x = cp.Variable(facts.speed.shape)
            thr = cp.sum(cp.multiply(facts.speed, x), axis=1)
            problem = cp.Problem(cp.Maximize(1), [*_base(x, facts), thr >= facts.left / middle])
            with contextlib.suppress(cp.SolverError):
                problem.solve(solver=cp.ECOS)
            if problem.status == "optimal":
                found, high = x.value, middle
            else:
                low = middle
        low, high, last = last, last * 10.0, last * 10.0
    return np.asarray(np.clip(found, 0.0, 1.0))


def blind_makespan(facts: Facts) -> Floats:
    """The same with every type as fast as V100."""
    return makespan(_all_as_v100(facts))


class FinishTime:
    """min max_m (t_m + r_m / thr) / (C_m + r_m / thr(m, Xiso)); C_m is kept between calls, as in the code."""

    def __init__(self) -> None:
        self.isolated_s: dict[int, float] = {}
        self.before: dict[
            int, tuple[float, float]
        ] = {}  # steps left and isolated throughput at the last call

    def __call__(self, facts: Facts) -> Floats:
        """Shares for this moment."""
        alone = isolated(facts)
        usual = (facts.speed * alone).sum(axis=1)
        x = cp.Variable(facts.speed.shape)
        terms = []
        for m, key in enumerate(facts.keys):
            sofar = self.isolated_s.get(key, 0.0)
            if key in self.before:
                left, speed = self.before[key]
                sofar += (left - facts.left[m]) / speed
            self.isolated_s[key] = sofar
            thr = cp.sum(cp.multiply(facts.speed[m], x[m]))
            fair = sofar + facts.left[m] / usual[m]
            terms.append((facts.age_s[m] + facts.left[m] * cp.inv_pos(thr)) / fair)
        self.before = {k: (float(facts.left[m]), float(usual[m])) for m, k in enumerate(facts.keys)}
        goal = cp.maximum(*terms) if len(terms) > 1 else terms[0]
        try:
            return _solved(cp.Minimize(goal), x, _base(x, facts))
        except RuntimeError:
            return alone


def isolated(facts: Facts) -> Floats:
    """N_j / (M s_m), rows cut to 1."""
    shares = facts.count[None, :] / len(facts.scale) / facts.scale[:, None]
    return np.asarray(shares / np.maximum(1.0, shares.sum(axis=1))[:, None])


def first_come(facts: Facts) -> Floats:
    """The best type with enough free devices, in order of arrival, up to the first job that fits nowhere."""
    free, shares = facts.count.copy(), np.zeros(facts.speed.shape)
    for m in range(len(facts.scale)):
        fits = [j for j in range(len(free)) if free[j] >= facts.scale[m] and free[j] > 0]
        if not fits:
            break
        best = max(fits, key=lambda j: facts.speed[m, j])
        if facts.speed[m, best] > 0.0:
            shares[m, best] = 1.0
            free[best] -= facts.scale[m]
    return shares


def blind_finish_time() -> Policy:
    """Every type runs a job at its V100 speed."""
    inner = FinishTime()

    return lambda facts: inner(_all_as_v100(facts))


def _all_as_v100(facts: Facts) -> Facts:
    v100 = facts.speed[:, [2]]  # k80, p100, v100
    return Facts(np.repeat(v100, facts.speed.shape[1], axis=1), *_rest(facts))


def proportional(facts: Facts) -> Floats:
    """N_j / sum N for everybody."""
    return np.tile(facts.count / facts.count.sum(), (len(facts.scale), 1))


def water_filling(facts: Facts) -> Floats:
    """Raise the least normalised throughput, freeze who cannot rise further (tried one by one), repeat."""
    usual = (facts.speed * (facts.count / facts.count.sum())).sum(axis=1)
    gain = facts.speed * (1.0 / facts.weight * (1.0 / usual))[:, None] * facts.scale[:, None]
    held: dict[int, float] = {}
    x = cp.Variable(facts.speed.shape)
    term = cp.sum(cp.multiply(gain, x), axis=1)
    while len(held) < len(facts.scale):
        free = [m for m in range(len(facts.scale)) if m not in held]
        floors = [term[m] >= level * (1.0 - 1e-6) for m, level in held.items()]
        level = cp.Problem(cp.Maximize(cp.min(term[free])), [*_base(x, facts), *floors]).solve(solver=cp.ECOS)
        floors += [term[m] >= level * (1.0 - 1e-6) for m in free]
        for m in free:
            reached = cp.Problem(cp.Maximize(term[m]), [*_base(x, facts), *floors]).solve(solver=cp.ECOS)
            if reached <= level * (1.0 + 1e-4):
                held[m] = level
    return np.asarray(np.clip(x.value, 0.0, 1.0))


def _rest(facts: Facts) -> tuple[Any, ...]:
    return facts.scale, facts.weight, facts.left, facts.age_s, facts.count, facts.keys


def _base(x: Any, facts: Facts) -> list[Any]:
    wide = np.repeat(facts.scale[:, None], facts.speed.shape[1], axis=1)
    return [x >= 0, cp.sum(cp.multiply(wide, x), axis=0) <= facts.count, cp.sum(x, axis=1) <= 1]


def _solved(goal: Any, x: Any, constraints: list[Any]) -> Floats:
    try:
        cp.Problem(goal, constraints).solve(solver=cp.ECOS)
    except cp.SolverError as error:
        raise RuntimeError(str(error)) from None
    if x.value is None:
        raise RuntimeError("ECOS gave no shares")
    return np.asarray(np.clip(x.value, 0.0, 1.0))
