"""Against other servers at the same offered rates:

Three tenants on two networks, Poisson, at 70, 100 and 130 % of what a bare ONNX Runtime loop can do with that mix;
stock gRPC client, one core for the network and one for everything else, ONNX Runtime with one thread everywhere.
Triton also with its own priorities, which its clients must name (gold 1, the others 2). ``FOLDER`` holds the other
servers' virtual environments (``peer_servers.py`` says how they are made); those that are not there are left out
and said so. Ours refuses what is hopeless (``late = "drop"``). About 13 minutes with all servers. ``--small`` is a
quick run, ``--resume`` goes on with one that was cut off, ``--write`` puts the result into results/serving.md.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.serving.bare import Bare
from benchmarks.serving.command import part
from benchmarks.serving.fidelity import SHARES, streams
from benchmarks.serving.live import CACHE, NETWORKS, server_table, serving
from benchmarks.serving.machine import Cores, Watch, cores, pin
from benchmarks.serving.offered import Seen, Stream, seen
from benchmarks.serving.page import table
from benchmarks.serving.peer_servers import PEERS, Peer
from benchmarks.serving.pieces import Pieces
from benchmarks.table import Options, Table
from eunomia.metrics.statistics import interval
from eunomia.serving.load.client import TritonClient
from eunomia.serving.load.plan import LoadStream, draw_schedule
from eunomia.serving.load.run import send_all
from eunomia.serving.models.builtin import builtin_file
from eunomia.workload.arrivals import Poisson

LOADS = (0.7, 1.0, 1.3)
OURS = ("edf+f", "triage", "gap_first", "weighted_fair")
TARGETS = {"gold": 0.99, "silver": 0.95, "bronze": 0.9}
PRIORITY = {"gold": 1, "silver": 2, "bronze": 2}
TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Scale:
    """Seconds of load per seed, seeds, loads, policies of ours."""

    seconds: float = 4.0
    seeds: int = 5
    loads: tuple[float, ...] = LOADS
    ours: tuple[str, ...] = OURS


SMALL = Scale(2.0, 1, (0.7, 1.3), ("edf+f", "weighted_fair"))


class PeerClient(TritonClient):
    """The stock client, with headers and priorities that some servers need."""

    def __init__(self, peer: Peer, load: Sequence[LoadStream], priorities: bool) -> None:
        super().__init__(peer.url, "grpc", load, TIMEOUT_S)
        self._peer, self._priorities = peer, priorities

    async def send(self, stream: int) -> None:
        """One request."""
        chosen = self._streams[stream]
        more: dict[str, Any] = {"priority": PRIORITY[chosen.tenant]} if self._priorities else {}
        await self._client.infer(
            chosen.model,
            self._inputs[chosen.model],
            headers=self._headers(chosen),
            client_timeout=TIMEOUT_S,
            **more,
        )

    def _headers(self, stream: LoadStream) -> dict[str, str]:
        return {**super()._headers(stream), **self._peer.headers.get(stream.model, {})}


async def offer(
    peer: Peer, wanted: Sequence[Stream], seconds: float, seed: int, priorities: bool
) -> list[Seen]:
    """The load of ``offered.py`` with the client above."""
    load = [LoadStream(s.tenant, s.model, Poisson(s.rate_per_s), s.deadline_ms * 1e-3) for s in wanted]
    client = PeerClient(peer, load, priorities)
    try:
        await client.prepare({"image": [1, 3, 224, 224]}, seed)
        samples = await send_all(draw_schedule(load, seconds, seed), client, drain_s=TIMEOUT_S + 5.0)
    finally:
        await client.close()
    return [seen(samples, n, s.deadline_ms * 1e-3, seconds) for n, s in enumerate(wanted)]


def bare_seconds(where: Cores, seconds: float) -> dict[str, float]:
    """What one run of each network takes without any server."""
    found = {}
    for model in NETWORKS:
        bare = Bare(builtin_file(model, CACHE), where.device)
        alone = bare.measure(seconds)
        found[model] = alone["wall_s"] / alone["runs"]
        bare.close()
    return found


@contextlib.contextmanager
def ours(policy: str, where: Cores) -> Iterator[Peer]:
    """Eunomia under one policy, with the deadlines and targets as promises; hopeless requests are refused."""
    tenants = {
        name: {"promise": [{"model": "*", "deadline_ms": d, "slo": {"hit_rate": TARGETS[name]}}]}
        for name, (_, _, d) in SHARES.items()
    }
    with serving(server_table(where, tenants, policy=policy, late="drop"), where.front) as live:
        yield Peer(f"Eunomia, `{policy}`", live.grpc)


Results = dict[tuple[str, float], list[list[Seen]]]
Start = Callable[[], contextlib.AbstractContextManager[Peer]]


@dataclass(frozen=True)
class Costs:
    """Seconds per run of the bare loop, by network."""

    of: dict[str, float]


@dataclass(frozen=True)
class Offered:
    """One server, load and seed, by stream."""

    of: list[Seen]


def run(
    scale: Scale, where: Cores, folder: Path | None, watch: Watch, pieces: Pieces
) -> tuple[Results, list[str]]:
    """Every server in turn, all loads and seeds on each; and what could not be run."""
    pin(where.front)
    costs_s = pieces.do("bare", Costs, lambda: Costs(bare_seconds(where, max(scale.seconds / 4, 1.0)))).of
    notes = [f"Bare loop: {', '.join(f'{m} {s * 1e3:.2f} ms' for m, s in costs_s.items())}."]
    found: Results = {}
    for name, start, variants in _servers(scale, where, folder, notes):
        try:
            found.update(_measure(name, start, variants, scale, costs_s, pieces))
        except (RuntimeError, TimeoutError) as error:
            notes.append(f"{name}: did not run: {str(error).splitlines()[-1][:200]}")
        watch.look()
    return found, notes


def _servers(
    scale: Scale, where: Cores, folder: Path | None, notes: list[str]
) -> list[tuple[str, Start, dict[str, bool]]]:
    """Name, how it is started, and its variants: what each is called, and whether clients name priorities."""
    servers: list[tuple[str, Start, dict[str, bool]]] = [
        (policy, partial(ours, policy, where), {f"Eunomia, `{policy}`": False}) for policy in scale.ours
    ]
    for name, (title, start) in PEERS.items():
        environment = folder / name if folder else None
        if environment is None or not environment.is_dir():
            notes.append(f"{name}: not installed here, not measured.")
            continue
        variants = {title: False, **({f"{title}, priorities": True} if name == "triton" else {})}
        servers.append((name, partial(start, environment, where), variants))
    return servers


def _measure(
    name: str, start: Start, variants: dict[str, bool], scale: Scale, costs_s: dict[str, float], pieces: Pieces
) -> Results:  # fmt: skip
    """All loads and seeds on one server, which is started unless everything is known already."""
    keys = {(title, load, seed): f"{title}, {load}, {seed}"
            for title in variants for load in scale.loads for seed in range(scale.seeds)}  # fmt: skip
    found: Results = {}
    with contextlib.ExitStack() as stack:
        peer = None if all(key in pieces for key in keys.values()) else stack.enter_context(start())

        def measured(title: str, load: float, seed: int) -> Offered:
            assert peer is not None
            wanted = streams(costs_s, load)
            return Offered(asyncio.run(offer(peer, wanted, scale.seconds, seed, variants[title])))

        for (title, load, seed), key in keys.items():
            piece = pieces.do(key, Offered, partial(measured, title, load, seed))
            found.setdefault((title, load), []).append(piece.of)
    return found


def report(found: Results, seconds: float) -> list[str]:
    """One table per load."""
    lines: list[str] = []
    names = list(SHARES)
    for load in dict.fromkeys(load for _, load in found):
        rows = []
        for (server, at), seeds in found.items():
            if at != load:
                continue
            rates = {name: interval([s[n].hit_rate for s in seeds]) for n, name in enumerate(names)}
            worst = interval([min(s[n].hit_rate for n in range(len(names))) for s in seeds])
            met = interval(
                [
                    sum(s[n].hit_rate >= TARGETS[name] for n, name in enumerate(names)) / len(names)
                    for s in seeds
                ]
            )
            good = interval([sum(one.hits for one in s) / seconds for s in seeds])
            rows.append([server, *(f"{rate:.1%}" for rate in rates.values()), f"{worst:.1%}", f"{met.mean:.0%}",
                         f"{good:.1f}"])  # fmt: skip
        head = ["server", *(f"{n} in time" for n in names), "worst tenant", "targets met", "goodput, 1/s"]
        lines += [f"**{load:.0%} of the bare loop's capacity**", "", *table(head, rows), ""]
    lag = max((s.lag_p99_s for seeds in found.values() for one in seeds for s in one), default=0.0)
    return [*lines, f"The generator was late by {lag * 1e3:.0f} ms at most (p99 of a stream)."]


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    scale, watch = SMALL if options.quick else Scale(), Watch(crowded=True)
    pieces = Pieces("peers", resume="resume" in options.given)
    folder = Path(options.given["peers"]) if "peers" in options.given else None
    found, notes = run(scale, cores(), folder, watch, pieces)
    pieces.finish()
    yield part([*notes, "", *report(found, scale.seconds)], watch)
