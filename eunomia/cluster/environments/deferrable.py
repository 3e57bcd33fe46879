"""OSDEC: deferrable jobs, uninterrupted once started, in what on-demand work leaves over (Dong et al. 2024).

Time runs in slots. A job must start within its window and then holds its devices for a fixed number of slots.
What is left over varies; a forecast of it is known, the truth only when it is there. If it falls below what runs,
the difference is *overload*: on-demand work that is delayed. Inspired by the abstract; algorithm and numbers of
the paper are unknown to us.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eunomia.cluster.policies.packing_programme import best_packing
from eunomia.core.arrays import Floats, Ints
from eunomia.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class DeferrableJob:
    """``devices`` for ``slots`` slots, to start in [earliest, latest]; the system hears of it in slot ``known``."""

    name: str
    devices: int
    slots: int
    earliest: int
    latest: int
    known: int = 0

    def __post_init__(self) -> None:
        if self.devices < 1 or self.slots < 1:
            raise ConfigError(
                f"job '{self.name}': {self.devices} devices for {self.slots} slots; both at least 1"
            )
        if not self.known <= self.earliest <= self.latest:
            raise ConfigError(
                f"job '{self.name}': known {self.known}, window [{self.earliest}, {self.latest}]; "
                "they must be in this order"
            )


@dataclass(frozen=True, slots=True)
class DeferrableView:
    """What may be known in slot ``now``."""

    now: int
    free: Ints  # (horizon,) devices left over in slots now, now + 1, ... less what runs: true now, forecast later
    waits: tuple[DeferrableJob, ...]  # in their windows, not started, earliest window first
    upcoming: tuple[DeferrableJob, ...]  # known, windows not open yet

    def fits(self, job: DeferrableJob, free: Ints, margin: int = 0) -> bool:
        """Whether the job fits for all its slots, as forecast, keeping ``margin`` devices after the first slot."""
        span = free[: job.slots]
        return bool(span[0] >= job.devices and (span[1:] - margin >= job.devices).all())


DeferrablePolicy = Callable[[DeferrableView], Sequence[DeferrableJob]]


@dataclass(frozen=True)
class DeferrableResult:
    """``start`` (jobs,) slot of each job in the order given, -1 = its window passed."""

    start: Ints
    served: float  # device-slots of started jobs over device-slots asked for
    utilisation: float  # device-slots used within what was left over, over what was left over
    wait_slots: float  # mean start - earliest of started jobs; nan if none
    overload: float  # device-slots beyond what was left over, over device-slots of started jobs


def run_deferrable(
    jobs: Sequence[DeferrableJob], left_over: Ints, forecast: Ints, policy: DeferrablePolicy
) -> DeferrableResult:
    """Play a policy. ``left_over`` and ``forecast`` (slots,) devices; raises ConfigError if they differ in length."""
    if left_over.shape != forecast.shape:
        raise ConfigError(
            f"{len(left_over)} slots are left over, {len(forecast)} are forecast; give both for all slots"
        )
    slots = len(left_over)
    used = np.zeros(slots, np.int64)
    start = np.full(len(jobs), -1, np.int64)
    number = {job.name: i for i, job in enumerate(jobs)}
    if len(number) < len(jobs):
        raise ConfigError("two deferrable jobs have the same name")
    for now in range(slots):
        free = forecast[now:] - used[now:]
        free[0] = left_over[now] - used[now]
        open_now = [j for j in jobs if start[number[j.name]] < 0 and j.known <= now <= j.latest]
        view = DeferrableView(
            now,
            free,
            tuple(j for j in open_now if j.earliest <= now and now + j.slots <= slots),
            tuple(j for j in open_now if j.earliest > now),
        )
        for job in policy(view) if view.waits else ():
            start[number[job.name]] = now
            used[now : now + job.slots] += job.devices
    return _result(jobs, left_over, used, start)


def _result(jobs: Sequence[DeferrableJob], left_over: Ints, used: Ints, start: Ints) -> DeferrableResult:
    size = np.array([job.devices * job.slots for job in jobs], float)
    begun = start >= 0
    waited = start - np.array([job.earliest for job in jobs])
    over = np.maximum(used - left_over, 0).sum()
    return DeferrableResult(
        start,
        float(size[begun].sum() / size.sum()) if len(jobs) else float("nan"),
        float(np.minimum(used, left_over).sum() / max(left_over.sum(), 1)),
        float(waited[begun].mean()) if begun.any() else float("nan"),
        float(over / max(size[begun].sum(), 1.0)),
    )


def first_fit(view: DeferrableView) -> list[DeferrableJob]:
    """Start at once whatever fits, in order of window; wide jobs starve behind narrow ones."""
    return take(view, view.waits)


def latest_start_first(view: DeferrableView) -> list[DeferrableJob]:
    """Whoever's window closes first; does badly when everything is urgent."""
    return take(view, sorted(view.waits, key=lambda job: job.latest))


