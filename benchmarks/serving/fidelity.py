"""Does the simulator tell what the server does?

Three tenants on two networks at 50, 90 and 130 % of the device's capacity, which a closed loop measures first. Then
the server's recording of that very traffic is replayed by the simulator under the same policy: hit rate and 95th
percentile of every tenant over all seeds, both measured inside the server. The simulator knows no exception for
starving tenants, so it is off here. About 6 minutes. ``--small`` is a quick run, ``--resume`` goes on with one that
was cut off, ``--write`` fills results/serving.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.serving.clients import Stock, closed_loop
from benchmarks.serving.command import part
from benchmarks.serving.live import NETWORKS, Live, server_table, serving
from benchmarks.serving.machine import Cores, Watch, cores, pin
from benchmarks.serving.offered import Stream, offer
from benchmarks.serving.page import table
from benchmarks.serving.pieces import Pieces
from benchmarks.table import Options, Table
from eunomia.study.serving.twin import replayed, twin_of

LOADS = (0.5, 0.9, 1.3)
SHARES = {
    "gold": (0.3, "mobilenet-v2", 50.0),
    "silver": (0.5, "mobilenet-v2", 100.0),
    "bronze": (0.2, "resnet50", 400.0),
}
POINTS, P95 = 2.0, 0.10
PROBE = "probe"


@dataclass(frozen=True)
class Scale:
    """Seconds of load per seed, seeds, policies."""

    seconds: float = 9.0
    seeds: int = 5
    policies: tuple[str, ...] = ("edf+f", "weighted_fair")


SMALL = Scale(4.0, 1, ("edf+f",))


@dataclass(frozen=True)
class Replay:
    """One recording, request by request: what the server did and what the simulator does. nan = no answer."""

    tenant: list[str]
    hits: list[list[bool]]  # server, simulator
    response_s: list[list[float]]

    def of(self, tenant: str, who: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """One tenant's hits and responses; ``who``: 0 = server, 1 = simulator."""
        mine = np.array(self.tenant) == tenant
        return np.array(self.hits[who], float)[mine], np.array(self.response_s[who], float)[mine]


def tenants() -> dict[str, dict[str, Any]]:
    """With deadlines as promises, so that the server knows them."""
    return {
        **{name: {"promise": [{"model": "*", "deadline_ms": d}]} for name, (_, _, d) in SHARES.items()}, PROBE: {}
    }  # fmt: skip


def streams(seconds_of: dict[str, float], load: float) -> list[Stream]:
    """Rates at which the device would be busy for this share of the time."""
    mean_s = sum(share * seconds_of[model] for share, model, _ in SHARES.values())
    return [
        Stream(name, model, load * share / mean_s, deadline_ms)
        for name, (share, model, deadline_ms) in SHARES.items()
    ]


def seconds_of(live: Live, seconds: float) -> dict[str, float]:
    """Device time per request, by what a closed loop of four achieves."""

    async def alone(model: str) -> float:
        async with Stock(live, "grpc", PROBE) as client:
            return 1.0 / (await closed_loop(client, model, 4, seconds)).rate

    return {model: asyncio.run(alone(model)) for model in NETWORKS}


def one(live: Live, policy: str, streams: Sequence[Stream], seconds: float, seed: int) -> Replay:
    """One seed's traffic, and its replay."""
    before = len(live.get("/v2/eunomia/twin")["requests"])
    offer(live.grpc, streams, seconds, seed)
    recording = live.get("/v2/eunomia/twin")
    recording["requests"] = [r for r in recording["requests"][before:] if r[1] != PROBE]
    recording["pairs"] = [p for p in recording["pairs"] if p["tenant"] != PROBE]
    twin = twin_of(recording)
    hit, response_s = replayed(twin, policy)
    tenants = [twin.requests.agreements[n].tenant for n in twin.requests.pair]
    both_s = [twin.response_s.tolist(), response_s.tolist()]
    return Replay(tenants, [twin.hit.tolist(), hit.tolist()], both_s)


def run(scale: Scale, where: Cores, watch: Watch, pieces: Pieces) -> dict[tuple[str, float], list[Replay]]:
    """One server for each policy."""
    found = {}
    for policy in scale.policies:
        with serving(server_table(where, tenants(), policy=policy, starve_ms=0), where.front) as live:
            costs_s = seconds_of(live, 1.5)
            for load in LOADS:
                wanted = streams(costs_s, load)
                found[policy, load] = [
                    pieces.do(
                        f"{policy}, {load}, {seed}", Replay,
                        lambda: one(live, policy, wanted, scale.seconds, seed),  # noqa: B023
                    )
                    for seed in range(scale.seeds)
                ]  # fmt: skip
                watch.look()
    pieces.finish()
    return found


def report(found: dict[tuple[str, float], list[Replay]]) -> list[str]:
    """One line per policy, load and tenant: all seeds together."""
    rows = []
    for (policy, load), replays in found.items():
        for name in SHARES:
            (real_hits, real_p95), (told_hits, told_p95) = (figures(replays, name, who) for who in (0, 1))
            points, relative = abs(told_hits - real_hits) * 100, told_p95 / real_p95 - 1
            low, high = apart_over_seeds(replays, name)
            rows.append([
                f"`{policy}`, {load:.0%}, {name}", f"{real_hits:.1%}", f"{told_hits:.1%}", f"{points:.1f}",
                f"{real_p95 * 1e3:.1f}", f"{told_p95 * 1e3:.1f}", f"{relative:+.0%} ({low:+.0%} to {high:+.0%})",
                "yes" if points <= POINTS and abs(relative) <= P95 else "no",
            ])  # fmt: skip
    head = ["policy, load, tenant", "hits, server", "hits, simulator", "points apart", "p95 ms, server",
            "p95 ms, simulator", "apart", "within 2 points and 10 %"]  # fmt: skip
    seeds = len(next(iter(found.values())))
    note = (
        f"All {seeds} seeds together; in brackets a bootstrap over seeds (95 %). The verdict is that of the figure "
        "before the brackets."
    )
    return [*table(head, rows), "", note]


def figures(replays: list[Replay], tenant: str, who: int) -> tuple[float, float]:
    """Hit rate and 95th percentile of one tenant over all seeds."""
    hits, response_s = (
        np.concatenate(parts) for parts in zip(*(r.of(tenant, who) for r in replays), strict=True)
    )
    return float(hits.mean()), float(np.nanpercentile(response_s, 95.0))


def apart_over_seeds(replays: list[Replay], tenant: str) -> tuple[float, float]:
    """How far the 95th percentiles are apart when seeds are drawn with replacement, 95 % of a thousand draws."""
    rng = np.random.default_rng(0)
    parts = [[r.of(tenant, who)[1] for r in replays] for who in (0, 1)]
    apart = []
    for _ in range(1000):
        drawn = rng.integers(len(replays), size=len(replays))
        real, told = (np.nanpercentile(np.concatenate([p[n] for n in drawn]), 95.0) for p in parts)
        apart.append(told / real - 1.0)
    low, high = np.percentile(apart, [2.5, 97.5])
    return float(low), float(high)


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    scale, watch, where = SMALL if options.quick else Scale(), Watch(), cores()
    pin(where.front)
    found = run(scale, where, watch, Pieces("fidelity", resume="resume" in options.given))
    yield part(["", *report(found)], watch)
