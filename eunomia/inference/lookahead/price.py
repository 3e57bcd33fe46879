"""The price of work: what a second of the whole platform is worth, in hits of requests to come.

``largest`` and ``mean``: ``price`` hits for the work of that request. ``learned``: the price of the largest request is
a linear function of the state, trained on sampled futures (lessons.py) and kept in ``data/lookahead_price.json``.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from eunomia.inference.kernel.jit import jitted
from eunomia.inference.kernel.memory import Kernel, model_at, pair_at, system_of
from eunomia.inference.lookahead.memory import Workspace, pair_state_at, snapshot_of, worth_at

PRICED = ("largest", "mean", "learned")
LARGEST, MEAN, LEARNED = range(3)
FEATURES = ("one", "load", "even", "backlog", "crowd")  # of the state, in the order of ``feature``


@cache
def worth() -> tuple[float, ...]:
    """The trained weights of FEATURES."""
    text = resources.files("eunomia").joinpath("data/lookahead_price.json").read_text(encoding="utf-8")
    weights = json.loads(text)["weights"]
    return tuple(float(weights[name]) for name in FEATURES)


@jitted
def pair_share_s(ws: Workspace, k: Kernel, pair: int) -> float:
    """Time for which a request of one kind would keep the whole platform busy: its arrays or its memory."""
    model = model_at(k, pair_at(k, pair).model)
    memory_s: float = model.bytes / system_of(k).bandwidth_bytes_s
    arrays_s: float = model.iso_best_s / k.num_lanes
    return max(arrays_s, memory_s)


@jitted
def survey_shares(ws: Workspace, k: Kernel) -> None:
    """The largest request of the kinds seen, and a mean one.

    The largest is the one to give up when room is short: what it would bring per second is what a second is worth.
    """
    largest_s, total_s = 0.0, 0.0
    for pair in range(ws.num_pairs):
        arrived = pair_state_at(ws, pair).arrived
        if arrived > 0:
            share_s = pair_share_s(ws, k, pair)
            largest_s, total_s = max(largest_s, share_s), total_s + arrived * share_s
    ws.largest_s, ws.mean_s = largest_s, total_s / max(1, ws.seen_open)


@jitted
def feature(ws: Workspace, k: Kernel, number: int) -> float:
    """A feature of the state: 1; work that has come per time; mean over largest request; work of the known requests
    per time until the last deadline; known requests per accelerator. The two per time are at most 4.
    """
    now_s = system_of(k).now_s
    if number == 0:
        return 1.0
    if number == 1:
        return min(4.0, ws.seen_open * ws.mean_s / max(now_s, 1e-12))  # type: ignore[no-any-return]
    if number == 2:
        return ws.mean_s / ws.largest_s  # type: ignore[no-any-return]
    if number == 3:
        return min(4.0, ws.left_s / max(ws.until_s - now_s, 1e-12))  # type: ignore[no-any-return]
    return ws.known / k.num_lanes  # type: ignore[no-any-return]


@jitted
def set_price(ws: Workspace) -> None:
    """``price_per_s`` for the rollouts of one snapshot; call after measure_left, with the horizon known."""
    k = snapshot_of(ws)
    survey_shares(ws, k)
    if ws.price_of == MEAN:
        ws.price_per_s = ws.price / ws.mean_s
        return
    price = ws.price
    if ws.price_of == LEARNED:
        price = 0.0
        for number in range(len(FEATURES)):
            price += worth_at(ws, number).value * feature(ws, k, number)
    ws.price_per_s = max(0.0, price) / ws.largest_s