def largest_first(view: DeferrableView) -> list[DeferrableJob]:
    """Most device-slots first; small jobs fill what is left, and wait."""
    return take(view, sorted(view.waits, key=lambda job: -job.devices * job.slots))


def take(view: DeferrableView, order: Sequence[DeferrableJob], margin: int = 0) -> list[DeferrableJob]:
    """Jobs in ``order`` that fit beside those taken before."""
    free, taken = view.free.copy(), []
    for job in order:
        if view.fits(job, free, margin):
            free[: job.slots] -= job.devices
            taken.append(job)
    return taken


FEATURES = ("size", "length", "slack", "tightness", "crowd", "coming")


def features(view: DeferrableView) -> Floats:
    """(waiting, 6) of each job, each about 0 to 1: share of the free devices it takes; its length; how much of its
    window is left; its devices over the least free during its run; demand of all that wait, and of all that is
    coming within the job's run, over what is free then."""
    demand = sum(job.devices * job.slots for job in view.waits)
    rows = []
    for job in view.waits:
        span = view.free[: job.slots]
        area = max(float(span.sum()), 1.0)
        soon = sum(j.devices * j.slots for j in view.upcoming if j.earliest < view.now + job.slots)
        rows.append(
            [
                job.devices / max(float(span[0]), 1.0),
                job.slots / 8.0,
                (job.latest - view.now) / max(job.latest - job.earliest, 1),
                job.devices / max(float(span.min()), 1.0),
                min(demand / area, 4.0) / 4.0,
                min(soon / area, 4.0) / 4.0,
            ]
        )
    return np.array(rows).reshape(len(view.waits), len(FEATURES))


@dataclass(frozen=True)
class Scored:
    """A learned order: score = w . features + b; the highest scores first, scores below 0 wait while they can.

    ``weights`` (8,): six for the features, the bias b, and the margin in devices kept free of the forecast. A job in
    the last slot of its window never waits by choice. Does badly where the arrivals differ from those it was
    fitted on; :func:`eunomia.cluster.environments.deferrable_fit.fit` keeps the heuristic where it does not win.
    """

    weights: tuple[float, ...]

    def __call__(self, view: DeferrableView) -> list[DeferrableJob]:
        """Jobs to start now."""
        w = np.array(self.weights)
        score = features(view) @ w[:6] + w[6]
        last = np.array([job.latest == view.now for job in view.waits])
        order = [int(i) for i in np.argsort(-score, kind="stable") if score[i] >= 0.0 or last[i]]
        return take(view, [view.waits[i] for i in order], max(0, round(float(w[7]))))


