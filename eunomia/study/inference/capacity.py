"""What a platform can carry: the saturated throughput that a load of 1.0 refers to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.core.errors import ConfigError
from eunomia.inference.options import EngineOptions
from eunomia.inference.policies import load_policy
from eunomia.inference.simulate import simulate
from eunomia.metrics.statistics import Estimate, interval
from eunomia.study.inference.machine import Machine
from eunomia.workload.requests import RequestTable

SAMPLES = 5  # independent measurements, which give the interval
SAMPLE_REQUESTS = 8_000  # requests of each
MOST_DRAWS = 200  # runs' worth of requests drawn for one sample
FIRST_SEED = 3_000_000_000  # seeds of its own: the same capacity for every seed of the scenario
APART_S = 1e-9  # first come, first served needs an order among requests that are all there
TRIM = 0.1  # share of completions left out at either end
CLOSE = 0.02  # an offered rate this near to the wanted one is not corrected further
ROUNDS = 16

Draw = Callable[[int, float], RequestTable]  # (seed, factor on all rates) -> requests of one run


@dataclass(frozen=True)
class Capacity:
    """Requests per second at saturation, and what the scenario offers as it is written."""

    per_s: Estimate  # mean over SAMPLES measurements, with its interval
    requests: int  # simulated for it, all samples together
    offered_per_s: float  # over the same draws
    seeds: int  # draws

    def facts(self) -> dict[str, float | int]:
        """For the manifest of a run."""
        return {
            "capacity_per_s": self.per_s.mean,
            "capacity_low_per_s": self.per_s.low,
            "capacity_high_per_s": self.per_s.high,
            "capacity_samples": self.per_s.n,
            "capacity_requests": self.requests,
        }


def measure_capacity(draw: Draw, duration_s: float, machine: Machine) -> Capacity:
    """Saturated throughput of FCFS on the fastest idle accelerator, nothing dropped (inference-scheduling 6.3).

    Each sample holds SAMPLE_REQUESTS of the scenario's mix, pooled from as many runs as it takes, in random
    order and all present at time 0. They are APART_S apart, or FCFS would serve all at once and leave the
    large networks to the end. Its rate is that between 10 % and 90 % of the completions, without start and
    tail. Samples have seeds of their own. Raises ConfigError for closed loops, and where no request arrives.
    """
    rates, arrived, seed = [], 0, FIRST_SEED
    for _ in range(SAMPLES):
        parts: list[RequestTable] = []
        while sum(map(len, parts)) < SAMPLE_REQUESTS and len(parts) < MOST_DRAWS:
            parts.append(draw(seed, 1.0))
            seed += 1
        arrived += sum(map(len, parts))
        rates.append(_saturated_per_s(_present(parts, np.random.default_rng(seed)), machine))
    seeds = seed - FIRST_SEED
    return Capacity(interval(rates), SAMPLES * SAMPLE_REQUESTS, arrived / (seeds * duration_s), seeds)


def factor_for(wanted_per_s: float, capacity: Capacity, draw: Draw, duration_s: float) -> float:
    """The factor on all arrival rates at which the scenario offers ``wanted_per_s``, to about CLOSE.

    One division where arrivals scale exactly. A trace whose rate varies, or a paced stream with jitter, takes
    more rounds, between factors known to be too low and too high. Raises ConfigError when a trace ends too
    early to reach the rate: twice as fast, not one request more arrives.
    """
    low, high, factor = 0.0, math.inf, wanted_per_s / capacity.offered_per_s
    tried: list[tuple[float, int]] = []
    for _ in range(ROUNDS):
        seeds = range(FIRST_SEED, FIRST_SEED + capacity.seeds)
        arrived = max(1, sum(len(draw(seed, factor)) for seed in seeds))
        reached = arrived / (len(seeds) * duration_s) / wanted_per_s
        if abs(reached - 1.0) <= CLOSE:
            return factor
        if reached < 1.0 and any(arrived == count and factor >= 2.0 * slower for slower, count in tried):
            break
        tried.append((factor, arrived))
        low, high = (factor, high) if reached < 1.0 else (low, factor)
        factor /= reached
        if not low < factor < high:
            factor = math.sqrt(low * high)
    raise ConfigError(
        f"load asks for {wanted_per_s:.4g} requests per second, but the arrivals give {reached * wanted_per_s:.4g} "
        "however fast they are replayed; a trace is too short: give it loop = true, or shorten duration_s"
    )


def _present(parts: list[RequestTable], rng: np.random.Generator) -> RequestTable:
    """SAMPLE_REQUESTS of the requests, in random order, all at (nearly) time 0; some repeated where there are fewer."""
    if any((part.after >= 0).any() for part in parts):
        raise ConfigError("load scales arrival rates, and closed-loop clients have none; leave load out")
    pair = np.concatenate([part.pair for part in parts])
    if not len(pair):
        raise ConfigError(
            "no request arrives within duration_s, so there is no load to scale; raise it, or a rate"
        )
    rows = rng.choice(len(pair), SAMPLE_REQUESTS, replace=len(pair) < SAMPLE_REQUESTS)
    arrival_s = APART_S * np.arange(len(rows), dtype=np.float64)
    return RequestTable(parts[0].agreements, pair[rows], arrival_s, np.full(len(rows), np.inf))


def _saturated_per_s(present: RequestTable, machine: Machine) -> float:
    options = EngineOptions(late="run", record="requests")
    result = simulate(present, machine.table, machine, load_policy("fcfs"), options)
    return middle_rate_per_s(np.asarray(result.tables["requests"]["finish_s"], np.float64))


def middle_rate_per_s(finish_s: npt.NDArray[np.float64]) -> float:
    """Completions per second between the first and the last TRIM of them."""
    ordered = np.sort(finish_s)
    first, last = int(TRIM * len(ordered)), int((1.0 - TRIM) * len(ordered))
    return float((last - first) / (ordered[last] - ordered[first]))
