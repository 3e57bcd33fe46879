"""A policy trained on the twin against the rules, live, on one device and on two of unlike speed:

Six pairs of tenant and network (learned.toml) are promised hit rates that ask for nearly all the devices' time. For
each set-up (``--only one``, ``two``) a server is recorded at 85 % of its capacity, ``eunomia train --twin`` trains on
that, and ``eunomia promote`` judges by another recording, at 100 % (``--set train=yes``, or without a policy yet).
Then one server is offered 100 and 130 % again and again; between two runs its policy changes, some traffic is not
counted, and the windows of its indicators begin anew with the client's count. Judged by the client: the share of
promises that a run kept, and hits. The slower of two devices gets SLOW of its core, by a quota of the kernel (cgroup
v1, root). ``--set resume=yes`` goes on with runs that were cut off.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.serving.live import CACHE, NETWORKS, OPERATOR, Live, serving
from benchmarks.serving.load import Seen, Stream, closed_rate, offer
from benchmarks.serving.machine import cores, cpu_time, pin
from benchmarks.table import Cell, Options, Table, by_name, means, table
from eunomia.metrics.statistics import paired_difference
from tests.serving.process import slow_down

FOLDER = CACHE / "learned"
Measures = dict[str, list[float]]  # a value for each seed
Runs = dict[str, dict[str, float]]
RIVALS, LEARNED = ("edf+f", "weighted_fair", "triage", "gap_first"), "learned on the twin"
LOADS, RECORDED, JUDGED = (1.0, 1.3), 0.85, 1.0
SLOW = 0.35  # of a core
SETTINGS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
PAIRS, WEIGHTS, TIMES = SETTINGS["pair"], SETTINGS["weights"], SETTINGS["times"]


class Scale(NamedTuple):
    """Seconds of load that count, seeds, seconds of each recording, words of the training."""

    seconds: float
    seeds: int
    recorded_s: float
    training: tuple[str, ...] = ()


FULL, WARM_S = Scale(9.0, 20, 60.0), 1.0  # seconds before those that count
SMALL = Scale(3.0, 1, 15.0, ("--set", "stage=[{generations=3,population=6,episodes=4}]"))


def judged(seen: Sequence[Seen]) -> dict[str, float]:
    """One run: share of promises kept, hit rate over all and of each pair. A pair that sent nothing has all."""
    rates = [s.hits / s.sent if s.sent else 1.0 for s in seen]
    kept = float(np.mean([rate >= pair["target"] for pair, rate in zip(PAIRS, rates, strict=True)]))
    hits = sum(s.hits for s in seen) / max(sum(s.sent for s in seen), 1)
    return {"kept": kept, "hits": hits, **{f"pair {n}": rate for n, rate in enumerate(rates)}}


def ask(live: Live, path: str, content: Mapping[str, object]) -> None:
    """Change something of the running server."""
    status, answer = live.ask(f"/v2/eunomia/{path}", dict(content), method="PUT")
    if status >= 300:
        raise RuntimeError(f"the server does not take {path}: {answer}")


def begin(live: Live, window: int) -> None:
    """New windows for all indicators, which another length brings, longer than a run. Clients say deadlines."""
    for name, weight in WEIGHTS.items():
        targets = {p["model"]: p["target"] for p in PAIRS if p["tenant"] == name}
        slo = {m: {"target": target, "window_requests": window} for m, target in targets.items()}
        promised = {m: {"deadline_s": 1.0, "min_deadline_s": 0.0, "slo": slo[m]} for m in slo}
        ask(live, f"tenants/{name}", {"weight": weight, "objectives": promised})


def put(live: Live, policy: Path | str) -> None:
    """Change its policy."""
    paths = (policy, policy.with_suffix(".safetensors")) if isinstance(policy, Path) else ()
    files = {path.name: base64.b64encode(path.read_bytes()).decode() for path in paths}
    ask(live, "policy", {"name": paths[0].name if paths else policy, "files": files})


class Speed(dict[str, float]):
    """Seconds of the devices that one request of each network takes, measured by four users at a time."""

    @classmethod
    def of(cls, live: Live) -> Speed:
        """Each network alone: what the devices give when they never wait."""
        return cls({model: 1.0 / closed_rate(live, Stream("probe", model), 3.0) for model in NETWORKS})

    @property
    def per_s(self) -> float:
        """Requests of this mixture per second of the devices."""
        return 1.0 / float(sum(p["share"] * self[p["model"]] for p in PAIRS))


def load(live: Live, speed: Speed, share: float, seconds: float, seed: int) -> list[Seen]:
    """Poisson requests of all pairs at a share of the devices' capacity; each says its deadline."""
    streams = []
    for p in PAIRS:
        ms, per_s = TIMES[p["model"]] * speed[p["model"]] * 1e3, p["share"] * share * speed.per_s
        streams.append(Stream(p["tenant"], p["model"], per_s, ms, claimed_ms=ms))
    return offer(live.grpc, streams, seconds, seed, timeout_s=20.0)


@contextmanager
def server(setting: str) -> Iterator[Live]:
    """One device on its own core; ``two``: and SLOW of the front end's core. Late requests are dropped."""
    device: list[dict[str, Any]] = [{"name": "fast", "cores": [cores().device]}]
    if setting == "two":
        device.append({"name": "slow", "cores": [cores().front], "spin_ms": 0.0})
    tenants: dict[str, dict[str, Any]] = {name: {} for name in (*WEIGHTS, "probe")}
    more = {"late": "drop", "arena_mib": 512.0, "database": "sqlite:///tenants.db", "ahead_ms": 3.0}
    with serving(tenants, device=device, **more) as live:
        if setting == "two":
            slow_down(live.workers[-1], SLOW)
        begin(live, 999)
        yield live


