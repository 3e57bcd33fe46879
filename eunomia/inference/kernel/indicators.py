"""Service-level indicators kept inside the engine: a window per (tenant, model), updated as requests end."""

from __future__ import annotations

import math

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.layout import DROPPED, HIT
from eunomia.inference.kernel.memory import Kernel, Record, pair_at, ranked_at, ring_at

HIT_RATE, DROP_RATE, LATENCY_MEAN, LATENCY_PERCENTILE, THROUGHPUT = range(5)


@jitted
def observe(k: Kernel, pair: int, outcome: int, response_s: float, now_s: float, ewma: float) -> None:
    """Count one finished or dropped request of ``pair``."""
    k.gaps_moved = max(k.gaps_moved, 1)
    kind = pair_at(k, pair).slo_kind
    if kind == LATENCY_MEAN or kind == LATENCY_PERCENTILE:
        if outcome != DROPPED:
            _observe_response(k, pair, response_s)
    elif kind == THROUGHPUT:
        if outcome != DROPPED:
            _observe_finish(k, pair, now_s)
            refresh_throughput(k, pair, now_s)
        return
    else:
        good = (outcome == DROPPED) if kind == DROP_RATE else (outcome == HIT)
        _observe_share(k, pair, 1.0 if good else 0.0, ewma)
    pair_at(k, pair).gap = _gap(kind, pair_at(k, pair).sli, pair_at(k, pair).slo_target)


@jitted
def _observe_share(k: Kernel, pair: int, value: float, ewma: float) -> None:
    record, window = pair_at(k, pair), pair_at(k, pair).slo_window
    if record.count == window:
        record.good -= int(ring_at(k, pair * k.ring_length + record.head).value)
    else:
        record.count += 1
    ring_at(k, pair * k.ring_length + record.head).value = value
    record.good += int(value)
    record.head = (record.head + 1) % window
    if ewma > 0.0 and record.sli == record.sli:
        record.sli += ewma * (value - record.sli)
    elif ewma > 0.0:
        record.sli = value
    else:
        record.sli = record.good / record.count


@jitted
def _observe_response(k: Kernel, pair: int, response_s: float) -> None:
    record, window = pair_at(k, pair), pair_at(k, pair).slo_window
    if record.count == window:
        _remove_ranked(k, pair, record.count, ring_at(k, pair * k.ring_length + record.head).value)
    else:
        record.count += 1
    ring_at(k, pair * k.ring_length + record.head).value = response_s
    record.head = (record.head + 1) % window
    _insert_ranked(k, pair, record.count, response_s)
    if pair_at(k, pair).slo_kind == LATENCY_MEAN:
        total = 0.0
        for i in range(record.count):
            total += ranked_at(k, pair * k.ring_length + i).value
        record.sli = total / record.count
    else:
        rank = int(math.ceil(pair_at(k, pair).slo_percentile / 100.0 * record.count))
        record.sli = ranked_at(k, pair * k.ring_length + max(rank, 1) - 1).value


@jitted
def _insert_ranked(k: Kernel, pair: int, count: int, value: float) -> None:
    i = count - 1
    while i > 0 and ranked_at(k, pair * k.ring_length + i - 1).value > value:
        ranked_at(k, pair * k.ring_length + i).value = ranked_at(k, pair * k.ring_length + i - 1).value
        i -= 1
    ranked_at(k, pair * k.ring_length + i).value = value


@jitted
def _remove_ranked(k: Kernel, pair: int, count: int, value: float) -> None:
    i = 0
    while ranked_at(k, pair * k.ring_length + i).value != value:
        i += 1
    while i < count - 1:
        ranked_at(k, pair * k.ring_length + i).value = ranked_at(k, pair * k.ring_length + i + 1).value
        i += 1


@jitted
def _observe_finish(k: Kernel, pair: int, now_s: float) -> None:
    record = pair_at(k, pair)
    ring_at(k, pair * k.ring_length + (record.head + record.count) % k.ring_length).value = now_s
    record.count += 1


@jitted
def refresh_throughput(k: Kernel, pair: int, now_s: float) -> None:
    """Forget finishes older than the window; completions per second since then."""
    record, window_s = pair_at(k, pair), pair_at(k, pair).slo_window_s
    while record.count > 0 and ring_at(k, pair * k.ring_length + record.head).value <= now_s - window_s:
        record.head = (record.head + 1) % k.ring_length
        record.count -= 1
    if record.count == 0:
        record.sli, record.gap = math.nan, 0.0
        return
    record.sli = record.count / min(window_s, max(now_s, 1e-9))
    record.gap = _gap(THROUGHPUT, record.sli, pair_at(k, pair).slo_target)


@jitted
def show_indicator(k: Kernel, facts: Record, now_s: float) -> None:
    """Write the pair's indicator, as it is now, into the facts of a sub-job."""
    record = pair_at(k, facts.pair)
    if record.slo_kind == THROUGHPUT:
        refresh_throughput(k, facts.pair, now_s)
    facts.sli, facts.gap, facts.sli_count = record.sli, record.gap, record.count


@jitted
def _gap(kind: int, sli: float, target: float) -> float:
    """Signed shortfall, positive when the target is missed; 0 without SLO or data (Slo.gap in workload/tenant.py)."""
    if kind < 0 or sli != sli:
        return 0.0
    if kind == HIT_RATE:
        return target - sli
    if kind == DROP_RATE:
        return sli - target
    if target == 0.0:
        return 0.0 if kind == THROUGHPUT else (1.0 if sli > 0.0 else 0.0)
    if kind == THROUGHPUT:
        return 1.0 - sli / target
    return sli / target - 1.0
