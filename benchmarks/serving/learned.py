"""A policy trained on the twin against EDF-feasible and weighted-fair, live:

Three tenants ask two networks, with a promised hit rate for each of the six pairs. First (``--train``; alone, or when
no card is there yet) a server is recorded at 85 % of its capacity, and ``eunomia train --twin`` trains on the
recording with its arrivals made denser. Then one server is offered 130 % of its capacity again and again; between
two runs its policy is changed through ``/v2/eunomia/policy``, without a restart, so that all policies meet the same
process on the same cores. Every run begins with traffic that is not counted. Judged by the client: the share of the six
promises that a run kept, and hits. ``--small`` is a quick run, ``--write`` as elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.clients import Stock, closed_loop
from benchmarks.serving.command import part
from benchmarks.serving.live import CACHE, Live, server_table, serving
from benchmarks.serving.machine import Watch, cores, pin
from benchmarks.serving.offered import Seen, Stream, offered
from benchmarks.serving.page import table
from benchmarks.table import Options, Table
from eunomia.metrics.statistics import interval
from eunomia.serving.tenants.grants import hash_key

KEY = "eun_benchmark-operator"
FOLDER = CACHE / "learned"
SMALL_NET, LARGE_NET = "mobilenet-v2", "resnet50"
HEAD = ("policy", "promises kept", "hits", "worst shortfall", "hit rate of each pair")
RIVALS = ("edf+f", "weighted_fair")
TRAINING = (
    "vary={load=[1.3,1.5,1.8]}", "requests=300", "validation=48",
    "stage=[{generations=60,population=16,episodes=10,validate_every=5}]",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """One tenant's promise for one network, and its share of the requests."""

    tenant: str
    model: str
    share: float
    times: float  # deadline over the network's own time on the device
    target: float


PAIRS = (
    Pair("gold", SMALL_NET, 0.24, 10.0, 0.95), Pair("gold", LARGE_NET, 0.06, 6.0, 0.90),
    Pair("silver", SMALL_NET, 0.32, 20.0, 0.80), Pair("silver", LARGE_NET, 0.08, 10.0, 0.70),
    Pair("bronze", SMALL_NET, 0.24, 40.0, 0.50), Pair("bronze", LARGE_NET, 0.06, 20.0, 0.40),
)  # fmt: skip
WEIGHTS = {"gold": 3.0, "silver": 2.0, "bronze": 1.0}


@dataclass(frozen=True)
class Scale:
    """Seconds of load that count, seconds before them, seeds, seconds of recording."""

    seconds: float = 9.0
    warm_s: float = 2.0
    seeds: int = 5
    recorded_s: float = 60.0


SMALL = Scale(3.0, 1.0, 1, 15.0)


@dataclass(frozen=True)
class Run:
    """One policy, one seed: hits and sent of each pair."""

    hits: tuple[int, ...]
    sent: tuple[int, ...]

    @property
    def gaps(self) -> list[float]:
        """How far each pair was below its target; a pair that sent nothing has nothing to complain of."""
        return [p.target - (h / s if s else 1.0) for p, h, s in zip(PAIRS, self.hits, self.sent, strict=True)]

    @property
    def kept(self) -> float:
        """Share of promises kept."""
        return float(np.mean([gap <= 0.0 for gap in self.gaps]))

    @property
    def worst(self) -> float:
        """The largest shortfall."""
        return max(0.0, *self.gaps)

    @property
    def hit_rate(self) -> float:
        """Over all requests."""
        return sum(self.hits) / max(sum(self.sent), 1)


def tenants() -> dict[str, dict[str, Any]]:
    """The server's table of tenants: deadlines are multiples of measured times, so clients say them."""
    table: dict[str, dict[str, Any]] = {
        name: {"weight": weight, "promise": [
            {"model": p.model, "deadline_ms": 1000.0, "min_deadline_ms": 0.0, "slo": {"hit_rate": p.target}}
            for p in PAIRS if p.tenant == name]}
        for name, weight in WEIGHTS.items()
    }  # fmt: skip
    return {**table, "probe": {}, "operator": {"role": "admin", "key_sha256": [hash_key(KEY)]}}