def command(*words: object) -> dict[str, Any]:
    """What ``eunomia ... --json`` says."""
    said = [sys.executable, "-m", "eunomia", *map(str, words), "--json"]
    key = {**os.environ, "ADMIN_KEY": OPERATOR["authorization"].split()[1]}
    return json.loads(subprocess.run(said, stdout=subprocess.PIPE, env=key).stdout)  # type: ignore[no-any-return]


def record(live: Live, share: float, seconds: float, seed: int, path: Path) -> None:
    """Traffic of the tenants alone: without what measured the speed."""
    load(live, Speed.of(live), share, seconds, seed)
    found = live.recording()
    found["requests"] = [row for row in found["requests"] if row[1] in WEIGHTS]
    path.write_text(json.dumps(found))


def train(setting: str, place: Path, scale: Scale) -> None:
    """Record, train, have another recording judged; leaves the policy and what to say of it."""
    place.mkdir(parents=True, exist_ok=True)
    recording, began = place / "twin.json", time.perf_counter()
    with server(setting) as live:
        record(live, RECORDED, scale.recorded_s, 10_000, recording)
    facts = command("train", "--twin", recording, "--out", place / str(time.time()), "-q", *scale.training)
    took_s = time.perf_counter() - began
    for suffix in (".json", ".safetensors"):
        shutil.copy(Path(facts["path"]).with_suffix(suffix), (place / "learned").with_suffix(suffix))
    with server(setting) as live:
        record(live, JUDGED, scale.recorded_s, 20_000, other := place / "judge.json")
        words = ("--key-env", "ADMIN_KEY", "--recording", other)
        verdict = command("promote", live.url, place / "learned.json", *words)
    said = (
        f"Recorded and trained in {took_s:.0f} s ({facts['cpu_s']:.0f} s of processor time); on validation "
        f"{100 * facts['gain']:+.2f} ± {100 * facts['error']:.2f} over its beginning, `{facts['heuristic']}`. "
        f"The gate, on another recording at {JUDGED:.0%}: "
        f"{'passed' if verdict['promoted'] else 'refused'}, {verdict['why']}."
    )
    (place / "training.txt").write_text(said)
    print(said, flush=True)


def compare(setting: str, place: Path, scale: Scale, seeds: range, again: bool) -> Runs:
    """All policies on one server, in turn, in an order that changes from seed to seed; each run is kept."""
    path, policies = place / "runs.json", (*RIVALS, LEARNED)
    found = {} if again or not path.exists() else json.loads(path.read_text())
    turned = [(at, seed, policies[(n + seed) % 5]) for seed in seeds for at in LOADS for n in range(5)]
    todo = [one for one in turned if "{} {} {}".format(*one) not in found]
    if not todo:
        return found
    with server(setting) as live:
        speed = Speed.of(live)
        for n, (at, seed, policy) in enumerate(todo):
            put(live, place / "learned.json" if policy == LEARNED else policy)
            load(live, speed, at, WARM_S, 1000 + seed)
            begin(live, 1000 + n % 2)
            before = sum(cpu_time(pid).waited_s for pid in live.workers)
            run = judged(load(live, speed, at, scale.seconds, seed))
            waited_s = sum(cpu_time(pid).waited_s for pid in live.workers) - before
            run |= {"per_s": at * speed.per_s, "waited": waited_s / scale.seconds}
            found[f"{at} {seed} {policy}"] = run
            path.write_text(json.dumps(found))
    return found


def against(at: float, found: Mapping[str, Measures]) -> str:
    """The learned policy and the best rival, paired, in a sentence."""
    rival = max(RIVALS, key=lambda name: np.mean(found[name]["kept"]))
    kept, hits = (paired_difference(found[LEARNED][what], found[rival][what]) for what in ("kept", "hits"))
    verdict = "beats" if kept.low > 0.0 else "does not beat"
    return (
        f"{at:.0%}: the learned policy **{verdict}** the best rival, `{rival}`, in promises kept: "
        f"{100 * kept.mean:+.1f} points (95 % interval {100 * kept.low:+.1f} to {100 * kept.high:+.1f}); "
        f"hits {100 * hits.mean:+.1f} ({100 * hits.low:+.1f} to {100 * hits.high:+.1f})."
    )


def measure(options: Options) -> Iterator[Table]:
    """A table for each set-up."""
    scale = SMALL if options.quick else FULL
    pin(cores().front)
    for setting in options.chosen(("one", "two")):
        place = FOLDER / (setting + "-quick" * options.quick)
        if "train" in options.given or not (place / "training.txt").exists():
            train(setting, place, scale)
        runs = compare(setting, place, scale, options.seeds_or(scale.seeds), "resume" not in options.given)
        rows: list[list[Cell]] = []
        notes = [(place / "training.txt").read_text()]
        for at in LOADS:
            seeds = options.seeds_or(scale.seeds)
            found = {p: by_name([runs[f"{at} {seed} {p}"] for seed in seeds]) for p in (*RIVALS, LEARNED)}
            for policy, one in found.items():
                rates = "; ".join(f"{np.mean(one[f'pair {n}']):.0%}" for n in range(len(PAIRS)))
                rows.append([f"{at:.0%}", f"`{policy}`", *means(one, "kept", "hits"), rates])
            notes.append(against(at, found))
        asked = "; ".join(f"{p['tenant']} {p['model']} {p['target']:.0%}" for p in PAIRS)
        rate, waited = (np.median([run[what] for run in runs.values()]) for what in ("per_s", "waited"))
        notes.append(
            f"Targets: {asked}. {rate:.0f} requests/s (median). The devices' processes waited {waited:.1%} of the "
            "time for a core (median; all together)."
        )
        yield table(setting, "load; policy; promises kept|.1%; hits|.1%; hit rate of each pair", rows, notes)
