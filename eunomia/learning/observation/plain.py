"""The features as plain NumPy over a View: the obvious form that the compiled one is tested against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eunomia.contract.view import View
from eunomia.core.arrays import Floats, Tensor
from eunomia.learning.observation.table import FAR, GLOBAL, JOB, LOST_GAP, MARGIN, PAIR


def observe(view: View) -> tuple[Floats, Floats]:
    """(n, JOB) and (GLOBAL,) features; formulas in ``table``."""
    r, now, bandwidth = view.ready, view.now_s, float(view.system["bandwidth_bytes_s"])
    lanes = len(view.accelerators)
    order = np.lexsort([r["sequence"], r["request"]])
    last = np.append(np.diff(r["request"][order]) != 0, True)
    waiting = r[order[last]]  # one row per request: its latest sub-job
    mine = np.searchsorted(waiting["request"], r["request"])
    scale = float(waiting["iso_best_s"].mean())
    layer = float((waiting["iso_best_s"] / waiting["layers_total"]).mean())
    laxity: Floats = r["deadline_s"] - now - r["path_best_s"]
    feasible = waiting["late"] == 0
    shorter = waiting["work_best_s"][None, :] < waiting["work_best_s"][:, None]
    due, number = waiting["deadline_s"], waiting["request"]
    earlier = (due[None, :] < due[:, None]) | (
        (due[None, :] == due[:, None]) & (number[None, :] < number[:, None])
    )

    def ahead(goes_before: npt.NDArray[np.bool_], what: str) -> Floats:
        return np.asarray((goes_before & feasible[None, :]) @ waiting[what], np.float64)

    def pressure(need_s: Floats, laxity_s: Floats) -> Floats:
        return np.minimum(3.0, need_s / np.maximum(laxity_s, 0.5 * layer))

    with np.errstate(divide="ignore"):
        tightness = np.log((r["deadline_s"] - r["arrival_s"]) / r["iso_best_s"])
    known = ~np.isnan(r["slo"]) & (r["sli_count"] > 0)
    gap = np.where(known, np.clip(r["gap"], -1.0, 1.0), 0.0)
    work_s, bytes_s = r["work_best_s"], r["bytes_left"] / bandwidth
    owed = gap * np.where(known, r["sli_count"], 0)
    size = np.clip(np.log(work_s / scale), -4.0, 4.0)
    whole = np.clip(np.log(r["iso_best_s"] / scale), -4.0, 4.0)
    columns: dict[str, Tensor] = {
        "time_left": np.clip((r["deadline_s"] - now) / scale, -FAR, FAR),
        "laxity": np.clip(laxity / scale, -FAR, FAR),
        "work": work_s / scale,
        "bytes": bytes_s / scale,
        "age": np.minimum((now - r["arrival_s"]) / scale, FAR),
        "hopeless": r["late"],
        "laxity_ratio": 0.5 * np.clip(laxity / (work_s + layer), -2.0, 3.0),
        "time_ratio": 0.25 * np.clip((r["deadline_s"] - now) / (r["path_best_s"] + layer), 0.0, 8.0),
        "near": np.clip((r["deadline_s"] - now) / (120.0 * layer), -2.0, 4.0),
        "sjf_pressure": pressure(ahead(shorter, "work_best_s")[mine] / lanes, laxity),
        "edf_pressure": pressure(ahead(earlier, "work_best_s")[mine] / lanes, laxity),
        "sjf_bytes_pressure": pressure(ahead(shorter, "bytes_left")[mine] / bandwidth, laxity),
        "edf_bytes_pressure": pressure(ahead(earlier, "bytes_left")[mine] / bandwidth, laxity),
        "done": np.clip(1.0 - work_s / r["iso_best_s"], 0.0, 1.0),
        "tightness": np.clip(tightness, -2.0, 4.0),
        "intensity": np.minimum(4.0, bytes_s / work_s),
        "size": size,
        "cost": np.clip(np.log((work_s / lanes + bytes_s) / (scale / lanes)), -4.0, 4.0),
        "rested": np.minimum(4.0, (now - r["last_run_s"]) / scale),
        "started": r["attained_s"] > 0.0,
        "gap": gap,
        "shortfall": np.maximum(0.0, gap),
        "below": known & (gap + MARGIN > 0.0),
        "lost": known & (gap > LOST_GAP),
        "target": np.where(np.isnan(r["slo"]), 0.0, np.clip(r["slo"], 0.0, 1.0)),
        "filled": np.minimum(1.0, r["sli_count"] / 100.0),
        "gap_deadline": np.where(known, gap, -1.0)
        * np.minimum((r["deadline_s"] - r["arrival_s"]) / scale, FAR),
        "weight": np.clip(np.log(r["weight"]), -4.0, 4.0),
        "owed": np.minimum(4.0, np.log(1.0 + np.maximum(0.0, owed))),
        "spare": np.minimum(4.0, np.log(1.0 + np.maximum(0.0, -owed))),
        "sinks": known & (owed > -1.0) & (owed <= 0.0),
        "thin": (owed > -3.0) & (owed <= -1.0),
        "close": (owed > 0.0) & (owed < 2.0),
        "whole": whole,
        "needy_whole": np.where(known & (owed > -1.0), whole, 0.0),
        "needy_size": np.where(known & (owed > -1.0), size, 0.0),
    }
    jobs = np.column_stack([np.asarray(columns[name], np.float64) for name in JOB])
    slack = np.minimum(due - now - waiting["path_best_s"], FAR * scale)
    pressed = np.maximum(
        pressure(ahead(earlier, "work_best_s") / lanes, slack),
        pressure(ahead(earlier, "bytes_left") / bandwidth, slack),
    )
    some = max(int(feasible.sum()), 1)
    survey = {
        "demand_share": min(4.0, float(view.system["demand_bytes_s"]) / bandwidth),
        "idle": len(view.idle) / lanes,
        "waiting": min(8.0, len(waiting) / lanes),
        "backlog": min(16.0, waiting["work_best_s"][feasible].sum() / lanes / scale),
        "bytes_backlog": min(16.0, waiting["bytes_left"][feasible].sum() / bandwidth / scale),
        "hopeless_share": 1.0 - feasible.mean(),
        "mean_laxity": np.clip(slack[feasible].sum() / some / scale, 0.0, 8.0),
        "crowded": (pressed[feasible] > 1.0).sum() / some,
    }
    return jobs, np.array([survey[name] for name in GLOBAL], np.float64)


def pair_features(view: View, index: int, running: float) -> Floats:
    """(S, PAIR) features of one sub-job on every accelerator; nan where it cannot run. ``running``: D."""
    job, bandwidth = view.ready[index], float(view.system["bandwidth_bytes_s"])
    c, b = view.latency_s[index], view.demand_bytes_s[index]
    layer = _mean_layer_s(view)
    finish = (view.accelerators["free_in_s"] + c) * max(1.0, running / bandwidth)
    laxity = job["deadline_s"] - view.now_s - job["path_best_s"]
    extra = finish - c.min()
    last = view.accelerators["last_request"]
    columns: dict[str, Tensor] = {
        "slower": np.log(c / c.min()),
        "later": np.minimum(4.0, finish / finish.min() - 1.0),
        "demand": np.minimum(4.0, b / bandwidth),
        "overflow": np.clip((running + b) / bandwidth - 1.0, 0.0, 4.0),
        "laxity_after": 0.5 * np.clip((laxity - extra) / (job["work_best_s"] + layer), -2.0, 3.0),
        "would_miss": laxity < extra,
        "switch": (last >= 0) & (last != job["request"]),
    }
    table = np.column_stack([np.asarray(columns[name], np.float64) for name in PAIR])
    return np.where(np.isfinite(c)[:, None], table, np.nan)


def _mean_layer_s(view: View) -> float:
    _, first = np.unique(view.ready["request"], return_index=True)
    rows = view.ready[first]
    return float((rows["iso_best_s"] / rows["layers_total"]).mean())
