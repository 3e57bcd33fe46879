"""Against other servers at the same offered rates:

Three tenants on two networks, Poisson, at 70, 100 and 130 % of what a bare ONNX Runtime loop can do with that mix;
stock gRPC client, one core for the network and one for everything else, ONNX Runtime with one thread everywhere.
Triton also with its own priorities, which its clients must name (gold 1, the others 2). ``--set peers=FOLDER`` holds
the other servers' virtual environments (``peer_servers.py`` says how they are made); those that are not there are left
out and said so. Ours refuses what is hopeless (``late = "drop"``). About 13 minutes with all servers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.bare import Bare
from benchmarks.serving.bench import Bench
from benchmarks.serving.fidelity import SHARES, promises, streams
from benchmarks.serving.live import NETWORKS, serving
from benchmarks.serving.load import PictureClient, Stream, offer
from benchmarks.serving.peer_servers import PEERS, Peer
from benchmarks.table import Cell, Options, Table
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import interval
from eunomia.serving.load.plan import LoadStream

TARGETS = {"gold": 0.99, "silver": 0.95, "bronze": 0.9}
PRIORITY = {"gold": 1, "silver": 2, "bronze": 2}
TIMEOUT_S = 10.0
COLUMNS = (
    "of the bare loop's capacity|.0%; server; gold in time|.1%; silver in time|.1%; bronze in time|.1%; "
    "worst tenant|.1%; targets met|.0%; goodput, 1/s|.1f"
)
Start = Callable[[], contextlib.AbstractContextManager[Peer]]


class PeerClient(PictureClient):
    """The stock client, with headers and priorities that some servers need."""

    def __init__(self, peer: Peer, priorities: bool, *where: Any) -> None:
        super().__init__(*where)
        self._peer, self._priorities = peer, priorities

    async def send(self, stream: int) -> None:
        """One request."""
        chosen = self._streams[stream]
        more: dict[str, Any] = {"priority": PRIORITY[chosen.tenant]} if self._priorities else {}
        inputs, headers = self._inputs[chosen.model], self._headers(chosen)
        await self._client.infer(chosen.model, inputs, headers=headers, client_timeout=TIMEOUT_S, **more)

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
def ours(policy: str) -> Iterator[Peer]:
    """Eunomia under one policy, with the deadlines and targets as promises; hopeless requests are refused."""
    tenants = {name: promises(slo={"hit_rate": target})[name] for name, target in TARGETS.items()}
    with serving(tenants, policy=policy, late="drop") as live:
        yield Peer(policy, live.grpc)


def offered_to(peer: Peer, priorities: bool, wanted: Sequence[Stream], seconds: float, seed: int) -> Result:
    """Hits and requests sent by stream, and how late the generator was."""
    made = partial(PeerClient, peer, priorities)
    seen = offer(peer.url, wanted, seconds, seed, timeout_s=TIMEOUT_S, made=made)
    hits, sent = [one.hits for one in seen], [one.sent for one in seen]
    return {"hits": hits, "sent": sent, "lag_s": max(one.lag_p99_s for one in seen)}


def servers(options: Options, notes: list[str]) -> Iterator[tuple[Start, dict[str, bool]]]:
    """How each is started, and its variants: what each is called, and whether clients name priorities."""
    policies = ("edf+f", "triage", "gap_first", "weighted_fair")
    for policy in policies[::3] if options.quick else policies:
        yield partial(ours, policy), {f"Eunomia, `{policy}`": False}
    for name, (title, start) in PEERS.items():
        environment = Path(options.given.get("peers", "")) / name
        if "peers" not in options.given or not environment.is_dir():
            notes.append(f"{name}: not installed here, not measured.")
            continue
        priorities = {f"{title}, priorities": True} if name == "triton" else {}
        yield partial(start, environment), {title: False} | priorities


def row(load: float, server: str, runs: list[Result], seconds: float) -> list[Cell]:
    """One server at one load, over all seeds."""
    hits, sent = (np.array([run[name] for run in runs], float) for name in ("hits", "sent"))
    rates = np.where(sent > 0.0, hits / np.maximum(sent, 1.0), np.nan)
    met = float((rates >= list(TARGETS.values())).mean())
    by_tenant = [interval(rates[:, n]) for n in range(len(SHARES))]
    return [load, server, *by_tenant, interval(rates.min(axis=1)), met, interval(hits.sum(axis=1) / seconds)]


def measure(options: Options) -> Iterator[Table]:
    """Every server in turn, all loads and seeds on each."""
    bench, notes = Bench("peers", options, crowded=True), list[str]()
    seconds, seeds, loads = (2.0, 1, (0.7, 1.3)) if options.quick else (4.0, 5, (0.7, 1.0, 1.3))
    costs_s = bench.piece(lambda: bare_seconds(max(seconds / 4, 1.0)), bare=True)
    found: dict[tuple[float, str], list[Result]] = {}
    for start, variants in servers(options, notes):
        try:
            with start() as peer:
                for load, title, seed in ((x, t, s) for x in loads for t in variants for s in range(seeds)):
                    run = partial(offered_to, peer, variants[title], streams(costs_s, load), seconds, seed)
                    mine = found.setdefault((load, title), [])
                    mine.append(bench.piece(run, server=title, load=load, seed=seed))
        except (RuntimeError, TimeoutError) as error:
            notes.append(f"{', '.join(variants)}: did not run: {str(error).splitlines()[-1][:200]}")
    rows = [row(*key, found[key], seconds) for key in sorted(found, key=lambda key: key[0])]
    notes.append(f"Bare loop: {', '.join(f'{m} {s * 1e3:.2f} ms' for m, s in costs_s.items())}.")
    lag_s = max(run["lag_s"] for runs in found.values() for run in runs)
    notes.append(f"The generator was late by {lag_s * 1e3:.0f} ms at most (p99 of a stream).")
    yield bench.table("all", COLUMNS, rows, notes)
