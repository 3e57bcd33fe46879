"""MAGMA's genetic search: which accelerator and which priority for every job of a group. Compiled.

The cost of a genome (group.py) is -(predicted hits) + makespan / (makespan + reference): hits come first,
makespan second. Without deadlines makespan alone counts.

Source: Kao and Krishna, "MAGMA: An Optimization Framework for Mapping Multiple DNNs on Multiple Accelerator
Cores", HPCA 2022, arXiv 2104.13997; code: maestro-project/magma. Population 100; elites 5 %, which live on;
parents 10 % (all in the first generation). Crossovers replace a genome: with probability 0.9 that of one row
(prefix or suffix), with 0.1 that of a range of both rows. With 0.1 it is that of an accelerator: all its jobs
with their order from one parent, what they displace goes anywhere. Then every gene mutates with probability
0.05.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import typeof, types

from eunomia.core.arrays import Floats, Ints
from eunomia.inference.kernel.jit import compile_cached, jitted
from eunomia.inference.policies.group import Group, evaluate, independent, list_schedule

POPULATION, ELITE, PARENTS = 100, 0.05, 0.1  # shares of the population
ROW, RANGE, ACCELERATOR, MUTATION = 0.9, 0.1, 0.1, 0.05  # probabilities, per genome; mutation per gene


P = ParamSpec("P")
R = TypeVar("R")
State: TypeAlias = npt.NDArray[np.uint64]  # (1,) of the random numbers
_Found: TypeAlias = tuple[Ints, Floats, Floats]  # lane, rank; least cost so far, per genome
_Parents: TypeAlias = tuple[Ints, Floats, Floats, int]  # lanes, ranks, costs, least first; how many may breed


class Mapping(NamedTuple):
    """A genome and what is predicted of it."""

    accelerator: Ints  # (genes,)
    priority: Floats  # (genes,)
    hits: int
    makespan_s: float
    samples: int  # genomes evaluated
    best_cost: Floats  # (samples,) least cost so far


@jitted
def draw(state: State) -> float:
    """A uniform number in [0, 1) (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@jitted
def draw_below(state: State, bound: int) -> int:
    """A uniform whole number in [0, bound)."""
    return min(int(draw(state) * bound), bound - 1)


@jitted
def draw_lane(state: State, latency_s: Floats, job: int) -> int:
    """A uniform accelerator among those that can run the job."""
    while True:
        s = draw_below(state, latency_s.shape[1])
        if latency_s[job, s] < np.inf:
            return s


@jitted
def cost_of(hits: int, makespan_s: float, reference_s: float) -> float:
    """Least is best: hits first, then makespan."""
    return makespan_s / (makespan_s + reference_s) - hits


@jitted
def reference_of(group: Group) -> float:
    """A time of the order of the makespan: the least work per accelerator."""
    total = 1e-12
    for j in range(len(group.latency_s)):
        total += group.latency_s[j].min()
    return total / len(group.running)


@jitted
def randomise(group: Group, accelerator: Ints, priority: Floats, state: State) -> None:
    """A random genome."""
    for j in range(group.genes):
        accelerator[j], priority[j] = draw_lane(state, group.latency_s, j), draw(state)


@jitted
def pick_parent(state: State, cost: Floats, parents: int) -> int:
    """A parent, with a chance that falls linearly with its cost: none for the worst (if they differ)."""
    worst, total = cost[parents - 1], 0.0
    for p in range(parents):
        total += worst - cost[p]
    if not total > 0.0:
        return draw_below(state, parents)
    mark = draw(state) * total
    for p in range(parents):
        mark -= worst - cost[p]
        if mark < 0.0:
            return p
    return 0


@jitted
def cross_row(group: Group, lane: Ints, rank: Floats, mum_lane: Ints, mum_rank: Floats, state: State) -> None:
    """Take a prefix or a suffix of one row from the other parent."""
    cut, prefix, first_row = draw_below(state, group.genes), draw(state) < 0.5, draw(state) < 0.5
    low, high = (0, cut + 1) if prefix else (cut, group.genes)
    for j in range(low, high):
        if first_row:
            lane[j] = mum_lane[j]
        else:
            rank[j] = mum_rank[j]


@jitted
def cross_range(
    group: Group, lane: Ints, rank: Floats, mum_lane: Ints, mum_rank: Floats, state: State
) -> None:
    """Take the same range of both rows from the other parent."""
    a, b = draw_below(state, group.genes), draw_below(state, group.genes)
    for j in range(min(a, b), max(a, b) + 1):
        lane[j], rank[j] = mum_lane[j], mum_rank[j]


@jitted
def cross_accelerator(
    group: Group, lane: Ints, rank: Floats, mum_lane: Ints, mum_rank: Floats, state: State
) -> None:
    """Take all jobs of one accelerator, with their order, from the other parent; jobs displaced by it go anywhere."""
    s = draw_below(state, len(group.running))
    for j in range(group.genes):
        if mum_lane[j] == s:
            lane[j], rank[j] = s, mum_rank[j]
        elif lane[j] == s:
            lane[j] = draw_lane(state, group.latency_s, j)


@jitted
def breed(group: Group, child: int, lanes: Ints, ranks: Floats, parents: _Parents, state: State) -> None:
    """Replace a genome by crossovers of parents, each with its own probability, and mutate it."""
    parent_lane, parent_rank, cost, count = parents
    for kind, chance in enumerate((ROW, RANGE, ACCELERATOR)):
        if draw(state) >= chance:
            continue
        dad, mum = pick_parent(state, cost, count), pick_parent(state, cost, count)
        lanes[child], ranks[child] = parent_lane[dad], parent_rank[dad]
        if kind == 0:
            cross_row(group, lanes[child], ranks[child], parent_lane[mum], parent_rank[mum], state)
        elif kind == 1:
            cross_range(group, lanes[child], ranks[child], parent_lane[mum], parent_rank[mum], state)
        else:
            cross_accelerator(group, lanes[child], ranks[child], parent_lane[mum], parent_rank[mum], state)
    for j in range(group.genes):
        if draw(state) < MUTATION:
            lanes[child, j] = draw_lane(state, group.latency_s, j)
        if draw(state) < MUTATION:
            ranks[child, j] = draw(state)


def _evolve(group: Group, lanes: Ints, ranks: Floats, samples: int, seed: int, given: int) -> _Found:
    """Evaluate the population, keep elites, breed, until ``samples`` genomes are evaluated.

    The first ``given`` genomes of ``lanes`` and ``ranks`` (P, genes) are kept as they are, the others drawn.
    """
    state = np.array([np.uint64(seed)])
    population = len(lanes)
    elites = max(1, int(population * ELITE))
    reference_s = reference_of(group)
    for p in range(given, population):
        randomise(group, lanes[p], ranks[p], state)
    pool_lane = np.empty((elites + population, group.genes), np.int64)
    pool_rank = np.empty((elites + population, group.genes))
    pool_cost = np.full(elites + population, np.inf)
    history = np.empty(samples)
    done, parents, best = 0, population, np.inf
    while True:
        for p in range(population):
            if done == samples:
                pool_cost[elites + p] = np.inf
                continue
            hits, makespan_s = evaluate(group, lanes[p], ranks[p])
            pool_lane[elites + p], pool_rank[elites + p] = lanes[p], ranks[p]
            pool_cost[elites + p] = cost_of(hits, makespan_s, reference_s)
            best = min(best, pool_cost[elites + p])
            history[done] = best
            done += 1
        order = np.argsort(pool_cost)
        pool_lane, pool_rank, pool_cost = pool_lane[order], pool_rank[order], pool_cost[order]
        if done == samples:
            return pool_lane[0], pool_rank[0], history
        for p in range(population):
            lanes[p], ranks[p] = pool_lane[p], pool_rank[p]
            breed(group, p, lanes, ranks, (pool_lane, pool_rank, pool_cost, parents), state)
        parents = max(2, int(population * PARENTS))


def _sample(group: Group, samples: int, seed: int) -> _Found:
    """Random genomes, the best of which is kept."""
    state = np.array([np.uint64(seed)])
    reference_s = reference_of(group)
    lane, rank = np.empty(group.genes, np.int64), np.empty(group.genes)
    best_lane, best_rank, best = lane.copy(), rank.copy(), np.inf
    history = np.empty(samples)
    for n in range(samples):
        randomise(group, lane, rank, state)
        hits, makespan_s = evaluate(group, lane, rank)
        cost = cost_of(hits, makespan_s, reference_s)
        if cost < best:
            best_lane[:], best_rank[:], best = lane, rank, cost
        history[n] = best
    return best_lane, best_rank, history


def evolve(
    group: Group,
    samples: int = 10_000,
    seed: int = 0,
    population: int = POPULATION,
    start: tuple[Ints, Floats] | None = None,
) -> Mapping:
    """The best genome that MAGMA's search finds within ``samples`` evaluations.

    ``start``: genomes (k, genes), (k, genes) to begin with, of which the first ``population`` count.
    """
    lanes, ranks = np.zeros((population, group.genes), np.int64), np.zeros((population, group.genes))
    given = 0 if start is None else min(population, len(start[0]))
    if start is not None:
        lanes[:given], ranks[:given] = start[0][:given], start[1][:given]
    return _mapping(group, *compiled(_evolve)(group, lanes, ranks, samples, seed, given))


def sample(group: Group, samples: int = 10_000, seed: int = 0) -> Mapping:
    """The best of ``samples`` random genomes: what a search must beat."""
    return _mapping(group, *compiled(_sample)(group, samples, seed))


def predict(group: Group, accelerator: Ints, priority: Floats) -> tuple[int, float]:
    """(predicted hits, makespan [s]) of one genome; for many, let the search do it."""
    hits, makespan_s = compiled(evaluate)(group, accelerator, priority)
    return int(hits), float(makespan_s)


def first_fit(group: Group) -> tuple[Ints, Floats]:
    """The genome of list scheduling: jobs in their order, each on its fastest idle accelerator."""
    lane, rank = compiled(list_schedule)(group)
    return lane, rank


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Machine code of one of the four functions that are called from Python: compiled once, then kept on disk."""
    return cast(Callable[P, R], _machine_code(getattr(function, "py_func", function)))


@cache
def _machine_code(function: Callable[..., object]) -> Callable[..., object]:
    group = typeof(independent(np.ones((1, 1)), np.ones((1, 1)), 1.0))
    lane, rank = types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")
    lanes, ranks = types.Array(types.int64, 2, "C"), types.Array(types.float64, 2, "C")
    found = types.Tuple((lane, rank, rank))
    name = function.__name__.lstrip("_")
    signature = {
        "evolve": found(group, lanes, ranks, types.int64, types.int64, types.int64),
        "sample": found(group, types.int64, types.int64),
        "list_schedule": types.Tuple((lane, rank))(group),
        "evaluate": types.Tuple((types.int64, types.float64))(group, lane, rank),
    }[name]
    return compile_cached(function, signature, name, "inference/kernel", "inference/policies")


def _mapping(group: Group, accelerator: Ints, priority: Floats, history: Floats) -> Mapping:
    hits, makespan_s = predict(group, accelerator, priority)
    return Mapping(accelerator, priority, hits, makespan_s, len(history), history)
