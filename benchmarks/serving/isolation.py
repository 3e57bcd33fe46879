"""Does one tenant's flood hurt another?

Gold sends 10 requests/s with 50 ms to answer, bronze 2/s with a second, silver floods: on gold's own network, on
another network that takes nine times as long, and as a client that cheats: it claims deadlines of four times its
network's time in place of the 200 ms that it was promised, once within the capacity, once at twice that. Beyond the
capacity a rule without shares is at its end whatever is claimed: by EDF everybody is served at the last moment.

The capacity is measured in the same run, with silver alone in a closed loop. Silver's share: what it was answered over
what gold and bronze leave of the capacity, or over what it asked for when that is less. Pictures lie in system shared
memory, because sending 400 of them a second takes more than the one core that front end and client share here. In rows
"claims believed" silver's promise lets it claim what it likes (``min_deadline_ms = 0``). About 6 minutes. ``--small``
is a quick run, ``--resume`` goes on with one that was cut off, ``--write`` fills results/serving.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.serving.clients import Stock, closed_loop
from benchmarks.serving.command import part
from benchmarks.serving.live import Live, server_table, serving
from benchmarks.serving.machine import Cores, Watch, cores, pin
from benchmarks.serving.offered import Seen, Stream, offer
from benchmarks.serving.page import table
from benchmarks.serving.pieces import Pieces
from benchmarks.table import Options, Table
from eunomia.metrics.statistics import interval

POLICIES = ("edf+f", "weighted_fair")  # others by --policy
SMALL_NET, LARGE_NET = "mobilenet-v2", "resnet50"
GOLD, BRONZE = Stream("gold", SMALL_NET, 10.0, 50.0), Stream("bronze", SMALL_NET, 2.0, 1000.0)
TENANTS: dict[str, dict[str, Any]] = {
    "gold": {"weight": 3.0, "promise": [{"model": "*", "deadline_ms": 50.0, "slo": {"hit_rate": 0.99}}]},
    "silver": {
        "promise": [
            {"model": SMALL_NET, "deadline_ms": 200.0, "slo": {"hit_rate": 0.5}},
            {"model": LARGE_NET, "deadline_ms": 1000.0, "slo": {"hit_rate": 0.5}},
        ]
    },
    "bronze": {"promise": [{"model": "*", "deadline_ms": 1000.0}]},
    "probe": {},
}
CHEATS = {
    "a client that cheats, within the capacity": 0.85,
    "a client that cheats, at twice the capacity": 2.0,
}
CASES = ("one network", "two networks", *CHEATS)
BELIEVED = ", claims believed"


@dataclass(frozen=True)
class Scale:
    """Seconds of load, seeds, policies."""

    seconds: float = 4.0
    seeds: int = 5
    policies: tuple[str, ...] = POLICIES
    flood_per_s: float = 150.0


SMALL = Scale(3.0, 1, ("edf+f", "weighted_fair"))


@dataclass(frozen=True)
class Outcome:
    """One case under one policy, one seed."""

    gold: Seen
    bronze: Seen
    silver: Seen
    silver_share: float


def capacity(live: Live, model: str, seconds: float) -> float:
    """Requests per second of one tenant alone, four at a time."""

    async def alone() -> float:
        async with Stock(live, "shared memory", "probe") as client:
            return (await closed_loop(client, model, 4, seconds)).rate

    return asyncio.run(alone())


def silver_of(case: str, small_per_s: float, large_per_s: float, flood_per_s: float) -> Stream:
    """What silver sends."""
    if case == "one network":
        return Stream("silver", SMALL_NET, flood_per_s, 200.0)
    if case == "two networks":
        return Stream("silver", LARGE_NET, 1.2 * large_per_s, 1000.0)
    return Stream("silver", SMALL_NET, CHEATS[case] * small_per_s, 200.0, claimed_ms=4e3 / small_per_s)


@dataclass(frozen=True)
class Outcomes:
    """All cases of one policy and seed."""

    of: list[Outcome]


def tenants(believed: bool) -> dict[str, dict[str, Any]]:
    """``believed``: silver may claim any deadline."""
    if not believed:
        return TENANTS
    promises = [{**promise, "min_deadline_ms": 0.0} for promise in TENANTS["silver"]["promise"]]
    return {**TENANTS, "silver": {"promise": promises}}


def measured(live: Live, scale: Scale, seed: int, cases: Sequence[str]) -> Outcomes:
    """Some cases on one server."""
    found = []
    small_per_s, large_per_s = (capacity(live, m, scale.seconds / 4) for m in (SMALL_NET, LARGE_NET))
    for case in cases:
        silver = silver_of(case, small_per_s, large_per_s, scale.flood_per_s)
        gold, bronze, other = offer(live.http, [GOLD, BRONZE, silver], scale.seconds, seed, protocol="shared")
        own_s = 1.0 / (large_per_s if silver.model == LARGE_NET else small_per_s)
        left_s = scale.seconds - (gold.in_window + bronze.in_window) / small_per_s
        could = min(left_s / own_s, other.sent)
        found.append(Outcome(gold, bronze, other, other.in_window / could))
    return Outcomes(found)


def run(scale: Scale, where: Cores, watch: Watch, pieces: Pieces) -> dict[str, dict[str, list[Outcome]]]:
    """Every policy on a server of its own."""
    pin(where.front)
    found = {}
    for policy, more in ((policy, more) for policy in scale.policies for more in ("", BELIEVED)):
        cases, name = tuple(CHEATS) if more else CASES, f"`{policy}`{more}"
        with serving(server_table(where, tenants(bool(more)), policy=policy), where.front) as live:
            seeds = [
                pieces.do(f"{name}, {seed}", Outcomes, lambda: measured(live, scale, seed, cases)).of  # noqa: B023
                for seed in range(scale.seeds)
            ]
        found[name] = {case: [outcomes[n] for outcomes in seeds] for n, case in enumerate(cases)}
        watch.look()
    pieces.finish()
    return found


def report(found: dict[str, dict[str, list[Outcome]]]) -> list[str]:
    """One table per case."""
    lines: list[str] = []
    for case in CASES:
        rows = []
        for policy, cases in found.items():
            if case not in cases:
                continue
            outcomes = cases[case]
            gold, share = (interval(values) for values in (
                [o.gold.hit_rate for o in outcomes], [o.silver_share for o in outcomes]))  # fmt: skip
            rows.append([policy, f"{gold:.1%}", f"{np.median([o.gold.percentile_ms(99) for o in outcomes]):.0f}",
                         f"{share:.1%}", f"{interval([o.silver.hit_rate for o in outcomes]):.1%}",
                         f"{min(o.bronze.answered / max(o.bronze.sent, 1) for o in outcomes):.0%}",
                         f"{max(o.bronze.percentile_ms(100) for o in outcomes):.0f}",
                         "yes" if gold.mean >= 0.99 and share.mean >= 0.9 else "no"])  # fmt: skip
        head = ["policy", "gold within 50 ms", "gold p99, ms", "silver's share of what is left", "silver in time",
                "bronze answered, worst", "bronze slowest, ms", "both targets"]  # fmt: skip
        lines += [f"**{case.capitalize()}**", "", *table(head, rows), ""]
    lag = max(
        s.lag_p99_s
        for cases in found.values()
        for os in cases.values()
        for o in os
        for s in (o.gold, o.silver)
    )
    return [*lines, f"The generator was late by {lag * 1e3:.0f} ms at most (p99 of a stream)."]


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    scale = SMALL if options.quick else Scale()
    if "policies" in options.given:
        named = tuple(options.given["policies"].split(","))
        scale = Scale(scale.seconds, scale.seeds, named, scale.flood_per_s)
    watch = Watch()
    lines = report(run(scale, cores(), watch, Pieces("isolation", resume="resume" in options.given)))
    yield part(["", *lines], watch)
