"""The genetic search of the elastic policy, compiled: one configuration per job, devices of each type limited.

All compiled functions stand in this one file, for numba looks for changes in the file of a function alone. A genome is
one choice per job: -1 = waits, c = its c-th configuration. ``worth`` (M, C) what a job gains there (0 = not allowed),
``size`` (M, C) devices, ``kind`` (C,) type of each configuration, ``room`` (J,) devices.
"""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.compiled import compiled


@compiled
def fitness(genome: Ints, worth: Floats, idle: float, power: float) -> float:
    """Power mean of the jobs' worth, a waiting job counting as ``idle``; ``power`` < 0 favours who has least."""
    total = 0.0
    for m in range(len(genome)):
        value = idle if genome[m] < 0 else worth[m, genome[m]]
        total += max(value, 1e-9) ** power
    mean: float = (total / len(genome)) ** (1.0 / power)
    return mean


@compiled(keep=False)
def repair(genome: Ints, size: Ints, kind: Ints, room: Ints, order: Ints) -> None:
    """Make a genome fit: jobs in ``order`` keep their choice while it fits, the others wait."""
    free = room.copy()
    for m in order:
        c = genome[m]
        if c >= 0:
            if size[m, c] <= free[kind[c]]:
                free[kind[c]] -= size[m, c]
            else:
                genome[m] = -1


@compiled(keep=False)
def fill(genome: Ints, worth: Floats, size: Ints, kind: Ints, room: Ints) -> None:
    """Waiting jobs, in order, take the configuration of greatest worth that fits into what is left."""
    free = room.copy()
    for m in range(len(genome)):
        if genome[m] >= 0:
            free[kind[genome[m]]] -= size[m, genome[m]]
    for m in range(len(genome)):
        if genome[m] >= 0:
            continue
        best = -1
        for c in range(worth.shape[1]):
            fits = worth[m, c] > 0.0 and size[m, c] <= free[kind[c]]
            if fits and (best < 0 or worth[m, c] > worth[m, best]):
                best = c
        if best >= 0:
            genome[m] = best
            free[kind[best]] -= size[m, best]


@compiled(keep=False)
def by_fitness(score: Floats) -> Ints:
    """Genomes, fittest first; of equals, the first. By insertion: NumPy's sort takes seconds to compile."""
    order = np.empty(len(score), np.int64)
    for p in range(len(score)):
        place = p
        while place > 0 and score[p] > score[order[place - 1]]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = p
    return order


@compiled
def evolve(
    people: Ints,
    worth: Floats,
    size: Ints,
    kind: Ints,
    room: Ints,
    idle: float,
    power: float,
    generations: int,
    seed: int,
) -> Ints:
    """The fittest genome after so many generations; ``people`` (P, M) is the first one and is overwritten by the last.

    Each generation makes P children: two parents, each the better of two drawn; every gene from either; one gene in M
    drawn anew; repaired in random order. The P fittest of parents and children go on, so that the best is never lost.
    """
    np.random.seed(seed)
    count, jobs = people.shape
    options = worth.shape[1]
    both = np.empty((2 * count, jobs), np.int64)
    score = np.empty(2 * count)
    both[:count] = people
    for p in range(count):
        repair(both[p], size, kind, room, np.random.permutation(jobs))
        score[p] = fitness(both[p], worth, idle, power)
    for _ in range(generations):
        for p in range(count, 2 * count):
            parents = np.random.randint(0, count, 4)
            one = parents[0] if score[parents[0]] >= score[parents[1]] else parents[1]
            two = parents[2] if score[parents[2]] >= score[parents[3]] else parents[3]
            for m in range(jobs):
                both[p, m] = both[one, m] if np.random.random() < 0.5 else both[two, m]
                if np.random.random() * jobs < 1.0:
                    c = np.random.randint(0, options)
                    both[p, m] = c if worth[m, c] > 0.0 else -1
            repair(both[p], size, kind, room, np.random.permutation(jobs))
            fill(both[p], worth, size, kind, room)
            score[p] = fitness(both[p], worth, idle, power)
        order = by_fitness(score)
        both[:count] = both[order[:count]].copy()
        score[:count] = score[order[:count]].copy()
    people[:] = both[:count]
    best: Ints = both[0].copy()
    fill(best, worth, size, kind, room)
    return best
