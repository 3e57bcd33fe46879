"""Does the twin tell what the server does?

Three tenants on two networks at 50, 90 and 130 % of the device's capacity, which a closed loop measures first. Then
the server's recording of that very traffic is replayed under the same policy, and under others that serve the same
traffic live: hit rate and 95th percentile of every tenant over all seeds, both measured inside the server.

``--only all``: those. ``mixed``: attention over 128 to 1,024 tokens, each tenant's requests of two lengths, so that a
request takes from 1 to 60 times as long as another of the same network. ``two``: those of ``all`` on two devices, of
which one has SLOW of the front end's core (cgroup v1, root). ``waiting``: two networks of package onnx on such devices,
for one or three users of each tenant who wait for their answers. ``--set policies=A,B``: 2 to 3 minutes each;
``--set again=yes``: as much again, how far two servers are apart that get the same traffic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.serving.bench import Bench
from benchmarks.serving.live import LARGE_NET, NETWORKS, SMALL_NET, Live, serving
from benchmarks.serving.load import Made, PictureClient, Stream, client, closed_loop, closed_rate, offer
from benchmarks.serving.machine import cores
from benchmarks.table import Cell, Options, Table
from eunomia.engines.processes import Result
from eunomia.serving.devices.messages import Port
from eunomia.serving.load.client import TritonClient
from eunomia.study.serving.twin import twin_of
from eunomia.study.serving.twin_predict import sent
from tests.hostile.networks import WIDTH, write_all
from tests.serving.process import slow_down

LOADS = (0.5, 0.9, 1.3)
POLICIES = ("fair_edf", "weighted_fair", "edf+f")  # the default first
SHARES = {
    "gold": (0.3, SMALL_NET, 50.0),
    "silver": (0.5, SMALL_NET, 100.0),
    "bronze": (0.2, LARGE_NET, 400.0),
}
SEQUENCE, TRIED = "sequence", 512  # tokens of the trial
TOKENS = {"gold": (128, 256), "silver": (256, 512), "bronze": (512, 1024)}
LENGTHS = (128, 256, 512, 1024)
SLOW = 0.35
STRANGERS = ("squeezenet", "densenet121")
POINTS, P95 = 2.0, 0.10
PROBE = "probe"
COLUMNS = (
    "policy, load, tenant; requests; hits, server|.1%; hits, twin|.1%; points apart|+.1f; from|+.1f; to|+.1f; "
    "p95 ms, server|.1f; p95 ms, twin|.1f; apart|+.0%; from|+.0%; to|+.0%; within 2 points and 10 %"
)
Seeds = Sequence[Any]  # by seed: live and told, of each hits and response times [s]
LIVE, ANOTHER = "live", ", another"


def promises(**more: object) -> dict[str, dict[str, object]]:
    """The tenants with deadlines as promises, so that the server knows them."""
    made = {name: {"model": "*", "deadline_ms": ms, **more} for name, (_, _, ms) in SHARES.items()}
    return {name: {"promise": [promise]} for name, promise in made.items()}


def streams(seconds_of: Mapping[str, float], load: float) -> list[Stream]:
    """Rates at which the device would be busy for this share of the time."""
    mean_s = sum(share * seconds_of[model] for share, model, _ in SHARES.values())
    return [Stream(name, model, load * share / mean_s, d) for name, (share, model, d) in SHARES.items()]


class TokensClient(TritonClient):
    """The stock client with sequences: each request has one of its tenant's lengths, by lot."""

    async def prepare(self, shapes: Mapping[str, Sequence[int]], seed: int) -> None:
        """Make them."""
        self._rng = rng = np.random.default_rng([seed, 7])
        self._of = {
            n: [self._input(Port(name="x0", shape=[1, n, WIDTH], datatype="FP32"), {}, rng)] for n in LENGTHS
        }

    async def send(self, stream: int) -> None:
        """One request; a tenant with a number for its name always sends so many tokens."""
        name = self._streams[stream].tenant
        tokens = TOKENS[name][self._rng.integers(2)] if name in TOKENS else int(name)
        self._inputs[SEQUENCE] = self._of[tokens]
        await super().send(stream)


