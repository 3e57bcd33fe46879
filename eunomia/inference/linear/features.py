"""Features of all that waits: sums in order of deadline and work, then one straight loop per feature.

The formulas are those of learning/observation/compiled.py, to the bit; the processor does several places at a time.
A feature without a weight, of which no range is known either, is left out.
"""

from __future__ import annotations

from eunomia.inference.kernel.indicators import show_indicator
from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import (
    Kernel,
    facts_at,
    number_at,
    numbers_of,
    order_at,
    term_at,
    waiting_at,
)
from eunomia.inference.kernel.setup import GRACE_S
from eunomia.inference.linear.columns import (
    ARRIVAL,
    BANDWIDTH,
    BY_DUE,
    BY_WORK,
    BYTES_S,
    DATA,
    DUE,
    EDF_BYTES,
    EDF_S,
    ISO,
    LANES,
    LAST_RUN,
    LATE,
    LATEST,
    LAYER,
    LAYER_S,
    LEFT,
    LOG_COST,
    LOG_ISO,
    LOG_WORK,
    N_JOB,
    OUTSIDE,
    OVERALL,
    PATH,
    REQUEST,
    ROW_X,
    SCALE_S,
    SJF_BYTES,
    SJF_S,
    SPARE,
    WANTED,
    WORK,
    WORK_S,
    X,
    own,
    term,
)
from eunomia.learning.observation import table as f
from eunomia.learning.observation.compiled import TINY_S, clip, promise
from eunomia.learning.policy import weights as at

FAR, NOWHERE = f.FAR, float("inf")


@jitted
def time_left(k: Kernel, now_s: float) -> None:
    """Time left, time to spare, and who is hopeless."""
    n, stride = k.num_waiting, k.node_capacity
    left, due, spare, path, late = LEFT * stride, DUE * stride, SPARE * stride, PATH * stride, LATE * stride
    for i in range(n):
        term_at(k, left + i).value = term_at(k, due + i).value - now_s
    for i in range(n):
        term_at(k, spare + i).value = term_at(k, left + i).value - term_at(k, path + i).value
    for i in range(n):
        missed = term_at(k, due + i).value + GRACE_S < now_s + term_at(k, path + i).value
        term_at(k, late + i).value = 1.0 if missed else 0.0


@jitted
def sum_by_deadline(k: Kernel) -> tuple[int, float, float]:
    """Work and bytes of feasible requests with earlier deadlines; (requests, mean isolated time, mean layer)."""
    first, n, i, count = BY_DUE * k.node_capacity, k.num_waiting, 0, 0
    scale_s, layer_s, work, data = 0.0, 0.0, 0.0, 0.0
    while i < n:
        begin, place = i, order_at(k, first + i).value
        request = term(k, REQUEST, place).value
        while i < n and term(k, REQUEST, order_at(k, first + i).value).value == request:
            place = order_at(k, first + i).value
            i += 1
        for j in range(begin, i):
            mine = order_at(k, first + j).value
            term(k, LATEST, mine).value = place
            term(k, EDF_S, mine).value, term(k, EDF_BYTES, mine).value = work, data
        count += 1
        scale_s += term(k, ISO, place).value
        layer_s += term(k, LAYER, place).value
        if term(k, LATE, place).value == 0.0:
            work += term(k, WORK, place).value
            data += term(k, DATA, place).value
    return count, max(scale_s / count, TINY_S), max(layer_s / count, TINY_S)


@jitted
def sum_by_work(k: Kernel) -> None:
    """Work and bytes of feasible requests with strictly less work."""
    begin, n, behind, work, data = BY_WORK * k.node_capacity, k.num_waiting, 0, 0.0, 0.0
    for i in range(n):
        place = order_at(k, begin + i).value
        if term(k, LATEST, place).value != place:
            continue
        other = order_at(k, begin + behind).value
        while term(k, WORK, other).value < term(k, WORK, place).value:
            if term(k, LATEST, other).value == other and term(k, LATE, other).value == 0.0:
                work += term(k, WORK, other).value
                data += term(k, DATA, other).value
            behind += 1
            other = order_at(k, begin + behind).value
        term(k, SJF_S, place).value, term(k, SJF_BYTES, place).value = work, data
    for place in range(n):
        latest = int(term(k, LATEST, place).value)
        if latest != place:
            term(k, SJF_S, place).value = term(k, SJF_S, latest).value
            term(k, SJF_BYTES, place).value = term(k, SJF_BYTES, latest).value


