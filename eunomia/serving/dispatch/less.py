"""What whoever sent an input that holds a device for too long may send instead."""

from __future__ import annotations

import math

from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.shapes import floor_of, grown
from eunomia.serving.dispatch.state import State
from eunomia.serving.protocol.errors import TooLong


def less(costs: CostBook, job: Job, bound_s: float) -> str:
    """Fewer rows, or of one row a shorter input: the one that grew most from a size that is short enough.

    Others may have sent that size: here stands the least of its class.
    """
    if job.all_rows > 1:
        return "send fewer rows"
    there = costs.classes(job.network)
    wanted = next((one for one in there if one.first_row == job.cost_row), None)
    if wanted is None or not len(job.shapes) == len(job.sizes) == len(wanted.sizes):
        return "send a shorter input"
    short = [
        one
        for one in there
        if one.rows == 0
        and len(one.sizes) == len(wanted.sizes)
        and costs.fine(job.network, one.first_row)
        and costs.evident(one.first_row)
        and costs.longest_s(job.network, one.first_row) <= bound_s
    ]
    nearest = min(short, key=lambda one: grown([one], wanted)[0], default=wanted)
    times = [now / floor_of(then) for now, then in zip(job.sizes, nearest.sizes, strict=True)]
    n = times.index(max(times, default=1.0)) if times else 0
    if not times or times[n] <= 1.0 or nearest is wanted:
        return "send a shorter input"
    return f"send a shorter '{job.shapes[n][0]}' ({floor_of(nearest.sizes[n])} elements pass, this has {job.sizes[n]})"


def ended(state: State, job: Job, held_s: float) -> TooLong:
    """Its run was, in its midst. Where its size is known to be short, a shorter input would be no remedy."""
    costs, patience_s = state.costs, state.patience_s(job)
    usual_s = (
        costs.longest_s(job.network, job.cost_row) * job.rows if costs.evident(job.cost_row) else math.inf
    )
    if usual_s <= min(patience_s, held_s):
        remedy = f"others of its size take {usual_s * 1e3:.0f} ms, so its values make the difference"
    else:
        remedy = less(costs, job, patience_s)
    text = f"network '{job.network.name}' was ended after {held_s * 1e3:.0f} ms"
    if patience_s == math.inf:
        return TooLong(f"{text}: this input holds its device for too long; {remedy}")
    may = f"may hold its device for {patience_s * 1e3:.0f} ms without a pause, for the deadlines of others"
    return TooLong(f"{text}: this input {may}; {remedy}")