class Setting:
    """How a part serves, and what its tenants send."""

    made: Made = PictureClient
    loads: Sequence[float] = LOADS
    words = "{:.0%}"  # of a load

    def serving(self, policy: str) -> AbstractContextManager[Live]:
        """One device."""
        return serving({**promises(), PROBE: {}}, policy=policy)

    def at(self, live: Live) -> Callable[[float], list[Stream]]:
        """Streams for a load; four users measure what requests take of the devices."""
        return partial(streams, {m: 1.0 / closed_rate(live, Stream(PROBE, m), 1.5) for m in NETWORKS})

    def offer(self, live: Live, wanted: Sequence[Stream], seconds: float, seed: int) -> None:
        """The traffic of one seed."""
        offer(live.grpc, wanted, seconds, seed, made=self.made)


class Two(Setting):
    """The second device is slower, and its core is the front end's too."""

    networks: Mapping[str, Any] = {}

    @contextmanager
    def serving(self, policy: str) -> Iterator[Live]:
        """Two devices."""
        device: list[dict[str, Any]] = [{"name": "fast", "cores": [cores().device]}]
        device.append({"name": "slow", "cores": [cores().front], "spin_ms": 0.0})
        with serving({**promises(), PROBE: {}}, policy=policy, device=device, **self.networks) as live:
            slow_down(live.workers[-1], SLOW)
            yield live


class Waiting(Two):
    """Strangers' networks, and clients that send when they have their answer; the load is users of each tenant."""

    made: Made = TritonClient
    loads, words = (1.0, 3.0), "{:.0f} users"

    def __init__(self) -> None:
        import onnx.backend.test

        folder = Path(onnx.backend.test.__file__).parent / "data" / "light"
        self.networks = {
            "network": [{"name": name, "onnx": str(folder / f"light_{name}.onnx")} for name in STRANGERS]
        }

    def at(self, live: Live) -> Callable[[float], list[Stream]]:
        """Gold and silver send to the small one."""
        small, large = STRANGERS
        of = {name: small if model == SMALL_NET else large for name, (_, model, _) in SHARES.items()}
        return lambda users: [Stream(n, of[n], users, deadline_ms=d) for n, (_, _, d) in SHARES.items()]

    def offer(self, live: Live, wanted: Sequence[Stream], seconds: float, seed: int) -> None:
        """Everybody for so long."""

        async def everybody() -> None:
            async with client(live.grpc, "grpc", wanted, seed=seed, made=self.made) as found:
                users = [int(stream.rate_per_s) for stream in wanted]
                loops = [closed_loop(found, n, seconds, order=(k,)) for k, n in enumerate(users)]
                await asyncio.gather(*loops)

        asyncio.run(everybody())


class Mixed(Setting):
    """One network with a free axis."""

    made: Made = TokensClient

    @contextmanager
    def serving(self, policy: str) -> Iterator[Live]:
        """One device, and a tenant for each length, which measures what it takes."""
        lengths: dict[str, Any] = {str(n): {} for n in LENGTHS}
        with TemporaryDirectory() as folder:
            path = write_all(Path(folder))[SEQUENCE]
            network = {"name": SEQUENCE, "onnx": str(path), "shapes": {"x0": [1, TRIED, WIDTH]}}
            with serving(
                {**promises(), **lengths}, policy=policy, network=[network], max_block_ms=1e3
            ) as live:
                yield live

    def at(self, live: Live) -> Callable[[float], list[Stream]]:
        """Each length has half of its tenant's requests."""
        one = {n: 1.0 / closed_rate(live, Stream(str(n), SEQUENCE), 1.0, made=TokensClient) for n in LENGTHS}
        mean_s = sum(
            share * float(np.mean([one[n] for n in TOKENS[name]])) for name, (share, _, _) in SHARES.items()
        )
        return lambda load: [Stream(n, SEQUENCE, load * s / mean_s, d) for n, (s, _, d) in SHARES.items()]


PARTS: dict[str, Callable[[], Setting]] = {"all": Setting, "mixed": Mixed, "two": Two, "waiting": Waiting}


def replay(
    live: Live, setting: Setting, policies: Sequence[str], wanted: Sequence[Stream], seconds: float, seed: int
) -> Result:
    """One seed's traffic: by tenant the hits and response times [s] (nan = none) of the server, and told by policy."""
    before = len(live.recording()["requests"])
    setting.offer(live, wanted, seconds, seed)
    recording = live.recording()
    recording["requests"] = [r for r in recording["requests"][before:] if r[1] in SHARES]
    recording["pairs"] = [p for p in recording["pairs"] if p["tenant"] in SHARES]
    twin = twin_of(recording)
    of = np.array([agreement.tenant for agreement in twin.requests.agreements])
    found = {LIVE: (twin.requests.pair, twin.hit, twin.response_s)} | {p: sent(twin, p) for p in policies}
    return {
        name: {who: [part[of[pair] == name].tolist() for part in one] for who, (pair, *one) in found.items()}
        for name in SHARES
    }


