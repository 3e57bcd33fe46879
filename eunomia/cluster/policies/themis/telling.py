"""Why Themis gave a job nothing: who bid, at which rho, by which gain and payment; or when its gang will fit."""

from __future__ import annotations

import numpy as np

from eunomia.cluster.policies.themis.book import Leases
from eunomia.cluster.policies.themis.market import Market
from eunomia.contract.allocation import ClusterView
from eunomia.core.arrays import Ints


def of_sale(market: Market, served: Ints, reasons: list[str]) -> None:
    """Fill in ``reasons`` (M,) of the jobs that could have started in this sale and did not; ``served`` (M,) GPUs."""
    rho, part = market.hope, market.part
    kind = market.view.cluster.names[market.column]
    bid = ~np.isnan(market.gain)
    won = np.array([bool(served[jobs].any()) for jobs in market.jobs])
    winners = np.flatnonzero(bid & won)
    for a, jobs in enumerate(market.jobs):
        for job in jobs[served[jobs] == 0].tolist():
            if reasons[job]:
                continue
            if bid[a] and len(winners):
                gain, paid = market.gain[winners], 1.0 - part[winners]
                reasons[job] = (
                    f"lost the auction: its bid for {kind!r} gains {market.gain[a]:.2f} times (rho {rho[a]:.2f} if "
                    f"served), the {len(winners)} winning ones at least {gain.min():.2f}; they pay up to "
                    f"{paid.max():.0%} of the lease"
                )
            elif bid.any():
                reasons[job] = (
                    f"not offered: rho {rho[a]:.2f} if served; {int(bid.sum())} of {len(bid)} apps bid for {kind!r}, "
                    f"from rho {rho[bid].min():.2f} on, and what they left was gone"
                )
            else:
                reasons[job] = f"worse-off apps came first: rho {rho[a]:.2f} if served, for {kind!r}"


def of_misfits(view: ClusterView, free: Ints, leases: Leases, waiting: Ints, reasons: list[str]) -> None:
    """Fill in ``reasons`` of the rows ``waiting`` for whom no type had devices enough, with the time until one has."""
    known: dict[tuple[int, tuple[bool, ...]], str] = {}
    ends: dict[int, tuple[list[float], Ints]] = {}
    for job in waiting.tolist():
        if not reasons[job]:
            gang, can = int(view.scale[job]), view.runnable[job]
            key = gang, tuple(can.tolist())
            if key not in known:
                each = [
                    _room(view, free, gang, j, _ends(view, leases, j, ends))
                    for j in np.flatnonzero(can).tolist()
                ]
                known[key] = f"gang does not fit: it needs {gang}, {'; '.join(each)}"
            reasons[job] = known[key]


def _ends(
    view: ClusterView, leases: Leases, column: int, known: dict[int, tuple[list[float], Ints]]
) -> tuple[list[float], Ints]:
    """Ends of the leases, ascending, and how many devices of a type all up to each have given back."""
    if column not in known:
        mine = view.cluster.server_type == column
        ends = sorted((end_s, int(leases.servers[key][mine].sum())) for key, end_s in leases.until_s.items())
        known[column] = [end_s for end_s, _ in ends], np.cumsum([count for _, count in ends], dtype=np.int64)
    return known[column]


def _room(view: ClusterView, free: Ints, gang: int, column: int, ends: tuple[list[float], Ints]) -> str:
    """Free devices of a type, and when its leases have given back enough."""
    mine = view.cluster.server_type == column
    have = int(free[mine].sum())
    text = f"{have} of {int(view.up[mine].sum())} {view.cluster.names[column]!r} are free"
    until_s, back = ends
    first = int(np.searchsorted(back, gang - have)) if have < gang else len(until_s)
    if first == len(until_s):
        return text
    return text + f", enough by leases in {max(until_s[first] - view.now_s, 0.0) / 60.0:.0f} min"
