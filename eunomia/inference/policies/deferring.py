"""Deferrable requests in the capacity that on-demand requests leave over (inspired by OSDEC, Dong et al. 2024).

On-demand requests are scheduled by a base policy that does not see the others. A deferrable request runs whole on one
accelerator, without a pause, and may start while its start window [arrival, deadline - run time] is open. Of the pairs
(waiting deferrable request, accelerator that the base leaves idle) the one of greatest score starts, if that is >= 0:

    score = bias + sum of weights x FEATURES;  ties: the window that closes first, then the shortest run

``first_fit`` starts at once, ``late`` when 85 % of the start window is over, ``spare`` while half of the platform is
idle; weights can be learned (learning/agents/deferrable.py). When nothing runs and no on-demand request waits, the
most urgent one starts whatever the score (a platform does not stand still while work waits). Deviations: algorithm and
features of the source are unknown; run times are of isolated layers times the slowdown at the start.

Does badly: it cannot pause what it has started, so that one long run before a burst costs many on-demand deadlines.
"""

from __future__ import annotations

import numpy as np

from eunomia.contract.traits import PREPARE, forget
from eunomia.contract.view import Assign, Policy, View
from eunomia.core.arrays import Flags, Floats
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.inference.policies.knowledge import Knowledge

FEATURES = (
    "urgency",  # share of the start window on its best accelerator that is over
    "length",  # run time / mean run time of the deployed networks, at most 4
    "slower",  # log(run time / that on its best accelerator)
    "spare",  # share of the accelerators that are idle
    "busy",  # share that runs on-demand requests
    "waiting",  # on-demand requests that wait / accelerators, at most 4
    "demand",  # D / B, at most 4
    "overflow",  # max(0, D + b - B) / B of its first layer, at most 4
)
MOST = 8  # requests of the earliest deadlines that are looked at
RULES: dict[str, tuple[float, ...]] = {  # weights in the order of FEATURES, then the bias
    "first_fit": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    "late": (10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -8.5),
    "spare": (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, -0.5),
}