@jitted
def _scaled(k: Kernel, feature: int, column: int, less: float, scale: float, low: float, high: float) -> None:
    """clip((column - less) / scale, low, high)."""
    out, a = (X + feature) * k.node_capacity, column * k.node_capacity
    for i in range(k.num_waiting):
        term_at(k, out + i).value = min(max((term_at(k, a + i).value - less) / scale, low), high)


@jitted
def _ratio(k: Kernel, feature: int, column: int, other: int, more: float, low: float, high: float) -> None:
    """clip(column / (other + more), low, high)."""
    out, a, b = (X + feature) * k.node_capacity, column * k.node_capacity, other * k.node_capacity
    for i in range(k.num_waiting):
        value = term_at(k, a + i).value / (term_at(k, b + i).value + more)
        term_at(k, out + i).value = min(max(value, low), high)


@jitted
def _times(k: Kernel, feature: int, factor: float) -> None:
    out = (X + feature) * k.node_capacity
    for i in range(k.num_waiting):
        term_at(k, out + i).value = factor * term_at(k, out + i).value


@jitted
def _pressed(k: Kernel, feature: int, column: int, parts: float, least_s: float) -> None:
    """min(3, column / parts / max(time to spare, least_s))."""
    out, a, b = (X + feature) * k.node_capacity, column * k.node_capacity, SPARE * k.node_capacity
    for i in range(k.num_waiting):
        need_s = term_at(k, a + i).value / parts
        term_at(k, out + i).value = min(3.0, need_s / max(term_at(k, b + i).value, least_s))


@jitted
def _wanted(k: Kernel, feature: int) -> bool:
    return number_at(k, WANTED + feature).value == 1.0  # type: ignore[no-any-return]


@jitted
def describe(k: Kernel, now_s: float) -> None:
    """Fill the columns of wanted features that time or company changes, but for those of promises."""
    scale_s, layer_s = number_at(k, SCALE_S).value, number_at(k, LAYER_S).value
    lanes, bandwidth = float(k.num_lanes), number_at(k, BANDWIDTH).value
    least_s = 0.5 * layer_s
    if _wanted(k, f.TIME_LEFT):
        _scaled(k, f.TIME_LEFT, LEFT, 0.0, scale_s, -FAR, FAR)
    if _wanted(k, f.LAXITY):
        _scaled(k, f.LAXITY, SPARE, 0.0, scale_s, -FAR, FAR)
    if _wanted(k, f.WORK):
        _scaled(k, f.WORK, WORK, 0.0, scale_s, -NOWHERE, NOWHERE)
    if _wanted(k, f.BYTES):
        _scaled(k, f.BYTES, BYTES_S, 0.0, scale_s, -NOWHERE, NOWHERE)
    if _wanted(k, f.AGE):
        _scaled(k, f.AGE, ARRIVAL, now_s, -scale_s, -NOWHERE, FAR)
    if _wanted(k, f.HOPELESS):
        _scaled(k, f.HOPELESS, LATE, 0.0, 1.0, 0.0, 1.0)
    if _wanted(k, f.LAXITY_RATIO):
        _ratio(k, f.LAXITY_RATIO, SPARE, WORK_S, layer_s, -2.0, 3.0)
        _times(k, f.LAXITY_RATIO, 0.5)
    if _wanted(k, f.TIME_RATIO):
        _ratio(k, f.TIME_RATIO, LEFT, PATH, layer_s, 0.0, 8.0)
        _times(k, f.TIME_RATIO, 0.25)
    if _wanted(k, f.NEAR):
        _scaled(k, f.NEAR, LEFT, 0.0, 120.0 * layer_s, -2.0, 4.0)
    if _wanted(k, f.SJF_PRESSURE):
        _pressed(k, f.SJF_PRESSURE, SJF_S, lanes, least_s)
    if _wanted(k, f.EDF_PRESSURE):
        _pressed(k, f.EDF_PRESSURE, EDF_S, lanes, least_s)
    if _wanted(k, f.SJF_BYTES_PRESSURE):
        _pressed(k, f.SJF_BYTES_PRESSURE, SJF_BYTES, bandwidth, least_s)
    if _wanted(k, f.EDF_BYTES_PRESSURE):
        _pressed(k, f.EDF_BYTES_PRESSURE, EDF_BYTES, bandwidth, least_s)
    if _wanted(k, f.RESTED):
        _scaled(k, f.RESTED, LAST_RUN, now_s, -scale_s, -NOWHERE, 4.0)


