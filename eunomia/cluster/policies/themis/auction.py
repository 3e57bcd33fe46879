"""Themis' partial-allocation auction: proportional fairness, hidden payments, whole GPUs (NSDI 2020, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.cluster.policies.themis.division import give_back
from eunomia.cluster.policies.themis.proportional import Bids, Offer, log_values, proportional
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

Payment = Literal["lease", "devices", "none"]
PAYMENTS: tuple[Payment, ...] = ("lease", "devices", "none")
Rounding = Literal["floor", "lottery"]
ROUNDINGS: tuple[Rounding, ...] = ("floor", "lottery")

SLACK = 1e-9  # c * n this close below a whole number counts as that number


@dataclass(frozen=True)
class Outcome:
    """What an auction decided."""

    fair: Ints  # (bidders, machines) proportionally fair grants, before payment
    kept: Floats  # (bidders,) c_i, the fraction kept; 1 - c_i is the hidden payment
    grant: Ints  # (bidders, machines) grants after payment, in whole GPUs
    left: Ints  # (machines,) GPUs of the offer that nobody was granted


def auction(
    bids: Bids,
    offer: Offer,
    gang: Ints | None = None,
    payment: Payment = "lease",
    rounding: Rounding = "floor",
    rng: np.random.Generator | None = None,
) -> Outcome:
    """One auction: PF grants G, kept fractions c, and what the winners hold after their hidden payment.

    c_i = prod_{j!=i} V_j(G_j) / prod_{j!=i} V_j(G_j without i) <= 1: what i leaves to the others by being
    there. k + 1 solves for k bidders; each solve without i starts from the full solution, so c_i <= 1 holds
    exactly. Source: Themis, section 3.3; the mechanism is that of Cole, Gkatzelis, Goel (EC 2013).

    ``payment``: how 1 - c_i is withheld.

    * ``lease``: G_i stays whole, for c_i times the lease. Time is divisible, so a winner's value is c_i V_i(G_i)
      whatever its valuation, which is what the proof of truthfulness asks for: c_i V_i(G_i) is the product of all
      values over a number that i's report does not touch, and the true report maximises that product. It holds as
      far as the division is optimal, nothing is worth nothing, and one auction is all that counts.
    * ``devices``: c_i G_i, as in the paper, for the whole lease. The proof asks for V(c G) = c V(G), which no rigid
      gang has: ``floor`` grants floor(c_i n_i), cut to a multiple of ``gang`` (bidders,) GPUs (default 1). A
      winner of one gang gets nothing then unless c_i = 1. ``lottery`` decides the fraction of a gang that is left over
      by a draw from ``rng``, so that c_i n_i is met in expectation.
    * ``none``: everybody keeps all, and lying may pay.
    """
    for name, value, choices in (("payment", payment, PAYMENTS), ("rounding", rounding, ROUNDINGS)):
        if value not in choices:
            raise ConfigError(f"{name} is '{value}'; choose one of: {', '.join(choices)}")
    if payment == "devices" and rounding == "lottery" and rng is None:
        raise ConfigError("rounding 'lottery' draws lots: pass a generator as rng")
    fair = proportional(bids, offer)
    kept = np.ones(len(bids)) if payment == "none" else kept_fractions(bids, offer, fair)
    grant, free = fair.copy(), np.asarray(offer.free - fair.sum(axis=0))
    if payment == "devices":
        for i, won in enumerate(fair.sum(axis=1).tolist()):
            unit = int(gang[i]) if gang is not None else 1
            whole = rounded(kept[i] * won, unit, won, rng if rounding == "lottery" else None)
            give_back(bids.held[i] + grant[i], grant[i], free, won - whole)
    return Outcome(fair, kept, grant, free)


def kept_fractions(bids: Bids, offer: Offer, fair: Ints) -> Floats:
    """(bidders,) c_i of the proportionally fair grants ``fair``; 1 for a bidder that nobody competes with."""
    values = log_values(bids, offer, fair)
    kept = np.ones(len(bids))
    for i in range(len(bids)):
        others = np.arange(len(bids)) != i
        alone = Bids(bids.value[others], bids.held[others])
        without = proportional(alone, offer, fair[others])
        kept[i] = min(1.0, math.exp(values[others].sum() - log_values(alone, offer, without).sum()))
    return kept


def rounded(amount: float, unit: int, most: int, rng: np.random.Generator | None) -> int:
    """``amount`` GPUs in whole units, at most ``most``: rounded down, or by lot with ``rng``."""
    units = amount / unit
    whole = math.floor(units + SLACK)
    if rng is not None and rng.random() < units - whole:
        whole += 1
    return min(whole * unit, most)
