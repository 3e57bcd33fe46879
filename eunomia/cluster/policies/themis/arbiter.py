"""Themis' arbiter: which apps see an offer, and who gets what the auction leaves (NSDI 2020, sections 3 and 5)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eunomia.cluster.policies.themis.proportional import Bids, Offer, proportional
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError


def visible(rho: Floats, tie: Floats, fairness: float) -> Ints:
    """Rows of the (1 - f) fraction with the worst rho, at least one app; worst first.

    ``tie`` orders apps of equal rho (all that wait have rho = inf), larger first. f = 0 shows the offer to all.
    """
    if not 0.0 <= fairness <= 1.0:
        raise ConfigError(f"fairness is {fairness}; the knob f must lie in [0, 1]")
    number = min(len(rho), max(1, math.ceil((1.0 - fairness) * len(rho) - 1e-9)))
    order = np.lexsort((np.arange(len(rho)), -tie, -rho))
    return np.asarray(order[:number], np.int64)


def hand_out(value: Floats, order: Ints, offer: Offer) -> Ints:
    """(bidders, machines) what each takes for itself, one after the other, of what those before it left.

    ``value`` (bidders, GPUs + 1, levels); each takes the number and spread of highest value, no idle extra.
    Work-conserving: a bidder that could gain by what is left gets it.
    """
    grant = np.zeros((len(value), len(offer.free)), np.int64)
    free = offer.free.copy()
    for i in order.tolist():
        if not free.any():
            break
        grant[i] = served(value[i], Offer(free, offer.rack))
        free -= grant[i]
    return grant


def served(value: Floats, offer: Offer) -> Ints:
    """(machines,) what one bidder takes for itself; ``value`` (GPUs + 1, levels)."""
    nothing = np.zeros((1, len(offer.free)), np.int64)
    return np.asarray(proportional(Bids(value[None], nothing), offer)[0])


def stay_put(grant: Ints, before: Ints, offer: Offer) -> Ints:
    """The same grants on machines that agree better with where everybody was: fewer moves for the same value.

    ``before`` (bidders, machines). Machines of one rack with equally many GPUs on offer are interchangeable;
    within such a group columns are permuted to maximise sum_i min(grant, before) (assignment problem).
    """
    from scipy.optimize import linear_sum_assignment

    result = grant.copy()
    if not before.any():
        return result
    groups = np.stack([offer.rack, offer.free], axis=1)
    for group in np.unique(groups, axis=0):
        columns: npt.NDArray[np.int64] = np.flatnonzero((groups == group).all(axis=1))
        overlap = np.minimum(grant[:, columns, None], before[:, None, columns]).sum(axis=0)
        if len(columns) > 1 and overlap.any():
            source, target = linear_sum_assignment(overlap, maximize=True)
            result[:, columns[target]] = grant[:, columns[source]]
    return result
