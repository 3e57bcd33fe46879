"""Does the simulator tell what the server does?

Three tenants on two networks at 50, 90 and 130 % of the device's capacity, which a closed loop measures first. Then
the server's recording of that very traffic is replayed by the simulator under the same policy: hit rate and 95th
percentile of every tenant over all seeds, both measured inside the server. The simulator knows no exception for
starving tenants, so it is off here. About 6 minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import LARGE_NET, NETWORKS, SMALL_NET, Live, serving
from benchmarks.serving.load import Stream, closed_rate, offer
from benchmarks.table import Cell, Options, Table
from eunomia.engines.processes import Result
from eunomia.study.serving.twin import replayed, twin_of

LOADS = (0.5, 0.9, 1.3)
SHARES = {
    "gold": (0.3, SMALL_NET, 50.0),
    "silver": (0.5, SMALL_NET, 100.0),
    "bronze": (0.2, LARGE_NET, 400.0),
}
POINTS, P95 = 2.0, 0.10
PROBE = "probe"
COLUMNS = (
    "policy, load, tenant; hits, server|.1%; hits, simulator|.1%; points apart|.1f; p95 ms, server|.1f; "
    "p95 ms, simulator|.1f; apart|+.0%; from|+.0%; to|+.0%; within 2 points and 10 %"
)
Replays = Sequence[Result]  # by seed


def promises(**more: object) -> dict[str, dict[str, object]]:
    """The tenants with deadlines as promises, so that the server knows them."""
    made = {name: {"model": "*", "deadline_ms": ms, **more} for name, (_, _, ms) in SHARES.items()}
    return {name: {"promise": [promise]} for name, promise in made.items()}


def streams(seconds_of: Mapping[str, float], load: float) -> list[Stream]:
    """Rates at which the device would be busy for this share of the time."""
    mean_s = sum(share * seconds_of[model] for share, model, _ in SHARES.values())
    return [Stream(name, model, load * share / mean_s, d) for name, (share, model, d) in SHARES.items()]


def replay(live: Live, policy: str, wanted: Sequence[Stream], seconds: float, seed: int) -> Result:
    """One seed's traffic: by tenant the hits and response times [s] of the server and of the simulator; nan = none."""
    before = len(live.recording()["requests"])
    offer(live.grpc, wanted, seconds, seed)
    recording = live.recording()
    recording["requests"] = [r for r in recording["requests"][before:] if r[1] != PROBE]
    recording["pairs"] = [p for p in recording["pairs"] if p["tenant"] != PROBE]
    twin = twin_of(recording)
    hit, response_s = replayed(twin, policy)
    tenant = np.array([twin.requests.agreements[n].tenant for n in twin.requests.pair])
    both = ((twin.hit, twin.response_s), (hit, response_s))
    return {name: [[part[tenant == name].tolist() for part in one] for one in both] for name in SHARES}


def row(label: str, replays: Replays, tenant: str) -> list[Cell]:
    """Figures of server and simulator over all seeds, and how far they are apart."""
    hits = [np.concatenate([r[tenant][who][0] for r in replays]).mean() for who in (0, 1)]
    p95_s = [np.nanpercentile(np.concatenate([r[tenant][who][1] for r in replays]), 95.0) for who in (0, 1)]
    points, apart = abs(hits[1] - hits[0]) * 100, p95_s[1] / p95_s[0] - 1.0
    low, high = apart_over_seeds(replays, tenant)
    fine = bool(points <= POINTS and abs(apart) <= P95)
    return [f"{label}, {tenant}", *hits, points, *(s * 1e3 for s in p95_s), apart, low, high, fine]


def apart_over_seeds(replays: Replays, tenant: str) -> tuple[float, float]:
    """How far the 95th percentiles are apart when seeds are drawn with replacement, 95 % of a thousand draws."""
    rng = np.random.default_rng(0)
    apart = []
    for _ in range(1000):
        drawn = rng.integers(len(replays), size=len(replays))
        parts = ([np.array(replays[n][tenant][who][1], float) for n in drawn] for who in (0, 1))
        real, told = (np.nanpercentile(np.concatenate(part), 95.0) for part in parts)
        apart.append(told / real - 1.0)
    low, high = np.percentile(apart, [2.5, 97.5])
    return float(low), float(high)


def measure(options: Options) -> Iterator[Table]:
    """One server for each policy; a row for each policy, load and tenant. The quick run has one policy."""
    bench = Bench("fidelity", options)
    seconds, seeds, policies = (4.0, 1, ["edf+f"]) if options.quick else (9.0, 5, ["edf+f", "weighted_fair"])
    rows = []
    for policy in policies:
        with serving({**promises(), PROBE: {}}, policy=policy, starve_ms=0) as live:
            costs_s = {model: 1.0 / closed_rate(live, Stream(PROBE, model), 1.5) for model in NETWORKS}
            for load in LOADS:
                one = partial(replay, live, policy, streams(costs_s, load), seconds)
                what = {"policy": policy, "load": load}
                found = [bench.piece(partial(one, seed), **what, seed=seed) for seed in range(seeds)]
                rows += [row(f"`{policy}`, {load:.0%}", found, tenant) for tenant in SHARES]
    note = "All seeds together; from, to: a bootstrap over seeds (95 %). The verdict is that of the figure before."
    yield bench.table("all", COLUMNS, rows, [note])
