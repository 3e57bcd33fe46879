"""Upper bounds on what any scheduler can reach: hits, weighted hits, tenants at their target."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.hardware.platform import PlatformLike
from eunomia.hardware.table import CostTable
from eunomia.metrics.bounds.formulate import cut, formulate
from eunomia.metrics.bounds.instance import BoundOptions, Instance, build_instance
from eunomia.metrics.bounds.program import Program
from eunomia.metrics.bounds.sequence import sequence
from eunomia.metrics.bounds.solver import Solution, solve
from eunomia.workload.requests import RequestTable

WHOLE = 1e-9  # a target of 0.3 of 10 requests asks for 3
TRUSTED = 1e-6  # a solver proves its dual bound to its own tolerance only
SLACK = 1e-5  # of each row of the integer program, whose coefficients are near 1: ten times the solver's tolerance
LIMIT_S = 20.0  # of the integer program, where nothing else is said: a weaker bound is one, too


@dataclass(frozen=True)
class Bound:
    """``value``: no schedule reaches more. ``share``: of all that could be reached.

    ``proven`` is the bound before it was floored, ``objective`` what the solver itself claims; a large
    difference means bad multipliers (a time limit), not a wrong bound. ``violation``: how far the
    solver's point is from feasible. ``free`` requests were counted without asking for any work, ``lost``
    ones cannot be served even alone.
    """

    value: float
    share: float
    proven: float
    objective: float
    status: str
    violation: float
    seconds: float  # building, solving and recomputing
    intervals: int
    columns: int
    rows: int
    free: int
    lost: int


def hit_bound(
    requests: RequestTable,
    table: CostTable,
    platform: PlatformLike,
    options: BoundOptions | None = None,
    *,
    weight: Floats | None = None,
) -> Bound:
    """Most requests (or most ``weight``, (n,) numbers >= 0) that any schedule can finish in time.

    Valid for every policy, clairvoyant ones included, with free switches and decisions or without. Valid
    under every contention mode whose grants never exceed B; ``none`` and ``moca_literal`` are bounded without
    the bandwidth. Not valid for batching across requests or when true times differ from ``table`` (jitter).
    Loose where the order of layers, the indivisibility of a layer, or contention between layers that run
    together matter. Source: docs/bounds.md. Raises ConfigError, PlatformError.
    """
    began, options = time.perf_counter(), options or BoundOptions()
    gain = np.ones(len(requests)) if weight is None else _weights(weight, len(requests))
    total, whole = math.fsum(gain), bool((gain == np.round(gain)).all())
    instance = build_instance(requests, table, platform, options)
    if instance.small and options.tight is not False:
        instance = build_instance(requests, table, platform, replace(options, segments=0))
    given = math.fsum(gain[instance.free])
    free, lost = len(instance.free), len(instance.lost)
    if not len(instance.open):
        share = given / total if total else 1.0
        passed = time.perf_counter() - began
        return Bound(given, share, given, given, "Trivial", 0.0, passed, 0, 0, 0, free, lost)
    points_s = cut(instance, options.intervals)
    program, solution, proven = _solved(instance, points_s, gain[instance.open], options)
    proven += given
    value = float(math.floor(proven)) if whole else proven
    return Bound(
        value,
        value / total if total else 1.0,
        proven,
        given + solution.value,
        solution.status,
        solution.violation,
        time.perf_counter() - began,
        len(points_s) - 1,
        len(program.gain),
        len(program.row_low),
        free,
        lost,
    )


def _solved(
    instance: Instance, points_s: Floats, gain: Floats, options: BoundOptions
) -> tuple[Program, Solution, float]:
    """The linear program; in small cases the integer one, too, unless the linear one promises nothing to it."""
    layered = instance.small and options.tight is not False
    made = formulate(instance, points_s, gain, tied=layered or options.tight is True)
    program = made.build.program()
    solution = solve(program, options.time_limit_s)
    proven = min(program.proven(solution.multipliers), math.fsum(gain))
    if not layered or proven <= 0.0:
        return program, solution, proven
    whole = sequence(made.build, instance, made.parts, made.share, made.unit_s)
    program = made.build.program(np.concatenate([made.y, whole])).loosened(SLACK)
    solution = solve(program, LIMIT_S if options.time_limit_s is None else options.time_limit_s)
    return program, solution, min(proven, solution.dual_bound + TRUSTED)


def attainment_bound(
    requests: RequestTable, table: CostTable, platform: PlatformLike, options: BoundOptions | None = None
) -> Bound:
    """Most (tenant, model) pairs that can reach their hit-rate target over the whole run at the same time.

    One binary z per pair with such an objective: the sum of its y is at least ceil(target * count) * z;
    maximise the sum of z. A pair without requests counts as met. ``share`` is of the pairs with such an
    objective (1 when there are none). The value rests on the solver's branch and bound: its dual bound,
    floored after adding 1e-6, for the solver proves it to its own tolerance only; never more than the
    relaxation's bound by weak duality. Raises ConfigError, PlatformError.
    """
    began, options = time.perf_counter(), options or BoundOptions()
    instance = build_instance(requests, table, platform, options)
    promised = [
        p for p, a in enumerate(requests.agreements) if a.slo is not None and a.slo.kind == "hit_rate"
    ]
    needed = _needed(requests, promised)
    left = needed - np.bincount(requests.pair[instance.free], minlength=len(requests.agreements))[promised]
    possible = np.bincount(requests.pair[instance.open], minlength=len(requests.agreements))[promised]
    sure = int((left <= 0).sum())
    asked = np.flatnonzero((left > 0) & (left <= possible))
    free, lost, pairs = len(instance.free), len(instance.lost), len(promised)
    if not len(asked):
        share = sure / pairs if pairs else 1.0
        passed = time.perf_counter() - began
        return Bound(sure, share, sure, sure, "Trivial", 0.0, passed, 0, 0, 0, free, lost)
    points_s = cut(instance, options.intervals)
    formulated = formulate(instance, points_s, 0.0)
    build, y = formulated.build, formulated.y
    met = build.columns(np.ones(len(asked)), 1.0)
    row = build.rows(np.zeros(len(asked)), np.full(len(asked), np.inf))
    build.put(row, met, -left[asked].astype(np.float64))
    pair = requests.pair[instance.open]
    for r, p in zip(row, asked, strict=True):
        mine = y[pair == promised[p]]
        build.put(np.full(len(mine), r), mine, 1.0)
    program = build.program(met)
    solution = solve(program, options.time_limit_s)
    relaxed = program.proven(solution.multipliers)
    proven = sure + min(solution.dual_bound, relaxed, float(len(asked)))
    value = float(math.floor(proven + TRUSTED))
    return Bound(
        value,
        value / pairs,
        proven,
        sure + solution.value,
        solution.status,
        solution.violation,
        time.perf_counter() - began,
        len(points_s) - 1,
        len(program.gain),
        len(program.row_low),
        free,
        lost,
    )


def _needed(requests: RequestTable, promised: list[int]) -> Ints:
    """(promised,) hits that each pair needs for its target."""
    count = requests.counts()[promised]
    target = np.array([s.target for p in promised if (s := requests.agreements[p].slo) is not None])
    return np.ceil(target * count - WHOLE * np.maximum(count, 1)).astype(np.int64)


def _weights(weight: Floats, count: int) -> Floats:
    given = np.asarray(weight, np.float64)
    if given.shape != (count,) or not np.isfinite(given).all() or (given < 0.0).any():
        raise ConfigError(f"weights must be {count} finite numbers of at least 0, one per request")
    return given
