"""One sale of Themis: the bids of its apps, the auction, who takes leftovers, and how an app splits what it won."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.cluster.policies.servers import tight_gang
from eunomia.cluster.policies.themis.agent import (
    FINISHES,
    IDEALS,
    UNSERVED,
    App,
    Finish,
    Ideal,
    Rest,
    Single,
    Unserved,
    bid,
)
from eunomia.cluster.policies.themis.arbiter import served
from eunomia.cluster.policies.themis.auction import PAYMENTS, ROUNDINGS, Payment, Rounding, auction
from eunomia.cluster.policies.themis.book import Book, full_left, least_time_s, own_speed
from eunomia.cluster.policies.themis.division import LEVELS
from eunomia.cluster.policies.themis.proportional import Bids, Offer
from eunomia.contract.allocation import ClusterView
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Terms:
    """How rho is read and how a win is paid for; see :class:`~.allocator.Themis`."""

    ideal: Ideal = "share"
    finish: Finish = "all"
    payment: Payment = "lease"
    rounding: Rounding = "floor"
    unserved: Unserved = "wait"
    lease_s: float = 0.0

    @property
    def wait_s(self) -> float:
        """What a bid for nothing takes an app without GPUs to wait for."""
        return self.lease_s if self.unserved == "wait" else 0.0

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("ideal", self.ideal, IDEALS),
            ("finish", self.finish, FINISHES),
            ("payment", self.payment, PAYMENTS),
            ("rounding", self.rounding, ROUNDINGS),
            ("unserved", self.unserved, UNSERVED),
        ):
            if value not in choices:
                raise ConfigError(f"themis: {name} is '{value}'; choose one of: {', '.join(choices)}")


@dataclass(frozen=True)
class Sale:
    """Devices of one type on offer, and who could start on them."""

    view: ClusterView
    column: int
    candidates: Mask  # (M,)
    offer: Offer
    held: Ints  # (M,) type that a job has on lease, -1 = it waits


class Market:
    """The apps of one sale: their bids, and how an app splits what it won."""

    def __init__(self, terms: Terms, book: Book, sale: Sale) -> None:
        self.terms, self.book, self.view, self.column = terms, book, sale.view, sale.column
        view, candidates, self.held = sale.view, sale.candidates, sale.held
        total = int(sale.offer.free.sum())
        self.apps = np.unique(view.app[candidates])
        # speed on this offer, or on what a job holds
        self.speed = np.where(candidates, view.throughput[:, sale.column], own_speed(view, sale.held))
        order = np.argsort(view.app, kind="stable")
        ends = [np.searchsorted(view.app[order], self.apps, side).tolist() for side in ("left", "right")]
        self.rows = [order[start:end] for start, end in zip(*ends, strict=True)]
        self.jobs = [rows[candidates[rows]] for rows in self.rows]
        self.others = [rows[~candidates[rows]] for rows in self.rows]
        self.least = [
            int(view.scale[jobs].min()) for jobs in self.jobs
        ]  # devices that the narrowest gang needs
        self.useful = [min(total, int(view.scale[jobs].sum())) for jobs in self.jobs]
        self.most = max(self.useful)
        self.gain = np.full(len(self.apps), np.nan)  # of a bid: its best V over that for nothing
        self.part = np.ones(len(self.apps))  # of the lease, kept by each
        self.ideal_s = np.array([book.ideal_s(view, app, terms.ideal) for app in self.apps.tolist()])
        self.slowdown = slowdowns(view, np.arange(len(view)), sale.column)
        # rho with the GPUs that an app holds, and if all its jobs ran at once
        self.rho, self.hope = book.rho(view, self.rows, self.held, self.ideal_s, terms.finish)
        self.single = self._singles()

    def _singles(self) -> Single:
        """Bids of all apps as if of one job; read only where that is so."""
        view, job = self.view, np.array([jobs[0] for jobs in self.jobs])
        age_s = np.array([self.book.age_s(view, app) for app in self.apps.tolist()])
        speed = view.throughput[job, self.column][:, None]
        alone_s = view.steps_left[job][:, None] * self.slowdown[job] / speed
        return Single.of(age_s, self.ideal_s, alone_s, self.terms.wait_s)

    def value(self, a: int, had: int = 0) -> Floats:
        """(most + 1, levels) bid of app a for GPUs beyond those it holds and the ``had`` of this sale."""
        view, jobs = self.view, self.jobs[a]
        if had == 0 and len(self.rows[a]) == 1:
            return self.single.bid(a, self.least[a], self.most)
        app = App(
            age_s=self.book.age_s(view, int(self.apps[a])),
            ideal_s=float(self.ideal_s[a]),
            left=view.steps_left[jobs],
            speed=_speeds(view, jobs, self.column, self.useful[a]),
            slowdown=self.slowdown[jobs],
            gang=view.scale[jobs],
            least_s=least_time_s(view, np.concatenate([jobs, self.others[a]]), self.speed),
            rest=self._rest(self.others[a]),
        )
        return bid(app, had, self.most, self.terms.finish, wait_s=self.terms.wait_s)

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

    def auction(self, chosen: Ints, offer: Offer, rng: np.random.Generator) -> Ints:
        """(apps, machines) what bidders won and hold; ``part`` of the lease."""
        grant = np.zeros((len(self.apps), len(offer.free)), np.int64)
        bids = Bids(np.stack([self.value(a) for a in chosen.tolist()]), grant[chosen])
        self.gain[chosen] = bids.value.max(axis=(1, 2)) / bids.value[:, 0, 0]
        gang = np.array(self.least, np.int64)[chosen]
        outcome = auction(bids, offer, gang, self.terms.payment, self.terms.rounding, rng)
        grant[chosen] = outcome.grant
        if self.terms.payment == "lease":
            self.part[chosen] = outcome.kept
        return grant

    def hand_out(self, order: Ints, offer: Offer, beside: Ints | None = None) -> Ints:
        """(apps, machines) what each of ``order`` takes in turn of the free GPUs."""
        grant = np.zeros((len(self.apps), len(offer.free)), np.int64)
        free, number = offer.free.copy(), int(offer.free.sum())
        have = np.zeros(len(grant), np.int64) if beside is None else beside.sum(axis=1)
        for a in order.tolist():
            had = int(have[a])
            if had >= self.useful[a] or (had == 0 and self.least[a] > number):
                continue  # it has all that it can use, or no gang of its fits: fewer devices are worth nothing
            grant[a] = served(self.value(a, had), Offer(free, offer.rack))
            free -= grant[a]
            number = int(free.sum())
            if number == 0:
                break
        return grant

    def split(self, a: int, grant: Ints) -> Ints:
        """(``jobs[a]``, machines) gangs of the app's jobs, each as tight as it can lie.

        ``all``: longest remaining time first, by full budgets, so that a search that may end trials runs them side by
        side; ``first``: shortest first. What fits no gang stays free.
        """
        view, jobs = self.view, self.jobs[a]
        rest, result = grant.copy(), np.zeros((len(jobs), len(grant)), np.int64)
        order = np.zeros(1, np.int64)
        if len(jobs) > 1:
            left_s = full_left(view)[jobs] / view.throughput[jobs, self.column]
            order = np.argsort(-left_s if self.terms.finish == "all" else left_s, kind="stable")
        number = int(rest.sum())
        for k in order.tolist():
            gang = int(view.scale[jobs[k]])
            if gang <= number:
                result[k] = rest if gang == number else tight_gang(rest, gang)
                rest -= result[k]
                number -= gang
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
