"""Themis' agent: finish-time fairness rho of an app, and the bids made of it (NSDI 2020, section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from eunomia.cluster.cluster import Floats, Ints
from eunomia.cluster.policies.themis.division import LEVELS

Ideal = Literal["share", "contention"]
Finish = Literal["all", "first"]
IDEALS: tuple[Ideal, ...] = ("share", "contention")
FINISHES: tuple[Finish, ...] = ("all", "first")

FLOOR = 1e-3  # bid for nothing, relative to the app's best bid; scaling a bid scales its floor


@dataclass(frozen=True, slots=True)
class App:
    """One app on devices of one type: its jobs' remaining work, and what it has had so far.

    ``left`` (jobs,) steps to do; ``speed`` (jobs, GPUs + 1) steps/s consolidated on n GPUs, never falling with
    n; ``slowdown`` (jobs, levels) S >= 1 by spread; ``gang`` (jobs,) GPUs a job asks for. ``least_s``: time that the
    app needs whatever its search decides, as one trial runs to its end.
    """

    age_s: float
    ideal_s: float
    left: Floats
    speed: Floats
    slowdown: Floats
    gang: Ints
    least_s: float = 0.0


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
    """T_left (GPUs + 1, levels) of the app by GPUs and spread; inf where no job could run.

    A single job: left * S / speed(n). Several jobs keep their gangs, and a gang is taken to lie as tightly as
    the app's GPUs allow: its own spread is that of the app only if the app has one job. ``all``: every trial
    must end: max(longest job, ``least_s``, GPU work / n). ``first``: the trial that ends first ends the app, min over
    jobs.
    """
    gpus = app.speed.shape[1] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        if len(app.left) == 1:
            return np.asarray(app.left[0] * app.slowdown[0] / app.speed[0][:, None])
        alone_s = app.left / app.speed[np.arange(len(app.left)), np.minimum(app.gang, gpus)]
        number = np.arange(gpus + 1)
        fits = app.gang[:, None] <= number
        if finish == "first":
            soonest = np.where(fits, alone_s[:, None], np.inf).min(axis=0)
            return np.repeat(soonest[:, None], LEVELS, axis=1)
        used = np.minimum(number, app.gang.sum())
        longest = np.where(fits.any(axis=0), max(float(alone_s.max()), app.least_s), np.inf)
        together = np.maximum(longest, (alone_s * app.gang).sum() / used)
    return np.repeat(together[:, None], LEVELS, axis=1)


def rho(app: App, finish: Finish = "all") -> Floats:
    """rho = T_sh / T_id (GPUs + 1, levels), T_sh = age + time left; inf with too few GPUs."""
    return np.asarray((app.age_s + time_left_s(app, finish)) / app.ideal_s)


def bid(app: App, running: int, most: int, finish: Finish = "all", lie: float = 1.0) -> Floats:
    """(most + 1, levels) V = 1 / rho of n further GPUs beside the ``running`` ones; floor for what is worth nothing.

    ``lie`` > 1 is an app that claims to be worse off without GPUs than it is: what it would gain by more GPUs
    is overstated as V^lie. (A constant factor would change nothing.)
    """
    table = 1.0 / rho(app, finish)
    last = table.shape[0] - 1
    value = table[np.minimum(running + np.arange(most + 1), last)]
    best = value.max()
    if best <= 0.0:
        return np.ones((most + 1, LEVELS))
    value = np.maximum.accumulate(np.maximum(value / best, FLOOR), axis=0)
    return np.asarray(value**lie * best)
