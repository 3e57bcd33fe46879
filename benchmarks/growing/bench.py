"""Growing to 10,000 devices and 100,000 requests/s: shares by level and staleness, quotas by cluster, what it costs.

Parts: shares, quotas, costs. 100 servers of 100 devices, ten to a group; 24 tenants with weights 1, 2, 4, each wanting
1.3 times its share. A tenant's traffic enters at three groups of ten, unequally, and moves to others after a while.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.growing.model import ALONE, AT_ONCE, Fleet, play
from benchmarks.table import Cell, Options, Table, table
from eunomia.core.arrays import Floats
from eunomia.metrics.statistics import interval
from eunomia.serving.replicas.rule import Accounts, News

SERVERS, GROUP, TENANTS, SEEDS = 100, 10, 24, 5
WEIGHTS = np.array([1.0, 2.0, 4.0] * (TENANTS // 3))
STAYS_S, LENGTH_S, WINDOW_S, LOAD = (10.0, 60.0, 300.0), 600.0, 20.0, 1.3
FLAT = Fleet(SERVERS, SERVERS, 0.25, 0.25)
LEVELS = Fleet(SERVERS, GROUP, 0.25, 0.25)
FORMS = {
    "each server alone": replace(FLAT, how=ALONE),
    "one level, looks every 0.25 s": FLAT,
    "one level, 1 s": replace(FLAT, near_s=1.0),
    **{f"groups of {n}, 0.25 s, between them 1 s": replace(LEVELS, group=n, far_s=1.0) for n in (4, 10, 25)},
    **{
        f"groups of 10, 0.25 s, between them {far:g} s": replace(LEVELS, far_s=far)
        for far in (0.25, 5.0, 20.0)
    },
}
ROW_BYTES = 24  # a total, its time, a key


def measure(options: Options) -> Iterator[Table]:
    """The tables."""
    if options.wants("shares"):
        yield shares(options)
    if options.wants("quotas"):
        yield quotas(options)
    if options.wants("costs"):
        yield costs(options)


def traffic(seed: int, stays_s: float, length_s: float) -> Floats:
    """Devices wanted (epochs, servers, tenants): three groups each, shares drawn, inside a group drawn, too."""
    rng, groups = np.random.default_rng([7, seed]), SERVERS // GROUP
    wanted = LOAD * SERVERS * FLAT.devices * WEIGHTS / WEIGHTS.sum()
    found = np.zeros((max(round(length_s / stays_s), 1), SERVERS, TENANTS))
    for epoch in found:
        for t in range(TENANTS):
            for g, part in zip(rng.permutation(groups)[:3], rng.dirichlet(np.ones(3)), strict=True):
                inside = part * rng.dirichlet(np.full(GROUP, 3.0))
                epoch[g * GROUP : (g + 1) * GROUP, t] = wanted[t] * inside
    return found


def shares(options: Options) -> Table:
    """How far tenants are from what they get where news are never late."""
    length_s = 60.0 if options.quick else LENGTH_S
    rows: list[list[Cell]] = []
    for name, fleet in FORMS.items():
        read = 0.0 if fleet.how == ALONE else fleet.rows_per_s()
        rows.append([name, read * TENANTS * ROW_BYTES / 1e6])
    for stays_s in STAYS_S:
        apart: dict[str, list[tuple[float, float]]] = {name: [] for name in FORMS}
        for seed in options.seeds_or(SEEDS):
            wanted = traffic(seed, stays_s, length_s)
            ideal = play(replace(FLAT, how=AT_ONCE), wanted, stays_s, WEIGHTS, WINDOW_S)[1:]
            for name, fleet in FORMS.items():
                got = play(fleet, wanted, stays_s, WEIGHTS, WINDOW_S)[1:]
                whole = got.sum(axis=0) / ideal.sum(axis=0)
                apart[name].append((100.0 * float(whole.min()), 100.0 * float((got / ideal).min())))
        for row, pairs in zip(rows, apart.values(), strict=True):
            row += [interval(each) for each in np.array(pairs).T]
    columns = "; ".join(
        f"moves each {s:g} s: worst tenant, %|.1f; its worst {WINDOW_S:g} s|.1f" for s in STAYS_S
    )
    return table("shares", f"form; MB/s read|.2f; {columns}", rows)


def divided(wanted: Floats, quota: Floats, every: int, floor: float) -> float:
    """Part of the requests inside all quotas that is refused. ``wanted`` (steps, clusters, tenants), a step a second.

    Each ``every`` steps quotas are divided anew as the last ``every`` steps wanted; ``floor``: the part that is divided
    evenly. ``every`` 0: all is.
    """
    clusters = wanted.shape[1]
    even = np.tile(quota / clusters, (clusters, 1))
    part, lost, allowed = even, 0.0, 0.0
    for step in range(len(wanted)):
        if every and step and step % every == 0:
            seen = wanted[step - every : step].sum(axis=0)
            shares = seen / np.maximum(seen.sum(axis=0), 1e-12)
            part = floor * even + (1.0 - floor) * quota * shares
        now = np.minimum(wanted[step].sum(axis=0), quota)
        allowed += float(now.sum())
        lost += float(np.maximum(now - np.minimum(wanted[step], part).sum(axis=0), 0.0).sum())
    return lost / allowed


def quotas(options: Options) -> Table:
    """What is refused inside a tenant's quota while its parts follow the traffic late."""
    quota, length = 100_000.0 * WEIGHTS / WEIGHTS.sum(), 120 if options.quick else 1200
    rows: list[list[Cell]] = []
    for every in (0, 1, 10, 60, 300):
        row: list[Cell] = [f"{every} s" if every else "never: even parts"]
        for stays_s in STAYS_S:
            lost = []
            for seed in options.seeds_or(SEEDS):
                groups = (
                    traffic(seed, stays_s, length).reshape(-1, SERVERS // GROUP, GROUP, TENANTS).sum(axis=2)
                )
                asked = 0.9 * groups / groups.sum(axis=1, keepdims=True) * quota
                lost.append(divided(np.repeat(asked, int(stays_s), axis=0), quota, every, 0.1))
            row.append(interval(np.array(lost)))
        rows.append(row)
    columns = "; ".join(f"moves each {s:g} s: refused inside quotas|.1%" for s in STAYS_S)
    return table("quotas", f"divided anew each; {columns}", rows)


def costs(options: Options) -> Table:
    """The product's own rule, timed: one look of one server."""
    rows: list[list[Cell]] = []
    for name, others, every_s in (
        ("one level, 0.25 s", 99, 0.25),
        ("groups of 10, 0.25 s", 9, 0.25),
        ("between, 1 s", 9, 1.0),
    ):
        for tenants in (TENANTS, 1000):
            took_s = _look_s(others, tenants, 3 if options.quick else 30)
            read = others * tenants * ROW_BYTES / every_s / 1e6
            rows.append([name, others, tenants, 1e3 * took_s, took_s / every_s, read])
    return table(
        "costs", "looks; others|,; tenants|,; a look, ms|.2f; of one core|.2%; MB/s a server|.2f", rows
    )


def _look_s(others: int, tenants: int, times: int) -> float:
    """Median processor time of ``Accounts.learned`` with that many others and tenants, s."""
    accounts, took = Accounts(0.25, 60.0), []
    names = [f"t{n}" for n in range(tenants)]
    for n in range(times + 1):
        news = {f"s{r}": News({name: float(n + r) for name in names}, 0.25) for r in range(others)}
        began = time.process_time()
        accounts.learned(news, (), others + 1, 0.25 * n)
        accounts.take(0.25 * n)
        took.append(time.process_time() - began)
    return float(np.median(took[1:]))
