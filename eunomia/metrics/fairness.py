"""How evenly service is spread over tenants: at the end of a run and along it. Formulas: docs/metrics.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.metrics.columns import UNFINISHED, Names, Requests
from eunomia.metrics.service import group_means, hit_rate, pair_codes, progress, rates


def jain(values: Floats) -> float:
    """J(x) = (sum x)^2 / (n sum x^2), in [1/n, 1]; 1 = all equal, zeros included; nan left out.

    `jain_hit_rate`: of x_u; `jain_progress`: of the tenants' means of iso/resp (0 for dropped and overdue requests).

    Source: Jain, Chiu and Hawe, DEC-TR-301, 1984.

    Misleads: 0.9 when 9 of 10 tenants are served; blind to the level.
    """
    x = values[~np.isnan(values)]
    if not len(x):
        return float("nan")
    largest = float(x.max())
    if largest <= 0.0:
        return 1.0
    x = x / largest  # the index does not depend on scale; squares neither vanish nor overflow
    return min(1.0, float(x.sum()) ** 2 / (len(x) * float(x @ x)))


def worst(values: Floats) -> float:
    """Least hit rate of a tenant, a model, or a (tenant, model) pair with measured requests.

    Misleads: a minimum of few requests is low by chance.
    """
    x = values[~np.isnan(values)]
    return float(x.min()) if len(x) else float("nan")


def spread(values: Floats) -> float:
    """Standard deviation over all entries (divided by n: they are all tenants there are); nan of nothing."""
    x = values[~np.isnan(values)]
    return float(x.std()) if len(x) else float("nan")


def worst_tenant(requests: Requests) -> float:
    """min_u x_u, the least hit rate of a tenant."""
    return worst(rates(requests, requests.tenant))


def tenant_spread(requests: Requests) -> float:
    """Standard deviation over tenants of x_u, with divisor n.

    Misleads: 0 when all fail alike. With different objectives, equal rates are not the aim.
    """
    return spread(rates(requests, requests.tenant))


def jain_hit_rate(requests: Requests) -> float:
    """Jain's index of the tenants' hit rates."""
    return jain(rates(requests, requests.tenant))


def jain_progress(requests: Requests) -> float:
    """Jain's index of the tenants' mean normalised progress iso / response (0 for dropped and overdue)."""
    return jain(group_means(progress(requests), requests.tenant))


def price_of_fairness(agnostic: Requests, aware: Requests) -> float:
    """Hit rate of the policy that ignores SLOs minus that of the one that heeds them, on one trace."""
    return hit_rate(agnostic) - hit_rate(aware)


def proportional_progress(requests: Requests) -> Floats:
    """(pairs,) PP = mean(iso / response) / (priority / sum of priorities), per (tenant, model) with priority > 0.

    PREMA (HPCA 2020) has one entry per co-running task; over an open stream of requests a task is a
    (tenant, model) pair, its progress and its priority are means over its requests.
    """
    groups, codes = np.unique(pair_codes(requests), return_inverse=True)
    pairs = Names(codes.astype(np.int64), tuple(str(code) for code in groups.tolist()))
    advance = group_means(progress(requests), pairs)
    priority = group_means(requests.priority, pairs)
    entitled = priority > 0.0
    return np.asarray(advance[entitled] / (priority[entitled] / priority[entitled].sum()))


def prema_fairness(requests: Requests) -> float:
    """min over k, l of PP_k/PP_l, PP_k = (iso/resp)_k / (priority_k / sum of priorities); 1 = in step.

    k is a (tenant, model) pair with priority above 0; its progress and priority are means over its measured requests
    (progress 0 for dropped and overdue ones).

    Source: PREMA (HPCA 2020), for tasks that run together; pairs and means are ours.

    Misleads: progress hardly exceeds 1, so with unequal priorities an idle system scores low.
    """
    progressed = proportional_progress(requests)
    if not len(progressed):
        return float("nan")
    return float(progressed.min() / progressed.max()) if progressed.max() > 0.0 else 1.0


def alone_response_s(
    requests: Requests, accelerators: int, weights: Mapping[str, float] | None = None
) -> Floats:
    """(n,) response of each request if its tenant had a private share of the platform and nobody else ran.

    Tenant u gets c_u = S w_u / sum w accelerators. Its requests pass in order of arrival through a
    fluid server of c_u times the speed of one accelerator, and none takes less than iso:
    finish_k = max(a_k + iso_k, max_{j<=k}(a_j + sum_{i=j..k} iso_i / c_u)). Give it all requests of
    the run, so that backlogs count. An estimate: best accelerator type, no contention, nothing dropped.
    """
    names = requests.tenant.names
    share = np.array([(weights or {}).get(name, 1.0) for name in names], np.float64)
    share = accelerators * share / share.sum() if len(names) else share
    alone = np.full(len(requests), np.nan)
    for code in range(len(names)):
        rows = np.flatnonzero((requests.tenant.codes == code) & np.isfinite(requests.arrival_s))
        rows = rows[np.argsort(requests.arrival_s[rows], kind="stable")]
        if share[code] <= 0.0:
            alone[rows] = np.inf
            continue
        arrival, iso = requests.arrival_s[rows], requests.isolated_s[rows]
        service = iso / share[code]
        done = np.cumsum(service)
        finish = done + np.maximum.accumulate(arrival - (done - service))
        alone[rows] = np.maximum(finish - arrival, iso)
    return alone


def finish_time_rho(requests: Requests, alone_s: Floats) -> dict[str, float]:
    """The largest rho_u = mean resp of tenant u / its mean response alone on its share, over finished requests.

    Alone, tenant u has c_u = S w_u / sum w accelerators (w = weights, default 1). All its requests pass a fluid server
    in order of arrival: finish_k = max(a_k + iso_k, max over j <= k of (a_j + (iso_j + ... + iso_k) / c_u)).

    Source: Themis (NSDI 2020), carried over to requests by us.

    Misleads: the private share is an estimate (best type, no contention, no drops). A policy that drops slow requests
    looks fair.
    """
    done = requests.finished
    tenant = requests.tenant[done]
    ours = group_means(requests.finish_s[done] - requests.arrival_s[done], tenant)
    theirs = group_means(alone_s[done], tenant)
    return {
        name: float(a / b) for name, a, b in zip(tenant.names, ours, theirs, strict=True) if not np.isnan(a)
    }


@dataclass(frozen=True)
class FairnessOverTime:
    """Tenants' hit rates in sliding windows; nan where nobody (or that tenant) had an outcome."""

    time_s: Floats  # (windows,) end of each window
    tenants: tuple[str, ...]
    rates: Floats  # (windows, tenants)
    worst: Floats  # (windows,) least rate of a tenant
    mean: Floats  # (windows,) mean of the tenants' rates
    jain: Floats  # (windows,) Jain's index of the rates


