"""The token in virtual time: what four clients get, and what each part of the scheduler is for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.metrics.metric import Metric
from eunomia.sharing.shares import Demand, Hold, ShareRules, ShareScheduler, ShareSpec, simulate
from eunomia.study.cluster.worlds import Figures, Worlds

SPLIT = (0.1, 0.2, 0.3, 0.4)
UNTIL_S, SWITCH_S = 120.0, 0.0005
CAPPED = 0.3  # the limit of the client that is alone in the last third
METRICS = {
    "off": Metric("largest distance of a share from its request, all at work", "off by", "share", "lower"),
    "short": Metric("largest part of a request missing in any window of 10 s", "short by", "share", "lower"),
    "over": Metric("time above its limit of the only client at work", "over limit", "share", "lower"),
    "handed": Metric("device time used while one client has no work", "used, one idle", "share", "higher"),
    "switches": Metric("changes of hands per second", "switches/s", "count", "lower"),
}


def run_shares(seeds: tuple[int, ...]) -> Worlds:
    """Bursts of 2 to 600 ms, drawn per client and seed.

    Two thirds of the time all are at work, but for client 3, which is idle in the second third. In the last third only
    client 0 is at work, whose limit is 0.3.
    """
    whole = ShareRules()
    variants = {
        "token": whole,
        "no quota adaptation": replace(whole, adapts=False),
        "overuse uncharged": replace(whole, charges_overuse=False),
        "neither": replace(whole, adapts=False, charges_overuse=False),
    }
    figures = {name: tuple(_figures(seed, rules) for seed in seeds) for name, rules in variants.items()}
    figures["round robin"] = tuple(_figures(seed, None) for seed in seeds)
    return Worlds("shares", seeds, figures, "off", METRICS)


def _figures(seed: int, rules: ShareRules | None) -> Figures:
    rng = np.random.default_rng([seed, 31])
    third_s = UNTIL_S / 3.0
    spells = {n: [(2 * third_s, UNTIL_S)] if n else [] for n in range(len(SPLIT))}
    spells[3] = [(third_s, UNTIL_S)]
    demands = {
        f"{n}": Demand(tuple(_bursts(rng)), idle=tuple(spells[n]))
        for n in rng.permutation(len(SPLIT)).tolist()
    }
    specs = [
        ShareSpec(f"{n}", share if rules else 1.0 / len(SPLIT), CAPPED if n == 0 else 1.0)
        for n, share in enumerate(SPLIT)
    ]
    scheduler = ShareScheduler(rules or ShareRules(window_s=1e6, charges_overuse=False, adapts=False))
    for spec in specs:
        scheduler.join(spec)
    holds = simulate(scheduler, demands, UNTIL_S, SWITCH_S)
    return _measured(holds, third_s)


def _bursts(rng: np.random.Generator) -> list[float]:
    """A client's own scale, a factor of two around it."""
    scale_s = float(np.exp(rng.uniform(np.log(0.002), np.log(0.6))))
    return [float(s) for s in scale_s * rng.uniform(0.5, 2.0, 64)]


def _measured(holds: list[Hold], third_s: float) -> Figures:
    names = [f"{n}" for n in range(len(SPLIT))]
    busy = np.array([_held(holds, name, 0.0, third_s) for name in names])
    short = [
        1.0 - _held(holds, name, at - 10.0, at) / (10.0 * share)
        for name, share in zip(names, SPLIT, strict=True)
        for at in np.arange(10.0, third_s, 0.5)
    ]
    changes = sum(a.client != b.client for a, b in zip(holds, holds[1:], strict=False) if b.end_s < third_s)
    alone = [_held(holds, "0", at - 10.0, at) / 10.0 for at in np.arange(2 * third_s + 10.0, UNTIL_S, 0.5)]
    second = [_held(holds, name, third_s, 2 * third_s) for name in names]
    return {
        "off": float(np.abs(busy / busy.sum() - SPLIT).max()),
        "short": max(0.0, *short),
        "over": max(0.0, max(alone) - CAPPED),
        "handed": sum(second) / third_s,
        "switches": changes / third_s,
    }


def _held(holds: list[Hold], name: str, since_s: float, until_s: float) -> float:
    spans: Floats = np.array([(h.start_s, h.end_s) for h in holds if h.client == name]).reshape(-1, 2)
    return float(np.maximum(np.minimum(spans[:, 1], until_s) - np.maximum(spans[:, 0], since_s), 0.0).sum())
