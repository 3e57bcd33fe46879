"""A branching policy without torch: its network in NumPy, called with Views.

h_i = relu(u_i W1 + b1), u_i = (job features, globals); z = relu((mean_i h_i, globals) Wz + bz)
V = z v + bv;  A_s(i) = relu((h_i, y_is, z) Wa_s + ba_s) wa_s + ca_s;  A_s(hold) = relu(z Wh_s + bh_s) wh_s + ch_s
Q_s(a) = V + A_s(a) - mean over allowed a of A_s(a) + P_s(a), for branch s = accelerator; the last action is to hold.
P is the rule edf+f+eft+g1 to begin with, one start after another, as each changes D for the next:
P_s(i) = - near_i / 4 (1 where hopeless), less 3 where another finishes i sooner; P_s(hold) = - 1.5 for the first branch
that has the greatest P_s(i), and 2.5 for the others, and for all above D = B.

Head tensors have a leading axis of branches: S, or 1 when one head serves all (unibranch: the pair features y tell
accelerators apart, and any number of them will do). Features are clipped to +-REACH. Branches of busy accelerators
choose nothing and take no part in means.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eunomia.contract.view import Assign, View
from eunomia.core.arrays import Flags, Floats, Ints
from eunomia.core.errors import ConfigError
from eunomia.learning.agents.served import Served, Shapes, relu
from eunomia.learning.observation.plain import observe, pair_features
from eunomia.learning.observation.table import (
    DEMAND_SHARE,
    GLOBAL,
    HOPELESS,
    JOB,
    LATER,
    NEAR,
    PAIR,
    TIME_LEFT,
    VERSION,
)

REACH = 8.0


def shapes(units: int, heads: int) -> Shapes:
    """Names and shapes of all tensors."""
    seen, joint = len(JOB) + len(GLOBAL), 2 * units + len(PAIR)
    return {
        "W1": (seen, units), "b1": (units,), "Wz": (units + len(GLOBAL), units), "bz": (units,), "v": (units,),
        "bv": (1,), "Wa": (heads, joint, units), "ba": (heads, units), "wa": (heads, units), "ca": (heads,),
        "Wh": (heads, units, units), "bh": (heads, units), "wh": (heads, units), "ch": (heads,),
    }  # fmt: skip


def duel(value: float, advantage: Floats, mask: Flags) -> Floats:
    """(S, N + 1) values; -inf where the mask forbids."""
    count = np.maximum(mask.sum(axis=1), 1)
    mean = np.where(mask, advantage, 0.0).sum(axis=1) / count
    return np.where(mask, value + advantage - mean[:, None], -np.inf)


def rule(jobs: Floats, pairs: Floats, overall: Floats, mask: Flags) -> Floats:
    """P (..., S, N + 1), where the mask allows it."""
    lost, closed = jobs[..., HOPELESS], overall[..., DEMAND_SHARE, None] > 1.0
    late = 0.25 * jobs[..., NEAR] * (1.0 - lost) + lost
    serve = -late[..., None, :] - 3.0 * (pairs[..., LATER] > 0.0).swapaxes(-1, -2)
    best = np.where(mask[..., :-1], serve, -np.inf).max(axis=-1, initial=-np.inf)
    others = np.arange(best.shape[-1]) != best.argmax(axis=-1)[..., None]
    return np.concatenate([serve, np.where(closed | others, 2.5, -1.5)[..., None]], axis=-1)


def asked_branches(mask: Flags) -> Flags:
    """(S,) branches that have something to choose: more than to hold."""
    return np.asarray(mask[..., :-1].any(axis=-1))


def resolve(q: Floats, mask: Flags) -> Ints:
    """(S,) actions without conflicts. Of branches that want one sub-job, the one that would lose most by its
    next-best action gets it (ties: least index); the others choose again without it. Holding never conflicts.
    """
    lanes, hold = q.shape[0], q.shape[1] - 1
    left = np.where(mask, q, -np.inf)
    chosen = np.full(lanes, hold, np.int64)
    open_ = set(np.flatnonzero(asked_branches(mask)).tolist())
    while open_:
        wants = {d: int(np.argmax(left[d])) for d in sorted(open_)}
        winner = max(open_, key=lambda d: (wants[d] == hold, _regret(left[d]), -d))
        chosen[winner] = wants[winner]
        open_.remove(winner)
        if wants[winner] != hold:
            left[:, wants[winner]] = -np.inf
    return chosen


def _regret(values: Floats) -> float:
    """Greatest minus next-best value; inf with a single choice left."""
    best = np.sort(values[np.isfinite(values)])
    return float(best[-1] - best[-2]) if len(best) > 1 else np.inf


class BranchingPolicy(Served):
    """All idle accelerators choose at once; when nothing runs and all hold, the most urgent sub-job starts.

    A policy in Python: for use in earnest, wrap it in ``Guarded``. Sees the ``most`` most urgent sub-jobs.
    """

    FAMILY, VERSION = "branching", VERSION + 1  # before, no rule was added to
    FEATURES = {"job": JOB, "pair": PAIR, "global": GLOBAL}
    NOTED, GIVEN, FINITE = ("heads", "most"), ("most",), True

    def __init__(self, tensors: Mapping[str, Floats], name: str = "branching", most: int = 64) -> None:
        self.most, self.heads = most, len(tensors.get("ca", ()))
        super().__init__(tensors, name, lambda units: shapes(units, self.heads))

    def q(self, jobs: Floats, pairs: Floats, overall: Floats, mask: Flags) -> Floats:
        """(S, N + 1) values for (N, JOB), (N, S, PAIR), (GLOBAL,) features and (S, N + 1) allowed actions."""
        t, lanes = self.tensors, pairs.shape[1]
        jobs, pairs, overall = (np.clip(a, -REACH, REACH) for a in (jobs, np.nan_to_num(pairs), overall))
        everyone = np.hstack([jobs, np.repeat(overall[None, :], len(jobs), axis=0)])
        hidden = relu(everyone @ t["W1"] + t["b1"])
        z = relu(np.concatenate([hidden.mean(axis=0), overall]) @ t["Wz"] + t["bz"])
        advantage = np.empty((lanes, len(jobs) + 1))
        for s in range(lanes):
            d = s if self.heads > 1 else 0
            joint = np.hstack([hidden, pairs[:, s], np.repeat(z[None, :], len(jobs), axis=0)])
            advantage[s, :-1] = relu(joint @ t["Wa"][d] + t["ba"][d]) @ t["wa"][d] + t["ca"][d]
            advantage[s, -1] = relu(z @ t["Wh"][d] + t["bh"][d]) @ t["wh"][d] + t["ch"][d]
        return duel(float(z @ t["v"] + t["bv"][0]), advantage, mask) + rule(jobs, pairs, overall, mask)

    def __call__(self, view: View) -> list[Assign]:
        """Starts for one View. Raises ConfigError for another number of accelerators than there are heads."""
        lanes = len(view.accelerators)
        if self.heads not in (1, lanes):
            raise ConfigError(
                f"policy '{self.name}' has {self.heads} branches and the platform {lanes} accelerators; "
                "train one with a shared branch"
            )
        features, overall = observe(view)
        jobs = np.argsort(features[:, TIME_LEFT], kind="stable")[: self.most]
        running = float(view.system["demand_bytes_s"])
        pairs = np.stack([pair_features(view, int(i), running) for i in jobs])
        idle = view.accelerators["request"] < 0
        mask = np.ones((lanes, len(jobs) + 1), np.bool_)
        mask[:, :-1] = (np.isfinite(view.latency_s[jobs]) & idle).T
        chosen = resolve(self.q(features[jobs], pairs, overall, mask), mask)
        starts = [view.assign(int(jobs[i]), s) for s, i in enumerate(chosen.tolist()) if i < len(jobs)]
        if not starts and idle.all():
            i = int(np.argmax(mask[:, :-1].any(axis=0)))
            starts = [view.assign(int(jobs[i]), int(np.argmin(view.latency_s[jobs[i]])))]
        return starts
