"""What whoever sent an input that holds a device for too long may send instead."""

from __future__ import annotations

import math

from eunomia.serving.dispatch.costs import CostBook
from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.dispatch.shapes import growth
from eunomia.serving.dispatch.state import State
from eunomia.serving.protocol.errors import TooLong


def less(costs: CostBook, job: Job, bound_s: float) -> str:
    """Fewer rows, or of one row a shorter input: the one that grew most from a size that is short enough."""
    if job.all_rows > 1:
        return "send fewer rows"
    there = costs.classes(job.network)
    wanted = next((one for one in there if one.first_row == job.cost_row), None)
    if wanted is None or len(job.shapes) != len(wanted.sizes):
        return "send a shorter input"
    short = [
        one
        for one in there
        if one.rows == 0
        and costs.evident(one.first_row)
        and costs.longest_s(job.network, one.first_row) <= bound_s
    ]
    nearest = min(short, key=lambda one: growth(one, wanted), default=wanted)
    times = [now / then for now, then in zip(wanted.sizes, nearest.sizes, strict=True)]
    if max(times, default=1.0) <= 1.0:
        return "send a shorter input"
    n = times.index(max(times))
    return (
        f"send a shorter '{job.shapes[n][0]}' ({nearest.sizes[n]} elements pass, this has {wanted.sizes[n]})"
    )


def ended(state: State, job: Job, held_s: float) -> TooLong:
    """Its run was, in its midst."""
    patience_s, text = (
        state.patience_s(job),
        f"network '{job.network.name}' was ended after {held_s * 1e3:.0f} ms",
    )
    if patience_s == math.inf:
        return TooLong(
            f"{text}: this input holds its device for too long; {less(state.costs, job, patience_s)}"
        )
    return TooLong(
        f"{text}: this input may hold its device for {patience_s * 1e3:.0f} ms without a pause, as others wait; "
        f"{less(state.costs, job, patience_s)}"
    )
