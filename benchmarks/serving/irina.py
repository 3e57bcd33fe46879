"""Irina's order against first come, first served, in bursts, on real networks of the live server.

Three networks (ResNet-50, MobileNetV2, an encoder over 128 words), two tenants each, equal parts of the device's time.
Each tenant's requests come in bursts of its own: 90 % in a fifth of the time. Five servers run at once and get the same
requests in turn, first to last, then last to first; all deadlines are far off. A batch takes what waits of one tenant
and network; it waits to fill under max batch plus timeout alone (``fifo.py``). Load 1 is what each network answers with
the device to itself, unbatched. Parts: a load each (0.7, 0.95), ten rounds of ten
seconds, 10 minutes each. ``--set resume=yes`` goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import NETWORKS, Live, serving
from benchmarks.serving.load import Stream, client, closed_loop, offer
from benchmarks.serving.machine import CpuTime, cpu_time
from benchmarks.table import Cell, Options, Table
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import Estimate, bootstrap, interval, nearest_rank
from eunomia.serving.load.client import TritonClient
from eunomia.workload.arrivals import Mmpp

ENCODER, WORDS = Path("examples/models/encoder.onnx").resolve(), {"text": [1, 128]}
MODELS = (*NETWORKS, "encoder")
TENANTS = {f"{model}-{n}": model for model in MODELS for n in (1, 2)}
FAR_MS = 100_000.0
METHODS: dict[str, dict[str, Any]] = {
    "first come, no batch": {"policy": "fcfs"},
    "first come, batches up to 8": {"policy": "fcfs", "max_batch": 8},
    "max batch of 8, 10 ms": {"policy": f"{Path(__file__).with_name('fifo.py')}:fifo", "max_batch": 8},
    "irina, no batch": {"policy": "irina"},
    "irina(batch=8)": {"policy": "irina(batch=8)", "max_batch": 8},
}
BASE = "first come, batches up to 8"
LOADS = (0.7, 0.95)
BURST_S, CALM_S, IN_BURSTS = 0.5, 2.0, 0.9  # mean lengths, and the share of requests that come in bursts


class AnyClient(TritonClient):
    """The stock client, which asks the server for each network's inputs; the encoder gets 128 words."""

    async def prepare(self, shapes: Mapping[str, Sequence[int]], seed: int) -> None:
        """With this benchmark's shapes."""
        await super().prepare({**WORDS, **shapes}, seed)


def started(stack: contextlib.ExitStack, how: Mapping[str, Any]) -> Live:
    """A server of the three networks on the second core."""
    promise = [{"model": "*", "deadline_ms": FAR_MS}]
    networks: list[dict[str, object]] = [{"name": name, "builtin": name} for name in NETWORKS]
    networks.append({"name": "encoder", "onnx": str(ENCODER), "shapes": WORDS})
    tenants = {name: {"promise": promise} for name in TENANTS}
    return stack.enter_context(serving(tenants, network=networks, **how))


def alone(live: Live, seconds: float) -> Result:
    """Seconds of the device per request of each network, nobody else there."""

    async def rate(model: str, seconds: float) -> float:
        stream = Stream(f"{model}-1", model, deadline_ms=FAR_MS)
        async with client(live.grpc, "grpc", [stream], made=AnyClient) as found:
            return (await closed_loop(found, 3, seconds)).rate

    for model in MODELS:
        asyncio.run(rate(model, 1.0))
    return {model: 1.0 / asyncio.run(rate(model, seconds)) for model in MODELS}


def streams(load: float, alone_s: Mapping[str, float]) -> list[Stream]:
    """All tenants' bursts; every network takes the same part of the load."""
    both_s, found = BURST_S + CALM_S, []
    for tenant, model in TENANTS.items():
        rate = load / len(TENANTS) / alone_s[model]
        high, low = rate * IN_BURSTS * both_s / BURST_S, rate * (1.0 - IN_BURSTS) * both_s / CALM_S
        found.append(Stream(tenant, model, deadline_ms=FAR_MS, arrivals=Mmpp(low, high, CALM_S, BURST_S)))
    return found


def used(live: Live) -> CpuTime:
    """By the device's worker."""
    every = [cpu_time(pid) for pid in live.workers]
    return CpuTime(sum(one.ran_s for one in every), sum(one.waited_s for one in every))


