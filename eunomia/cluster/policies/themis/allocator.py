"""Themis as an allocator: leases, one auction per device type, leftovers; and the strawman beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from eunomia.cluster.policies.servers import tight_gang
from eunomia.cluster.policies.themis.agent import FINISHES, IDEALS, App, Finish, Ideal, Rest, bid
from eunomia.cluster.policies.themis.arbiter import hand_out, stay_put, visible
from eunomia.cluster.policies.themis.auction import ROUNDINGS, Rounding, auction
from eunomia.cluster.policies.themis.book import Book, Leases, full_left, least_time_s, own_speed
from eunomia.cluster.policies.themis.division import LEVELS
from eunomia.cluster.policies.themis.proportional import Bids, Offer
from eunomia.contract.allocation import Allocation, ClusterView, Needs
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

Mask = npt.NDArray[np.bool_]
Mechanism = Literal["auction", "strawman"]
Leftovers = Literal["random", "worst"]


@dataclass
class Themis:
    """Offer free GPUs to the apps that are worst off, by auction, for one lease. NSDI 2020 (see docs/cluster-peers.md).

    ``fairness`` is the knob f: only the (1 - f) fraction of apps with the worst rho may bid. ``lease_s``: how
    long a grant lasts. ``ideal``, ``finish``: what rho means (:mod:`.agent`). ``rounding``: how c_i * G
    becomes whole GPUs (:mod:`.auction`). ``aligned``: leases end at multiples of ``lease_s``, so that much is offered
    at once, instead of each at its own time. ``leftovers``: what the auction leaves goes to apps in random order, as in
    the paper, or to the worst rho first; those outside the auction come first. ``mechanism`` ``strawman``: all free
    GPUs to the worst rho, then the next. Devices of different types are auctioned type by type, the one that suits
    the waiting jobs best first; an app's jobs that won are out of the later auctions.

    An app bids for what it would have with the GPUs that it holds: work left of all its jobs over held and offered
    GPUs (deviation CP30 says how types mix).

    Does badly: with rigid jobs and ``floor``, where a winner of one gang pays with all of it; with long leases,
    where newcomers wait; with f near 1, where there is nobody to trade placements with.
    """

    fairness: float = 0.8
    lease_s: float = 1200.0
    ideal: Ideal = "share"
    finish: Finish = "all"
    rounding: Rounding = "floor"
    mechanism: Mechanism = "auction"
    aligned: bool = False
    leftovers: Leftovers = "random"
    needs: Needs = Needs(answer="devices", every_event=True)
    book: Book = field(default_factory=Book, repr=False)
    leases: Leases = field(default_factory=Leases, repr=False)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("ideal", self.ideal, IDEALS),
            ("finish", self.finish, FINISHES),
            ("rounding", self.rounding, ROUNDINGS),
            ("mechanism", self.mechanism, ("auction", "strawman")),
            ("leftovers", self.leftovers, ("random", "worst")),
        ):
            if value not in choices:
                raise ConfigError(f"themis: {name} is '{value}'; choose one of: {', '.join(choices)}")
        if not 0.0 <= self.fairness <= 1.0:
            raise ConfigError(f"themis: fairness is {self.fairness}; the knob f must lie in [0, 1]")
        if not self.lease_s > 0.0:
            raise ConfigError(f"themis: lease_s is {self.lease_s}; a lease lasts longer than 0 s")

    def reset(self, seed: int) -> None:
        """Forget all leases and histories."""
        self.book, self.leases = Book(), Leases()
        self.rng = np.random.default_rng(seed)

    def allocate(self, view: ClusterView) -> Allocation:
        """Devices and servers: valid leases go on, all that is free is offered."""
        self.book.see(view)
        free, before = self.leases.expire(view)
        waiting = ~self.leases.holds(view)
        for column in _type_order(view, waiting):
            machines = np.flatnonzero((view.cluster.server_type == column) & (free > 0))
            candidates = waiting & view.runnable[:, column] & (view.scale <= free[machines].sum())
            if len(machines) and candidates.any():
                grants = self._sell(view, column, machines, free, candidates, before)
                self.leases.add(view, grants, self._until_s(view.now_s))
                free -= grants.sum(axis=0)
                waiting &= ~grants.any(axis=1)
        return self.leases.answer(view)

    def _until_s(self, now_s: float) -> float:
        """End of a lease granted now."""
        if not self.aligned:
            return now_s + self.lease_s
        return self.lease_s * (math.floor(now_s / self.lease_s + 1e-9) + 1)

    def _sell(
        self, view: ClusterView, column: int, machines: Ints, free: Ints, candidates: Mask, before: Ints
    ) -> Ints:
        """(jobs, servers) GPUs of one type given to jobs."""
        rack = np.unique(view.cluster.server_rack[machines], return_inverse=True)[1].astype(np.int64)
        offer = Offer(free[machines].astype(np.int64), rack)
        apps = np.unique(view.app[candidates])
        market = _Market(self, view, column, candidates, apps, int(offer.free.sum()))
        current, hopeful = self.book.rho(view, apps, market.held, self.ideal, self.finish)
        worst = np.lexsort((-hopeful, -current))
        if self.mechanism == "strawman":
            grant = market.hand_out(worst, offer)
        else:
            chosen = visible(current, hopeful, self.fairness)
            grant = market.auction(chosen, offer)
            outside = worst[np.isin(worst, chosen, invert=True)]
            for group in (outside, chosen):  # first those outside, then nobody idles
                if self.leftovers == "random":
                    group = self.rng.permutation(np.sort(group) if group is outside else group)
                rest = Offer(offer.free - grant.sum(axis=0), rack)
                grant += market.hand_out(group, rest, beside=grant)
        was = np.stack([before[view.app == app][:, machines].sum(axis=0) for app in apps])
        grant = stay_put(grant, was, offer)
        result = np.zeros((len(view), len(view.up)), np.int64)
        for a in np.flatnonzero(grant.any(axis=1)).tolist():
            result[:, machines] += market.split(a, grant[a])
        rest = free[machines] - result[:, machines].sum(axis=0)  # gangs that did not fit their app's grant
        for job in self.rng.permutation(np.flatnonzero(candidates & ~result.any(axis=1))).tolist():
            if view.scale[job] <= rest.sum():
                result[job, machines] = tight_gang(rest, int(view.scale[job]))
                rest -= result[job, machines]
        return result


def strawman(lease_s: float = 1200.0, ideal: Ideal = "share", finish: Finish = "all") -> Themis:
    """Themis without auctions: worst rho first, each takes all it can use, for one lease."""
    return Themis(lease_s=lease_s, ideal=ideal, finish=finish, mechanism="strawman")


class _Market:
    """The apps of one sale: their bids, made at first use, and how an app splits what it won."""

    def __init__(
        self, policy: Themis, view: ClusterView, column: int, candidates: Mask, apps: Ints, total: int
    ) -> None:
        self.policy, self.view, self.column, self.apps = policy, view, column, apps
        self.held = policy.leases.column(view)
        own = own_speed(view, self.held)
        self.speed = np.where(
            candidates, view.throughput[:, column], own
        )  # of this offer, or of what a job holds
        every = [np.flatnonzero(view.app == app) for app in apps]
        self.jobs = [rows[candidates[rows]] for rows in every]
        self.others = [rows[~candidates[rows]] for rows in every]
        self.useful = [min(total, int(view.scale[jobs].sum())) for jobs in self.jobs]
        self.most = max(self.useful)

    def value(self, a: int, had: int = 0) -> Floats:
        """(most + 1, levels) bid of app a for GPUs beyond those it holds and the ``had`` of this sale."""
        view, jobs = self.view, self.jobs[a]
        app = App(
            age_s=float(view.now_s - self.policy.book.start_s[int(self.apps[a])]),
            ideal_s=self.policy.book.ideal_s(view, int(self.apps[a]), self.policy.ideal),
            left=view.steps_left[jobs],
            speed=_speeds(view, jobs, self.column, self.useful[a]),
            slowdown=slowdowns(view, jobs, self.column),
            gang=view.scale[jobs],
            least_s=least_time_s(view, np.concatenate([jobs, self.others[a]]), self.speed),
            rest=self._rest(self.others[a]),
        )
        return bid(app, had, self.most, self.policy.finish)

    def _rest(self, others: Ints) -> Rest:
        """Jobs of an app that run, or that can start on nothing of this offer."""
        if not len(others):
            return Rest()
        runs = others[self.held[others] >= 0]
        left_s, scale = self.view.steps_left / self.speed, self.view.scale
        return Rest(
            gpus=int(scale[runs].sum()),
            longest_s=float(left_s[others].max()),
            work_s=float(left_s[others] @ scale[others]),
            soonest_s=float(left_s[runs].min(initial=math.inf)),
        )

    def auction(self, chosen: Ints, offer: Offer) -> Ints:
        """(apps, machines) what bidders won and kept."""
        grant = np.zeros((len(self.apps), len(offer.free)), np.int64)
        bids = Bids(np.stack([self.value(a) for a in chosen.tolist()]), grant[chosen])
        gang = np.array([self.view.scale[self.jobs[a]].min() for a in chosen.tolist()], np.int64)
        outcome = auction(bids, offer, gang, self.policy.rounding, self.policy.rng)
        grant[chosen] = outcome.grant
        return grant

    def hand_out(self, order: Ints, offer: Offer, beside: Ints | None = None) -> Ints:
        """(apps, machines) what each of ``order`` takes in turn of the free GPUs."""
        grant = np.zeros((len(self.apps), len(offer.free)), np.int64)
        free = offer.free.copy()
        for a in order.tolist():
            if not free.any():
                break
            had = 0 if beside is None else int(beside[a].sum())
            if had < self.useful[a]:
                value = self.value(a, had)[None]
                grant[a] = hand_out(value, np.zeros(1, np.int64), Offer(free, offer.rack))[0]
                free -= grant[a]
        return grant

    def split(self, a: int, grant: Ints) -> Ints:
        """(jobs of the view, machines) gangs of the app's jobs, each as tight as it can lie.

        ``all``: longest remaining time first, by full budgets, so that a search that may end trials runs them side by
        side; ``first``: shortest first. What fits no gang stays free.
        """
        view, jobs = self.view, self.jobs[a]
        left_s = full_left(view)[jobs] / view.throughput[jobs, self.column]
        order = np.argsort(-left_s if self.policy.finish == "all" else left_s, kind="stable")
        rest, result = grant.copy(), np.zeros((len(view), len(grant)), np.int64)
        for job in jobs[order].tolist():
            if view.scale[job] <= rest.sum():
                result[job] = tight_gang(rest, int(view.scale[job]))
                rest -= result[job]
        return result


def slowdowns(view: ClusterView, jobs: Ints, column: int) -> Floats:
    """(jobs, levels) S by spread: 1 on as few machines as possible; traits ``slowdown_rack``, ``slowdown_cross``.

    A level that is not said costs what the one below costs. A gang that no machine holds pays nothing in a rack.
    """
    result = np.ones((len(jobs), LEVELS))
    largest = view.cluster.server_size[view.cluster.server_type == column].max()
    for level, name in ((1, "slowdown_rack"), (2, "slowdown_cross")):
        said = view.traits.get(name, np.full(len(view), np.nan))[jobs]
        result[:, level] = np.where(np.isnan(said), result[:, level - 1], said)
    result[view.scale[jobs] > largest, 1] = 1.0
    return result


def _speeds(view: ClusterView, jobs: Ints, column: int, gpus: int) -> Floats:
    """(jobs, gpus + 1) steps/s by number of GPUs: 0 below the gang, no faster above it."""
    enough = np.arange(gpus + 1)[None, :] >= view.scale[jobs][:, None]
    return np.where(enough, view.throughput[jobs, column][:, None], 0.0)


def _type_order(view: ClusterView, waiting: Mask) -> list[int]:
    """Columns, the type on which the waiting jobs run best (relative to their own best) first."""
    if not waiting.any():
        return []
    speed = np.where(view.runnable, view.throughput, 0.0)[waiting]
    relative = speed / np.maximum(speed.max(axis=1, keepdims=True), 1e-300)
    return [int(j) for j in np.argsort(-relative.mean(axis=0), kind="stable")]
