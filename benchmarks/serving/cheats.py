"""What does a cheat gain, under each policy by itself?

Two tenants alike: the same promises, weights and traffic, on one device with the block times of a server, rounded.
Then silver cheats. ``claims``: it asks for a quarter of its deadlines, and is believed (``min_deadline_ms = 0``).
``copies``: it sends everything twice, and takes the first answer. ``flood``: it sends three times as much. ``names``:
it spreads one network over four names, each with a promise. Counted by the deadlines that were promised: silver's
answers in time over the requests that it would send as an honest tenant, and gold's over its own. In the simulator,
which a server's dispatcher equals, so that a busy machine changes nothing. 2 minutes. ``--only POLICY``: some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.kept import kept_all
from benchmarks.table import Cell, Options, Table, table
from eunomia.engines.processes import Result
from eunomia.metrics.statistics import interval
from eunomia.study.inference.policy import policy_words
from eunomia.study.serving.twin import twin_of
from eunomia.study.serving.twin_predict import replayed

BLOCKS_S = {
    "small": [1.8e-3] * 5,
    "large": [2.6e-3] * 33,
}  # MobileNetV2 and ResNet-50 as a server measured them
SMALL, PROMISED_S, TURN_S = 0.8, {"small": 0.1, "large": 0.5}, 1.2e-4
TARGET = {"target": 0.9, "kind": "hit_rate", "percentile": 95.0, "window_s": 10.0, "window_requests": 100}
CHEATS = ("claims", "copies", "flood", "names")
NAMES, TIMES, SECONDS = 4, 3, 40.0
LOADS = (0.8, 1.2)
NO_SERVER = [
    "magma",
    "magma_10k",
    "lookahead",
    "deferring",
    "relmas",
    "relmas-slo",
]  # they plan, or fit no single device
COLUMNS = "policy; both honest|.1%; " + "; ".join(f"{c}: silver|+.1p; gold|+.1p" for c in CHEATS)


def sent(tenant: str, cheat: str, load: float, seed: int) -> list[tuple[float, str, float, int]]:
    """A tenant's requests: arrival [s], network's name, deadline asked for [s], number of the honest request (-1)."""
    rng = np.random.default_rng([seed, tenant == "silver"])
    mean_s = SMALL * sum(BLOCKS_S["small"]) + (1 - SMALL) * sum(BLOCKS_S["large"])
    many = TIMES if cheat == "flood" else 1
    count = rng.poisson(many * 0.5 * load / mean_s * SECONDS)
    names = np.random.default_rng([seed, 2])  # of its own: models are those of the honest tenant
    rows, share = [], 0.25 if cheat == "claims" else 1.0
    for n, at_s in enumerate(np.sort(rng.uniform(0.0, SECONDS, count))):
        model = "small" if rng.random() < SMALL else "large"
        name = f"{model}{names.integers(NAMES)}" if cheat == "names" else model
        rows += [(float(at_s), name, PROMISED_S[model] * share, n)] * (2 if cheat == "copies" else 1)
    return rows


def share_in_time(
    rows: Sequence[tuple[float, str, float, int]], response_s: npt.NDArray[np.float64]
) -> float:
    """Of requests, by the promise; of copies the first answer counts. More is sent in a flood: over a third of it."""
    hits, numbers = set[int](), {n for _, _, _, n in rows}
    for (_, name, _, n), took_s in zip(rows, response_s, strict=True):
        if took_s <= PROMISED_S[name.rstrip("0123456789")] + 1e-9:
            hits.add(n)
    return len(hits) / len(numbers)


def run(asked: tuple[str, tuple[int, ...]]) -> Result:
    """One policy under every cheat ("" = none) at every load: silver's and gold's answers in time, by seed."""
    policy, seeds = asked
    return {
        f"{cheat}{load}": [in_time(policy, cheat, load, seed) for seed in seeds]
        for cheat in ("", *CHEATS)
        for load in LOADS
    }


def in_time(policy: str, cheat: str, load: float, seed: int) -> list[float]:
    """Of silver and of gold, over the requests of an honest tenant."""
    lists = {"gold": sent("gold", "", load, seed), "silver": sent("silver", cheat, load, seed)}
    places = sorted((at_s, who, n) for who, rows in lists.items() for n, (at_s, *_) in enumerate(rows))
    requests = []
    for at_s, who, n in places:
        _, name, deadline_s, _ = lists[who][n]
        requests.append([at_s, who, name, deadline_s, 1, "late", 0.0, 0.0, 0.0, 0.0])
    names = {name for rows in lists.values() for _, name, *_ in rows}
    pairs = sorted({(who, name) for who, rows in lists.items() for _, name, *_ in rows})
    twin = twin_of({
        "format": 3, "policy": policy, "late": "last", "devices": ["d"], "turn_s": TURN_S, "spread": 0.0,
        "networks": {name: [[s] for s in BLOCKS_S[name.rstrip("0123456789")]] for name in sorted(names)},
        "pairs": [{"tenant": who, "model": name, "weight": 1.0, "priority": 1.0, "slo": TARGET} for who, name in pairs],
        "requests": requests,
    })  # fmt: skip
    took_s = {who: np.full(len(rows), np.inf) for who, rows in lists.items()}
    for (_, who, n), response_s in zip(places, replayed(twin, policy)[1], strict=True):
        took_s[who][n] = np.nan_to_num(response_s, nan=np.inf)
    silver, gold = (share_in_time(lists[who], took_s[who]) for who in ("silver", "gold"))
    return [silver * (TIMES if cheat == "flood" else 1), gold]


def row(policy: str, load: float, found: Result) -> list[Cell]:
    """Points above or below what both have as honest tenants."""
    honest = np.array(found[f"{load}"])
    line: list[Cell] = [f"`{policy}`", float(honest.mean())]
    for cheat in CHEATS:
        line += [interval(column) for column in (np.array(found[f"{cheat}{load}"]) - honest).T]
    return line


def measure(options: Options) -> Iterator[Table]:
    """A table for each load, the worst for gold first."""
    seeds = tuple(options.seeds_or(5, 1))
    policies = options.chosen([name for name in policy_words() if name not in NO_SERVER])
    found = kept_all("serving-cheats", run, [(name, seeds) for name in policies], options.workers)
    for load in LOADS:
        rows = [row(policy, load, one) for policy, one in zip(policies, found, strict=True)]
        rows.sort(key=lambda line: min(float(getattr(cell, "mean", 0.0)) for cell in line[3::2]))
        yield table(f"at-{load * 100:.0f}", COLUMNS, rows)