def fairness_over_time(requests: Requests, ends_s: Floats, window_s: float) -> FairnessOverTime:
    """Hit rate of every tenant over outcomes in (end - window, end], for each window end.

    An outcome happens at the finish or drop; of an overdue request, at its deadline. Short windows
    hold few outcomes per tenant, so the worst one is low by chance alone.
    """
    when = np.where(requests.outcome == UNFINISHED, requests.deadline_s, requests.finish_s)
    tenants = requests.tenant.names
    table = np.full((len(ends_s), len(tenants)), np.nan)
    for code in range(len(tenants)):
        rows = np.flatnonzero(requests.tenant.codes == code)
        rows = rows[np.argsort(when[rows], kind="stable")]
        hits = np.concatenate([[0], np.cumsum(requests.hit[rows])])
        low = np.searchsorted(when[rows], ends_s - window_s, side="right")
        high = np.searchsorted(when[rows], ends_s, side="right")
        count = high - low
        np.divide(hits[high] - hits[low], count, out=table[:, code], where=count > 0)
    least, average, index = _by_window(table)
    return FairnessOverTime(ends_s, tenants, table, least, average, index)


def _by_window(table: Floats) -> tuple[Floats, Floats, Floats]:
    """Worst, mean and Jain's index of each row, entries that are nan left out."""
    known = ~np.isnan(table)
    count = known.sum(axis=1)
    x = np.where(known, table, 0.0)
    total, squares = x.sum(axis=1), (x * x).sum(axis=1)
    some = count > 0
    least = np.where(some, np.where(known, table, np.inf).min(axis=1, initial=np.inf), np.nan)
    average = np.divide(total, count, out=np.full(len(table), np.nan), where=some)
    index = np.divide(total * total, count * squares, out=np.where(some, 1.0, np.nan), where=squares > 0.0)
    return least, average, np.minimum(index, 1.0)
