"""The data behind each figure of the report: small, JSON-able, computed by eunomia.metrics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from eunomia.core.data import Data
from eunomia.core.records import RunRecords
from eunomia.metrics.causes import QUEUEING, REASONS, miss_reason, split
from eunomia.metrics.columns import LATE
from eunomia.metrics.fairness import fairness_over_time
from eunomia.metrics.holding import held_s
from eunomia.metrics.statistics import interval
from eunomia.report.assessment import Assessment, plain

MAX_PAIRS = 60
FAIRNESS_POINTS = 240


def pair_rows(a: Assessment) -> list[Data]:
    """One row per tenant-model pair with an SLO: its target, and indicators by policy; names as in schema PAIRS."""
    found: dict[tuple[str, str], Data] = {}
    outcomes: dict[tuple[str, str], dict[str, list[Data]]] = {}
    for run in a.comparison.runs:
        for row in run["pairs"].to_pylist() if "pairs" in run.tables else ():
            if row["slo_kind"] is None:
                continue
            key = (row["tenant"], row["model"])
            found.setdefault(key, {"slo_kind": row["slo_kind"], "slo_target": row["slo_target"]})
            outcomes.setdefault(key, {}).setdefault(run.policy, []).append(row)
    rows = [
        {
            "tenant": tenant,
            "model": model,
            **facts,
            "policies": {policy: _outcome(outcomes[tenant, model].get(policy, [])) for policy in a.policies},
        }
        for (tenant, model), facts in found.items()
    ]
    return rows[:MAX_PAIRS]


def _outcome(rows: list[Data]) -> Data:
    """The indicator over seeds, and the share of ``runs`` that met the SLO."""
    estimate = interval([np.nan if row["sli"] is None else row["sli"] for row in rows])
    low, high = (estimate.low, estimate.high) if estimate.is_shown else (np.nan, np.nan)
    sli = {"mean": plain(estimate.mean), "low": plain(low), "high": plain(high)}
    return {"sli": sli, "met": sum(bool(row["met"]) for row in rows) / max(1, len(rows)), "runs": len(rows)}


def split_rows(a: Assessment, policy: str) -> list[Data]:
    """Mean queueing, service, contention and switching per request of each tenant, seconds, all seeds pooled."""
    total = {tenant: np.zeros(5) for tenant in a.tenant_names}
    for run in a.comparison.of(policy):
        scope = a.scopes[policy, run.seed]
        parts = split(scope.requests, scope.horizon_s)
        each = (parts.queueing_s, parts.service_s, parts.contention_s, parts.switch_s)
        stack = np.stack([*each, np.ones(len(scope.requests))])
        for code, tenant in enumerate(scope.requests.tenant.names):
            total[tenant] += stack[:, scope.requests.tenant.codes == code].sum(axis=1)
    return [
        {"tenant": tenant, "requests": int(sums[4]), "parts": [float(x / sums[4]) for x in sums[:4]]}
        for tenant, sums in total.items()
        if sums[4] > 0
    ]


def fairness_lines(a: Assessment, run: RunRecords) -> Data:
    """Hit rate of the tenants in sliding windows over one run: worst, mean, Jain, and each tenant."""
    scope = a.scopes[run.policy, run.seed]
    window_s = fairness_window_s(a, run)
    first = scope.start_s + min(window_s, scope.length_s)
    ends = np.linspace(first, max(first, scope.end_s), FAIRNESS_POINTS)  # the drain after the end is left out
    # a late request has missed at its deadline, however long it goes on: starving shows at once
    known_s = np.fmin(scope.everyone.finish_s, scope.everyone.deadline_s)
    late = scope.everyone.outcome == LATE
    everyone = replace(scope.everyone, finish_s=np.where(late, known_s, scope.everyone.finish_s))
    lines = fairness_over_time(everyone, ends, window_s)
    return {
        "window_s": window_s,
        "time_s": [round(float(t), 9) for t in lines.time_s],
        "worst": _series(lines.worst),
        "mean": _series(lines.mean),
        "jain": _series(lines.jain),
        "tenants": {name: _series(lines.rates[:, code]) for code, name in enumerate(lines.tenants)},
    }


def _series(values: npt.NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(v) else round(float(v), 4) for v in values]


def fairness_window_s(a: Assessment, run: RunRecords) -> float:
    """A window with about thirty outcomes per tenant, at most a quarter and at least 1/40 of the run."""
    scope = a.scopes[run.policy, run.seed]
    tenants, count = max(1, len(scope.everyone.tenant.names)), max(1, len(scope.everyone))
    length = max(scope.length_s, 1e-9)
    return float(np.clip(30.0 * tenants / count, 1 / 40, 1 / 4) * length)


def reason_rows(a: Assessment, policy: str) -> Data:
    """Misses by main reason over all seeds, most frequent first, with up to two requests to look at.

    Without layers on record queueing and holding are not told apart: both are ``waiting``.
    """
    names = (*REASONS, "waiting")
    counts = np.zeros(len(names), np.int64)
    by_tenant = np.zeros((len(names), len(a.tenant_names)), np.int64)
    examples: dict[int, list[tuple[int, int]]] = {}
    measured = 0
    for run in a.comparison.of(policy):
        scope = a.scopes[policy, run.seed]
        requests, measured = scope.requests, measured + len(scope.requests)
        held = held_s(run.tables)
        reason = miss_reason(requests, scope.horizon_s, held_s=held)
        if held is None:
            reason[reason == QUEUEING] = names.index("waiting")
        place = np.array([a.tenant_names.index(name) for name in requests.tenant.names], np.int64)
        for index in np.unique(reason[reason >= 0]).tolist():
            rows = np.flatnonzero(reason == index)
            counts[index] += len(rows)
            np.add.at(by_tenant[index], place[requests.tenant.codes[rows]], 1)
            picked = rows[[0, len(rows) // 2]] if len(rows) > 1 else rows
            if "decisions" not in run.tables:
                continue  # nothing to explain
            examples.setdefault(index, []).extend((run.seed, int(requests.request[r])) for r in picked)
    order = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i]]
    return {
        "measured": measured,
        "missed": int(counts.sum()),
        "rows": [
            {
                "reason": names[i],
                "count": int(counts[i]),
                "tenants": [int(n) for n in by_tenant[i]],
                "examples": [{"seed": seed, "request": k} for seed, k in examples.get(i, [])[:2]],
            }
            for i in order
        ],
    }
