"""Service-level indicators over a whole run, and whether each agreement was kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eunomia.core.arrays import Floats, Ints
from eunomia.core.schemas import PAIRS
from eunomia.metrics.columns import DROPPED, HIT, LATE, OUTCOMES, Requests, Tables
from eunomia.metrics.service import pair_codes
from eunomia.metrics.statistics import mean, nearest_rank
from eunomia.metrics.window import Measured, measured
from eunomia.workload.tenant import Agreement, Slo

TOLERANCE = 1e-12  # of the gap: 0.3 promised and 3 of 10 kept is met


def sli(slo: Slo, outcome: Ints, response_s: Floats, departed: int, length_s: float) -> float:
    """The indicator of ``slo`` over the requests of one pair, with their outcomes and responses; nan = no data.

    ``hit_rate`` hits / requests; ``drop_rate`` dropped / requests; ``latency_mean`` and
    ``latency_percentile`` (nearest rank) over responses of finished requests; ``throughput``
    completions within the measured time (``departed``) per second. The window is the whole measured
    run, and unfinished requests past their deadline are misses; otherwise as in the engine.
    """
    if slo.kind == "throughput":
        return departed / length_s if length_s > 0.0 else math.nan
    if slo.kind == "hit_rate":
        return mean(outcome == HIT)
    if slo.kind == "drop_rate":
        return mean(outcome == DROPPED)
    finished = response_s[outcome <= LATE]
    return mean(finished) if slo.kind == "latency_mean" else nearest_rank(finished, slo.percentile)


def kept(slo: Slo, value: float, judged: int, offered: int, length_s: float) -> tuple[bool, float]:
    """Whether an objective was met, and the shortfall (Slo.shortfall).

    A pair without ``judged`` requests (fate known) is met. A throughput objective is judged only when
    the load ``offered`` (censored requests included), per second, reaches the target. A latency
    objective of a pair whose requests were all given up has no indicator: it is missed, by 1.
    """
    if slo.kind == "throughput":
        if offered < slo.target * length_s or math.isnan(value):
            return True, 0.0
    elif judged == 0:
        return True, 0.0
    elif math.isnan(value):
        return False, 1.0
    return slo.gap(value) <= TOLERANCE, slo.shortfall(value) if slo.gap(value) > TOLERANCE else 0.0


def pair_table(
    tables: Tables, agreements: Sequence[Agreement], warmup_s: float = 0.0, end_s: float | None = None
) -> pa.Table:
    """One row per agreement, in their order, in schema PAIRS: what was promised and what was delivered.

    Pairs that sent requests without an agreement follow, by name, with no SLO. Counts are of measured
    requests (``measured``): ``unfinished`` are those whose deadline had passed.
    """
    return pairs_of(measured(tables, warmup_s, end_s), agreements)


def pairs_of(run: Measured, agreements: Sequence[Agreement]) -> pa.Table:
    """``pair_table`` of a run that is already measured."""
    asked, censored, departed = (_Rows(r) for r in (run.requests, run.censored, run.departed))
    outcome, response_s = run.requests.outcome, run.requests.response_s
    listed = {(a.tenant, a.model) for a in agreements}
    extra = [Agreement(*pair) for pair in asked.pairs() if pair not in listed]
    rows = []
    for agreement in (*agreements, *extra):
        mine = asked.of(agreement)
        left, unknown = len(departed.of(agreement)), len(censored.of(agreement))
        rows.append(_row(agreement, outcome[mine], response_s[mine], left, unknown, run.length_s))
    return pa.Table.from_pylist(rows, schema=PAIRS)


def slo_attainment(pairs: pa.Table) -> float:
    """Share of (tenant, model) pairs with an SLO whose indicator met it (SLI kinds, below).

    A pair without measured requests met it. A throughput objective is met unless the load offered (censored requests
    included) / T reaches it. A latency objective without a finished request is missed, with shortfall 1.

    Source: Fair/Firm.

    Misleads: a policy may give up the hard pairs. Idle pairs count as met.
    """
    return mean(_column(pairs, "met").astype(np.bool_))


def slo_shortfall(pairs: pa.Table) -> float:
    """Mean of the shortfall over pairs with an SLO, 0 for those that met it.

    Misleads: it adds shortfalls of rates (at most 1) and of latencies (unbounded).
    """
    return mean(_column(pairs, "shortfall").astype(np.float64))


def _row(
    agreement: Agreement, outcome: Ints, response_s: Floats, departed: int, censored: int, length_s: float
) -> dict[str, Any]:
    slo = agreement.slo
    count = np.bincount(outcome, minlength=len(OUTCOMES)).tolist()
    row = {
        "tenant": agreement.tenant,
        "model": agreement.model,
        "arrived": len(outcome),
        "hits": count[0],
        "late": count[1],
        "dropped": count[2],
        "unfinished": count[3],
        "weight": agreement.weight,
        "priority": agreement.priority,
    }
    if slo is None:
        return row
    value = sli(slo, outcome, response_s, departed, length_s)
    met, shortfall = kept(slo, value, len(outcome), len(outcome) + censored, length_s)
    promise = {"slo_kind": slo.kind, "slo_target": slo.target, "met": met, "shortfall": shortfall}
    return row | promise | {"sli": None if math.isnan(value) else value}


class _Rows:
    """Rows of each (tenant, model), found by one sort."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        codes = pair_codes(requests)
        self.order = np.argsort(codes, kind="stable")
        self.codes = codes[self.order]

    def of(self, agreement: Agreement) -> Ints:
        tenant = self.requests.tenant.code(agreement.tenant)
        model = self.requests.model.code(agreement.model)
        if tenant < 0 or model < 0:
            return np.empty(0, np.int64)
        code = tenant * len(self.requests.model.names) + model
        low, high = np.searchsorted(self.codes, [code, code + 1])
        return self.order[low:high]

    def pairs(self) -> Iterable[tuple[str, str]]:
        tenants, models = self.requests.tenant.names, self.requests.model.names
        return [(tenants[c // len(models)], models[c % len(models)]) for c in np.unique(self.codes).tolist()]


def _column(pairs: pa.Table, name: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Entries of pairs with an SLO."""
    return np.asarray([value for value in pairs[name].to_pylist() if value is not None])
