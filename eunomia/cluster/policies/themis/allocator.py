"""Themis as an allocator: leases, one auction per device type, leftovers; and the strawman beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from eunomia.cluster.policies.servers import tight_gang
from eunomia.cluster.policies.themis.agent import Finish, Ideal, Unserved
from eunomia.cluster.policies.themis.arbiter import stay_put, visible
from eunomia.cluster.policies.themis.auction import Payment, Rounding
from eunomia.cluster.policies.themis.book import Book, Leases
from eunomia.cluster.policies.themis.market import Market, Mask, Sale, Terms
from eunomia.cluster.policies.themis.proportional import Offer
from eunomia.cluster.policies.themis.telling import of_misfits, of_sale
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Ints
from eunomia.core.errors import ConfigError

Mechanism = Literal["auction", "strawman"]
MECHANISMS: tuple[Mechanism, ...] = ("auction", "strawman")
Leftovers = Literal["random", "worst"]
LEFTOVERS: tuple[Leftovers, ...] = ("random", "worst")


@dataclass
class Themis:
    """Offer free GPUs to the apps that are worst off, by auction, for one lease. NSDI 2020 (see docs/cluster-peers.md).

    ``fairness`` is the knob f: only the (1 - f) fraction of apps with the worst rho may bid. ``lease_s``: how
    long a grant lasts. ``ideal``, ``finish``: what rho means (:mod:`.agent`). ``payment``: what a winner gives up of
    what it won, time of the lease or devices; ``rounding``: how the devices become whole (:mod:`.auction`).
    ``unserved``: what a bid for nothing is worth: the app's rho after a wait of one lease, or a floor (:mod:`.agent`).
    ``aligned``: leases end at multiples of ``lease_s``, so that much is offered at once, and wide gangs find room;
    else each at its own time. ``leftovers``: what the auction leaves goes to the worst rho first, or to apps in random
    order; those outside the auction come first. ``mechanism`` ``strawman``: all free GPUs to the worst rho, then the
    next. Devices of different types are auctioned type by type, the one that suits the waiting jobs best first; an
    app's jobs that won are out of the later auctions.

    The paper's form is ``payment="devices", unserved="floor", leftovers="random", aligned=False, lease_s=1200``.

    An app bids for what it would have with the GPUs that it holds: work left of all its jobs over held and offered
    GPUs (deviation CP30 says how types mix). What it declares binds it (:class:`.book.Book`).

    Does badly: with ``payment="devices"`` and gangs, where a winner of one gang pays with all of it; with long leases,
    where newcomers wait; with f near 1, where there is nobody to trade placements with.
    """

    fairness: float = 0.8
    lease_s: float = 600.0
    ideal: Ideal = "share"
    finish: Finish = "all"
    payment: Payment = "lease"
    rounding: Rounding = "floor"
    mechanism: Mechanism = "auction"
    aligned: bool = True
    leftovers: Leftovers = "worst"
    unserved: Unserved = "wait"
    needs: Needs = Needs(answer="devices", every_event=True)
    book: Book = field(default_factory=Book, init=False, repr=False)
    leases: Leases = field(default_factory=Leases, init=False, repr=False)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), init=False, repr=False)
    terms: Terms = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.terms = Terms(self.ideal, self.finish, self.payment, self.rounding, self.unserved, self.lease_s)
        for name, value, choices in (
            ("mechanism", self.mechanism, MECHANISMS),
            ("leftovers", self.leftovers, LEFTOVERS),
        ):
            if value not in choices:
                raise ConfigError(f"themis: {name} is '{value}'; choose one of: {', '.join(choices)}")
        if not 0.0 <= self.fairness <= 1.0:
            raise ConfigError(f"themis: fairness is {self.fairness}; the knob f must lie in [0, 1]")
        if not 0.0 < self.lease_s < math.inf:
            raise ConfigError(
                f"themis: lease_s is {self.lease_s}; a lease lasts longer than 0 s, but not for ever"
            )

    def reset(self, seed: int) -> None:
        """Forget all leases and histories."""
        self.book, self.leases = Book(), Leases()
        self.rng = np.random.default_rng(seed)

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices and servers: valid leases go on, all that is free is offered."""
        self.book.see(view)
        free, before = self.leases.expire(view)
        waiting, reasons = ~self.leases.holds(view), [""] * len(view)
        for column in _type_order(view, waiting):
            machines = np.flatnonzero((view.cluster.server_type == column) & (free > 0))
            candidates = waiting & view.runnable[:, column] & (view.scale <= free[machines].sum())
            if len(machines) and candidates.any():
                sale = Sale(view, column, candidates, _offer(view, machines, free), self.leases.column(view))
                market = Market(self.terms, self.book, sale)
                grants = self._sell(market, sale, machines, before)
                of_sale(market, grants.sum(axis=1), reasons)
                place = np.minimum(
                    np.searchsorted(market.apps, view.app), len(market.apps) - 1
                )  # of their jobs
                lease_s = self._until_s(view.now_s) - view.now_s
                self.leases.add(view, grants, view.now_s + market.part[place] * lease_s)
                free -= grants.sum(axis=0)
                waiting &= ~grants.any(axis=1)
        of_misfits(view, free, self.leases, np.flatnonzero(waiting), reasons)
        held = self.leases.holds(view).tolist()
        told = tuple("" if has else text for has, text in zip(held, reasons, strict=True))
        return replace(self.leases.answer(view), reasons=told)

    def _until_s(self, now_s: float) -> float:
        """End of a lease granted now."""
        if not self.aligned:
            return now_s + self.lease_s
        return self.lease_s * (math.floor(now_s / self.lease_s + 1e-9) + 1)

    def _sell(self, market: Market, sale: Sale, machines: Ints, before: Ints) -> Ints:
        """(jobs, servers) GPUs of one type given to jobs."""
        view, offer = sale.view, sale.offer
        grant = self._shares(market, offer)
        mine = before[:, machines]
        grant = stay_put(grant, np.stack([mine[rows].sum(axis=0) for rows in market.rows]), offer)
        given = np.zeros((len(view), len(machines)), np.int64)
        for a in np.flatnonzero(grant.any(axis=1)).tolist():
            given[market.jobs[a]] = market.split(a, grant[a])
        rest = offer.free - given.sum(axis=0)  # gangs that did not fit their app's grant
        for job in self.rng.permutation(np.flatnonzero(sale.candidates & ~given.any(axis=1))).tolist():
            if view.scale[job] <= rest.sum():
                given[job] = tight_gang(rest, int(view.scale[job]))
                rest -= given[job]
        result = np.zeros((len(view), len(view.up)), np.int64)
        result[:, machines] = given
        return result

    def _shares(self, market: Market, offer: Offer) -> Ints:
        """(apps, machines) GPUs of the offer for each app."""
        worst = np.lexsort((-market.hope, -market.rho))
        if self.mechanism == "strawman":
            return market.hand_out(worst, offer)
        chosen = visible(market.rho, market.hope, self.fairness)
        grant = market.auction(chosen, offer, self.rng)
        outside = worst[np.isin(worst, chosen, invert=True)]
        for group in (outside, chosen):  # first those outside, then nobody idles
            if self.leftovers == "random":
                group = self.rng.permutation(np.sort(group) if group is outside else group)
            rest = Offer(offer.free - grant.sum(axis=0), offer.rack)
            grant += market.hand_out(group, rest, beside=grant)
        return grant


def strawman(
    lease_s: float = 600.0, ideal: Ideal = "share", finish: Finish = "all", aligned: bool = False
) -> Themis:
    """Themis without auctions: worst rho first, each takes all it can use, for one lease."""
    return Themis(lease_s=lease_s, ideal=ideal, finish=finish, aligned=aligned, mechanism="strawman")


def _offer(view: ClusterView, machines: Ints, free: Ints) -> Offer:
    """The free GPUs of these machines, with racks numbered from 0."""
    rack = np.unique(view.cluster.server_rack[machines], return_inverse=True)[1].astype(np.int64)
    return Offer(free[machines].astype(np.int64), rack)


def _type_order(view: ClusterView, waiting: Mask) -> list[int]:
    """Columns, the type on which the waiting jobs run best (relative to their own best) first."""
    if not waiting.any():
        return []
    speed = np.where(view.runnable, view.throughput, 0.0)[waiting]
    relative = speed / np.maximum(speed.max(axis=1, keepdims=True), 1e-300)
    return [int(j) for j in np.argsort(-relative.mean(axis=0), kind="stable")]
