"""A policy trained on the twin against EDF-feasible and weighted-fair, live:

Three tenants ask two networks, with a promised hit rate for each of the six pairs. First (``--set train=yes``, or
when no checkpoint is there yet) a server is recorded at 85 % of its capacity. ``eunomia train --twin`` trains on the
recording with its arrivals made denser. Then one server is offered 130 % of its capacity again and again; between
two runs its policy is changed through ``/v2/eunomia/policy``, without a restart, so that all policies meet the same
process on the same cores. Every run begins with traffic that is not counted. Judged by the client: the share of the six
promises that a run kept, and hits.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import CACHE, LARGE_NET, NETWORKS, SMALL_NET, Live, serving
from benchmarks.serving.load import Seen, Stream, closed_rate, offer
from benchmarks.table import Cell, Options, Table, by_name, means
from eunomia.metrics.statistics import paired_difference

FOLDER = CACHE / "learned"
LEARNED = FOLDER / "learned.json"
Measures = dict[str, list[float]]  # a value for each seed
RIVALS = ("edf+f", "weighted_fair")
TRAINING = (
    "vary={load=[1.3,1.5,1.8]}",
    "requests=300",
    "validation=48",
    "stage=[{generations=60,population=16,episodes=10,validate_every=5}]",
)
QUICK_TRAINING = (*TRAINING[:3], "stage=[{generations=3,population=6,episodes=4}]")


@dataclass(frozen=True)
class Pair:
    """One tenant's promise for one network, and its share of the requests."""

    tenant: str
    model: str
    share: float
    times: float  # deadline over the network's own time on the device
    target: float


PAIRS = (
    Pair("gold", SMALL_NET, 0.24, 10.0, 0.95),
    Pair("gold", LARGE_NET, 0.06, 6.0, 0.90),
    Pair("silver", SMALL_NET, 0.32, 20.0, 0.80),
    Pair("silver", LARGE_NET, 0.08, 10.0, 0.70),
    Pair("bronze", SMALL_NET, 0.24, 40.0, 0.50),
    Pair("bronze", LARGE_NET, 0.06, 20.0, 0.40),
)
WEIGHTS = {"gold": 3.0, "silver": 2.0, "bronze": 1.0}


@dataclass(frozen=True)
class Scale:
    """Seconds of load that count, seconds before them, seeds, seconds of recording."""

    seconds: float = 9.0
    warm_s: float = 2.0
    seeds: int = 5
    recorded_s: float = 60.0


SMALL = Scale(3.0, 1.0, 1, 15.0)


def judged(seen: Sequence[Seen]) -> dict[str, float]:
    """One run: share of promises kept, hit rate over all, the largest shortfall. A pair that sent nothing has all."""
    rates = [s.hits / s.sent if s.sent else 1.0 for s in seen]
    gaps = [pair.target - rate for pair, rate in zip(PAIRS, rates, strict=True)]
    hits = sum(s.hits for s in seen) / max(sum(s.sent for s in seen), 1)
    found = {"kept": float(np.mean([gap <= 0.0 for gap in gaps])), "hits": hits, "worst": max(0.0, *gaps)}
    return found | {f"pair {n}": rate for n, rate in enumerate(rates)}


def tenants() -> dict[str, dict[str, Any]]:
    """The server's table of tenants: deadlines are multiples of measured times, so clients say them."""
    found: dict[str, dict[str, Any]] = {n: {"weight": w, "promise": []} for n, w in WEIGHTS.items()}
    for p in PAIRS:
        slo = {"hit_rate": p.target}
        promise = {"model": p.model, "deadline_ms": 1000.0, "min_deadline_ms": 0.0, "slo": slo}
        found[p.tenant]["promise"].append(promise)
    return {**found, "probe": {}}


def put(live: Live, policy: str) -> None:
    """Change the policy of the running server."""
    content: dict[str, object] = {"name": policy}
    if policy.endswith(".json"):
        paths = (Path(policy), Path(policy).with_suffix(".safetensors"))
        files = {path.name: base64.b64encode(path.read_bytes()).decode() for path in paths}
        content = {"name": paths[0].name, "files": files}
    status, answer = live.ask("/v2/eunomia/policy", content, method="PUT")
    if status != 200:
        raise RuntimeError(f"the server does not take the policy {policy}: {answer}")


class Speed(dict[str, float]):
    """Seconds of the device that one request of each network takes, measured by four users at a time."""

    @classmethod
    def of(cls, live: Live) -> Speed:
        """Each network alone: what the device gives when it never waits."""
        return cls({model: 1.0 / closed_rate(live, Stream("probe", model), 3.0) for model in NETWORKS})

    @property
    def per_s(self) -> float:
        """Requests of this mixture per second of the device."""
        return 1.0 / sum(p.share * self[p.model] for p in PAIRS)

    def deadline_ms(self, pair: Pair) -> float:
        """So many times its own time."""
        return pair.times * self[pair.model] * 1e3


