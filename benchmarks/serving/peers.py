"""Against other servers at the same offered rates. Parts: all, own.

Three tenants on two networks, Poisson. All: at 70, 100 and 130 % of what a bare ONNX Runtime loop can do with that mix.
Own: at 70 % of what this very server does with it for eight users in a closed loop, measured first. Stock gRPC client,
one core for the network and one for everything else, ONNX Runtime with one thread everywhere. Triton also with its own
priorities, which its clients must name (gold 1, the others 2). Nobody sheds, but in the rows "refuses" of part all:
ours with ``late = "drop"``, Triton with each deadline as its queue's timeout; MLServer and Ray Serve know none. Triton
also with its rate limiter, which runs one network at a time.

``--set peers=FOLDER`` holds the other servers' virtual environments (``peer_servers.py`` says how they are made); those
that are not there are left out and said so. ``--set seconds=S`` of a cell and seed (all seeds of a cell: 2 minutes),
``--set policies=A,B`` of ours, ``--set resume=yes``. With all servers, part own takes 21 minutes, part all 90.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException

from benchmarks.serving.bare import Bare
from benchmarks.serving.bench import Bench
from benchmarks.serving.fidelity import SHARES, promises, streams
from benchmarks.serving.live import NETWORKS, serving
from benchmarks.serving.load import PictureClient, Stream, client, closed_loop, offer
from benchmarks.serving.peer_servers import PEERS, Peer
from benchmarks.table import Cell, Options, Table
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import interval
from eunomia.serving.load.plan import LoadStream

TARGETS = {"gold": 0.99, "silver": 0.95, "bronze": 0.9}
PRIORITY = {"gold": 1, "silver": 2, "bronze": 2}
TIMEOUT_S = 10.0
SETTLED_S = 120.0  # what a cell has left behind is answered by then
USERS, CLOSED_S = 8, 8.0  # of the closed loop that finds a server's own capacity
LOADS, OWN = (0.7, 1.0, 1.3), 0.0  # of the bare loop's capacity; the key of 70 % of a server's own
MIX = [n for n, (share, *_) in enumerate(SHARES.values()) for _ in range(round(10 * share))]
COLUMNS = (
    "server; gold in time|.1%; silver in time|.1%; bronze in time|.1%; worst tenant|.1%; targets met|.0%; "
    "goodput, 1/s|.1f"
)
ALL, CAPACITY = "of the bare loop's capacity|.0%; ", "; its own capacity, 1/s|.1f; of the bare loop's|.0%"
Start = Callable[[], contextlib.AbstractContextManager[Peer]]
Asks = tuple[str, ...]  # "priority", "timeout": clients name it; SHEDS: a row "refuses"
SHEDS = "sheds"
LIMITED: dict[str, Asks] = {
    ", priorities": ("priority",),
    ", priorities, refuses": ("priority", "timeout", SHEDS),
}
TRITON: dict[str, Asks] = {"": (), **LIMITED}


class PeerClient(PictureClient):
    """The stock client, with headers, priorities and timeouts that some servers need."""

    def __init__(self, peer: Peer, asks: Asks, *where: Any) -> None:
        super().__init__(*where)
        self._peer, self._asks = peer, asks

    async def send(self, stream: int) -> None:
        """One request."""
        chosen = self._streams[stream]
        known = {"priority": PRIORITY[chosen.tenant], "timeout": int(chosen.deadline_s * 1e6)}
        more: dict[str, Any] = {name: value for name, value in known.items() if name in self._asks}
        inputs, headers = self._inputs[chosen.model], self._headers(chosen)
        await self._client.infer(
            chosen.model, inputs, headers=headers, client_timeout=self._timeout_s, **more
        )

    def _headers(self, stream: LoadStream) -> dict[str, str]:
        return {**super()._headers(stream), **self._peer.headers.get(stream.model, {})}


def bare_seconds(seconds: float) -> Result:
    """What one run of each network takes without any server."""
    found = {}
    for model in NETWORKS:
        with Bare(model) as bare:
            alone = bare.measure(seconds)
        found[model] = alone["wall_s"] / alone["runs"]
    return found


@contextlib.contextmanager
def ours(policy: str, late: str) -> Iterator[Peer]:
    """Eunomia under one policy, with the deadlines and targets as promises."""
    tenants = {name: promises(slo={"hit_rate": target})[name] for name, target in TARGETS.items()}
    with serving(tenants, policy=policy, late=late) as live:
        yield Peer(policy, live.grpc)


def own_capacity(here: Callable[[], Peer], asks: Asks, seconds: float) -> Result:
    """Requests of the mix per second, for ``USERS`` users in a closed loop."""

    async def alone() -> float:
        made = partial(PeerClient, here(), asks)
        async with client(here().url, "grpc", streams(dict.fromkeys(NETWORKS, 1.0), 1.0), made=made) as user:
            order = np.random.default_rng(0).permutation(MIX).tolist()
            await closed_loop(user, USERS, seconds / 4, order=order)
            return (await closed_loop(user, USERS, seconds, order=order)).rate

    return {"rate_per_s": asyncio.run(alone())}


def offered_to(
    here: Callable[[], Peer], asks: Asks, wanted: Sequence[Stream], seconds: float, seed: int
) -> Result:
    """Hits and requests sent by stream, how late the generator was, and the processor time that it took for each."""
    made, url = partial(PeerClient, here(), asks), here().url

    async def settle() -> None:  # what it refuses is settled, too
        plain = partial(PeerClient, here(), ())
        async with client(url, "grpc", wanted, timeout_s=SETTLED_S, made=plain) as user:
            await asyncio.gather(*map(user.send, range(len(wanted))), return_exceptions=True)

    asyncio.run(settle())
    began_s = time.process_time()
    seen = offer(url, wanted, seconds, seed, timeout_s=TIMEOUT_S, made=made)
    hits, sent = [one.hits for one in seen], [one.sent for one in seen]
    cpu_s = (time.process_time() - began_s) / max(sum(sent), 1)
    return {"hits": hits, "sent": sent, "lag_s": max(one.lag_p99_s for one in seen), "cpu_s": cpu_s}


def servers(options: Options, notes: list[str]) -> Iterator[tuple[Start, dict[str, Asks]]]:
    """How each is started, and its variants: what each is called, and what clients name."""
    policies = options.given.get("policies", "fair_edf,triage,gap_first,weighted_fair").split(",")
    for policy in policies[:: 3 if options.quick else 1]:
        yield partial(ours, policy, "last"), {f"Eunomia, `{policy}`": ()}
    yield partial(ours, policies[0], "drop"), {f"Eunomia, `{policies[0]}`, refuses": (SHEDS,)}
    for title, (name, start) in PEERS.items():
        environment = Path(options.given.get("peers", "")) / name
        if "peers" not in options.given or not environment.is_dir():
            notes.append(f"{title}: not installed here, not measured.")
            continue
        asked = {"": ()} if name != "triton" else LIMITED if "limiter" in title else TRITON
        yield partial(start, environment), {f"{title}{what}": asks for what, asks in asked.items()}


def row(server: str, runs: list[Result], seconds: float) -> list[Cell]:
    """One server at one load, over all seeds."""
    hits, sent = (np.array([run[name] for run in runs], float) for name in ("hits", "sent"))
    rates = np.where(sent > 0.0, hits / np.maximum(sent, 1.0), np.nan)
    met = float((rates >= list(TARGETS.values())).mean())
    by_tenant = [interval(rates[:, n]) for n in range(len(SHARES))]
    return [server, *by_tenant, interval(rates.min(axis=1)), met, interval(hits.sum(axis=1) / seconds)]


def measure(options: Options) -> Iterator[Table]:
    """Every server in turn, all loads and seeds on each; one is started when a cell needs it."""
    bench, notes, seeds = Bench("peers", options, crowded=True), list[str](), options.seeds_or(5)
    seconds = float(options.given.get("seconds", 2.0 if options.quick else 120.0 / len(seeds)))
    costs_s = bench.piece(lambda: bare_seconds(1.0 if options.quick else 5.0), bare=True)
    bare_per_s = 1.0 / sum(share * costs_s[model] for share, model, _ in SHARES.values())
    own_per_s, found = dict[str, float](), dict[tuple[float, str], list[Result]]()
    for start, variants in servers(options, notes):
        with contextlib.ExitStack() as stack:
            here = cache(partial(stack.enter_context, start()))
            for title, asks in variants.items():
                rates = {load: load * bare_per_s for load in LOADS if options.wants("all")}
                try:
                    if options.wants("own") and SHEDS not in asks:
                        work = partial(own_capacity, here, asks, min(seconds, CLOSED_S))
                        own_per_s[title] = bench.piece(work, server=title, seconds=seconds)["rate_per_s"]
                        rates[OWN] = 0.7 * own_per_s[title]
                    for (load, rate_per_s), seed in product(rates.items(), seeds):
                        wanted = streams(dict.fromkeys(NETWORKS, 1.0 / rate_per_s), 1.0)
                        run = partial(offered_to, here, asks, wanted, seconds, seed)
                        what = {"server": title, "load": load, "seed": seed, "seconds": seconds}
                        one = bench.piece(run, **what)
                        found.setdefault((load, title), []).append(one)
                        print(
                            f"{title}, {rate_per_s:.1f}/s, seed {seed}:",
                            one["hits"],
                            "of",
                            one["sent"],
                            flush=True,
                        )
                except (RuntimeError, TimeoutError, InferenceServerException) as error:
                    notes.append(f"{title}: did not run: {str(error).splitlines()[-1][:200]}")
    notes.append(f"Bare loop: {', '.join(f'{m} {s * 1e3:.2f} ms' for m, s in costs_s.items())}.")
    every = [run for runs in found.values() for run in runs]
    lag_s, cpu_s = max(run["lag_s"] for run in every), np.median([run["cpu_s"] for run in every])
    notes.append(f"The generator was late by {lag_s * 1e3:.0f} ms at most (p99 of a stream).")
    notes.append(f"It took {cpu_s * 1e3:.1f} ms of the front end's core for a request (median of the cells).")
    rows = {key: row(key[1], runs, seconds) for key, runs in found.items()}
    if options.wants("own"):
        own = [
            [*rows[OWN, title], rate, rate / bare_per_s]
            for title, rate in own_per_s.items()
            if (OWN, title) in rows
        ]
        yield bench.table("own", COLUMNS + CAPACITY, own, notes)
    if options.wants("all"):
        every_load = sorted((key for key in rows if key[0] != OWN), key=lambda key: key[0])
        yield bench.table("all", ALL + COLUMNS, [[key[0], *rows[key]] for key in every_load], notes)
