"""Does one tenant's flood hurt another?

Gold sends 10 requests/s with 50 ms to answer, bronze 2/s with a second, silver floods: on gold's own network, on
another network that takes nine times as long, and as a client that cheats: it claims deadlines of four times its
network's time in place of the 200 ms that it was promised, once within the capacity, once at twice that. Beyond the
capacity a rule without shares is at its end whatever is claimed: by EDF everybody is served at the last moment.

The capacity is measured in the same run, with silver alone in a closed loop. Silver's share: what it was answered over
what gold and bronze leave of the capacity, or over what it asked for when that is less. Pictures lie in system shared
memory, because sending 400 of them a second takes more than the one core that front end and client share here. In rows
"claims believed" silver's promise lets it claim what it likes (``min_deadline_ms = 0``). About 6 minutes.
``--set policies=A,B``: other policies.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import LARGE_NET, SMALL_NET, Live, serving
from benchmarks.serving.load import Stream, closed_rate, offer
from benchmarks.table import Cell, Options, Table, by_name
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import interval

GOLD, BRONZE = Stream("gold", SMALL_NET, 10.0, 50.0), Stream("bronze", SMALL_NET, 2.0, 1000.0)
DEADLINES_MS = {SMALL_NET: 200.0, LARGE_NET: 1000.0}  # of silver
SILVER = [{"model": m, "deadline_ms": ms, "slo": {"hit_rate": 0.5}} for m, ms in DEADLINES_MS.items()]
TENANTS: dict[str, dict[str, Any]] = {
    "gold": {"weight": 3.0, "promise": [{"model": "*", "deadline_ms": 50.0, "slo": {"hit_rate": 0.99}}]},
    "silver": {"promise": SILVER},
    "bronze": {"promise": [{"model": "*", "deadline_ms": 1000.0}]},
    "probe": {},
}
BELIEVING = {**TENANTS, "silver": {"promise": [{**promise, "min_deadline_ms": 0.0} for promise in SILVER]}}
CHEAT = "a client that cheats, "
CHEATS = {f"{CHEAT}within the capacity": 0.85, f"{CHEAT}at twice the capacity": 2.0}
CASES = ("one network", "two networks", *CHEATS)
FLOOD_PER_S = 150.0
COLUMNS = (
    "silver is; policy; gold within 50 ms|.1%; gold p99, ms|.0f; silver's share of what is left|.1%; "
    "silver in time|.1%; bronze answered, worst|.0%; bronze slowest, ms|.0f; both targets"
)


def silver_of(case: str, small_per_s: float, large_per_s: float) -> Stream:
    """What silver sends."""
    if case == "one network":
        return Stream("silver", SMALL_NET, FLOOD_PER_S, 200.0)
    if case == "two networks":
        return Stream("silver", LARGE_NET, 1.2 * large_per_s, 1000.0)
    return Stream("silver", SMALL_NET, CHEATS[case] * small_per_s, 200.0, claimed_ms=4e3 / small_per_s)


def flooded(live: Live, case: str, seconds: float, seed: int) -> Result:
    """One case on one server, one seed."""
    small_per_s, large_per_s = (
        closed_rate(live, Stream("probe", model), seconds / 4, transport="shared memory")
        for model in (SMALL_NET, LARGE_NET)
    )
    flood = silver_of(case, small_per_s, large_per_s)
    gold, bronze, silver = offer(live.http, [GOLD, BRONZE, flood], seconds, seed, transport="shared memory")
    own_s = 1.0 / (large_per_s if flood.model == LARGE_NET else small_per_s)
    left_s = seconds - (gold.in_window + bronze.in_window) / small_per_s
    return {
        "gold": gold.hit_rate,
        "gold_p99_ms": gold.percentile_ms(99),
        "share": silver.in_window / min(left_s / own_s, silver.sent),
        "silver": silver.hit_rate,
        "bronze_answered": bronze.answered / max(bronze.sent, 1),
        "bronze_slowest_ms": bronze.percentile_ms(100),
        "lag_s": max(gold.lag_p99_s, silver.lag_p99_s),
    }


def row(case: str, policy: str, runs: list[Result]) -> list[Cell]:
    """One policy in one case, over all seeds."""
    s = by_name(runs)
    gold, share, silver = interval(s["gold"]), interval(s["share"]), interval(s["silver"])
    p99_ms, bronze = float(np.median(s["gold_p99_ms"])), min(s["bronze_answered"])
    fine = gold.mean >= 0.99 and share.mean >= 0.9
    return [case, policy, gold, p99_ms, share, silver, bronze, max(s["bronze_slowest_ms"]), fine]


def measure(options: Options) -> Iterator[Table]:
    """Every policy on a server of its own; rows by case."""
    bench = Bench("isolation", options)
    policies = options.given.get("policies", "fair_edf,weighted_fair").split(",")
    seconds, seeds = (3.0, range(1)) if options.quick else (4.0, range(5))
    found: dict[tuple[str, str], list[Result]] = {}
    ways = (("", TENANTS, CASES), (", claims believed", BELIEVING, tuple(CHEATS)))
    for policy, (more, tenants, cases) in ((p, way) for p in policies for way in ways):
        with serving(tenants, policy=policy) as live:
            for seed, case in ((seed, case) for seed in seeds for case in cases):
                work = partial(flooded, live, case, seconds, seed)
                run = bench.piece(work, policy=policy + more, case=case, seed=seed)
                found.setdefault((case, f"`{policy}`{more}"), []).append(run)
    order = sorted(found, key=lambda key: CASES.index(key[0]))
    lag_s = max(run["lag_s"] for runs in found.values() for run in runs)
    note = f"The generator was late by {lag_s * 1e3:.0f} ms at most (p99 of a stream)."
    yield bench.table("all", COLUMNS, [row(*key, found[key]) for key in order], [note])