def load(live: Live, speed: Speed, share: float, seconds: float, seed: int) -> list[Seen]:
    """Poisson requests of all pairs at a share of the device's capacity; each says its deadline."""
    streams = []
    for p in PAIRS:
        ms = speed.deadline_ms(p)
        streams.append(Stream(p.tenant, p.model, p.share * share * speed.per_s, ms, claimed_ms=ms))
    return offer(live.grpc, streams, seconds, seed, timeout_s=20.0)


# Late requests are dropped: overload shall not fill the queue with what nobody waits for.
SERVER: dict[str, Any] = {"policy": "edf+f", "late": "drop", "arena_mib": 512.0}


def train(scale: Scale, training: tuple[str, ...]) -> str:
    """Record, train; returns what to say of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    recording = FOLDER / "twin.json"
    with serving(tenants(), **SERVER) as live:
        load(live, Speed.of(live), 0.85, scale.recorded_s, 0)
        recording.write_text(json.dumps(live.recording()))
    out = FOLDER / f"training-{int(time.time())}"
    words = ["train", "--twin", str(recording), "--out", str(out), "--json", "-q"]
    words += [word for change in training for word in ("--set", change)]
    began = time.perf_counter()
    command = [sys.executable, "-m", "eunomia", *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    took_s, facts = time.perf_counter() - began, json.loads(done.stdout)
    for suffix in (".json", ".safetensors"):
        LEARNED.with_suffix(suffix).write_bytes(Path(facts["path"]).with_suffix(suffix).read_bytes())
    said = (
        f"Trained in {took_s:.0f} s ({facts['cpu_s']:.0f} s of processor time) on {scale.recorded_s:g} s of traffic at "
        f"85 % of capacity; on validation {100 * facts['gain']:+.2f} ± {100 * facts['error']:.2f} over its beginning, "
        f"`{facts['heuristic']}`" + (", which it stayed." if facts["kept_heuristic"] else ".")
    )
    (FOLDER / "training.txt").write_text(said)
    return said


def compare(scale: Scale, overload: float, bench: Bench) -> tuple[dict[str, Measures], Speed]:
    """All policies on one server, in turn; seeds outside, policies inside, in an order that changes."""
    policies = (*RIVALS, str(LEARNED))
    found: dict[str, list[dict[str, float]]] = {policy: [] for policy in policies}
    with serving(tenants(), **SERVER) as live:
        speed = Speed.of(live)
        for seed in range(scale.seeds):
            for n in range(len(policies)):
                policy = policies[(n + seed) % len(policies)]
                put(live, policy)
                load(live, speed, overload, scale.warm_s, 1000 + seed)
                found[policy].append(judged(load(live, speed, overload, scale.seconds, seed)))
            bench.look()
    return {policy: by_name(runs) for policy, runs in found.items()}, speed


def row(policy: str, found: Measures) -> list[Cell]:
    """One policy over all seeds."""
    rates = "; ".join(f"{np.mean(found[f'pair {n}']):.0%}" for n in range(len(PAIRS)))
    label = "learned on the twin" if policy == str(LEARNED) else policy
    return [f"`{label}`", *means(found, "kept", "hits", "worst"), rates]


def against(learned: Measures, rival: str, found: Measures) -> str:
    """The paired differences, in a sentence."""
    kept, hits = (paired_difference(learned[name], found[name]) for name in ("kept", "hits"))
    beats = "beats" if kept.low > 0.0 else "does not beat"
    return (
        f"The learned policy **{beats}** `{rival}` in promises kept: {100 * kept.mean:+.1f} points (95 % interval "
        f"{100 * kept.low:+.1f} to {100 * kept.high:+.1f}); hits {100 * hits.mean:+.1f} ({100 * hits.low:+.1f} to "
        f"{100 * hits.high:+.1f})."
    )


def measure(options: Options) -> Iterator[Table]:
    """Train if need be, then compare; ``--set overload=1.3``: of the device's capacity."""
    bench, scale = Bench("learned", options), SMALL if options.quick else Scale()
    overload = float(options.given.get("overload", 1.3))
    if "train" in options.given or not LEARNED.exists():
        print(train(scale, QUICK_TRAINING if options.quick else TRAINING), flush=True)
    found, speed = compare(scale, overload, bench)
    asked = [f"{p.tenant} {p.model} {p.target:.0%} in {speed.deadline_ms(p):.0f} ms" for p in PAIRS]
    offered = f"{overload * speed.per_s:.0f} requests/s, {overload:.0%} of the device's capacity"
    notes = [(FOLDER / "training.txt").read_text(), f"{offered}; targets {'; '.join(asked)}."]
    notes += [against(found[str(LEARNED)], rival, found[rival]) for rival in RIVALS]
    columns = "policy; promises kept|.1%; hits|.1%; worst shortfall|.1%; hit rate of each pair"
    yield bench.table("all", columns, [row(policy, runs) for policy, runs in found.items()], notes)