class Deferring:
    """A policy in Python. ``base``: name of the policy for on-demand requests; ``weights``: see above."""

    def __init__(self, base: str, weights: tuple[float, ...], name: str = "deferring") -> None:
        if len(weights) != len(FEATURES) + 1 or not np.isfinite(weights).all():
            raise ConfigError(
                f"deferrable weights are {weights}; {len(FEATURES) + 1} finite numbers are needed"
            )
        from eunomia.inference.policies.catalogue import load_policy

        self.base, self.weights, self.name = base, tuple(map(float, weights)), name
        self._base: Policy = load_policy(base)
        self._run_s = np.empty((0, 0))  # (models, S)
        self._usual_s = 1.0  # mean run time
        self._at: dict[int, int] = {}  # started deferrable request -> its accelerator
        self._until_s: dict[int, float] = {}  # when it should be done

    def __reduce__(self) -> tuple[type[Deferring], tuple[object, ...]]:
        return type(self), (self.base, self.weights, self.name)

    def reset(self, seed: int) -> None:
        """A run begins."""
        self._at, self._until_s = {}, {}
        forget(self._base, seed)

    def prepare(self, knowledge: Knowledge) -> None:
        """Take the run times of whole networks; inf where some layer cannot run."""
        models = len(knowledge.offset) - 1
        rows = [slice(knowledge.offset[m], knowledge.offset[m + 1]) for m in range(models)]
        self._run_s = np.array([knowledge.latency_s[r].sum(axis=0) for r in rows])
        self._usual_s = float(self._run_s[np.isfinite(self._run_s)].mean())
        prepare = PREPARE.of(self._base)
        if prepare is not None:
            prepare(knowledge)

    def __call__(self, view: View) -> list[Assign]:
        """Go on with what runs, then on-demand requests, then one deferrable start."""
        deferrable = view.ready["deferrable"] == 1
        starts = self._go_on(view, deferrable)
        taken = {assign.accelerator for assign in starts}
        if not deferrable.all():
            starts += self._on_demand(view, ~deferrable)
        if len(starts) == len(taken):
            starts += self._begin(view, deferrable, taken)
        return starts

    def _go_on(self, view: View, deferrable: Flags) -> list[Assign]:
        """The next layer of every started request whose accelerator is idle."""
        idle, found = set(view.idle.tolist()), []
        for i in np.flatnonzero(deferrable).tolist():
            s = self._at.get(int(view.ready["request"][i]), -1)
            if s in idle:
                idle.remove(s)
                found.append(view.assign(i, s))
        return found

    def _on_demand(self, view: View, rows: Flags) -> list[Assign]:
        """What the base does with its requests on accelerators that no started request keeps."""
        accelerators = view.accelerators.copy()
        for s, request in self._kept(view).items():
            accelerators["request"][s] = request
            left_s = self._until_s[request] - view.now_s
            accelerators["free_in_s"][s] = max(accelerators["free_in_s"][s], left_s)
        if not (accelerators["request"] < 0).any():
            return []
        seen = View(view.system, view.ready[rows], accelerators, view.latency_s[rows], view.demand_bytes_s[rows],
                    view.energy_j[rows])  # fmt: skip
        return list(self._base(seen))

    def _kept(self, view: View) -> dict[int, int]:
        """Accelerator -> the started request that keeps it."""
        waits = set(view.ready["request"].tolist())
        running = view.accelerators["request"].tolist()
        return {s: r for r, s in self._at.items() if running[s] == r or r in waits}

    def _begin(self, view: View, deferrable: Flags, taken: set[int]) -> list[Assign]:
        """At most one deferrable request whose first layer waits."""
        kept = taken | set(self._kept(view))
        free = np.array([s for s in view.idle.tolist() if s not in kept], np.int64)
        new = deferrable & (view.ready["layers_done"] == 0)
        rows = [i for i in np.flatnonzero(new).tolist() if int(view.ready["request"][i]) not in self._at]
        rows = list({int(view.ready["request"][i]): i for i in reversed(rows)}.values())
        rows.sort(key=lambda i: (float(view.ready["deadline_s"][i]), i))
        if not rows or not len(free):
            return []
        alone = len(free) == len(view.accelerators) and bool(deferrable.all())
        state = self._state(view, len(free))
        best: tuple[tuple[float, float, float], int, int] | None = None
        for i in rows[:MOST]:
            job = view.ready[i]
            run_s = self._run_s[job["model"]] * view.slowdown
            latest_s = job["deadline_s"] - run_s
            closes_s = float(latest_s.max())  # on its best accelerator
            for s in free[np.isfinite(run_s[free])].tolist():
                score = self._score(view, i, s, run_s, closes_s, state)
                closed = latest_s[s] < view.now_s
                if (score < 0.0 or closed) and not alone:
                    continue
                worth = (-np.inf if closed else score, -closes_s, -float(run_s[s]))
                if best is None or worth > best[0]:
                    best = (worth, i, s)
        if best is None:
            return []
        _, i, s = best
        request, model = int(view.ready["request"][i]), int(view.ready["model"][i])
        self._at[request] = s
        self._until_s[request] = view.now_s + float(self._run_s[model, s]) * view.slowdown
        return [view.assign(i, s)]

    def _state(self, view: View, free: int) -> float:
        """The part of the score that all pairs share."""
        lanes, w = len(view.accelerators), self.weights
        running = view.accelerators["request"].tolist()
        on_demand = sum(1 for request in running if request >= 0 and request not in self._at)
        waiting = len(set(view.ready["request"][view.ready["deferrable"] == 0].tolist()))
        demand = float(view.system["demand_bytes_s"] / view.system["bandwidth_bytes_s"])
        return (
            w[3] * free / lanes + w[4] * on_demand / lanes + w[5] * min(waiting / lanes, 4.0)
            + w[6] * min(demand, 4.0) + w[8]
        )  # fmt: skip

    def _score(self, view: View, i: int, s: int, run_s: Floats, closes_s: float, state: float) -> float:
        w, bandwidth = self.weights, float(view.system["bandwidth_bytes_s"])
        arrival_s = float(view.ready["arrival_s"][i])
        window_s = closes_s - arrival_s
        over = 1.0 if window_s <= 0.0 else (view.now_s - arrival_s) / window_s
        demand = float(view.system["demand_bytes_s"] + view.demand_bytes_s[i, s])
        return float(
            state + w[0] * min(max(over, 0.0), 1.0) + w[1] * min(run_s[s] / self._usual_s, 4.0)
            + w[2] * np.log(run_s[s] / run_s.min()) + w[7] * min(max(0.0, demand / bandwidth - 1.0), 4.0)
        )  # fmt: skip


def deferring(when: str = "first_fit", base: str = "edf+f+eft") -> Deferring:
    """Deferrable requests run whole, in what the base policy leaves over; ``when``: first_fit, late or spare."""
    if when not in RULES:
        raise UnknownNameError("rule for deferrable requests", when, RULES)
    return Deferring(base, RULES[when], f"deferring(base={base},when={when})")