def one_run(live: Live, load: float, alone_s: Mapping[str, float], seconds: float, seed: int) -> Result:
    """What one server made of a round's requests."""
    before = used(live)
    seen = offer(live.grpc, streams(load, alone_s), seconds, seed, transport="grpc", made=AnyClient)
    spent = used(live) - before
    every = np.concatenate([one.latency_s for one in seen])
    done = every[~np.isnan(every)]
    slow = {
        tenant: float(np.nanmean(one.latency_s)) / alone_s[model]
        for (tenant, model), one in zip(TENANTS.items(), seen, strict=True)
        if one.answered
    }
    return {
        "sent": len(every),
        "lost": len(every) - len(done),
        "mean_s": float(done.mean()),
        "p99_s": nearest_rank(done, 99.0),
        "slowest": max(slow.values()),
        "who": max(slow, key=lambda tenant: slow[tenant]),
        "ran_s": spent.ran_s,
        "waited_s": spent.waited_s,
        "lag_s": max(one.lag_p99_s for one in seen),
    }


def one_round(
    lives: Mapping[str, Live], load: float, alone_s: Mapping[str, float], seconds: float, seed: int
) -> Result:
    """The same requests to every server in turn; every other round from the last to the first."""
    order = list(lives)[:: -1 if seed % 2 else 1]
    return {name: one_run(lives[name], load, alone_s, seconds, seed) for name in order}


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Geometric mean of the rounds' ratios with a bootstrap interval over rounds."""
    logs = bootstrap(np.log(np.divide(ours, theirs)), np.random.default_rng(0))
    return Estimate(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high), logs.n)


def rows(rounds: Sequence[Result]) -> Iterator[list[Cell]]:
    """A line per method."""

    def of(name: str, what: str) -> list[float]:
        return [one[name][what] for one in rounds]

    for name in METHODS:
        cells: list[Cell] = [name]
        for what, factor in (("mean_s", 1e3), ("p99_s", 1e3), ("slowest", 1.0)):
            cells += [interval(np.multiply(of(name, what), factor)), ratio(of(BASE, what), of(name, what))]
        ran_s, waited_s = sum(of(name, "ran_s")), sum(of(name, "waited_s"))
        yield [*cells, sum(of(name, "lost")), interval(of(name, "ran_s")), waited_s / (ran_s + waited_s)]


def notes(rounds: Sequence[Result], alone_s: Mapping[str, float], load: float) -> list[str]:
    """What load it was, and whose tenants were slowest."""
    times = ", ".join(f"{model} {1e3 * s:.1f}" for model, s in alone_s.items())
    sent = sum(one[BASE]["sent"] for one in rounds)
    lag_ms = 1e3 * max(run["lag_s"] for one in rounds for run in one.values())
    whose = {name: [one[name]["who"].rpartition("-")[0] for one in rounds] for name in METHODS}
    slowest = "; ".join(
        f"{name}: {max(set(who), key=who.count)} in {max(map(who.count, who))}" for name, who in whose.items()
    )
    return [
        f"Load {load:g}: milliseconds alone {times}; {sent} requests to each server in {len(rounds)} rounds; the "
        f"sender was late by {lag_ms:.0f} ms at most (p99 of a tenant and round).",
        f"The slowest tenant was of: {slowest} rounds.",
    ]


def measure(options: Options) -> Iterator[Table]:
    """A table per load; the quick run has a round of two seconds."""
    bench = Bench("irina", options)
    seconds, seeds = (2.0, range(1)) if options.quick else (10.0, options.seeds_or(10))
    columns = (
        "live; mean, ms|.0f; better by|.2f; p99, ms|.0f; better by|.2f; slowest tenant|.1f; better by|.2f; "
        "unanswered; device ran, s|.2f; device held up|.1%"
    )
    with contextlib.ExitStack() as stack:
        lives = {name: started(stack, how) for name, how in METHODS.items()}
        plain, *others = lives.values()
        alone_s = bench.piece(partial(alone, plain, 1.0 if options.quick else 4.0), what="alone")
        for live in others:
            alone(live, 1.0)  # everything has run before it counts
        for load in LOADS[:1] if options.quick else [load for load in LOADS if options.wants(f"{load:g}")]:
            rounds = []
            for seed in seeds:
                run = partial(one_round, lives, load, alone_s, seconds, seed)
                rounds.append(bench.piece(run, load=load, seconds=seconds, seed=seed))
                means_s = {name: round(one["mean_s"], 4) for name, one in rounds[-1].items()}
                print(load, seed, means_s, flush=True)
            yield bench.table(f"{load:g}", columns, rows(rounds), notes(rounds, alone_s, load))