@jitted
def describe_sizes(k: Kernel, log_scale: float) -> None:
    """Logarithms: of what is left, of that and its traffic, of the whole."""
    _scaled(k, f.SIZE, LOG_WORK, log_scale, 1.0, -4.0, 4.0)
    _scaled(k, f.COST, LOG_COST, log_scale, 1.0, -4.0, 4.0)
    _scaled(k, f.WHOLE, LOG_ISO, log_scale, 1.0, -4.0, 4.0)


@jitted
def describe_promises(k: Kernel, now_s: float) -> None:
    """What agreements add, as they stand now."""
    x, scale_s = numbers_of(k, LANES)[ROW_X:LANES], number_at(k, SCALE_S).value
    for place in range(k.num_waiting):
        facts = facts_at(k, waiting_at(k, place).value)
        show_indicator(k, facts, now_s)
        x[f.WHOLE], x[f.SIZE] = term(k, X + f.WHOLE, place).value, term(k, X + f.SIZE, place).value
        promise(facts, x, scale_s)
        for feature in f.PROMISED:
            term(k, X + feature, place).value = x[feature]


@jitted
def _tell(k: Kernel, feature: int, value: float) -> None:
    number_at(k, OVERALL + feature).value = value


@jitted
def survey(k: Kernel, idle: int, count: int, demand: float) -> None:
    """Features of the platform. ``count``: waiting requests; ``demand``: D."""
    bandwidth, scale_s = number_at(k, BANDWIDTH).value, number_at(k, SCALE_S).value
    lanes, first, least_s = k.num_lanes, BY_DUE * k.node_capacity, 0.5 * number_at(k, LAYER_S).value
    feasible, crowded, laxity_s, work, data = 0, 0, 0.0, 0.0, 0.0
    for i in range(k.num_waiting):
        place = order_at(k, first + i).value
        if term(k, LATEST, place).value != place or term(k, LATE, place).value != 0.0:
            continue
        feasible += 1
        slack_s = min(term(k, SPARE, place).value, FAR * scale_s)
        laxity_s += slack_s
        work += term(k, WORK, place).value
        data += term(k, DATA, place).value
        need_s = max(term(k, EDF_S, place).value / lanes, term(k, EDF_BYTES, place).value / bandwidth)
        crowded += 1 if need_s > max(slack_s, least_s) else 0
    _tell(k, f.DEMAND_SHARE, min(4.0, demand / bandwidth))
    _tell(k, f.IDLE, idle / lanes)
    _tell(k, f.WAITING, min(8.0, count / lanes))
    _tell(k, f.BACKLOG, min(16.0, work / lanes / scale_s))
    _tell(k, f.BYTES_BACKLOG, min(16.0, data / bandwidth / scale_s))
    _tell(k, f.HOPELESS_SHARE, 1.0 - feasible / count)
    _tell(k, f.MEAN_LAXITY, clip(laxity_s / max(feasible, 1) / scale_s, 0.0, 8.0))
    _tell(k, f.CROWDED, crowded / max(feasible, 1))


@jitted
def outside(k: Kernel) -> int:
    """Most judged features of one feasible sub-job that lie outside the range of training."""
    n, stride, worst = k.num_waiting, k.node_capacity, 0.0
    count, late = OUTSIDE * stride, LATE * stride
    for i in range(n):
        term_at(k, count + i).value = 0.0
    for feature in range(N_JOB):
        low, high, x = own(k, at.LOW + feature), own(k, at.HIGH + feature), (X + feature) * stride
        if low == -NOWHERE and high == NOWHERE:
            continue
        for i in range(n):
            value = term_at(k, x + i).value
            term_at(k, count + i).value += 1.0 if value < low or value > high else 0.0
    for i in range(n):
        if term_at(k, late + i).value == 0.0:
            worst = max(worst, term_at(k, count + i).value)
    return int(worst)