def ask(live: Live, path: str, content: Any, method: str) -> Any:
    """One request of the operator."""
    headers = {"authorization": f"Bearer {KEY}"}
    data = json.dumps(content).encode()
    request = urllib.request.Request(f"http://{live.http}{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.loads(answer.read())


def put(live: Live, policy: str) -> None:
    """Change the policy of the running server."""
    if not policy.endswith(".json"):
        ask(live, "/v2/eunomia/policy", {"name": policy}, "PUT")
        return
    paths = (Path(policy), Path(policy).with_suffix(".safetensors"))
    files = {path.name: base64.b64encode(path.read_bytes()).decode() for path in paths}
    ask(live, "/v2/eunomia/policy", {"name": paths[0].name, "files": files}, "PUT")


@dataclass(frozen=True)
class Speed:
    """Seconds of the device that one request of each network takes."""

    own_s: dict[str, float]

    @property
    def per_s(self) -> float:
        """Requests of this mixture per second of the device."""
        return 1.0 / sum(p.share * self.own_s[p.model] for p in PAIRS)

    def deadline_ms(self, pair: Pair) -> float:
        """So many times its own time."""
        return pair.times * self.own_s[pair.model] * 1e3


def load(live: Live, speed: Speed, share: float, seconds: float, seed: int) -> list[Seen]:
    """Poisson requests of all pairs at a share of the device's capacity; each says its deadline."""
    streams = []
    for p in PAIRS:
        ms = speed.deadline_ms(p)
        streams.append(Stream(p.tenant, p.model, p.share * share * speed.per_s, ms, claimed_ms=ms))
    return asyncio.run(offered(live.grpc, streams, seconds, seed, timeout_s=20.0))


def speed_of(live: Live, seconds: float = 3.0) -> Speed:
    """By four users at a time, each network alone: what the device gives when it never waits."""

    async def alone(model: str) -> float:
        async with Stock(live, "grpc", "probe") as client:
            return 1.0 / (await closed_loop(client, model, 4, seconds)).rate

    return Speed({model: asyncio.run(alone(model)) for model in (SMALL_NET, LARGE_NET)})


def server(policy: str) -> dict[str, Any]:
    """Late requests are dropped: overload shall not fill the queue with what nobody waits for."""
    return server_table(cores(), tenants(), policy=policy, late="drop", arena_mib=512.0)


def train(scale: Scale, watch: Watch) -> list[str]:
    """Record, train; returns what to say of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    recording = FOLDER / "twin.json"
    with serving(server("edf+f"), cores().front) as live:
        load(live, speed_of(live), 0.85, scale.recorded_s, 0)
        recording.write_text(json.dumps(live.get("/v2/eunomia/twin")))
    command = [sys.executable, "-c", "from eunomia.__main__ import main; main()", "train", "--twin", str(recording),
               "--out", str(FOLDER / f"training-{int(time.time())}"), "--json", "-q"]  # fmt: skip
    for change in (
        TRAINING if scale is not SMALL else (*TRAINING[:3], "stage=[{generations=3,population=6,episodes=4}]")
    ):
        command += ["--set", change]
    began = time.perf_counter()
    facts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    took_s = time.perf_counter() - began
    watch.look()
    for suffix in (".json", ".safetensors"):
        (FOLDER / f"learned{suffix}").write_bytes(Path(facts["path"]).with_suffix(suffix).read_bytes())
    said = [
        f"Trained in {took_s:.0f} s ({facts['cpu_s']:.0f} s of processor time) on {scale.recorded_s:g} s of traffic at "
        f"85 % of capacity; on validation {100 * facts['gain']:+.2f} +-{100 * facts['error']:.2f} over its beginning, "
        f"`{facts['heuristic']}`" + (", which it stayed." if facts["kept_heuristic"] else "."),
    ]
    (FOLDER / "training.txt").write_text("\n".join(said))
    return said


def compare(scale: Scale, overload: float, watch: Watch) -> tuple[dict[str, list[Run]], Speed]:
    """All policies on one server, in turn; seeds outside, policies inside, in an order that changes."""
    policies = (*RIVALS, str(FOLDER / "learned.json"))
    found: dict[str, list[Run]] = {policy: [] for policy in policies}
    with serving(server("edf+f"), cores().front) as live:
        speed = speed_of(live)
        for seed in range(scale.seeds):
            for n in range(len(policies)):
                policy = policies[(n + seed) % len(policies)]
                put(live, policy)
                load(live, speed, overload, scale.warm_s, 1000 + seed)
                seen = load(live, speed, overload, scale.seconds, seed)
                found[policy].append(Run(tuple(s.hits for s in seen), tuple(s.sent for s in seen)))
            watch.look()
    return found, speed


def report(found: dict[str, list[Run]], speed: Speed, overload: float) -> list[str]:
    """A table, and the paired differences."""
    rows = []
    for policy, runs in found.items():
        gaps = np.mean([run.gaps for run in runs], axis=0)
        rates = "; ".join(f"{p.target - g:.0%}" for p, g in zip(PAIRS, gaps, strict=True))
        rows.append([f"`{_label(policy)}`", f"{interval([r.kept for r in runs]):.1%}",
                     f"{interval([r.hit_rate for r in runs]):.1%}", f"{interval([r.worst for r in runs]):.1%}",
                     rates])  # fmt: skip
    learned = next(runs for policy, runs in found.items() if policy.endswith(".json"))
    targets = "; ".join(
        f"{p.tenant} {p.model} {p.target:.0%} in {speed.deadline_ms(p):.0f} ms" for p in PAIRS
    )
    offered_said = f"{overload * speed.per_s:.0f} requests/s, {overload:.0%} of the device's capacity"
    lines = [f"{offered_said}; targets {targets}.", "", *table(HEAD, rows), ""]
    for rival in RIVALS:
        kept = interval([a.kept - b.kept for a, b in zip(learned, found[rival], strict=True)])
        hits = interval([a.hit_rate - b.hit_rate for a, b in zip(learned, found[rival], strict=True)])
        beats = "beats" if kept.low > 0.0 else "does not beat"
        lines.append(f"The learned policy **{beats}** `{rival}` in promises kept: {100 * kept.mean:+.1f} "
                     f"points (95 % interval {100 * kept.low:+.1f} to {100 * kept.high:+.1f}); hits "
                     f"{100 * hits.mean:+.1f} ({100 * hits.low:+.1f} to {100 * hits.high:+.1f}).")  # fmt: skip
    return lines


def _label(policy: str) -> str:
    return "learned on the twin" if policy.endswith(".json") else policy


def measure(options: Options) -> Iterator[Table]:
    """One part of the page of the live server."""
    scale, watch = SMALL if options.quick else Scale(), Watch()
    overload = float(options.given.get("overload", 1.3))
    pin(cores().front)
    if "train" in options.given or not (FOLDER / "learned.json").exists():
        print("\n".join(train(scale, watch)), flush=True)
    found, speed = compare(scale, overload, watch)
    trained = (FOLDER / "training.txt").read_text()
    yield part(["", trained, "", *report(found, speed, overload)], watch)
