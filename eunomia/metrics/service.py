"""Service that requests got: SLO attainment, response times, lateness, completions. Formulas: docs/metrics.md."""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.metrics.columns import DROPPED, LATE, UNFINISHED, Names, Requests
from eunomia.metrics.statistics import mean


def hit_rate(requests: Requests) -> float:
    """H / A: finished by the deadline (within 1 ns). Dropped and overdue requests are misses; nan without requests.

    Source: RELMAS (DAC 2024); Fair/Firm (arXiv 2403.00766).

    Misleads: the average hides which tenant pays. Requests without a deadline hit whenever they finish.
    Dropping hopeless work raises it.
    """
    return mean(requests.hit)


def outcome_rate(requests: Requests, outcome: int) -> float:
    """Late, dropped and overdue requests, each / A. With `hit_rate` they add up to 1.

    Misleads: dropping turns late requests into dropped ones.
    """
    return mean(requests.outcome == outcome)


def late_rate(requests: Requests) -> float:
    """Share that finished after the deadline."""
    return outcome_rate(requests, LATE)


def drop_rate(requests: Requests) -> float:
    """Share that the scheduler gave up."""
    return outcome_rate(requests, DROPPED)


def overdue_rate(requests: Requests) -> float:
    """Share still unfinished at the end of the run although the deadline had passed."""
    return outcome_rate(requests, UNFINISHED)


def rates(requests: Requests, group: Names) -> Floats:
    """(groups,) hit rate of each group of ``group.names``; nan for a group without requests."""
    return group_means(requests.hit.astype(np.float64), group)


def tenant_rates(requests: Requests) -> dict[str, float]:
    """x_u, the hit rate of every tenant that had requests."""
    return _by_name(rates(requests, requests.tenant), requests.tenant.names)


def model_rates(requests: Requests) -> dict[str, float]:
    """Hit rate of every model that had requests."""
    return _by_name(rates(requests, requests.model), requests.model.names)


def pair_rates(requests: Requests) -> dict[tuple[str, str], float]:
    """Hit rate of every (tenant, model) pair that had requests."""
    models = requests.model.names
    codes = pair_codes(requests)
    found = np.unique(codes)
    hits = np.bincount(codes, requests.hit)
    count = np.bincount(codes)
    return {
        (requests.tenant.names[code // len(models)], models[code % len(models)]): float(
            hits[code] / count[code]
        )
        for code in found.tolist()
    }


def pair_codes(requests: Requests) -> Ints:
    """(n,) one number per (tenant, model): tenant code * number of models + model code."""
    return requests.tenant.codes * len(requests.model.names) + requests.model.codes


def group_means(values: Floats, group: Names) -> Floats:
    """(groups,) mean of ``values`` over each group; nan for a group without rows."""
    count = np.bincount(group.codes, minlength=len(group.names))
    total = np.bincount(group.codes, values, minlength=len(group.names))
    return np.asarray(np.divide(total, count, out=np.full(len(group.names), np.nan), where=count > 0))


def response_s(requests: Requests) -> Floats:
    """Finish - arrival of finished requests, (F,): mean, p50, p95, p99.

    Misleads: a policy that drops slow requests looks quick. Large models dominate the tail.
    """
    done = requests.finished
    return np.asarray(requests.finish_s[done] - requests.arrival_s[done])


def slowdown(requests: Requests) -> Floats:
    """Quotients resp / iso, (F,): p50, p95, p99.

    Misleads: as response time and ANTT.
    """
    return np.asarray(response_s(requests) / requests.isolated_s[requests.finished])


def progress(requests: Requests) -> Floats:
    """(n,) normalised progress iso / response: 1 = as if alone; 0 for dropped and overdue requests."""
    response = requests.response_s
    known = response > 0.0
    return np.divide(requests.isolated_s, response, out=np.zeros(len(requests)), where=known)


def lateness_s(requests: Requests) -> Floats:
    """(finished with a deadline,) finish - deadline, seconds; negative = early."""
    rows = requests.finished & np.isfinite(requests.deadline_s)
    return np.asarray(requests.finish_s[rows] - requests.deadline_s[rows])


def tardiness_s(requests: Requests) -> Floats:
    """Of finished requests with a deadline: lateness = finish - deadline, tardiness = max(0, lateness).

    Misleads: a dropped request has neither.
    """
    return np.maximum(0.0, lateness_s(requests))


def throughput_per_s(departed: Requests, length_s: float) -> float:
    """Completions within the measured time, late ones included, per second; nan for a window of no length."""
    return len(departed) / length_s if length_s > 0.0 else float("nan")


def goodput_per_s(departed: Requests, length_s: float) -> float:
    """Departures of finished requests (throughput) and of hits (goodput) / T.

    Misleads: below saturation both equal the load.
    """
    return int(np.count_nonzero(departed.hit)) / length_s if length_s > 0.0 else float("nan")


def _by_name(values: Floats, names: tuple[str, ...]) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True) if not np.isnan(value)}
