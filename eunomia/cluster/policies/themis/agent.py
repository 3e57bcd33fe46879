"""Themis' agent: finish-time fairness rho of an app, and the bids made of it (NSDI 2020, section 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.cluster.policies.themis.division import LEVELS
from eunomia.core.arrays import Floats, Ints

Ideal = Literal["share", "contention"]
Finish = Literal["all", "first"]
Unserved = Literal["wait", "floor"]
UNSERVED: tuple[Unserved, ...] = ("wait", "floor")
IDEALS: tuple[Ideal, ...] = ("share", "contention")
FINISHES: tuple[Finish, ...] = ("all", "first")

FLOOR = 1e-3  # least bid, relative to the app's best bid; scaling a bid scales its floor


@dataclass(frozen=True, slots=True)
class Rest:
    """An app's jobs that an offer does not concern: those that run on leases, and those that fit on none of it.

    ``gpus`` they hold; ``longest_s`` the longest time left among them, each alone on its gang; ``work_s`` their
    GPU-seconds left; ``soonest_s`` when the first of those that run would end.
    """

    gpus: int = 0
    longest_s: float = 0.0
    work_s: float = 0.0
    soonest_s: float = math.inf


@dataclass(frozen=True, slots=True)
class App:
    """One app on devices of one type: its jobs' remaining work, and what it has had so far.

    Of the jobs that could start on the offer: ``left`` (jobs,) steps to do; ``speed`` (jobs, GPUs + 1) steps/s
    consolidated on n GPUs, never falling with n; ``slowdown`` (jobs, levels) S >= 1 by spread; ``gang`` (jobs,) GPUs a
    job asks for. ``rest``: its other jobs and the GPUs these hold. ``least_s``: time that the app needs whatever its
    search decides, as one trial runs to its end.
    """

    age_s: float
    ideal_s: float
    left: Floats
    speed: Floats
    slowdown: Floats
    gang: Ints
    least_s: float = 0.0
    rest: Rest = Rest()


def ideal_time_s(alone_s: float, demand: int, gpus: int, contention: float, ideal: Ideal = "share") -> float:
    """T_id: time of the app in its own 1/N share of the cluster.

    ``alone_s`` is its time on ``demand`` GPUs, all it can use; N = ``contention``, the mean number of apps over
    its life. ``contention``: T_id = N * alone * demand / min(C, demand), as the paper is recalled.
    ``share``: T_id = alone * max(1, demand / (C / N)), work over min(C / N, demand), which differs when the
    share exceeds the demand: an app that can use one GPU is not promised N times its own run time.
    """
    if ideal == "contention":
        return contention * alone_s * demand / min(gpus, demand)
    return alone_s * max(1.0, demand * contention / gpus)


def time_left_s(app: App, finish: Finish = "all") -> Floats:
    """T_left (GPUs + 1, levels) of the app by GPUs beside those it holds, and their spread; inf where nothing runs.

    A single job: left * S / speed(n). Several jobs keep their gangs. ``all``: every trial must end, and the work is
    taken to spread over all GPUs the app then has: max(longest job, ``least_s``, GPU work / (held + n)), n in whole
    gangs. ``first``: the trial that ends first ends the app. Where several jobs could start, their gangs are taken to
    lie as tightly as can be; S counts where one could.
    """
    gpus = app.speed.shape[1] - 1
    rest = app.rest
    with np.errstate(divide="ignore", invalid="ignore"):
        if len(app.left) == 1 and rest == Rest():
            return np.asarray(app.left[0] * app.slowdown[0] / app.speed[0][:, None])
        spread = app.slowdown if len(app.left) == 1 else np.ones((len(app.left), LEVELS))
        alone_s = (app.left / app.speed[np.arange(len(app.left)), np.minimum(app.gang, gpus)])[
            :, None
        ] * spread
        if finish == "first":
            fits = app.gang[:, None] <= np.arange(gpus + 1)
            soonest = np.where(fits[:, :, None], alone_s[:, None, :], np.inf).min(axis=0)
            return np.asarray(np.minimum(soonest, rest.soonest_s))
        filled = _filled(app.gang, gpus)
        longest = np.maximum(alone_s.max(axis=0), max(rest.longest_s, app.least_s))
        work = rest.work_s + (alone_s * app.gang[:, None]).sum(axis=0)
        together = np.maximum(longest, work / (rest.gpus + filled)[:, None])
    return np.asarray(together)


def _filled(gang: Ints, gpus: int) -> Ints:
    """(GPUs + 1,) of n GPUs, how many whole gangs can use: the largest sum of gangs up to n."""
    sums = np.zeros(gpus + 1, np.bool_)
    sums[0] = True
    for workers in gang[gang <= gpus].tolist():
        sums[workers:] |= sums[:-workers]
    return np.asarray(np.maximum.accumulate(np.where(sums, np.arange(gpus + 1), 0)))


def rho(app: App, finish: Finish = "all") -> Floats:
    """rho = T_sh / T_id (GPUs + 1, levels), T_sh = age + time left; inf where the app would have too few GPUs."""
    return np.asarray((app.age_s + time_left_s(app, finish)) / app.ideal_s)


@dataclass(frozen=True, slots=True)
class Single:
    """Bids of apps of one job each, beside whom nothing else of theirs runs or waits: two numbers say them whole.

    ``served`` (apps, levels) V with the gang, by spread; ``unserved`` (apps,) V with less.
    """

    served: Floats
    unserved: Floats

    @classmethod
    def of(cls, age_s: Floats, ideal_s: Floats, alone_s: Floats, wait_s: float) -> Single:
        """``age_s``, ``ideal_s`` (apps,); ``alone_s`` (apps, levels) time left on the gang."""
        value = 1.0 / ((age_s[:, None] + alone_s) / ideal_s[:, None])
        best = value.max(axis=1)
        least = (
            np.maximum(FLOOR, ideal_s / (ideal_s + wait_s * best))
            if wait_s > 0.0
            else np.full_like(best, FLOOR)
        )
        return cls(np.maximum(value / best[:, None], least[:, None]) * best[:, None], least * best)

    def bid(self, a: int, gang: int, most: int) -> Floats:
        """What :func:`bid` says of the same app."""
        value = np.empty((most + 1, LEVELS))
        value[:gang], value[gang:] = self.unserved[a], self.served[a]
        return value


def bid(
    app: App, given: int, most: int, finish: Finish = "all", lie: float = 1.0, wait_s: float = 0.0
) -> Floats:
    """(most + 1, levels) V = 1 / rho of n further GPUs beside those it holds and the ``given`` ones of this sale.

    V(0) is the app's rho with what it has. An app that would have nothing at all runs after ``wait_s`` as well as it
    could now: V(0) = T_id / (T_id / V_max + wait_s), so the bids of conflicting apps say what waiting costs each.
    With ``wait_s`` = 0 it bids a floor, the same part of its best bid for every app: then no auction can tell who
    needs a gang more, and the winner's payment is nearly all that it won.

    ``lie`` > 1 is an app that claims to be worse off without GPUs than it is: what it would gain by more GPUs
    is overstated as V^lie. (A constant factor would change nothing.)
    """
    table = 1.0 / rho(app, finish)
    last = table.shape[0] - 1
    value = table[np.minimum(given + np.arange(most + 1), last)]
    best = value.max()
    if best <= 0.0:
        return np.ones((most + 1, LEVELS))
    least = max(FLOOR, app.ideal_s / (app.ideal_s + wait_s * best)) if wait_s > 0.0 else FLOOR
    value = np.maximum.accumulate(np.maximum(value / best, least), axis=0)
    return np.asarray(value**lie * best)