def offline_optimum(
    jobs: Sequence[DeferrableJob],
    left_over: Ints,
    wait_cost: float = 1e-3,
    gap: float = 1e-6,
    seconds: float = 60.0,
) -> DeferrableResult:
    """The clairvoyant optimum: an integer programme, for small cases.

    max sum over jobs and starts of (devices * slots) (1 - wait_cost * wait / (1 + window)) x, x binary. One
    start per job, devices per slot within ``left_over``: no overload. Raises ConfigError when the solver does
    not prove optimality to the relative ``gap`` within ``seconds``.
    """
    slots = len(left_over)
    choices = [
        (i, s)
        for i, job in enumerate(jobs)
        for s in range(job.earliest, min(job.latest, slots - job.slots) + 1)
    ]
    start: npt.NDArray[np.int64] = np.full(len(jobs), -1, np.int64)
    used = np.zeros(slots, np.int64)
    if choices:
        worth, entries = np.empty(len(choices)), []
        for c, (i, s) in enumerate(choices):
            job = jobs[i]
            wait = (s - job.earliest) / (1 + job.latest - job.earliest)
            worth[c] = job.devices * job.slots * (1.0 - wait_cost * wait)
            rows = np.array([i, *range(len(jobs) + s, len(jobs) + s + job.slots)])
            entries.append((rows, np.array([1.0, *[float(job.devices)] * job.slots])))
        limit = np.concatenate([np.ones(len(jobs)), left_over])
        picked, status = best_packing(worth, entries, limit, gap, seconds)
        if picked is None:
            raise ConfigError(f"offline optimum of {len(jobs)} jobs ended as '{status}'; take a smaller case")
        for c in picked.tolist():
            i, s = choices[c]
            start[i] = s
            used[s : s + jobs[i].slots] += jobs[i].devices
    return _result(jobs, left_over, used, start)


@dataclass(frozen=True)
class Rolling:
    """Plan all that is known on the forecast by the integer programme, start what the plan starts now, plan again.

    Exact for one moment, blind to jobs that are not known yet and to errors of the forecast; costs a solve per slot.
    """

    gap: float = 1e-3

    def __call__(self, view: DeferrableView) -> list[DeferrableJob]:
        """Jobs to start now."""
        known = [*view.waits, *view.upcoming]
        shifted = [
            DeferrableJob(
                job.name, job.devices, job.slots, max(job.earliest - view.now, 0), job.latest - view.now
            )
            for job in known
        ]
        plan = offline_optimum(shifted, np.maximum(view.free, 0), gap=self.gap)
        return [job for job, start in zip(known, plan.start.tolist(), strict=True) if start == 0]


@dataclass(frozen=True)
class DeferrableCase:
    """One trace: jobs, what was left over, what was forecast."""

    jobs: tuple[DeferrableJob, ...]
    left_over: Ints
    forecast: Ints


def day(
    seed: int, slots: int = 96, devices: int = 16, load: float = 1.2, noise: float = 0.1
) -> DeferrableCase:
    """A day of left-over devices and deferrable jobs asking for ``load`` times as much.

    On-demand use = devices (0.5 + 0.35 sin) + an AR(1) error of standard deviation ``noise * devices``; the
    forecast is the sine. Jobs have a power of two of devices, up to half of them, and last up to a sixth of
    the slots. Windows take up to a quarter of the slots, and are known up to an eighth of them before.
    """
    rng = np.random.default_rng([seed, 57])
    t = np.arange(slots)
    usual = devices * (0.5 + 0.35 * np.sin(2.0 * np.pi * t / slots))
    error = np.zeros(slots)
    for k in range(1, slots):
        error[k] = 0.8 * error[k - 1] + 0.6 * rng.normal(0.0, noise * devices)
    left_over = np.clip(np.round(devices - usual - error), 0, devices).astype(np.int64)
    forecast = np.clip(np.round(devices - usual), 0, devices).astype(np.int64)
    sizes = 2 ** np.arange(max(1, int(devices).bit_length() - 1))
    jobs: list[DeferrableJob] = []
    asked = 0
    while asked < load * left_over.sum():
        count, length = int(rng.choice(sizes)), int(rng.integers(1, slots // 6 + 1))
        earliest = int(rng.integers(0, slots - length + 1))
        latest = min(earliest + int(rng.integers(0, slots // 4 + 1)), slots - length)
        known = max(0, earliest - int(rng.integers(0, slots // 8 + 1)))
        jobs.append(DeferrableJob(f"job {len(jobs)}", count, length, earliest, latest, known))
        asked += count * length
    jobs.sort(key=lambda job: (job.earliest, job.name))
    return DeferrableCase(tuple(jobs), left_over, forecast)