def row(label: str, seeds: Seeds) -> list[Cell]:
    """Figures of server and twin over all seeds, and how far they are apart; so, too, for seeds drawn anew."""
    arrays = [[[np.array(part, float) for part in one] for one in seed] for seed in seeds]
    drawn = np.random.default_rng(0).integers(len(seeds), size=(1000, len(seeds)))
    found = [apart([arrays[n] for n in mine])[2:] for mine in drawn]
    around = np.percentile(found, [2.5, 97.5], axis=0).T.tolist()
    hits, p95_s, points, share = apart(arrays)
    requests = ", ".join(f"{sum(len(seed[who][0]) for seed in arrays):,}" for who in (0, 1))
    fine = abs(points) <= POINTS and abs(share) <= P95
    return [label, requests, *hits, points, *around[0], *(s * 1e3 for s in p95_s), share, *around[1], fine]


def apart(seeds: Seeds) -> tuple[list[float], list[float], float, float]:
    """Hits and 95th percentiles [s] of both over these seeds, and how far they are apart [points], [share]."""
    both = [[np.concatenate([seed[who][n] for seed in seeds]) for n in (0, 1)] for who in (0, 1)]
    hits, p95_s = [float(hit.mean()) for hit, _ in both], [float(np.nanpercentile(s, 95.0)) for _, s in both]
    return hits, p95_s, (hits[1] - hits[0]) * 100, p95_s[1] / p95_s[0] - 1.0


def measure(options: Options) -> Iterator[Table]:
    """One server for each policy; a row for each policy, load and tenant. Then each from another one's recording."""
    for part in options.chosen(PARTS):
        usual = ",".join(POLICIES[:1] if options.quick else POLICIES)
        yield from _measured(part, PARTS[part](), options, options.given.get("policies", usual).split(","))


def _measured(part: str, setting: Setting, options: Options, policies: Sequence[str]) -> Iterator[Table]:
    """The quick run has one policy; the others get the traffic that the first server can just take, too."""
    again = policies if options.says_yes("again") else ()  # before the process keeps to one core
    bench = Bench("fidelity", options)
    seconds, seeds = (4.0, 1) if bench.quick else (9.0, 5)
    wanted: Callable[[float], list[Stream]] | None = None
    found: dict[tuple[str, float], list[Result]] = {}
    for policy in (*policies, *(f"{policy}{ANOTHER}" for policy in again)):
        with setting.serving(policy.removesuffix(ANOTHER)) as live:
            wanted = wanted or setting.at(live)
            for load in setting.loads:
                one = partial(replay, live, setting, policies, wanted(load), seconds)
                what = {"policy": policy, "load": load} | ({} if part == "all" else {"part": part})
                found[policy, load] = [bench.piece(partial(one, n), **what, seed=n) for n in range(seeds)]

    def rows(label: str, recorded: str, policy: str, told_by: str = "") -> Iterator[list[Cell]]:
        for load, tenant in product(setting.loads, SHARES):
            live, told = found[policy, load], found[recorded, load]
            seen = [(a[tenant][LIVE], b[tenant][told_by or policy]) for a, b in zip(live, told, strict=True)]
            yield row(f"{label}, {setting.words.format(load)}, {tenant}", seen)

    note = (
        "All seeds together, requests of both; from, to: of the figure before, a bootstrap over seeds (95 %)."
    )
    own = [line for policy in policies for line in rows(f"`{policy}`", policy, policy)]
    yield bench.table(part, COLUMNS, own, [note])
    if twice := [line for p in again for line in rows(f"`{p}`", f"{p}{ANOTHER}", p, LIVE)]:
        yield bench.table(f"{part}-again", COLUMNS.replace("twin", "another"), twice, [note])
    if pairs := [pair for other in policies[1:] for pair in ((policies[0], other), (other, policies[0]))]:
        across = [line for a, b in pairs for line in rows(f"`{b}` from `{a}`", a, b)]
        yield bench.table(f"{part}-across", COLUMNS, across, [note])
